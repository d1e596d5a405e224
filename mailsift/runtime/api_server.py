"""The API process: its parts on one event loop, served by uvicorn, counted and traced where wanted."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Final

import uvicorn
from typing_extensions import override

from mailsift import metrics
from mailsift.api.app import create_app
from mailsift.api.metrics import LOOP_LAG
from mailsift.container import API_POOL, open_container
from mailsift.pipeline.background import repeating
from mailsift.pipeline.errors import MailsiftError
from mailsift.runtime.http_protocol import BoundedProtocol, RequestLimits
from mailsift.settings import Settings
from mailsift.tracing import traced

_TIDY_SECONDS = 3_600
_BACKLOG = 2_048
_LIMITS: Final = RequestLimits()


class _UvicornServer(uvicorn.Server):
    """Says where it listens, once it does, and ends in good order."""

    def __init__(self, config: uvicorn.Config, started: Callable[[str], None], ending: asyncio.Event) -> None:
        super().__init__(config)
        self._started = started
        self._ending = ending

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take SIGTERM as done: raised once more, it would end the process before its parts are closed."""
        with super().capture_signals():
            yield
            self._captured_signals = [one for one in self._captured_signals if one != signal.SIGTERM]

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            port = sockets[0].getsockname()[1]
            host = self.config.host
            self._started(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._ending.set()
        await super().shutdown(sockets)


@contextmanager
def listening(settings: Settings) -> Iterator[list[socket.socket]]:
    """Take the port of the API, so that nothing is started for one that is taken; callers wait meanwhile.

    Raises:
        MailsiftError: `port_in_use`.
    """
    host, port = settings.api_host, settings.api_port
    with ExitStack() as stack:
        taken: list[socket.socket] = []
        try:
            for address in _addresses(host, port):
                free = port or (taken[0].getsockname()[1] if taken else 0)
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                made = socket.create_server((address, free), family=family, backlog=_BACKLOG)
                taken.append(stack.enter_context(made))
        except (OSError, UnicodeError) as error:  # the latter of a name that is none: "a..b"
            number = getattr(error, "errno", None) or 0
            why = os.strerror(number) if number > 0 else getattr(error, "strerror", None) or str(error)
            raise MailsiftError("port_in_use", f"Can’t listen on {host}:{port}: {why}.") from None
        yield taken


def _addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a host: a name like localhost has several."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def serve(
    settings: Settings,
    *,
    sockets: list[socket.socket] | None = None,
    started: Callable[[str], None],
    stop: asyncio.Event | None = None,
    limits: RequestLimits = _LIMITS,
) -> None:
    """Serve the API until SIGINT, SIGTERM or `stop`; needs DATABASE_URL and REDIS_URL.

    It listens on sockets from `listening`, None: it takes the port itself; `started` is told the address.

    Raises:
        MailsiftError: `port_in_use`, `otel_missing`.
    """
    async with AsyncExitStack() as stack:
        if sockets is None:
            sockets = stack.enter_context(listening(settings))
        container = await stack.enter_async_context(open_container(settings, pool_size=API_POOL))
        await stack.enter_async_context(_observed(settings))
        # There may be no worker on this machine to do so.
        tidying = repeating(container.tidier.sweep, every=_TIDY_SECONDS, task="tidy", at_once=True)
        await stack.enter_async_context(tidying)
        parts = await container.api_parts()
        config = uvicorn.Config(
            create_app(parts),
            host=settings.api_host,
            log_config=None,  # its words go where ours go
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=limits.drain_seconds,
            timeout_keep_alive=limits.idle_seconds,
            http=partial(BoundedProtocol, limits=limits),  # type: ignore[arg-type]  # it is called, no more
            ws="none",
            lifespan="off",  # nobody uses it, and its end is logged as an error when somebody hurries it
        )
        server = _UvicornServer(config, started, parts.ending)
        stopping = asyncio.create_task(_stop_when(stop or asyncio.Event(), server))
        try:
            await server.serve(sockets)
        finally:
            stopping.cancel()


async def _stop_when(stop: asyncio.Event, server: uvicorn.Server) -> None:
    await stop.wait()
    server.should_exit = True


_LAG_STEP: Final = 0.25
_LAG_STEPS: Final = 60


@asynccontextmanager
async def _observed(settings: Settings) -> AsyncIterator[None]:
    """Count, trace and answer while the block runs; the answer holds the gauges of the installation, too.

    Raises:
        MailsiftError: `otel_missing`, `port_in_use`.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(traced(settings, "api"))
        if settings.metrics_port is not None:
            port = metrics.MetricsPort(settings.api_host, settings.metrics_port)
            container = await stack.enter_async_context(open_container(settings, pool_size=2))
            lag = asyncio.create_task(_watch_lag())
            stack.callback(lag.cancel)
            # In a thread, for it waits for answers that this loop has to give.
            stack.push_async_callback(asyncio.to_thread, port.close)
            port.show(metrics.registry_of((*metrics.API, container.gauges), role="api"))
        yield


async def _watch_lag() -> None:
    """Show by how much the loop came late at worst, of late."""
    late: deque[float] = deque(maxlen=_LAG_STEPS)
    while True:
        began = time.monotonic()
        await asyncio.sleep(_LAG_STEP)
        late.append(time.monotonic() - began - _LAG_STEP)
        LOOP_LAG.set(max(late))
