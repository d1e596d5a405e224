"""A thin resolver over c-ares: many questions in flight on one event loop, answers by callback."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pycares

from pipeline.dns_rules import DnsAnswer, Outcome, Question
from pipeline.errors import MailsiftError

_TICK_S = 0.1
"""How often c-ares is told that time has passed while questions are in flight, in seconds."""

_FLUSH_EVERY = 10_000
"""Questions after which c-ares drops its own cache, which has no bound (1.2 KiB an answer)."""

_RECEIVE_BUFFER = 1 << 20
"""Bytes; the usual 208 KiB drops answers when hundreds come at once."""

_RECORD_TYPES = {
    Question.MX: pycares.QUERY_TYPE_MX,
    Question.A: pycares.QUERY_TYPE_A,
    Question.AAAA: pycares.QUERY_TYPE_AAAA,
}

_ERRORS = {
    pycares.errno.ARES_ENODATA: DnsAnswer(Outcome.NO_DATA, detail="NODATA"),
    pycares.errno.ARES_ENOTFOUND: DnsAnswer(Outcome.NO_NAME, detail="NXDOMAIN"),
    pycares.errno.ARES_ESERVFAIL: DnsAnswer(Outcome.FAILED, detail="SERVFAIL"),
    pycares.errno.ARES_EREFUSED: DnsAnswer(Outcome.FAILED, detail="REFUSED"),
    pycares.errno.ARES_ETIMEOUT: DnsAnswer(Outcome.FAILED, detail="timeout"),
    pycares.errno.ARES_ECONNREFUSED: DnsAnswer(Outcome.FAILED, detail="no resolver answers"),
    pycares.errno.ARES_EBADRESP: DnsAnswer(Outcome.FAILED, detail="malformed answer"),
    pycares.errno.ARES_ECANCELLED: DnsAnswer(Outcome.FAILED, detail="resolver closed"),
}
_OTHER_ERROR = DnsAnswer(Outcome.FAILED, detail="resolver error")
_CNAME_LOOP = DnsAnswer(Outcome.FAILED, detail="CNAME loop")


@dataclass(slots=True, eq=False)
class _Asked:
    """A question on its way; c-ares calls it with the answer."""

    client: DnsClient
    name: str
    question: Question
    done: Callable[[DnsAnswer], None]
    deadline: float = 0.0

    def __call__(self, result: pycares.DNSResult | None, error: int | None) -> None:
        self.client.arrived(self, result, error)


class DnsClient:
    """Asks questions, at most `concurrency` at a time, and calls back with the answers.

    c-ares does the protocol: random ids, source checks, EDNS, TCP after truncation, retries and fail-over
    between servers. It runs inside the event loop (its own thread would fight ours for the interpreter lock
    and halve the speed), and it hands its answers to one queue, so that no callback of ours runs inside C.
    Names are taken as they are: search domains and the hosts file never apply.

    Args:
        servers: "host:port" or "[v6]:port", tried in order; () = those of the system.
        timeout: seconds before a question is sent again for the first time. c-ares doubles it with every try
            and learns from the answers: it may ask again after five times the usual delay, at least 0.25 s.
        tries: how often a question is sent to each server; after timeout * tries seconds it fails for good.
        concurrency: questions in flight. Beyond some hundreds, socket buffers overflow and answers are lost.

    Raises:
        MailsiftError: dns_servers_invalid.
    """

    def __init__(
        self, *, servers: Sequence[str] = (), timeout: float = 1.0, tries: int = 5, concurrency: int = 200
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lifetime = timeout * tries
        self._concurrency = concurrency
        self._waiting: deque[_Asked] = deque()
        self._flying: dict[_Asked, None] = {}  # in the order of their deadlines
        self._arrived: deque[tuple[_Asked, pycares.DNSResult | None, int | None]] = deque()
        self._turn: asyncio.Handle | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._sent = 0
        self._closed = False
        self._sockets: set[int] = set()
        try:
            self._channel = pycares.Channel(
                sock_state_cb=self._watch,
                servers=servers,
                timeout=timeout,
                tries=tries,
                socket_receive_buffer_size=_RECEIVE_BUFFER,
            )
        except (pycares.AresError, UnicodeEncodeError) as error:
            raise MailsiftError("dns_servers_invalid", "DNS servers must be given as host:port.") from error

    def ask(self, name: str, question: Question, done: Callable[[DnsAnswer], None]) -> None:
        """Ask for a name's records; `done` gets the answer later, in the event loop, exactly once.

        Args:
            name: an absolute ASCII name without the final dot, one that `is_host_name`.
            question: the record type.
            done: called from the event loop; must not raise.
        """
        asked = _Asked(self, name, question, done)
        if question is Question.MX:
            self._waiting.append(asked)
        else:  # finish what has been begun first
            self._waiting.appendleft(asked)
        self._take_turn_soon()

    async def aclose(self) -> None:
        """Answer what is open with a failure and release sockets and timers."""
        self._closed = True
        self._channel.cancel()
        while self._waiting or self._arrived:
            self._take_turn()
        for handle in (self._turn, self._tick):
            if handle is not None:
                handle.cancel()
        for fd in tuple(self._sockets):
            self._unwatch(fd)
        self._channel.close()

    def arrived(self, asked: _Asked, result: pycares.DNSResult | None, error: int | None) -> None:
        """Queue what c-ares has to say about a question; a second word about it is ignored."""
        if asked in self._flying:
            del self._flying[asked]
            self._arrived.append((asked, result, error))

    def _take_turn_soon(self) -> None:
        if self._turn is None:
            self._turn = self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Deliver the answers that are there, then send what may be sent."""
        try:
            while self._arrived:
                asked, result, error = self._arrived.popleft()
                asked.done(read_answer(asked.question, result, error))
            self._send()
        finally:
            if self._turn is not None:
                self._turn.cancel()
            self._turn = None
        if self._arrived:  # answered while being sent: leave the loop a chance to do other things
            self._take_turn_soon()

    def _send(self) -> None:
        deadline = self._loop.time() + self._lifetime
        while self._waiting and len(self._flying) < self._concurrency:
            asked = self._waiting.popleft()
            asked.deadline = deadline
            self._flying[asked] = None
            if self._closed:
                self.arrived(asked, None, pycares.errno.ARES_ECANCELLED)
                continue
            self._query(asked)
        if self._flying and self._tick is None:
            self._tick = self._loop.call_later(_TICK_S, self._pass_time)

    def _query(self, asked: _Asked) -> None:
        self._sent += 1
        if self._sent % _FLUSH_EVERY == 0:
            self._channel.reinit()
        try:
            self._channel.query(asked.name, _RECORD_TYPES[asked.question], callback=asked)
        except pycares.AresError as error:
            self.arrived(asked, None, error.args[0])

    def _pass_time(self) -> None:
        """Let c-ares repeat what is late, and give up what is too late."""
        self._tick = None
        self._channel.process_fd(pycares.ARES_SOCKET_BAD, pycares.ARES_SOCKET_BAD)
        now = self._loop.time()
        late = []
        for asked in self._flying:
            if asked.deadline > now:
                break
            late.append(asked)
        for asked in late:
            self.arrived(asked, None, pycares.errno.ARES_ETIMEOUT)
        self._take_turn()

    def _read(self, fd: int) -> None:
        self._channel.process_read_fd(fd)
        self._take_turn()

    def _write(self, fd: int) -> None:
        self._channel.process_write_fd(fd)
        self._take_turn()

    def _watch(self, fd: int, readable: bool, writable: bool) -> None:
        """Follow c-ares' wishes about a socket; it may call from the thread that re-reads resolv.conf."""
        if threading.get_ident() != self._thread:
            self._loop.call_soon_threadsafe(self._watch, fd, readable, writable)
            return
        if not (readable or writable):
            self._unwatch(fd)
            return
        self._sockets.add(fd)
        if readable:
            self._loop.add_reader(fd, self._read, fd)
        else:
            self._loop.remove_reader(fd)
        if writable:
            self._loop.add_writer(fd, self._write, fd)
        else:
            self._loop.remove_writer(fd)

    def _unwatch(self, fd: int) -> None:
        self._sockets.discard(fd)
        self._loop.remove_reader(fd)
        self._loop.remove_writer(fd)


