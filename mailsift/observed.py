"""Metrics and traces of a process, as far as the settings ask for them."""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Final, Protocol

from prometheus_client import generate_latest

from api.meters import LOOP_LAG
from jobs.engine import EngineConfig
from jobs.tasks import QUEUE
from mailsift import metrics
from mailsift.gauges import InstallationGauges
from mailsift.metrics_server import MetricsServer
from mailsift.settings import PREFIX, Settings
from mailsift.wiring import open_database, open_redis
from pipeline.errors import MailsiftError
from pipeline.spans import Tracer, trace_with

_LAG_STEP: Final = 0.25
_LAG_STEPS: Final = 60
_PAGE_SECONDS: Final = 15.0


class _Tracer(Tracer, Protocol):
    def close(self) -> None: ...


def load_tracing(settings: Settings) -> Callable[[str], _Tracer] | None:
    """Return what makes a tracer for a role when OTEL_ENDPOINT says where to; nothing is imported otherwise.

    Raises:
        MailsiftError: `otel_missing`.
    """
    endpoint = settings.otel_endpoint
    if endpoint is None:
        return None
    try:
        otel = importlib.import_module("mailsift.otel")
    except ImportError:
        text = f'{PREFIX}OTEL_ENDPOINT is set, but OpenTelemetry is missing: pip install "mailsift[otel]".'
        raise MailsiftError("otel_missing", text) from None
    return partial(otel.OtelTracer, endpoint)


@contextmanager
def traced(settings: Settings, role: str) -> Iterator[None]:
    """Write traces while the block runs, if they are wanted; after a fork, for they have a thread.

    Raises:
        MailsiftError: `otel_missing`.
    """
    make = load_tracing(settings)
    if make is None:
        yield
        return
    tracer = make(role)
    trace_with(tracer)
    try:
        yield
    finally:
        trace_with(None)
        tracer.close()


@contextmanager
def metered_worker(settings: Settings) -> Iterator[Callable[[], None]]:
    """Count in this process and all that it forks; gives what begins to answer, for after the first forks.

    The counts of all processes lie in a folder that belongs to this host and port, and so to nobody else.

    Raises:
        MailsiftError: `port_in_use`.
    """
    if settings.metrics_port is None:
        yield lambda: None
        return
    server = MetricsServer(settings.api_host, settings.metrics_port)
    os.register_at_fork(after_in_child=server.close_inherited)
    folder = settings.home / "metrics" / f"{socket.gethostname()}-{settings.metrics_port}"
    metrics.share_counts(folder)
    metrics.attach(metrics.WORKER, role="worker")
    try:
        yield lambda: server.start(lambda: metrics.shared_page(folder))
    finally:
        server.close()


@contextmanager
def metered_sweeper(settings: Settings) -> Iterator[None]:
    """Count and answer while the block runs.

    Raises:
        MailsiftError: `port_in_use`.
    """
    if settings.metrics_port is None:
        yield
        return
    server = MetricsServer(settings.api_host, settings.metrics_port)
    registry = metrics.attach(metrics.SWEEPER, role="sweeper")
    server.start(lambda: generate_latest(registry))
    try:
        yield
    finally:
        server.close()
        metrics.detach(metrics.SWEEPER)


@asynccontextmanager
async def observed_api(settings: Settings) -> AsyncIterator[None]:
    """Count, trace and answer while the block runs; the answer holds the gauges of the installation, too.

    Raises:
        MailsiftError: `otel_missing`, `port_in_use`.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(traced(settings, "api"))
        if settings.metrics_port is not None:
            await stack.enter_async_context(_metered_api(settings, settings.metrics_port))
        yield


@asynccontextmanager
async def _metered_api(settings: Settings, port: int) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        server = MetricsServer(settings.api_host, port)
        registry = metrics.attach(metrics.API, role="api")
        stack.callback(metrics.detach, metrics.API)
        gauges = await stack.enter_async_context(_open_gauges(settings))
        lag = asyncio.create_task(_watch_lag())
        stack.callback(lag.cancel)
        # In a thread, for it waits for answers that this loop has to give.
        stack.push_async_callback(asyncio.to_thread, server.close)
        loop = asyncio.get_running_loop()

        def page() -> bytes:
            reading = asyncio.run_coroutine_threadsafe(gauges.read(), loop)
            return generate_latest(registry) + metrics.readings_page(reading.result(_PAGE_SECONDS))

        server.start(page)
        yield


@asynccontextmanager
async def _open_gauges(settings: Settings) -> AsyncIterator[InstallationGauges]:
    async with AsyncExitStack() as stack:
        database, redis = open_database(settings, pool_size=1), open_redis(settings)
        stack.push_async_callback(database.aclose)
        stack.push_async_callback(redis.aclose)
        usual = EngineConfig(owner="")
        yield InstallationGauges(
            database=database,
            redis=redis,
            queue=QUEUE,
            small_bytes=usual.small_bytes,
            job_cap=usual.job_cap,
        )


async def _watch_lag() -> None:
    """Show by how much the loop came late at worst, of late."""
    late: deque[float] = deque(maxlen=_LAG_STEPS)
    while True:
        began = time.monotonic()
        await asyncio.sleep(_LAG_STEP)
        late.append(time.monotonic() - began - _LAG_STEP)
        LOOP_LAG.set(max(late))
