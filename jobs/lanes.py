"""Which addresses come back together: residual chunks, grouped by whom they wait for and how long."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from pipeline.frames import WAITING
from pipeline.probe.words import WaitReason
from storage.chunk_rows import MIXED_LANE, SLOW_LANE


@dataclass(frozen=True, slots=True)
class LanePlan:
    """How residual chunks are cut.

    Attributes:
        own_lane: addresses of one provider that are worth a lane of their own.
        lane_chunk: addresses in a chunk of a provider's lane.
        mixed_chunk: addresses in a chunk of many small providers.
    """

    own_lane: int = 50
    lane_chunk: int = 1_000
    mixed_chunk: int = 500


@dataclass(frozen=True, slots=True)
class Residual:
    """A chunk to be: its addresses (frames.WAITING), lane, reason ("" = ready now) and delay in seconds."""

    frame: pl.DataFrame
    lane: str
    reason: str
    delay: float


def plan(waiting: pl.DataFrame, cut: LanePlan) -> list[Residual]:
    """Group the waiting addresses of one chunk.

    Slow hosts come together, a busy provider gets its own lane, the rest is mixed. Delays that are close
    (a factor of two) wait together for the longest of them.

    Args:
        waiting: Sifted.waiting.
        cut: sizes of the chunks.
    """
    if waiting.is_empty():
        return []
    crowd = pl.len().over("lane") >= cut.own_lane
    grouped = waiting.with_columns(
        pl.when(pl.col("reason") == WaitReason.SLOW.value)
        .then(pl.lit(SLOW_LANE))
        .when(crowd)
        .then("lane")
        .otherwise(pl.lit(MIXED_LANE))
        .alias("lane"),
        pl.col("delay").map_elements(_bin, return_dtype=pl.Int32).alias("bin"),
    )
    groups = grouped.partition_by(["lane", "reason", "bin"], maintain_order=True)
    return [residual for group in groups for residual in _cut(group, cut)]


def _bin(delay: float) -> int:
    return math.ceil(math.log2(delay)) if delay > 1 else 0


def _cut(group: pl.DataFrame, cut: LanePlan) -> Iterator[Residual]:
    lane, reason = group["lane"][0], group["reason"][0]
    delay = float(group.select(pl.col("delay").max()).item())
    size = cut.mixed_chunk if lane in {MIXED_LANE, SLOW_LANE} else cut.lane_chunk
    for part in group.select(*WAITING).iter_slices(size):
        yield Residual(part, lane, reason if delay > 0 else "", delay)
