"""What is done beside lists: webhooks, periodic tasks, and what dead workers and crashes left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import UUID

import structlog
from structlog.contextvars import bound_contextvars

from mailsift.events.delivery import Deliverer
from mailsift.jobs.engine.heartbeat import Heartbeat
from mailsift.jobs.metrics import IN_FLIGHT, LEASES_EXPIRED
from mailsift.jobs.tracing import open_span
from mailsift.pipeline.background import guarded
from mailsift.pipeline.clock import Clock
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.blobs import Blobs
from mailsift.storage.database import Database
from mailsift.storage.local_files import clear_abandoned, clear_old
from mailsift.storage.sql import chunks
from mailsift.storage.sql.deliveries import ClaimedDelivery
from mailsift.storage.sql.stats import claimable
from mailsift.storage.sql.workers import ProcessHealth

SCRATCH_KEPT_SECONDS = 86_400.0
"""How long an untouched file stays; files in use are touched."""
_MOST_WAKE_UPS = 32
"""Wake-ups that lie ready at most: a worker's processes wake one another once a few of them are up."""
_TIDY_SECONDS = 3_600.0
_JUMP_SECONDS = 60.0
_SENDING_SLOTS = 8  # attempts in flight at once
_POLL_S = 0.2  # between two turns while webhooks are being sent

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """Lives as long as its engine; chunks never take its slots, and it never takes theirs.

    Attributes:
        deliverer: makes the attempts of deliveries that are due.
        periodic: tasks that every sweep starts, each once at a time, by name (pipeline.metrics.UPKEEP_TASKS).
        health: returns the state of network, disk and store.
    """

    deliverer: Deliverer
    periodic: Mapping[str, Callable[[], Awaitable[object]]]
    health: Callable[[], ProcessHealth] = ProcessHealth
    _sending: dict[UUID, asyncio.Task[None]] = field(default_factory=dict, init=False)
    _running: dict[str, asyncio.Task[None]] = field(default_factory=dict, init=False)

    @property
    def in_flight(self) -> set[asyncio.Task[None]]:
        """What is being sent."""
        return set(self._sending.values())

    async def start(self) -> bool:
        """Claim what is due and begin to send it; returns whether there was anything."""
        free = _SENDING_SLOTS - len(self._sending)
        claimed = await self.deliverer.claim(free) if free > 0 else []
        for one in claimed:
            task = asyncio.create_task(guarded(self._send(one), "webhook"))
            self._sending[one.lease_token] = task
            task.add_done_callback(partial(self._forget, one.lease_token))
            IN_FLIGHT.labels("delivery").set(len(self._sending))
        return bool(claimed)

    async def _send(self, one: ClaimedDelivery) -> None:
        ids = {"delivery": str(one.id), "endpoint": str(one.endpoint_id), "lease": str(one.lease_token)}
        with bound_contextvars(**ids), open_span("webhook.delivery", ids):
            await self.deliverer.deliver(one)

    def _forget(self, token: UUID, _task: asyncio.Task[None]) -> None:
        self._sending.pop(token, None)
        IN_FLIGHT.labels("delivery").set(len(self._sending))

    async def sweep(self) -> None:
        """Free what dead workers held, and begin what else is due, without waiting for it."""
        if freed := await self.deliverer.sweep():
            LEASES_EXPIRED.labels("delivery").inc(freed)
            _log.warning("sweep.deliveries_freed", deliveries=freed)
        for name, task in self.periodic.items():
            if name not in self._running or self._running[name].done():
                self._running[name] = asyncio.create_task(guarded(task(), name))

    async def aclose(self, grace_s: float) -> None:
        """Give what is under way a moment, and give back the deliveries that are left."""
        tasks = self.in_flight.union(self._running.values())
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        left = list(self._sending)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if left:
            await self.deliverer.release(left)


