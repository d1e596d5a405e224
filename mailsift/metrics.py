"""Prometheus: what each kind of process shows, and the port on which it does.

The counts of a worker's processes lie in files of one folder, so that they outlive their process and are
shown as one. The library has to know that folder before anything is imported that counts: `mailsift worker`
sees to it.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, make_server

import prometheus_client
import structlog
from prometheus_client import CollectorRegistry, Gauge, Metric, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector
from typing_extensions import override

from mailsift.api import metrics as api
from mailsift.events import metrics as events
from mailsift.jobs import metrics as jobs
from mailsift.pipeline import metrics as pipeline
from mailsift.pipeline.errors import MailsiftError, error_fields
from mailsift.settings import Settings

BUILD: Final = pipeline.declare(
    Gauge,
    "mailsift_build_info",
    "1, with what runs here",
    {"role": (), "version": ()},
    multiprocess_mode="max",
)
API: Final = (BUILD, *api.METRICS, *jobs.SHARED, *pipeline.METRICS)
"""What an API counts."""
WORKER: Final = (BUILD, *jobs.METRICS, *jobs.SHARED, *events.METRICS, *pipeline.METRICS)
SWEEPER: Final = (
    BUILD,
    jobs.SWEPT,
    jobs.LEASES_EXPIRED,
    pipeline.UPKEEP_ERRORS,
    jobs.IN_FLIGHT,
    jobs.WAKE_UPS,
    jobs.SCHEDULE_RUNS,
    jobs.SCHEDULE_MISSED,
    *events.METRICS,
)
_PATH: Final = "/metrics"
_ERROR: Final = "500 Internal Server Error"
_CLOSES_WITHIN: Final = 0.1  # seconds; the library's half a second is waited for by whoever ends
_log = structlog.get_logger()


def registry_of(metrics: Iterable[Collector], *, role: str) -> CollectorRegistry:
    """Return what collects these metrics of this process; its role is a value of `mailsift_build_info`."""
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no types here
    _show_build(role)
    registry = CollectorRegistry()
    for metric in metrics:
        registry.register(metric)
    return registry


def _show_build(role: str) -> None:
    if any(family.samples for family in BUILD.collect()):  # the library warns of it in a worker
        BUILD.clear()
    BUILD.labels(role, version("mailsift")).set(1)


class SharedCounts(Collector):
    """What the processes of a worker count into this folder, as one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names = {family.name for metric in WORKER for family in metric.describe()}

    @override
    def collect(self) -> Iterable[Metric]:
        """Read the files."""
        for path in self._folder.glob("gauge_live*_*.db"):
            pid = int(path.stem.rpartition("_")[2])
            if not _lives(pid):
                mark_process_dead(pid, str(self._folder))  # type: ignore[no-untyped-call]  # as above
        # Empty is a file that a process is making at this moment; the library cannot read it.
        files = [str(path) for path in self._folder.glob("*.db") if _size(path)]
        shared = MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]  # as above
        yield from (family for family in shared if family.name in self._names)

    def forget_others(self) -> None:
        """Delete what earlier workers on this host and port have left."""
        for other in self._folder.parent.iterdir():
            if other != self._folder:
                shutil.rmtree(other, ignore_errors=True) if other.is_dir() else other.unlink()


def _size(path: Path) -> int:
    with suppress(FileNotFoundError):  # a live gauge of a process that another look found dead
        return path.stat().st_size
    return 0


def _lives(pid: int) -> bool:
    with suppress(ProcessLookupError, PermissionError):  # the number of somebody else's process is not ours
        os.kill(pid, 0)
        return True
    return False


class _SilentHandler(WSGIRequestHandler):
    """Somebody looks every few seconds."""

    timeout = 10.0  # seconds a client may take to send its request
    server_version = "mailsift"
    sys_version = ""

    @override
    def log_message(self, format: str, *args: object) -> None: ...


class _Server(ThreadingWSGIServer):
    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing when a client goes away in the middle."""


class _Server6(_Server):
    address_family = socket.AF_INET6


class MetricsPort:
    """Listens from the start, and answers `GET /metrics` once it has been told what to show.

    It answers in a thread of its own, so that no event loop has to be there. Port 0 is any free one.

    Raises:
        MailsiftError: `port_in_use`.
    """

    def __init__(self, host: str, port: int) -> None:
        server = _Server6 if ":" in host else _Server
        try:
            self._server = make_server(host, port, _not_found, server, _SilentHandler)
        except OSError:
            text = f"Can’t listen on {host}:{port}, where the metrics are to be shown."
            raise MailsiftError("port_in_use", text) from None
        self.port: int = self._server.server_address[1]
        self._thread: threading.Thread | None = None

    def show(self, registry: Collector) -> None:
        """Answer from now on with what this collects."""
        self._server.set_app(_application(registry))
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(_CLOSES_WITHIN,),
            name="mailsift-metrics",
            daemon=True,
        )
        self._thread.start()

    def close_inherited(self) -> None:
        """Close the port in a process that was forked; it stays open in this one."""
        self._server.socket.close()

    def close(self) -> None:
        """Stop answering and listening."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


def _application(registry: Collector) -> Any:
    """Return the library's WSGI application, for one path, and silent about the words of an error."""
    page = make_wsgi_app(registry)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] != _PATH:
            return _not_found(environ, start_response)
        try:
            return page(environ, start_response)  # type: ignore[no-any-return]  # as above
        except Exception as error:  # noqa: BLE001 - whatever it was, the next look may find it better
            _log.warning("metrics.unreadable", **error_fields(error))
            start_response(_ERROR, [])
            return [b""]

    return answer


def _not_found(_: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    start_response("404 Not Found", [])
    return [b""]


@contextmanager
def metered_worker(settings: Settings, counts: Path | None) -> Iterator[Callable[[], None]]:
    """Count in this process and all that it forks, into the folder of `share_counts`.

    Gives what begins to answer, for after the first forks.

    Raises:
        MailsiftError: `port_in_use`.
    """
    if settings.metrics_port is None or counts is None:
        yield lambda: None
        return
    port = MetricsPort(settings.api_host, settings.metrics_port)
    os.register_at_fork(after_in_child=port.close_inherited)
    shared = SharedCounts(counts)
    shared.forget_others()
    _show_build("worker")
    try:
        yield lambda: port.show(shared)
    finally:
        port.close()


@contextmanager
def metered_sweeper(settings: Settings) -> Iterator[None]:
    """Answer while the block runs.

    Raises:
        MailsiftError: `port_in_use`.
    """
    if settings.metrics_port is None:
        yield
        return
    port = MetricsPort(settings.api_host, settings.metrics_port)
    port.show(registry_of(SWEEPER, role="sweeper"))
    try:
        yield
    finally:
        port.close()
