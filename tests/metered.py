"""Meters that count into a dictionary for the time of a test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from pipeline.meter import Meter

Counts = Counter[tuple[str, ...]]
"""(name without prefix, label values …) -> the sum of all that was told."""


@contextmanager
def counted(*meters: Meter) -> Iterator[Counts]:
    """Count what these meters are told; they are idle afterwards."""
    counts: Counts = Counter()

    def record(name: str, value: float, labels: tuple[str, ...]) -> None:
        counts[name, *map(str, labels)] += value  # type: ignore[assignment]  # seconds are no whole numbers

    for meter in meters:
        meter.attach(partial(record, meter.name.removeprefix("mailsift_")))
    try:
        yield counts
    finally:
        for meter in meters:
            meter.attach(None)