@dataclass(kw_only=True)
class Tidier:
    """Deletes old files of one machine; every process with files of its own has one.

    What dead processes left goes at the first turn, what is old from the second on: the age of a file means
    something only where the clock went as fast as time did in between.

    Attributes:
        blobs: keeps copies of blobs, and uploads that are under way.
        scratch: holds files that live as long as one call.
        clock: the time, which may jump.
        steady: seconds that never do.
    """

    blobs: Blobs
    scratch: Path
    clock: Clock
    steady: Callable[[], float] = time.monotonic
    _tidied_at: tuple[float, float] | None = field(default=None, init=False)

    async def sweep(self) -> int:
        """Delete what dead processes left, and what is old, at most once an hour; returns how many."""
        now, steady, last = self.clock(), self.steady(), self._tidied_at
        if last is not None and steady - last[1] < _TIDY_SECONDS:
            return 0
        self._tidied_at = now, steady
        jumped = last is None or abs((now - last[0]) - (steady - last[1])) > _JUMP_SECONDS
        before = float("-inf") if jumped else now - SCRATCH_KEPT_SECONDS
        copies = await self.blobs.clear_old_copies(before=before)
        left = await asyncio.to_thread(clear_abandoned, self.scratch)
        return copies + left + await asyncio.to_thread(clear_old, self.scratch, before=before)


@dataclass(kw_only=True)
class Sweeper:
    """What every worker does beside its chunks; any number of both may run side by side.

    Attributes:
        top_up: sees to it that so many wake-ups lie ready; never raises.
        heartbeat: reports the process to operators, and reads their orders.
        sweep_s: seconds between two turns.
    """

    database: Database
    maintenance: Maintenance
    top_up: Callable[[int], Awaitable[None]]
    heartbeat: Heartbeat
    sweep_s: float
    _swept_at: float = field(default=float("-inf"), init=False)

    def __post_init__(self) -> None:
        """Free leases as an engine does."""
        self._expired = ExpiredLeases(self.database, rest_s=2 * self.sweep_s)

    async def run(self, stop: asyncio.Event) -> None:
        """Run turn after turn until `stop` is set; what fails is done at the next turn."""
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                await guarded(self._run_once(), "sweeper")
                sending = self.maintenance.in_flight
                await asyncio.wait(
                    {stopped, *sending},
                    timeout=_POLL_S if sending else self.sweep_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
        finally:
            stopped.cancel()
            await self.heartbeat.stop(self.database)

    async def _run_once(self) -> None:
        if time.monotonic() - self._swept_at >= self.sweep_s:
            self._swept_at = time.monotonic()
            await self._sweep()
        if not self.heartbeat.draining:
            await guarded(self.maintenance.start(), "webhook")

    async def _sweep(self) -> None:
        self.heartbeat.note_sweep()
        if not self.heartbeat.draining:
            await guarded(self.maintenance.sweep(), "sweep")
        await self._expired.free()
        async with self.database.begin() as connection:
            waiting = await claimable(connection, most=_MOST_WAKE_UPS)
            await self.heartbeat.send(connection, in_hand=0)
        await self.top_up(waiting)


class ExpiredLeases:
    """Frees the chunks of dead workers.

    After an outage of the database the living come back first: their leases may have run out as well, and
    they have renewed them, or committed what they have, before anybody takes their work for a dead worker's.

    Args:
        rest_s: for how long nothing is freed then.
        steady: seconds that never jump.
    """

    def __init__(
        self, database: Database, *, rest_s: float, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._database = database
        self._rest_s = rest_s
        self._steady = steady
        self._was_away = False
        self._rests_until = float("-inf")

    async def free(self) -> int:
        """Make the chunks of dead workers ready again; returns how many."""
        if self._was_away:
            await self._database.now()
            self._was_away, self._rests_until = False, self._steady() + self._rest_s
        if self._steady() < self._rests_until:
            return 0
        try:
            freed = await self._database.run(chunks.free_expired_leases)
        except MailsiftError:
            self._was_away = True
            raise
        if freed:
            LEASES_EXPIRED.labels("chunk").inc(freed)
            _log.warning("sweep.leases_freed", chunks=freed)
        return freed
