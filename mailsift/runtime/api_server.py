"""The API process: its parts on one event loop, served by uvicorn, counted and traced where wanted.

Connections are those of uvicorn's parser, with bounds on how slow a client is and how much it asks.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import socket
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, Final

import uvicorn
from httptools import HttpParserUpgrade, HttpRequestParser
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from mailsift import metrics
from mailsift.api.app import create_app
from mailsift.api.http.errors import STATUS_OF, error_body
from mailsift.api.metrics import LOOP_LAG
from mailsift.container import API_POOL, open_container
from mailsift.pipeline.background import repeating
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings
from mailsift.tracing import traced

_TIDY_SECONDS = 3_600
_BACKLOG = 2_048


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What a client has to keep.

    Who sends less of a body holds a connection and no more; who takes nothing of an answer holds a file of
    results on the disk. Fronts and clients keep idle connections for a minute or so: that they close them,
    and not we, loses no request on its way.
    """

    seconds: float = 10.0  # for a request line and its headers, and for a body's next `body_bytes`
    head_bytes: int = 16 * 1024  # of request line and headers
    body_bytes: int = 1024
    answer_seconds: float = 600.0  # for the next 48 KiB of an answer to go out
    idle_seconds: int = 120  # for which a connection that was answered waits for its next request
    drain_seconds: int = 15  # for a request under way when the API ends


_LIMITS: Final = RequestLimits()


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
            http=partial(_BoundedProtocol, limits=limits),  # type: ignore[arg-type]  # it is called, no more
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


_SENTENCE_OF: Final = {
    "bad_request": "This is not HTTP.",
    "request_timeout": "The request did not arrive in time.",
    "header_fields_too_large": "The request line and the headers are larger than is allowed.",
}


