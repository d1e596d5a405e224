"""What is counted: meters are declared as data, one module a room, and idle until a process attaches them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import ClassVar, Final, TypeAlias

from pipeline.provider_table import PROVIDERS

Recorder: TypeAlias = Callable[[float, tuple[str, ...]], None]
"""Takes a value and the values of the labels, in order."""

OTHER: Final = "other"
_TABLE: Final = frozenset(row.key for row in PROVIDERS)

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of buckets for what should take milliseconds."""
LONG_SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
"""The same for what may take minutes."""


class Kind(StrEnum):
    """What a meter's value does."""

    COUNTER = "counter"  # grows
    GAUGE = "gauge"  # goes up and down
    HISTOGRAM = "histogram"  # is spread over buckets


class Merge(StrEnum):
    """How the gauges of several processes of one worker become one."""

    SUM = "livesum"
    MOST = "livemax"
    LATEST = "max"  # of a moment; outlives its process


@dataclass(frozen=True, slots=True)
class Label:
    """One label of a meter.

    Attributes:
        name: its name.
        values: all it can be; none when the set is bounded elsewhere.
        about: what it can be, for people, where `values` do not say it.
    """

    name: str
    values: tuple[str, ...] = ()
    about: str = ""


class Meter:
    """A name, a meaning and labels; what it is told is lost until a recorder is attached.

    Args:
        name: as Prometheus will know it: base units, `_total` for what only grows.
        meaning: one sentence without a full stop.
        labels: their values are given in this order.
        starts: the label values that are there from the start; None: all that the labels can be.
    """

    kind: ClassVar[Kind]

    def __init__(
        self, name: str, meaning: str, *labels: Label, starts: Collection[tuple[str, ...]] | None = None
    ) -> None:
        self.name = name
        self.meaning = meaning
        self.labels = labels
        self.starts = tuple(product(*(label.values for label in labels)) if starts is None else starts)
        self._record: Recorder | None = None

    def attach(self, record: Recorder | None) -> None:
        """Tell this recorder from now on; None makes the meter idle again."""
        self._record = record

    def _tell(self, value: float, labels: tuple[str, ...]) -> None:
        if self._record is not None:
            self._record(value, labels)


class Counter(Meter):
    """Counts what happens."""

    kind = Kind.COUNTER

    def add(self, *labels: str, amount: float = 1.0) -> None:
        """Count once, or `amount` times."""
        self._tell(amount, labels)


class Gauge(Meter):
    """Holds a value that goes up and down."""

    kind = Kind.GAUGE

    def __init__(self, name: str, meaning: str, *labels: Label, merge: Merge = Merge.SUM) -> None:
        super().__init__(name, meaning, *labels)
        self.merge = merge

    def set(self, value: float, *labels: str) -> None:
        """Replace the value."""
        self._tell(value, labels)


class Histogram(Meter):
    """Counts values, mostly seconds, by size."""

    kind = Kind.HISTOGRAM

    def __init__(self, name: str, meaning: str, *labels: Label, buckets: tuple[float, ...] = SECONDS) -> None:
        super().__init__(name, meaning, *labels)
        self.buckets = buckets

    def observe(self, value: float, *labels: str) -> None:
        """Count one value."""
        self._tell(value, labels)


def provider_label(key: str) -> str:
    """Return a throttle key as a label: the 50 providers of the table by name, all others as one.

    Outside the table a key is the domain of a customer's mail host: it belongs into no metric.
    """
    return key if key in _TABLE else OTHER


PROVIDER: Final = Label("provider", about="a key of the provider table, else `other`")
