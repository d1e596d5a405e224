"""Prometheus: the meters of this process attached to its client, and the page that shows them."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final, TypeVar

import prometheus_client as prometheus
from prometheus_client import CollectorRegistry, generate_latest, values
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector
from typing_extensions import override

import api.meters
import events.meters
import jobs.meters
import pipeline.meters
from mailsift import gauges
from mailsift.gauges import Readings
from pipeline.meter import Gauge, Histogram, Label, Merge, Meter, Recorder

T = TypeVar("T", bound=MetricWrapperBase)

BUILD: Final = Gauge(
    "mailsift_build_info",
    "1, with what runs here",
    Label("role", ("api", "worker", "sweeper")),
    Label("version", about="of this release"),
    merge=Merge.LATEST,
)
_MAIL: Final = pipeline.meters.METERS
API: Final[tuple[Meter, ...]] = (BUILD, *api.meters.METERS, *jobs.meters.SHARED, *_MAIL)
"""What an API counts."""
WORKER: Final[tuple[Meter, ...]] = (
    *(BUILD, *jobs.meters.METERS, *jobs.meters.SHARED),
    *(*events.meters.METERS, *_MAIL),
)
SWEEPER: Final[tuple[Meter, ...]] = (
    *(BUILD, jobs.meters.SWEPT, jobs.meters.LEASES_EXPIRED, jobs.meters.IN_FLIGHT, jobs.meters.WAKE_UPS),
    *(jobs.meters.SCHEDULE_RUNS, jobs.meters.SCHEDULE_MISSED, *events.meters.METERS),
)
INSTALLATION: Final = gauges.METERS
"""What an API reads of the whole installation when it is asked."""
_SHOWN_BY: Final = {"API": (*API, *INSTALLATION), "worker": WORKER, "sweeper": SWEEPER}
_FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
_TRIES: Final = 3


def share_counts(folder: Path) -> None:
    """Keep what this process and its children count in files of this folder; call it before `attach`.

    Files stay when their process dies, so nothing that was counted is lost. What lies there is deleted.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.environ[_FOLDER_VARIABLE] = str(folder)  # noqa: TID251 - the only way to tell the library
    values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]  # as its own tests do


def attach(meters: Iterable[Meter], *, role: str) -> CollectorRegistry:
    """Let these meters count from now on, from 0; returns what collects them.

    Args:
        meters: of this process.
        role: what this process is, a value of `mailsift_build_info`.
    """
    prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types here
    registry = CollectorRegistry()
    for meter in meters:
        meter.attach(_recorder(meter, registry))
    BUILD.set(1, role, version("mailsift"))
    return registry


def detach(meters: Iterable[Meter]) -> None:
    """Let these meters be idle again."""
    for meter in meters:
        meter.attach(None)


def _recorder(meter: Meter, registry: CollectorRegistry) -> Recorder:
    """Make the library's side of a meter."""
    name, about, labels = meter.name, meter.meaning, [label.name for label in meter.labels]
    if isinstance(meter, Histogram):
        histogram = prometheus.Histogram(name, about, labels, registry=registry, buckets=meter.buckets)
        return _telling(meter, histogram, prometheus.Histogram.observe)
    if isinstance(meter, Gauge):
        gauge = prometheus.Gauge(name, about, labels, registry=registry, multiprocess_mode=meter.merge.value)
        return _telling(meter, gauge, prometheus.Gauge.set)
    return _telling(meter, prometheus.Counter(name, about, labels, registry=registry), prometheus.Counter.inc)


def _telling(meter: Meter, made: T, tell: Callable[[T, float], None]) -> Recorder:
    """Return what tells the library; the label values that are known are there from the start, at 0."""
    for values_ in meter.starts:
        if values_:
            made.labels(*values_)

    def record(value: float, labels: tuple[str, ...]) -> None:
        tell(made.labels(*labels) if labels else made, value)

    return record


def shared_page(folder: Path) -> bytes:
    """Return the metrics of all processes that count into this folder, as one."""
    for path in folder.glob("gauge_live*_*.db"):
        pid = int(path.stem.rpartition("_")[2])
        if not _lives(pid):
            mark_process_dead(pid, str(folder))  # type: ignore[no-untyped-call]  # as above
    for left in reversed(range(_TRIES)):
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=str(folder))  # type: ignore[no-untyped-call]  # as above
        try:
            return generate_latest(registry)
        except (struct.error, RuntimeError):  # read while a new process was making its file
            if not left:
                raise
    raise AssertionError("unreachable")


def _lives(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


class _Read(Collector):
    """Gauges that were read just now."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    @override
    def collect(self) -> Iterator[GaugeMetricFamily]:
        families: dict[str, GaugeMetricFamily] = {}
        for gauge, labels, value in self._readings:
            names = [label.name for label in gauge.labels]
            family = families.setdefault(
                gauge.name, GaugeMetricFamily(gauge.name, gauge.meaning, labels=names)
            )
            family.add_metric(labels, value)
        yield from families.values()


def readings_page(readings: Readings) -> bytes:
    """Return gauges that were read just now as Prometheus reads them."""
    return generate_latest(_Read(readings))


def described() -> list[tuple[str, str, str, str, str]]:
    """List every metric for docs/metrics.md: name, type, labels, meaning, and who shows it."""
    known = {meter.name: meter for meters in _SHOWN_BY.values() for meter in meters}
    return [
        (
            meter.name,
            meter.kind.value,
            "; ".join(map(_told, meter.labels)),
            meter.meaning,
            ", ".join(role for role, meters in _SHOWN_BY.items() if meter in meters),
        )
        for _, meter in sorted(known.items())
    ]


def _told(label: Label) -> str:
    values_ = label.about or ", ".join(f"`{value}`" for value in label.values)
    return f"`{label.name}`: {values_}"
