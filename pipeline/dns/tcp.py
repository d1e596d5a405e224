"""Questions over TCP, many on one connection, into which nobody outside can forge an answer (RFC 7766).

Second questions are asked by hand; those whose answer did not fit a datagram, was odd or late by aiodns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

import aiodns
import pycares
from typing_extensions import override

from mailsift.pipeline.dns.message import (
    HEADER,
    MALFORMED,
    NO_DATA,
    NO_NAME,
    ResourceRecord,
    Value,
    answer_from,
    pack_query,
    read_reply,
)
from mailsift.pipeline.dns.nameserver import in_words_of_cares
from mailsift.pipeline.dns.rules import FAILED, DnsAnswer, RecordType

_QUESTIONS: Final = 10_000
"""After so many questions a connection is left for a new one."""

_CONNECTION_LOST: Final = DnsAnswer(FAILED, detail="no resolver answers over TCP")
_MALFORMED_ANSWER: Final = DnsAnswer(FAILED, detail="malformed answer")


@dataclass(slots=True)
class _PendingQuestion:
    """A question on a connection; `is_retry` when the connection before it was lost."""

    question: bytes
    record_type: RecordType
    done: Callable[[DnsAnswer], None]
    edns: bool
    is_retry: bool = False


class TcpClient:
    """Asks one resolver over a connection that is opened when it is needed; a lost one is replaced once.

    A question has no deadline here: whoever asks has one, and ignores what comes later.

    Args:
        address: host and port.
        patience: seconds without a word from it after which a connection that owes answers counts as lost.
    """

    def __init__(self, address: tuple[str, int], *, patience: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._address = address
        self._patience = patience
        self._connection: _Connection | None = None
        self._opening: set[asyncio.Task[None]] = set()
        self._closed = False

    def ask(
        self, question: bytes, record_type: RecordType, done: Callable[[DnsAnswer], None], *, edns: bool
    ) -> None:
        """Ask a question (`message.encode_question`); `done` gets the answer, or a failure."""
        self._send(_PendingQuestion(question, record_type, done, edns))

    async def aclose(self) -> None:
        """Close the connection; what is open fails."""
        self._closed = True
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        if self._connection is not None:
            self._connection.close()

    def _send(self, pending: _PendingQuestion) -> None:
        if self._closed:
            self._loop.call_soon(pending.done, _CONNECTION_LOST)
            return
        connection = self._connection
        if connection is None or connection.is_over or connection.sent >= _QUESTIONS:
            connection = self._connection = _Connection(self._retry_lost, self._patience)
            task = self._loop.create_task(self._open(connection))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        connection.send(pending)

    async def _open(self, connection: _Connection) -> None:
        try:
            await self._loop.create_connection(lambda: connection, *self._address)
        except OSError:
            connection.connection_lost(None)

    def _retry_lost(self, unanswered: list[_PendingQuestion]) -> None:
        """Ask on a new connection what a lost one has not answered: a server may close one that was idle."""
        for pending in unanswered:
            if pending.is_retry or self._closed:
                pending.done(_CONNECTION_LOST)
            else:
                pending.is_retry = True
                self._send(pending)


class _Connection(asyncio.Protocol):
    """One connection: questions out in one write a turn, replies in any order."""

    def __init__(self, on_lost: Callable[[list[_PendingQuestion]], None], patience: float) -> None:
        self.sent = 0
        self.is_over = False
        self._loop = asyncio.get_running_loop()
        self._on_lost = on_lost
        self._patience = patience
        self._silence_timer: asyncio.TimerHandle | None = None
        self._pending: dict[int, _PendingQuestion] = {}
        self._outbox: list[bytes] = []
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._flush_handle: asyncio.Handle | None = None

    def send(self, pending: _PendingQuestion) -> None:
        """Send a question now, or when the connection is there."""
        number = self.sent  # fewer than there are ids
        self.sent += 1
        self._pending[number] = pending
        packet = pack_query(number.to_bytes(2, "big"), pending.question, edns=pending.edns)
        self._outbox.append(len(packet).to_bytes(2, "big") + packet)
        if self._transport is not None and self._flush_handle is None:
            self._flush_handle = self._loop.call_soon(self._flush)
        if self._silence_timer is None:
            self._await_word()

    def close(self) -> None:
        """Give it up; what is open on it is lost."""
        if self._transport is not None:
            self._transport.abort()
        self.connection_lost(None)

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # TCP gives nothing else
        if self.is_over:  # closed meanwhile
            self._transport.abort()
        self._flush()

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 2 and len(self._buffer) >= (
            end := 2 + int.from_bytes(self._buffer[:2], "big")
        ):
            reply, self._buffer = self._buffer[2:end], self._buffer[end:]
            self._match_reply(reply)
        self._await_word()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        self._stop_waiting()
        unanswered = list(self._pending.values())
        self._pending.clear()
        self._on_lost(unanswered)

    def _await_word(self) -> None:
        """Give it up when it stays silent and owes answers: whoever stands between forgets idle ones."""
        self._stop_waiting()
        if self._pending:
            self._silence_timer = self._loop.call_later(self._patience, self.close)

    def _stop_waiting(self) -> None:
        if self._silence_timer is not None:
            self._silence_timer.cancel()
            self._silence_timer = None

    def _flush(self) -> None:
        self._flush_handle = None
        if self._transport is not None and not self._transport.is_closing():  # else connection_lost follows
            self._transport.write(b"".join(self._outbox))
            self._outbox.clear()

    def _match_reply(self, reply: bytes) -> None:
        pending = self._pending.pop(int.from_bytes(reply[:2], "big"), None)
        if pending is None:
            return
        end = HEADER + len(pending.question)
        if reply[HEADER:end].lower() != pending.question.lower():
            pending.done(_MALFORMED_ANSWER)
            return
        try:
            answer = read_reply(reply, pending.question, pending.record_type)
        except MALFORMED:
            answer = _MALFORMED_ANSWER
        pending.done(answer)


# By aiodns.

_QUESTIONS_OF_CARES: Final = 2_000
_SECONDS_OF_CARES: Final = 30.0
"""How long one aiodns resolver is used: it remembers answers, and what it remembers is no second opinion."""

_FLAGS: Final = pycares.ARES_FLAG_USEVC | pycares.ARES_FLAG_STAYOPEN | pycares.ARES_FLAG_NOSEARCH

_ERRORS: Final = {
    aiodns.error.ARES_ENODATA: NO_DATA,
    aiodns.error.ARES_ENOTFOUND: NO_NAME,
    aiodns.error.ARES_ESERVFAIL: DnsAnswer(FAILED, detail="SERVFAIL"),
    aiodns.error.ARES_EREFUSED: DnsAnswer(FAILED, detail="REFUSED"),
    aiodns.error.ARES_ETIMEOUT: DnsAnswer(FAILED, detail="timeout"),
    aiodns.error.ARES_ECONNREFUSED: DnsAnswer(FAILED, detail="no resolver answers"),
    aiodns.error.ARES_EBADRESP: _MALFORMED_ANSWER,
}
NO_ANSWER_DETAILS: Final = frozenset({"timeout", "no resolver answers", "malformed answer", "resolver error"})
"""Details of failures that are no answer of the resolver's."""

