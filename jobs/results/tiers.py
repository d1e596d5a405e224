"""Tiers of results: read, counted and written beside verdicts, also as another policy would have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from mailsift.jobs.columns import VERDICT_PREFIX
from mailsift.pipeline.tiers import Tier, TierPolicy, reason_expression, tier_expression
from mailsift.pipeline.verdict import Status

UNWANTED: Final = f"{VERDICT_PREFIX}unwanted"
"""Column of the results: why the account may not send there, or ""; left out where it is "" throughout."""
TIER: Final = f"{VERDICT_PREFIX}tier"
REASON: Final = f"{VERDICT_PREFIX}tier_reason"


def with_unwanted(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Give results the column that they lack where it is "" throughout."""
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


@dataclass(frozen=True, slots=True)
class ReplayedRows:
    """Rows that have the same verdict and come to the same by both policies.

    Attributes:
        before, after: the tier by the present policy and by the other one.
        reason: the rule of the other policy that decides, "" for `send`.
    """

    status: Status
    result: str
    before: Tier
    after: Tier
    reason: str
    rows: int


@dataclass(frozen=True, slots=True)
class Replay:
    """Two policies beside each other.

    Attributes:
        rows: all rows with a verdict, grouped, most first.
    """

    rows: tuple[ReplayedRows, ...]

    @property
    def before(self) -> Mapping[str, int]:
        """Rows by tier, by the present policy."""
        return self._sum("before")

    @property
    def after(self) -> Mapping[str, int]:
        """Rows by tier, by the other policy."""
        return self._sum("after")

    @property
    def moved(self) -> int:
        """Rows whose tier is another one."""
        return sum(one.rows for one in self.rows if one.before is not one.after)

    def _sum(self, side: str) -> Mapping[str, int]:
        found: Counter[str] = Counter({tier.value: 0 for tier in Tier})
        for one in self.rows:
            found[getattr(one, side)] += one.rows
        return dict(found)


def replay(results: Path, present: TierPolicy, other: TierPolicy) -> Replay:
    """Read the results by both policies. Blocks for well under a second a million rows."""
    keys = {
        "status": pl.col(f"{VERDICT_PREFIX}status"),
        "result": pl.col(f"{VERDICT_PREFIX}result"),
        "before": tier_expression(present, VERDICT_PREFIX),
        "after": tier_expression(other, VERDICT_PREFIX),
        "reason": reason_expression(other, VERDICT_PREFIX),
    }
    frame = with_unwanted(pl.scan_parquet(results, glob=False)).select(**keys)
    counted = frame.group_by(*keys).agg(pl.len().alias("rows")).collect(engine="streaming")
    sorted_rows = counted.sort("rows", *keys, descending=[True, *[False] * len(keys)])
    return Replay(
        tuple(
            ReplayedRows(
                Status(row["status"]),
                row["result"],
                Tier(row["before"]),
                Tier(row["after"]),
                row["reason"],
                row["rows"],
            )
            for row in sorted_rows.iter_rows(named=True)
        )
    )
