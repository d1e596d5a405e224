"""The rows of an ended job that are worth another look, as a new list."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mailsift.jobs.columns import (
    VERDICT_PREFIX,
    column_id,
    distinct_names,
    read_address_place,
    read_names,
)
from mailsift.jobs.results.segments import height
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.verdict import Result, Status

UNKNOWN_RESULTS = frozenset(
    {
        Result.DEFERRED,
        Result.NOT_ASKED,
        Result.PROBE_BLOCKED,
        Result.UNREACHABLE,
        Result.DNS_UNAVAILABLE,
        Result.PROBE_UNAVAILABLE,
    }
)
"""Results that say nothing about the mailbox and may be different another time."""


def rows_to_retry(results: Path, out: Path, column: str) -> str:
    """Write the original columns of the rows that ended unknown as a Parquet file.

    Returns:
        The name of the address column in `out`, where every name is distinct.

    Raises:
        MailsiftError: `nothing_to_retry` when no row ended unknown.
    """
    unknown = pl.col(f"{VERDICT_PREFIX}result").is_in(sorted(UNKNOWN_RESULTS))
    return _write_rows(results, out, column, unknown)


def risky_rows(results: Path, out: Path, column: str) -> str:
    """Write the original columns of the rows that ended risky; arguments and answer as in `rows_to_retry`.

    Raises:
        MailsiftError: `nothing_to_retry` when no row ended risky.
    """
    return _write_rows(results, out, column, pl.col(f"{VERDICT_PREFIX}status") == Status.RISKY.value)


def _write_rows(results: Path, out: Path, column: str, keep: pl.Expr) -> str:
    names = read_names(results)
    fresh = dict(zip(names, distinct_names(list(names.values()), []), strict=True))
    rows = pl.scan_parquet(results, glob=False).filter(keep).select(*names).rename(fresh)
    rows.sink_parquet(out, engine="streaming")
    if not height(out):
        out.unlink()
        raise MailsiftError("nothing_to_retry", "No row in this job is worth checking again.")
    return fresh[column_id(read_address_place(results, column))]
