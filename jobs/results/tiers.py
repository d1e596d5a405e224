"""Tiers of results: read off a file of results, counted, and written beside its verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import polars as pl

from mailsift.jobs.columns import VERDICT_PREFIX
from mailsift.pipeline.judge.tiers import Tier, TierPolicy, reason_expression, tier_expression

UNWANTED: Final = f"{VERDICT_PREFIX}unwanted"
"""Column of the results: why the account may not send there, or ""; older releases did not write it."""
TIER: Final = f"{VERDICT_PREFIX}tier"
REASON: Final = f"{VERDICT_PREFIX}tier_reason"


def with_unwanted(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Give results of an older release the column they lack."""
    return frame if UNWANTED in frame.collect_schema() else frame.with_columns(pl.lit("").alias(UNWANTED))


def tiered(results: Path, policy: TierPolicy | None) -> pl.LazyFrame:
    """Return results with tier and reason in the place of UNWANTED; without any where there is no policy."""
    frame = pl.scan_parquet(results, glob=False)
    if policy is None:
        return frame.drop(UNWANTED, strict=False)
    columns = [name for name in frame.collect_schema() if name != UNWANTED]
    ours = [
        tier_expression(policy, VERDICT_PREFIX).alias(TIER),
        reason_expression(policy, VERDICT_PREFIX).alias(REASON),
    ]
    place = next((n for n, name in enumerate(columns) if name == f"{VERDICT_PREFIX}evidence"), len(columns))
    return with_unwanted(frame).select(*columns[:place], *ours, *columns[place:])


def count_tiers(results: Path, policy: TierPolicy) -> Mapping[str, int]:
    """Return how many rows of the results are to be sent to, reviewed and removed. Blocks."""
    frame = with_unwanted(pl.scan_parquet(results, glob=False))
    counted = frame.group_by(tier_expression(policy, VERDICT_PREFIX).alias("tier")).len()
    found = dict(counted.collect(engine="streaming").iter_rows())
    return {tier.value: found.get(tier.value, 0) for tier in Tier}
