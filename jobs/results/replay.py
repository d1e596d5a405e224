"""What another policy would make of a job's results: nobody is asked, and nothing is changed by looking."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from mailsift.jobs.columns import VERDICT_PREFIX
from mailsift.jobs.results.tiers import with_unwanted
from mailsift.pipeline.judge.tiers import Tier, TierPolicy, reason_expression, tier_expression
from mailsift.pipeline.verdict import Status


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
