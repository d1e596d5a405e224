"""What a worker does beside chunks, on slots of its own: deliver webhooks, start the runs of schedules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from uuid import UUID

import structlog

from events.delivery import Deliverer
from jobs.faults import told
from jobs.meters import IN_FLIGHT, LEASES_EXPIRED
from pipeline.spans import working_on
from storage.delivery_rows import ClaimedDelivery

_log = structlog.get_logger()


class Errands:
    """Lives as long as its engine; chunks never take its slots, and it never takes theirs.

    Args:
        deliverer: makes the attempts of deliveries that are due.
        chores: what every sweep does beside, each once at a time, by what is logged when it fails.
        slots: attempts in flight at once.
    """

    def __init__(
        self, *, deliverer: Deliverer, chores: Mapping[str, Callable[[], Awaitable[object]]], slots: int = 8
    ) -> None:
        self._deliverer = deliverer
        self._chores = chores
        self._slots = slots
        self._sending: dict[UUID, asyncio.Task[None]] = {}
        self._doing: dict[str, asyncio.Task[None]] = {}

    @property
    def in_flight(self) -> set[asyncio.Task[None]]:
        """What is being sent."""
        return set(self._sending.values())

    async def start(self) -> bool:
        """Claim what is due and begin to send it; says whether there was anything."""
        free = self._slots - len(self._sending)
        claimed = await self._deliverer.claim(free) if free > 0 else []
        for one in claimed:
            task = asyncio.create_task(_watched(self._send(one), "webhook.error"))
            self._sending[one.lease_token] = task
            task.add_done_callback(partial(self._forget, one.lease_token))
            IN_FLIGHT.set(len(self._sending), "delivery")
        return bool(claimed)

    async def _send(self, one: ClaimedDelivery) -> None:
        ids = {"delivery": str(one.id), "endpoint": str(one.endpoint_id), "lease": str(one.lease_token)}
        with working_on("webhook.delivery", ids):
            await self._deliverer.deliver(one)

    def _forget(self, token: UUID, _task: asyncio.Task[None]) -> None:
        self._sending.pop(token, None)
        IN_FLIGHT.set(len(self._sending), "delivery")

    async def sweep(self) -> None:
        """Free what dead workers held, and begin what else is due, without waiting for it."""
        if freed := await self._deliverer.sweep():
            LEASES_EXPIRED.add("delivery", amount=freed)
            _log.warning("sweep.deliveries_freed", deliveries=freed)
        for event, chore in self._chores.items():
            if event not in self._doing or self._doing[event].done():
                self._doing[event] = asyncio.create_task(_watched(chore(), event))

    async def aclose(self, grace_s: float) -> None:
        """Give what is under way a moment, and give back the deliveries that are left."""
        tasks = self.in_flight.union(self._doing.values())
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
