from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from jobs.tally import tally


@pytest.mark.parametrize("results", [[], ["passed"], ["passed", "catch_all", "passed"]])
def test_rows_are_counted_by_result(results: list[str], tmp_path: Path) -> None:
    path = tmp_path / "results[0-9].parquet"
    pl.DataFrame({"mailsift_result": results}, schema={"mailsift_result": pl.String}).write_parquet(path)
    assert tally(path) == {result: results.count(result) for result in results}
