"""Which rows of an ended job are worth another look, and what becomes of their columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from mailsift.jobs.columns import names_metadata
from mailsift.jobs.results.parts import UNKNOWN_RESULTS, risky_rows, rows_to_retry
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.verdict import VERDICT_ROWS, Result, Status


def results_file(folder: Path, results: list[str]) -> Path:
    """A results file whose two columns are both called "email"; the verdict of each row is as given."""
    status = {row.result.value: row.status.value for row in VERDICT_ROWS}
    path = folder / "results.parquet"
    pl.DataFrame(
        {
            "c0": [f"user{n}@example.com" for n in range(len(results))],
            "c1": list(range(len(results))),
            "mailsift_result": results,
            "mailsift_status": [status[result] for result in results],
        },
        schema_overrides={"mailsift_result": pl.String, "mailsift_status": pl.String},
    ).write_parquet(path, metadata=names_metadata(["email", "email"]))
    return path


def test_exactly_the_rows_that_ended_unknown_are_tried_again_in_their_order(tmp_path: Path) -> None:
    every = [result.value for result in Result]
    column = rows_to_retry(results_file(tmp_path, every), tmp_path / "again.parquet", "email")
    again = pl.read_parquet(tmp_path / "again.parquet")
    expected = [n for n, result in enumerate(Result) if result in UNKNOWN_RESULTS]
    assert column == "email"
    assert again.columns == ["email", "email_2"]
    assert again["email"].to_list() == [f"user{n}@example.com" for n in expected]
    assert again["email_2"].to_list() == expected


def test_a_result_that_is_worth_another_try_is_never_one_about_the_mailbox() -> None:
    assert {row.status for row in VERDICT_ROWS if row.result in UNKNOWN_RESULTS} == {Status.RISKY}
    assert not UNKNOWN_RESULTS & {Result.CATCH_ALL, Result.UNVERIFIABLE, Result.MAILBOX_FULL}


def test_a_recheck_of_the_risky_takes_all_of_them(tmp_path: Path) -> None:
    every = ["deliverable", "catch_all", "deferred", "syntax_error", "disposable"]
    risky_rows(results_file(tmp_path, every), tmp_path / "again.parquet", "email")
    assert pl.read_parquet(tmp_path / "again.parquet")["email_2"].to_list() == [1, 2, 4]


@pytest.mark.parametrize("choose", [rows_to_retry, risky_rows])
@pytest.mark.parametrize("results", [[], ["deliverable", "mailbox_not_found"]])
def test_without_such_a_row_there_is_nothing_to_retry(
    choose: Callable[[Path, Path, str], str], results: list[str], tmp_path: Path
) -> None:
    with pytest.raises(MailsiftError) as refused:
        choose(results_file(tmp_path, results), tmp_path / "again.parquet", "email")
    assert refused.value.code == "nothing_to_retry"
    assert not (tmp_path / "again.parquet").exists()
