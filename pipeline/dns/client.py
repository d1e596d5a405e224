"""A thin resolver over c-ares: many questions in flight on one event loop, answers by callback."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pycares

from pipeline.dns.rules import DnsAnswer, Question
from pipeline.dns.wire import DnsWire, read_answer

_TICK_S = 0.1
"""How often the deadlines are looked at while questions are in flight, in seconds."""


@dataclass(slots=True, eq=False)
class _Asked:
    """A question on its way; c-ares calls it with the answer."""

    client: DnsClient
    name: str
    question: Question
    done: Callable[[DnsAnswer], None]
    deadline: float = 0.0
    alone: bool = False  # on a wire of its own, because the shared one was spoilt

    def __call__(self, result: pycares.DNSResult | None, error: int | None) -> None:
        self.client.arrived(self, result, error)


class DnsClient:
    """Asks questions, at most `concurrency` at a time, and calls back with the answers.

    c-ares does the protocol: random ids, source checks, EDNS, TCP after truncation, retries and fail-over
    between servers. What it hears goes into one queue, so that nobody's callback runs inside C.

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
        self._lifetime = timeout * tries
        self._concurrency = concurrency
        self._waiting: deque[_Asked] = deque()
        self._flying: dict[_Asked, None] = {}  # in the order of their deadlines
        self._arrived: deque[tuple[_Asked, pycares.DNSResult | None, int | None]] = deque()
        self._turn: asyncio.Handle | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._closed = False
        self._open_wire = partial(
            DnsWire, servers=servers, timeout=timeout, tries=tries, after=self._take_turn
        )
        self._wire = self._open_wire()
        self._own_wires: dict[_Asked, DnsWire] = {}

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
        if self._closed:
            return
        self._closed = True
        for wire in self._wires():
            wire.close()
        while self._waiting or self._arrived:
            self._take_turn()
        for handle in (self._turn, self._tick):
            if handle is not None:
                handle.cancel()

    def arrived(self, asked: _Asked, result: pycares.DNSResult | None, error: int | None) -> None:
        """Queue what c-ares has to say about a question; a second word about it is ignored."""
        if asked in self._flying:
            del self._flying[asked]
            self._arrived.append((asked, result, error))

    def _wires(self) -> list[DnsWire]:
        return [self._wire, *self._own_wires.values()]

    def _take_turn_soon(self) -> None:
        if self._turn is None:
            self._turn = self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Deliver the answers that are there, then send what may be sent."""
        try:
            while self._arrived:
                self._deliver(*self._arrived.popleft())
            self._send()
        finally:
            if self._turn is not None:
                self._turn.cancel()
            self._turn = None
        if self._arrived:  # answered while being sent: leave the loop a chance to do other things
            self._take_turn_soon()

    def _deliver(self, asked: _Asked, result: pycares.DNSResult | None, error: int | None) -> None:
        """Hand the answer over, unless it may be a neighbour's fault.

        One malformed answer makes c-ares fail every question on that socket. They are asked once more, each
        on a socket of its own.
        """
        if error == pycares.errno.ARES_EBADRESP and not asked.alone:
            asked.alone = True
            self._waiting.appendleft(asked)
            return
        if asked in self._own_wires:  # close it later: it may be the one that called us
            self._loop.call_soon(self._own_wires.pop(asked).close)
        asked.done(read_answer(asked.question, result, error))

    def _send(self) -> None:
        deadline = self._loop.time() + self._lifetime
        while self._waiting and len(self._flying) < self._concurrency:
            asked = self._waiting.popleft()
            asked.deadline = deadline
            self._flying[asked] = None
            if self._closed:
                self.arrived(asked, None, pycares.errno.ARES_ECANCELLED)
            else:
                self._wire_for(asked).send(asked.name, asked.question, asked)
        if self._flying and self._tick is None:
            self._tick = self._loop.call_later(_TICK_S, self._pass_time)

    def _wire_for(self, asked: _Asked) -> DnsWire:
        if not asked.alone:
            return self._wire
        self._own_wires[asked] = self._open_wire()
        return self._own_wires[asked]

    def _pass_time(self) -> None:
        """Let c-ares repeat what is late, and give up what is too late."""
        self._tick = None
        for wire in self._wires():
            wire.pass_time()
        now = self._loop.time()
        late = []
        for asked in self._flying:
            if asked.deadline > now:
                break
            late.append(asked)
        for asked in late:
            self.arrived(asked, None, pycares.errno.ARES_ETIMEOUT)
        self._take_turn()
