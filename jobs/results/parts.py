"""A part of a list as a list of its own: a sample, which tells of the rest, or rows worth another look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from mailsift.jobs.columns import (
    ADDRESS_N,
    VERDICT_PREFIX,
    column_id,
    distinct_names,
    kept_metadata,
    read_address_place,
    read_names,
)
from mailsift.jobs.intake.models import ChunkSlice, Intake
from mailsift.jobs.results.files import height, stream_parquet
from mailsift.jobs.views import JobView
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.chances import MeasuredShare, wilson
from mailsift.pipeline.verdict import Result, Status

_START = 0.5  # of the first step: the same list gives the same sample


def sample(folder: Path, taken: Intake, *, size: int, chunk: int) -> Intake:
    """Cut a list that was taken in down to a sample of `size` addresses, in place.

    Every so-manieth address of the list sorted by domain is taken: every domain is represented by its weight,
    which makes the sample a stratified one.

    Returns:
        What is in `rows.parquet` and `addresses.parquet` (mailsift.jobs.intake) afterwards: `taken` itself
        when the list is not larger than the sample.
    """
    if taken.addresses <= size:
        return taken
    step = taken.addresses / size
    chosen = [int((place + _START) * step) for place in range(size)]
    table = pl.DataFrame({"n": chosen, "place": range(size)}, schema={"n": pl.UInt32, "place": pl.UInt32})
    addresses = (
        pl.scan_parquet(folder / "addresses.parquet", glob=False)
        .join(table.lazy(), on="n", how="inner")
        .sort("place")
        .collect(engine="streaming")
    )
    addresses = addresses.with_columns(pl.col("place").alias("n")).drop("place")
    _replace(addresses.lazy(), folder / "addresses.parquet", {}, chunk)
    source = folder / "rows.parquet"
    rows = (
        pl.scan_parquet(source, glob=False)
        .join(table.lazy(), left_on=ADDRESS_N, right_on="n", how="inner", maintain_order="left")
        .with_columns(pl.col("place").alias(ADDRESS_N))
        .drop("place")
    )
    _replace(rows, source, kept_metadata(source), 65_536)
    return replace(
        taken,
        rows=int(addresses["rows"].sum()),
        addresses=size,
        chunks=tuple(ChunkSlice(start, min(chunk, size - start)) for start in range(0, size, chunk)),
    )


def _replace(frame: pl.LazyFrame, path: Path, metadata: dict[str, str], group: int) -> None:
    fresh = path.with_suffix(".sample")
    stream_parquet(frame, fresh, group=group, metadata=metadata)
    fresh.replace(path)


def estimate_of(view: JobView) -> dict[str, MeasuredShare]:
    """Return the shares of the whole list that an ended preview says, by status; {} when it says nothing."""
    if not view.options.preview or view.finished_at is None or not view.processed:
        return {}
    counts = {"valid": view.valid, "risky": view.risky, "invalid": view.invalid}
    return estimate(counts, view.list_rows or view.total)


def estimate(counts: Mapping[str, int], population: int) -> dict[str, MeasuredShare]:
    """Return the shares of the whole list, by status, with Wilson's 95 % interval.

    `counts` are rows of the sample; the interval is narrowed for one that is a good part of the list, which
    has `population` rows (finite population correction).
    """
    n = sum(counts.values())
    if not n:
        return {}
    left = (population - n) / (population - 1) if population > 1 else 0.0
    return {
        name: MeasuredShare(count / n, *wilson(count, n, left=max(0.0, left)), n)
        for name, count in counts.items()
    }


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
