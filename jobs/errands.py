"""What a worker does beside chunks, on slots of its own: deliver webhooks, start the runs of schedules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from uuid import UUID

import structlog

from events.delivery import Deliverer
from jobs.faults import told
from jobs.queries import JobQueries
from jobs.schedule_runs import ScheduleRuns

_log = structlog.get_logger()


class Errands:
    """Lives as long as its engine; chunks never take its slots, and it never takes theirs.

    Args:
        deliverer: makes the attempts of deliveries that are due.
        runs: makes due slots of schedules into jobs.
        queries: deletes the jobs whose time to be kept is over.
        slots: attempts in flight at once.
    """

    def __init__(
        self, *, deliverer: Deliverer, runs: ScheduleRuns, queries: JobQueries, slots: int = 8
    ) -> None:
        self._deliverer = deliverer
        self._runs = runs
        self._queries = queries
        self._slots = slots
        self._sending: dict[UUID, asyncio.Task[None]] = {}
        self._starting: asyncio.Task[None] | None = None
        self._deleting: asyncio.Task[None] | None = None

    @property
    def in_flight(self) -> set[asyncio.Task[None]]:
        """What is being sent."""
        return set(self._sending.values())

    async def start(self) -> bool:
        """Claim what is due and begin to send it; says whether there was anything."""
        free = self._slots - len(self._sending)
        claimed = await self._deliverer.claim(free) if free > 0 else []
        for one in claimed:
            task = asyncio.create_task(_watched(self._deliverer.deliver(one), "webhook.error"))
            self._sending[one.lease_token] = task
            task.add_done_callback(partial(self._forget, one.lease_token))
        return bool(claimed)

    def _forget(self, token: UUID, _task: asyncio.Task[None]) -> None:
        self._sending.pop(token, None)

    async def sweep(self) -> None:
        """Free what dead workers held, and start the runs that are due, without waiting for them."""
        if freed := await self._deliverer.sweep():
            _log.warning("sweep.deliveries_freed", deliveries=freed)
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(_watched(self._runs.run_due(), "schedule.error"))
        if self._deleting is None or self._deleting.done():
            self._deleting = asyncio.create_task(_watched(self._queries.delete_expired(), "retention.error"))

    async def aclose(self, grace_s: float) -> None:
        """Give what is under way a moment, and give back the deliveries that are left."""
        tasks = self.in_flight | {task for task in (self._starting, self._deleting) if task}
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
        left = list(self._sending)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if left:
            await self._deliverer.release(left)


async def _watched(work: Awaitable[object], event: str) -> None:
    """Wait for the work; whatever goes wrong, its lease runs out and it is done again."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - see above
        _log.warning(event, **told(error))
