"""The sessions of one call to the prober: asks the throttle in batches and holds what it grants."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pipeline.meters import count_grants, count_sessions
from pipeline.ports import Ask, Grant, Outcome, Report, Throttle
from pipeline.probe.lanes import Gate, Visit
from pipeline.probe.reading import Listener
from pipeline.probe.settle import Settler
from pipeline.probe.words import WaitReason
from pipeline.smtp.config import ProbeConfig
from pipeline.smtp.limits import Learned
from pipeline.smtp.session import Session

_MAX_ASKS: Final = 200
"""Wishes in one call to the throttle."""

_SHORT_REST: Final = 0.05
_LONG_REST: Final = 0.25
_WAITS_WITHOUT_PROGRESS: Final = 5.0


@dataclass(slots=True)
class Crew:
    """What all calls of a process share.

    Attributes:
        config, listener, learned: see the prober.
        tls: context for STARTTLS, None to stay in the clear.
        busy: open sessions of all calls together.
    """

    config: ProbeConfig
    listener: Listener
    learned: Learned
    tls: ssl.SSLContext | None
    busy: int = 0


class Round:
    """Works through a board until it is empty or the time is over.

    Args:
        crew: what all calls share.
        settler: keeps the books; its board says what to ask.
        throttle: grants the sessions.
        ends_at: loop time after which no session is opened; open ones may finish.
    """

    def __init__(self, *, crew: Crew, settler: Settler, throttle: Throttle, ends_at: float) -> None:
        self._crew = crew
        self._settler = settler
        self._board = settler.board
        self._throttle = throttle
        self._ends_at = ends_at
        self._loop = asyncio.get_running_loop()
        self._bell = asyncio.Event()
        self._sessions: set[asyncio.Task[None]] = set()
        self._reports: list[Report] = []
        self._reported_at = self._loop.time()
        self._fault: BaseException | None = None

    async def run(self) -> None:
        """Hold all sessions; every address ends with a fact, a wait or both."""
        try:
            while self._fault is None:
                if self._loop.time() >= self._ends_at:
                    self._settler.postpone(self._board.drain(), WaitReason.BUDGET, 0.0)
                room = max(0, self._crew.config.max_sessions - self._crew.busy)
                visits = self._board.wanted(min(room, _MAX_ASKS), self._loop.time())
                if visits:
                    await self._seek(visits)
                elif self._sessions or self._board.has_wishes(room):
                    await self._rest(room)
                else:
                    break
        finally:
            await self._end()
        if self._fault is not None:
            raise self._fault
        self._settler.postpone(self._board.drain(), WaitReason.BUDGET, 0.0)

    async def _seek(self, visits: Sequence[Visit]) -> None:
        """Ask the throttle for all these sessions at once and start what it grants."""
        await self._report()
        asks = [visit.ask for visit in visits]
        grants = await self._throttle.grant(asks)
        count_grants([ask.provider for ask in asks], grants)
        for visit, ask, grant in zip(visits, asks, grants, strict=True):
            if grant.recipients and visit.is_current:
                self._start(visit, ask, grant)
            else:
                self._leave(visit, ask, grant)

    def _start(self, visit: Visit, ask: Ask, grant: Grant) -> None:
        visit.lane.gate.denied_since = None
        self._settler.put_back(visit.lane, self._board.trim(visit, grant.recipients))
        self._crew.busy += 1
        session = self._loop.create_task(self._hold(visit, ask, grant))
        self._sessions.add(session)
        session.add_done_callback(self._ended)
        if grant.recipients < ask.recipients:
            # The pace is used up: asking again at once would open a session for every single recipient.
            row = visit.lane.gate.row
            self._deny(visit.lane.gate, row.recipients / row.rate)

    def _leave(self, visit: Visit, ask: Ask, grant: Grant) -> None:
        """Put a visit's addresses back: it was denied, or its server has turned out bad in the meantime."""
        self._board.finish(visit)
        self._settler.put_back(visit.lane, self._board.trim(visit, 0))
        if grant.recipients:
            self._reports.append(Report(ask, grant.lease, Outcome.CLEAN, grant.recipients))
        elif grant.blocked:
            self._settler.hold(self._board.drain(visit.lane.gate), grant.retry_after)
        else:
            visit.lane.gate.crowded = grant.busy
            self._deny(visit.lane.gate, max(grant.retry_after, _SHORT_REST))

    def _deny(self, gate: Gate, delay: float) -> None:
        """Wait some seconds if that leads somewhere; else hand back all that stands behind the gate."""
        now, patience = self._loop.time(), self._crew.config.local_wait
        since = now if gate.denied_since is None else gate.denied_since
        worth_it = delay <= patience and now + delay - since <= _WAITS_WITHOUT_PROGRESS * patience
        if worth_it and now + delay < self._ends_at:
            gate.denied_since = since
            gate.resting_until = max(gate.resting_until, now + delay)
        else:
            gate.denied_since = None
            self._settler.postpone(self._board.drain(gate), WaitReason.THROTTLED, delay)

    async def _hold(self, visit: Visit, ask: Ask, grant: Grant) -> None:
        """Hold one session; whatever happens, its lease is given back."""
        crew, lane, started = self._crew, visit.lane, self._loop.time()
        outcome, granted = Outcome.FAILED, min(ask.recipients, grant.recipients)
        session = Session(crew.config, visit.peer, lane.source, tls=crew.tls, goes_on=crew.listener.goes_on)
        try:
            one_each = crew.learned.one_domain(lane.gate.row.key)
            transactions = [[group] for group in visit.groups] if one_each else [visit.groups]
            log = await session.run(transactions, within=self._settler.session_s)
            self._board.finish(visit)
            outcome = self._settler.settle(visit, log, elapsed=self._loop.time() - started)
        finally:
            crew.busy -= 1
            unused = max(0, granted - session.log.sent)
            self._reports.append(Report(ask, grant.lease, outcome, unused))

    def _ended(self, session: asyncio.Task[None]) -> None:
        self._sessions.discard(session)
        if not session.cancelled() and session.exception() is not None:
            self._fault = session.exception()
        self._bell.set()

    async def _rest(self, room: int) -> None:
        """Wait for a session to end or for a gate to open, and let a few more sessions end meanwhile."""
        until = self._board.next_wish() - self._loop.time() if room else _SHORT_REST
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(until, 0.001), _LONG_REST)):
                await self._bell.wait()
        self._bell.clear()
        if self._sessions:
            await asyncio.sleep(self._crew.config.batch_pause)
            if self._loop.time() - self._reported_at >= _LONG_REST:
                await self._report()

    async def _report(self) -> None:
        reports, self._reports = self._reports, []
        self._reported_at = self._loop.time()
        if reports:
            count_sessions(reports)
            await self._throttle.report(reports)

    async def _end(self) -> None:
        for session in self._sessions:
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)
        await self._report()