def read_answer(question: Question, result: pycares.DNSResult | None, error: int | None) -> DnsAnswer:
    """Turn what c-ares hands over into an answer.

    A CNAME chain is followed by the resolver; its records stand in the same answer and bound its TTL.
    """
    if error is not None or result is None:
        return _ERRORS.get(error, _OTHER_ERROR)
    ttl = min((record.ttl for record in result.answer), default=0)
    data = [record.data for record in result.answer]
    if question is Question.MX:
        # c-ares escapes what is not printable; `str` is for the bytes pycares makes of the rest
        mx = tuple((d.priority, str(d.exchange)) for d in data if isinstance(d, pycares.MXRecordData))
        found = DnsAnswer(Outcome.FOUND, exchangers=mx, ttl=ttl)
    else:
        kind = pycares.ARecordData if question is Question.A else pycares.AAAARecordData
        found = DnsAnswer(
            Outcome.FOUND, addresses=tuple(d.addr for d in data if isinstance(d, kind)), ttl=ttl
        )
    if found.exchangers or found.addresses:
        return found
    return _CNAME_LOOP if _loops(result.answer) else _ERRORS[pycares.errno.ARES_ENODATA]


def _loops(records: Sequence[pycares.DNSRecord]) -> bool:
    """Tell whether the chain of CNAMEs in an answer comes back to a name it has passed."""
    aliases = {r.name: r.data.cname for r in records if isinstance(r.data, pycares.CNAMERecordData)}
    passed: set[str] = set()
    name = next(iter(aliases), "")
    while name in aliases and name not in passed:
        passed.add(name)
        name = aliases[name]
    return name in passed
