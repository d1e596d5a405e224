from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from mailsift.jobs.columns import ADDRESS_N, names_metadata, read_names
from mailsift.jobs.results.files import join_results, scan_segments, to_segment
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import BESIDE, SEGMENT, VERDICTS

NUMBERS = [2, 0, 1, 1, 3, 0]
OURS = [*(f"mailsift_{name}" for name in VERDICTS), "mailsift_unwanted"]
STATUSES = ["valid", "invalid", "risky", "valid"]


def rows_file(folder: Path) -> Path:
    path = folder / "rows[1]*.parquet"
    frame = pl.DataFrame(
        {
            ADDRESS_N: pl.Series(NUMBERS, dtype=pl.UInt32),
            "c0": [f"row {n}" for n in range(6)],
            "c1": [1.5] * 6,
        }
    )
    frame.write_parquet(path, metadata=names_metadata(["status", "status"]))
    return path


def segment(folder: Path, numbers: list[int]) -> Path:
    """Write verdicts whose fields name their address, so that a mix-up shows."""
    rows: list[dict[str, Any]] = [
        {
            **{name: n % 2 == 0 for name, dtype in VERDICTS.items() if dtype == pl.Boolean},
            "n": n,
            "reason": f"reason {n}",
            "result": f"result {n % 2}",
            "suggestion": "",
            "score": n,
            "smtp_code": 250 + n,
            "status": STATUSES[n % 4],
            "evidence": f'{{"n": {n}}}',
            "unwanted": f"unwanted {n}",
        }
        for n in numbers
    ]
    path = folder / f"segment-{'-'.join(map(str, numbers))}.parquet"
    pl.DataFrame(rows, schema=SEGMENT).write_parquet(path)
    return path


def test_every_row_gets_its_own_addresss_verdict_in_the_lists_order(tmp_path: Path) -> None:
    segments = [segment(tmp_path, numbers) for numbers in ([3, 1], [], [2, 0])]
    out = tmp_path / "results.parquet"
    join_results(rows_file(tmp_path), segments, out, evidence=True)
    frame = pl.read_parquet(out)
    assert read_names(out) == {"c0": "status", "c1": "status"}
    assert frame.columns == ["c0", "c1", *OURS, "mailsift_evidence"]
    assert frame["c0"].to_list() == [f"row {n}" for n in range(6)]
    assert frame["mailsift_reason"].to_list() == [f"reason {n}" for n in NUMBERS]
    assert frame["mailsift_score"].to_list() == NUMBERS
    assert frame["mailsift_evidence"].to_list() == [f'{{"n": {n}}}' for n in NUMBERS]
    assert [frame.schema[f"mailsift_{name}"] for name in VERDICTS] == list(VERDICTS.values())


def test_evidence_is_left_out_unless_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "results.parquet"
    join_results(rows_file(tmp_path), [segment(tmp_path, [0, 1, 2, 3])], out)
    assert pl.read_parquet(out).columns[-1] == "mailsift_unwanted"


def test_texts_beside_verdicts_are_left_out_where_they_are_empty_throughout(tmp_path: Path) -> None:
    full = pl.read_parquet(segment(tmp_path, [0, 1])).with_columns(pl.lit("google").alias("provider"))
    bare = pl.read_parquet(segment(tmp_path, [2, 3])).with_columns(pl.lit("").alias(name) for name in BESIDE)
    paths = [tmp_path / "full", tmp_path / "bare"]
    for path, verdicts in zip(paths, (full, bare), strict=True):
        path.write_bytes(to_segment(verdicts))
    assert [pl.read_parquet(path).columns for path in paths] == [[*SEGMENT], ["n", *VERDICTS]]
    assert_frame_equal(scan_segments(paths, SEGMENT).collect(), pl.concat([full, bare]))
    for segments, columns in ((paths, OURS), (paths[1:], OURS[:-1])):
        join_results(rows_file(tmp_path), segments, out := tmp_path / "results.parquet", partial=True)
        assert pl.read_parquet(out).columns == ["c0", "c1", *columns]


@pytest.mark.parametrize(
    "parts",
    [[[0, 1, 2]], [[0, 1, 3]], [[0, 1, 2, 3], [2]], [[0, 1, 2, 3, 4]], [[0, 1, 1, 3]], [[1, 2, 3, 4]], []],
)
def test_results_are_refused_unless_every_address_has_exactly_one_verdict(
    tmp_path: Path, parts: list[list[int]]
) -> None:
    segments = [segment(tmp_path, numbers) for numbers in parts]
    with pytest.raises(MailsiftError) as caught:
        join_results(rows_file(tmp_path), segments, tmp_path / "results.parquet")
    assert caught.value.code == "results_incomplete"
    assert not (tmp_path / "results.parquet").exists()


def test_partial_results_hold_only_the_rows_that_have_a_verdict(tmp_path: Path) -> None:
    out = tmp_path / "results.parquet"
    join_results(rows_file(tmp_path), [segment(tmp_path, [3, 0])], out, partial=True)
    assert pl.read_parquet(out)["c0"].to_list() == ["row 1", "row 4", "row 5"]


def test_partial_results_may_be_empty(tmp_path: Path) -> None:
    out = tmp_path / "results.parquet"
    join_results(rows_file(tmp_path), [], out, partial=True)
    assert pl.read_parquet(out).shape == (0, 2 + len(VERDICTS))


def test_two_verdicts_for_one_address_are_refused_in_partial_results_too(tmp_path: Path) -> None:
    segments = [segment(tmp_path, [0, 1]), segment(tmp_path, [1])]
    with pytest.raises(MailsiftError, match="more than one"):
        join_results(rows_file(tmp_path), segments, tmp_path / "results.parquet", partial=True)


def test_order_holds_over_many_row_groups(tmp_path: Path) -> None:
    count = 150_000
    path = tmp_path / "rows.parquet"
    numbers = pl.int_range(count, dtype=pl.UInt32, eager=True).shuffle(seed=1)
    pl.DataFrame({ADDRESS_N: numbers, "c0": pl.int_range(count, eager=True)}).write_parquet(
        path, row_group_size=1_000, metadata=names_metadata(["row"])
    )
    verdicts = pl.DataFrame(segment_columns(count))
    parts = []
    for start in range(0, count, 20_000):
        parts.append(tmp_path / f"{start}.parquet")
        verdicts.slice(start, 20_000).write_parquet(parts[-1])
    out = tmp_path / "results.parquet"
    join_results(path, parts[::-1], out)
    assert len(pl.read_parquet(out)) == count
    frame = pl.read_parquet(out, columns=["c0", "mailsift_reason"])
    assert frame["c0"].to_list() == list(range(count))
    assert frame["mailsift_reason"].cast(pl.UInt32).equals(numbers)


def segment_columns(count: int) -> dict[str, pl.Series]:
    numbers = pl.int_range(count, dtype=pl.UInt32, eager=True)
    return {
        name: (numbers % 2).cast(dtype) if dtype == pl.Boolean else numbers.cast(dtype, strict=False)
        for name, dtype in SEGMENT.items()
    }
