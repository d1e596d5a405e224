"""A preview: a sample of the list instead of all of it, and what it says about the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import polars as pl

from mailsift.jobs.columns import ADDRESS_N, kept_metadata
from mailsift.jobs.intake.models import ChunkSlice, Intake
from mailsift.jobs.results.segments import stream_parquet
from mailsift.jobs.views import JobView
from mailsift.pipeline.outcomes.chances import MeasuredShare, wilson

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


def _replace(frame: pl.LazyFrame, path: Path, metadata: dict[str, str], group: int) -> None:
    fresh = path.with_suffix(".sample")
    stream_parquet(frame, fresh, group=group, metadata=metadata)
    fresh.replace(path)
