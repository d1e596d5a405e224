"""What metrics count for the time of a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import Gauge
from prometheus_client.metrics import MetricWrapperBase
from typing_extensions import override


class Counted(Mapping[tuple[str, ...], float]):
    """(name without prefix, label values …) -> what was counted since this was made; of histograms the sum.

    Gauges begin at 0. What is 0 is left out.
    """

    def __init__(self, *metrics: MetricWrapperBase) -> None:
        self._metrics = metrics
        for metric in metrics:
            if isinstance(metric, Gauge):
                _reset(metric)
        self._before = self._read()

    def _read(self) -> dict[tuple[str, ...], float]:
        return {
            (sample.name.removeprefix("mailsift_"), *sample.labels.values()): sample.value
            for metric in self._metrics
            for family in metric.collect()
            for sample in family.samples
            if not sample.name.endswith(("_bucket", "_count", "_created"))
        }

    def _found(self) -> dict[tuple[str, ...], float]:
        since = {key: value - self._before.get(key, 0) for key, value in self._read().items()}
        return {key: value for key, value in since.items() if value}

    @override
    def __getitem__(self, key: tuple[str, ...]) -> float:
        return self._found().get(key, 0)

    @override
    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self._found())

    @override
    def __len__(self) -> int:
        return len(self._found())


def _reset(gauge: Gauge) -> None:
    for family in gauge.collect():
        for sample in family.samples:
            (gauge.labels(**sample.labels) if sample.labels else gauge).set(0)
