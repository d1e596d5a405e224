"""A sweeper of its own: mends what the dead left behind and does what is due, without working on lists."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from jobs.errands import Errands
from jobs.faults import told
from jobs.meters import LEASES_EXPIRED, SWEPT
from jobs.pulse import Pulse
from pipeline.clock import system_clock
from storage import lease_rows
from storage.claimable_rows import claimable
from storage.database import Database

MOST_WAKE_UPS = 32
"""Wake-ups that lie ready at most: a worker's processes wake one another once a few of them are up."""

_log = structlog.get_logger()


class Sweeper:
    """What every worker does beside its chunks; any number of both may run side by side.

    Args:
        database: where the leases are.
        errands: webhooks, schedules and retention.
        top_up: sees to it that so many wake-ups lie ready; never raises.
        pulse: tells operators that it is up, and what they say to it.
        sweep_s: seconds between two looks.
        poll_s: the same while webhooks are being sent.
    """

    def __init__(
        self,
        *,
        database: Database,
        errands: Errands,
        top_up: Callable[[int], Awaitable[None]],
        pulse: Pulse,
        sweep_s: float,
        poll_s: float = 0.2,
    ) -> None:
        self._database = database
        self._errands = errands
        self._top_up = top_up
        self._pulse = pulse
        self._sweep_s = sweep_s
        self._poll_s = poll_s
        self._swept_at = float("-inf")

    async def run(self, stop: asyncio.Event) -> None:
        """Look again and again until told to stop; what cannot be done now is done at the next look."""
        stopped = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                try:
                    await self._look()
                except Exception as error:  # noqa: BLE001 - the database may be away; it comes back
                    _log.warning("sweeper.error", **told(error))
                sending = self._errands.in_flight
                await asyncio.wait(
                    {stopped, *sending},
                    timeout=self._poll_s if sending else self._sweep_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
        finally:
            stopped.cancel()
            await self._say_goodbye()

    async def _look(self) -> None:
        if time.monotonic() - self._swept_at >= self._sweep_s:
            self._swept_at = time.monotonic()
            await self._sweep()
        if not self._pulse.draining:
            await self._errands.start()

    async def _sweep(self) -> None:
        self._pulse.swept()
        if not self._pulse.draining:
            await self._errands.sweep()
        async with self._database.begin() as connection:
            freed = await lease_rows.free_expired(connection)
            waiting = await claimable(connection, most=MOST_WAKE_UPS)
            await self._pulse.beat(connection, in_hand=0)
        SWEPT.set(system_clock())
        if freed:
            LEASES_EXPIRED.add("chunk", amount=freed)
            _log.warning("sweep.leases_freed", chunks=freed)
        await self._top_up(waiting)

    async def _say_goodbye(self) -> None:
        try:
            async with self._database.begin() as connection:
                await self._pulse.stop(connection)
        except Exception as error:  # noqa: BLE001 - then it is shown as gone
            _log.warning("goodbye.error", **told(error))
