"""Rows of a results file by result code."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from jobs.columns import VERDICT_PREFIX


def tally(results: Path) -> dict[str, int]:
    """Return how many rows have which result."""
    result = f"{VERDICT_PREFIX}result"
    counted = pl.scan_parquet(results, glob=False).group_by(result).len().collect(engine="streaming")
    return dict(counted.iter_rows())
