"""HTTP/1.1 on a connection: uvicorn's parser, with bounds on how slow a client is and how much it asks."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from httptools import HttpParserUpgrade, HttpRequestParser
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from mailsift.api.http.errors import STATUS_OF, error_body

_SENTENCE_OF: Final = {
    "bad_request": "This is not HTTP.",
    "request_timeout": "The request did not arrive in time.",
    "header_fields_too_large": "The request line and the headers are larger than is allowed.",
}


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


class _Part(Enum):
    """What of a request is on its way."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


class BoundedProtocol(HttpToolsProtocol):
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
        """Answer, unless half an answer is out already, and close the connection."""
        if self.transport.is_closing():
            return
        begun = self._part is _Part.BODY and not self.pipeline and not self.cycle.response_started
        if self._is_idle() and self._part is not _Part.BODY:
            self.transport.write(_answer(code))
        elif begun:
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
        self, protocol: BoundedProtocol, cycle: RequestResponseCycle, close: Callable[[], None]
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

    def __init__(self, protocol: BoundedProtocol) -> None:
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