_OTHER_ERROR: Final = DnsAnswer(FAILED, detail="resolver error")


class AiodnsFallback:
    """Asks one resolver over TCP, on a connection that many questions share.

    Args:
        server: "host:port" or "[v6]:port".
        timeout: seconds until a question is given up.
    """

    def __init__(self, server: str, *, timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = in_words_of_cares(server)
        self._timeout = timeout
        self._resolver: aiodns.DNSResolver | None = None
        self._asked = 0
        self._born = 0.0
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()

    def ask(self, name: str, record_type: RecordType, done: Callable[[DnsAnswer], None]) -> None:
        """Ask for the records of an absolute name; `done` gets the answer later, exactly once."""
        future = self._current().query_dns(name, record_type.value)
        future.add_done_callback(lambda answered: done(_read(name, record_type, answered)))

    def forget(self) -> None:
        """Drop what is remembered, and with it the connection once its open questions have had their time."""
        old, self._resolver = self._resolver, None
        if old is not None:
            closing = self._loop.create_task(self._close_later(old))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Release sockets and timers; open questions fail."""
        self.forget()
        self._closed.set()
        await asyncio.gather(*self._closing)

    async def _close_later(self, resolver: aiodns.DNSResolver) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * self._timeout):
                await self._closed.wait()
        await resolver.close()

    def _current(self) -> aiodns.DNSResolver:
        now = self._loop.time()
        if self._asked >= _QUESTIONS_OF_CARES or now - self._born >= _SECONDS_OF_CARES:
            self.forget()
        if self._resolver is None:
            self._asked, self._born = 0, now
            self._resolver = aiodns.DNSResolver(
                nameservers=[self._server], loop=self._loop, timeout=self._timeout, tries=1, flags=_FLAGS
            )
        self._asked += 1
        return self._resolver


def _read(name: str, record_type: RecordType, answered: asyncio.Future[pycares.DNSResult]) -> DnsAnswer:
    if answered.cancelled():
        return DnsAnswer(FAILED, detail="resolver closed")
    error = answered.exception()
    if error is not None:
        return _ERRORS.get(error.args[0], _OTHER_ERROR) if error.args else _OTHER_ERROR
    result = answered.result()
    records = [record for one in result.answer if (record := _record(one)) is not None]
    return answer_from(name.lower(), record_type, records, exists=True, zone=_zone(result))


def _record(one: pycares.DNSRecord) -> ResourceRecord | None:
    """Take what is asked for from what c-ares has read; it escapes what is not printable."""
    match one.data:
        case pycares.MXRecordData(priority=rank, exchange=exchange):
            value: Value = rank, _lower(exchange)
        case pycares.ARecordData(addr=address) | pycares.AAAARecordData(addr=address):
            value = address
        case pycares.CNAMERecordData(cname=name) | pycares.NSRecordData(nsdname=name):
            value = _lower(name)
        case _:
            return None
    return ResourceRecord(_lower(one.name), one.type, one.ttl, value)


def _lower(name: object) -> str:
    return str(name).rstrip(".").lower()


def _zone(result: pycares.DNSResult) -> str | None:
    owners = (one.name for one in result.authority if isinstance(one.data, pycares.SOARecordData))
    return next(map(_lower, owners), None)
