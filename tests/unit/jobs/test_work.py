"""The small decisions around a chunk: which slice it is, how it is split, what it counts."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import polars as pl
import pytest

from jobs.work import counts_of, halves, read_slice, warning_of
from storage.chunk_rows import ClaimedChunk
from storage.job_rows import Counts


def chunk(addresses: int, *, offset: int = 0, attempt: int = 5) -> ClaimedChunk:
    return ClaimedChunk(
        job_id=uuid4(),
        n=3,
        lane="google",
        attempt=attempt,
        addresses=addresses,
        source_key="blob",
        source_offset=offset,
        lease_token=uuid4(),
        account_id=uuid4(),
        options={"mode": "deep"},
        deadline_passed=False,
    )


@pytest.mark.parametrize("addresses", [2, 3, 1_000, 1_001])
def test_a_chunk_is_split_into_two_halves_that_miss_nothing(addresses: int) -> None:
    left, right = halves(chunk(addresses, offset=70), max_attempts=4)
    assert (left.source_offset, right.source_offset) == (70, 70 + left.addresses)
    assert left.addresses + right.addresses == addresses
    assert abs(left.addresses - right.addresses) <= 1
    assert {(half.lane, half.source_key, half.delay) for half in (left, right)} == {("google", "blob", 0.0)}


@pytest.mark.parametrize("attempt", [5, 6, 40])
def test_a_half_has_one_more_try_however_often_the_whole_was_given_up(attempt: int) -> None:
    assert [half.attempt for half in halves(chunk(10, attempt=attempt), max_attempts=4)] == [3, 3]


def test_a_slice_is_read_from_anywhere_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "addresses[1]*.parquet"
    pl.DataFrame({"n": range(100)}).write_parquet(path, row_group_size=30)
    assert read_slice(path, 25, 10)["n"].to_list() == list(range(25, 35))
    assert read_slice(path, 95, 10)["n"].to_list() == list(range(95, 100))


def test_rows_are_counted_by_status_and_addresses_all_together() -> None:
    finished = pl.DataFrame(
        {"status": ["valid", "risky", "valid"], "rows": [2, 5, 1]}, schema_overrides={"rows": pl.UInt32}
    )
    assert counts_of(finished) == Counts(valid=3, invalid=0, risky=5, addresses=3)
    assert counts_of(finished.clear()) == Counts()
    assert counts_of(finished).processed == 8


@pytest.mark.parametrize(
    ("results", "warning"),
    [
        (["deliverable", "probe_unavailable"], "probe_unavailable"),
        (["deliverable", "probe_blocked"], ""),
        ([], ""),
    ],
)
def test_a_closed_port_is_warned_of(results: list[str], warning: str) -> None:
    assert warning_of(pl.DataFrame({"result": results}, schema={"result": pl.String})) == warning