class _Part(Enum):
    """What of a request is on its way."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


class _BoundedProtocol(HttpToolsProtocol):
    """One connection; a request that breaks a limit or is no HTTP is answered as JSON, and ends it."""

    def __init__(self, *, limits: RequestLimits, **connection: Any) -> None:
        super().__init__(**connection)
        self.parser = _OneProtocolParser(self)
        self._limits = limits
        self._part = _Part.NOTHING
        self._received = self._head_bytes = 0
        self._refusal = "bad_request"
        self._timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None
        self._head = b""
        self._is_last = self._is_body_coming = False

    def take_head(self) -> bytes:
        """Return the request line and headers that are to be read anew, once; empty when there are none."""
        head, self._head = self._head, b""
        return head

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._start_timer()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_answer_timer()
        super().connection_lost(exc)

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._answer_timer = self.loop.call_later(self._limits.answer_seconds, self.transport.abort)

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_answer_timer()

    @override
    def data_received(self, data: bytes) -> None:
        in_head = self._part is _Part.HEAD
        self._received += len(data)
        super().data_received(data)
        if in_head and self._part is _Part.HEAD and self._received > self._limits.head_bytes:
            self._refuse("header_fields_too_large")  # one endless header: the parser tells of whole ones only
        elif self._timer is None and (self._part is not _Part.NOTHING or self._is_idle()):
            self._start_timer()  # for the rest of a request, or behind an empty line, which is none yet

    @override
    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        self._expect(_Part.HEAD)

    @override
    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    @override
    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + len(b": \r\n"))
        super().on_header(name, value)

    @override
    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and any(name == b"upgrade" for name, _ in self.headers):
            version = self.parser.get_http_version().encode()
            self._head = _without_offer(self.parser.get_method(), self.url, version, self.headers)
            return
        if self.parser.get_http_version() == "1.0":
            self.expect_100_continue = False  # it means nothing there (RFC 9110, section 10.1.1)
        super().on_headers_complete()
        self._is_body_coming = not self.expect_100_continue
        close = self.transport.close if self.cycle.keep_alive else self.close_once_read
        self.cycle.transport = _AnswerTransport(self, self.cycle, close)  # type: ignore[assignment]
        self._expect(_Part.BODY)

    @override
    def on_message_complete(self) -> None:
        if self._head:
            return
        super().on_message_complete()
        self._expect(_Part.NOTHING)
        if self._is_last:
            self.transport.close()

    def expect_body(self) -> None:
        """Note that the client is asked for the body that it held back until then."""
        self._is_body_coming = True

    def close_once_read(self) -> None:
        """Close the connection behind its last answer, once what is still coming of the request has come.

        What is unread at the end resets a connection, and may take the answer with it.
        """
        self._is_last = True
        if self._part is not _Part.BODY or not self._is_body_coming:
            self.transport.close()

    @override
    def send_400_response(self, msg: str) -> None:
        """Answer what the parser refuses, or what a callback of ours made it refuse."""
        self._refuse(self._refusal)

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes:
            self._refusal = "header_fields_too_large"
            raise ValueError(self._refusal)  # ends the parser, which asks for send_400_response

    def _expect(self, part: _Part) -> None:
        """Wait for this part of a request; its time begins once all is read that has come."""
        self._stop_timer()
        self._part, self._received = part, 0

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self._limits.seconds, self._on_time)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_answer_timer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def _on_time(self) -> None:
        if self._is_client_in_time():
            self._received = 0
            self._start_timer()
        elif self._part is _Part.NOTHING:
            self.transport.close()
        else:
            self._refuse("request_timeout")

    def _is_client_in_time(self) -> bool:
        """Say whether it is not the client that everybody waits for, or whether enough of a body came."""
        if self._part is not _Part.BODY:
            return not self._is_idle()  # the answer to the request before is still being made
        asked = not self.cycle.waiting_for_100_continue
        return not asked or self.flow.read_paused or self._received >= self._limits.body_bytes

    def _is_idle(self) -> bool:
        """Say whether no request is being answered."""
        cycle: RequestResponseCycle | None = self.cycle  # None until the first request
        return not self.pipeline and (cycle is None or cycle.response_complete)

    def _refuse(self, code: str) -> None:
        """Answer, unless half an answer is out already, and close the connection.

        Requests before this one are answered first: what was ordered with them is done.
        """
        if self.transport.is_closing():
            return
        if self._part is not _Part.BODY:
            if not self._is_idle():
                self.cycle.keep_alive = False
                self.flow.pause_reading()
                return
            self.transport.write(_answer(code))
        elif self.pipeline:  # this one is told so when it is its turn

            async def refuse(*_: object) -> None:
                self._refuse(code)

            self.pipeline[0] = (self.cycle, refuse)
            self.flow.pause_reading()
            return
        elif not self.cycle.response_started:
            self.transport.write(_answer(code))
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


class _AnswerTransport:
    """Where an answer is written to, and what `close` does behind it.

    uvicorn writes the head by itself, and a packet more costs a small answer some 3 % of its time
    (benchmarks.single_validate): so a head that promises a body waits for the first of it.
    """

    def __init__(
        self, protocol: _BoundedProtocol, cycle: RequestResponseCycle, close: Callable[[], None]
    ) -> None:
        self._protocol = protocol
        self._cycle: RequestResponseCycle | None = cycle  # until its head is there; they hold each other
        self._transport = protocol.transport
        self._close = close
        self._head = b""
        self.is_closing = self._transport.is_closing

    def write(self, data: bytes) -> None:
        """Send a piece of the answer, or keep it: the first one is the head, but for a 100 before it."""
        if self._cycle is not None and not self._cycle.response_started:
            self._protocol.expect_body()
        elif self._cycle is not None:
            cycle, self._cycle = self._cycle, None
            if cycle.expected_content_length and cycle.scope["method"] != "HEAD":
                self._head = data
                return
        if self._head:
            data, self._head = b"".join((self._head, data)), b""
        self._transport.write(data)

    def close(self) -> None:
        """End the answer, whole or not."""
        if self._head:
            self.write(b"")
        self._close()


class _OneProtocolParser(HttpRequestParser):
    """httptools' parser for a server that changes to no other protocol: it passes over every offer to.

    httptools takes what follows an offer for the other protocol: the body of the request, too, and the next
    requests. Java's client offers HTTP/2 with everything it sends in the clear (RFC 9110, section 7.8).
    """

    def __init__(self, protocol: _BoundedProtocol) -> None:
        super().__init__(protocol)
        self._protocol = protocol
        self.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it

    @override
    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # nobody feeds it anything else
        """Parse what has come; a new parser reads a head with an offer once more, without it."""
        parser = self
        while True:
            try:
                HttpRequestParser.feed_data(parser, data)
            except HttpParserUpgrade as offer:
                head = self._protocol.take_head()
                if not head:  # CONNECT
                    raise
                parser = self._protocol.parser = _OneProtocolParser(self._protocol)
                data = head + data[offer.args[0] :]
            else:
                return


def _without_offer(
    method: bytes, url: bytes, version: bytes, headers: Iterable[tuple[bytes, bytes]]
) -> bytes:
    """Return the head of a request as HTTP writes it, but for its offer to change the protocol."""
    lines = [b"%s %s HTTP/%s" % (method, url, version)]
    for name, value in headers:
        if name == b"connection":
            left = (one for one in value.split(b",") if one.strip().lower() != b"upgrade")
            lines.append(b"connection: " + b",".join(left))
        elif name != b"upgrade":
            lines.append(name + b": " + value)
    return b"\r\n".join((*lines, b"\r\n"))


def _answer(code: str) -> bytes:
    """Return an error as HTTP/1.1 writes it."""
    status, request_id = STATUS_OF[code], f"req_{secrets.token_hex(12)}"
    body = json.dumps(error_body(code, _SENTENCE_OF[code], request_id)).encode()
    headers = (
        "content-type: application/json\r\n"
        f"content-length: {len(body)}\r\n"
        f"x-request-id: {request_id}\r\n"
        "cache-control: private, no-store\r\n"
        "x-content-type-options: nosniff\r\n"
        "connection: close\r\n\r\n"
    )
    return STATUS_LINE[status] + headers.encode() + body
