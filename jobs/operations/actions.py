"""What operators do: every change is written into the audit log, with it or not at all."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from jobs.ports import Waker
from pipeline.clock import Clock
from pipeline.errors import MailsiftError
from storage import delivery_rows, endpoint_rows, lease_rows, worker_rows
from storage.database import Database
from storage.people_rows import audit


class Actions:
    """Changes workers, leases, chunks and deliveries; `actor` says who does: an address, or `cli`."""

    def __init__(self, *, database: Database, waker: Waker, clock: Clock) -> None:
        self._database = database
        self._waker = waker
        self._clock = clock

    async def drain(
        self,
        actor: str,
        *,
        drain: bool,
        owners: Collection[str] = (),
        hosts: Collection[str] = (),
        everywhere: bool = False,
    ) -> Sequence[str]:
        """Let whole workers claim nothing more, or claim again, from their next heartbeat on.

        Returns:
            The processes that were told something new.
        """
        async with self._database.begin() as connection:
            told = await worker_rows.drain(
                connection, drain=drain, owners=owners, hosts=hosts, everywhere=everywhere
            )
            for owner in told:
                action = "worker.drain" if drain else "worker.undrain"
                await audit(connection, account_id=None, actor=actor, action=action, subject=owner)
        return told

    async def take_back(self, actor: str, tokens: Sequence[UUID] | None = None) -> int:
        """End these leases, or all that have run out, so that somebody else claims the work at once.

        Who still works on it finds the lease gone and throws its work away. Returns how many there were.
        """
        async with self._database.begin() as connection:
            chosen = await lease_rows.expired(connection) if tokens is None else tokens
            taken = await lease_rows.take_back(connection, chosen)
            for job_id, n in taken:
                await audit(
                    connection,
                    account_id=None,
                    actor=actor,
                    action="lease.take_back",
                    subject=str(job_id),
                    detail={"chunk": n},
                )
        await self._waker.wake(len(taken))
        return len(taken)

    async def start_afresh(self, actor: str, job_id: UUID, n: int) -> None:
        """Let a chunk that was given up again and again be tried now, with all its attempts.

        Raises:
            MailsiftError: `chunk_not_waiting`.
        """
        async with self._database.begin() as connection:
            if not await lease_rows.start_afresh(connection, job_id, n):
                raise MailsiftError("chunk_not_waiting", "This chunk is being worked on, or is done.")
            await audit(
                connection,
                account_id=None,
                actor=actor,
                action="chunk.start_afresh",
                subject=str(job_id),
                detail={"chunk": n},
            )
        await self._waker.wake(1)

    async def replay(self, actor: str, endpoint_id: UUID, *, hours: float) -> int:
        """Make due what was given up at an endpoint in the last hours; returns how many deliveries.

        Raises:
            MailsiftError: `webhook_not_found`, `webhook_disabled`.
        """
        now = datetime.fromtimestamp(self._clock(), UTC)
        async with self._database.begin() as connection:
            endpoint = await endpoint_rows.get(connection, endpoint_id)
            if endpoint is None:
                raise MailsiftError("webhook_not_found", "There is no such endpoint.")
            if not endpoint["enabled"]:
                raise MailsiftError("webhook_disabled", "This endpoint is disabled: nothing is sent to it.")
            count = await delivery_rows.failed_again(
                connection, endpoint_id, since=now - timedelta(hours=hours), now=now
            )
            await audit(
                connection,
                account_id=endpoint["account_id"],
                actor=actor,
                action="delivery.replay",
                subject=str(endpoint_id),
                detail={"deliveries": count, "hours": hours},
            )
        await self._waker.wake(min(count, 1))
        return count

    async def wake(self, actor: str, count: int) -> None:
        """Send wake-ups by hand; harmless, as a worker that finds nothing goes back to sleep."""
        async with self._database.begin() as connection:
            await audit(
                connection, account_id=None, actor=actor, action="worker.wake", detail={"count": count}
            )
        await self._waker.wake(count)
