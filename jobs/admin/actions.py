"""What operators do: every change is written into the audit log, with it or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Final
from uuid import UUID

from mailsift.events import audit
from mailsift.jobs.engine.end import cancel_job
from mailsift.jobs.intake.models import LIST_FAULTS
from mailsift.jobs.metrics import JOBS_ENDED
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, Priority
from mailsift.jobs.waker import Waker
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Connection, Database
from mailsift.storage.sql import deliveries, endpoints, job_search, jobs, leases, people, workers
from mailsift.storage.sql.job_search import JobFilter
from mailsift.storage.states import JobTransition


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

        Returns the processes that were told something new.
        """
        async with self._database.begin() as connection:
            changed = await workers.drain(
                connection, drain=drain, owners=owners, hosts=hosts, everywhere=everywhere
            )
            for owner in changed:
                action = "worker.drain" if drain else "worker.undrain"
                await people.audit_operation(connection, actor, action, owner)
        return changed

    async def take_back(self, actor: str, tokens: Sequence[UUID] | None = None) -> int:
        """End these leases, or all that have run out, so that somebody else claims the work at once.

        Who still works on it finds the lease gone and throws its work away. Returns how many there were.
        """

        async def transaction(connection: Connection) -> int:
            chosen = await leases.expired(connection) if tokens is None else tokens
            taken = await leases.take_back(connection, chosen)
            for job_id, n in taken:
                await people.audit_operation(connection, actor, "lease.take_back", str(job_id), chunk=n)
            return len(taken)

        count = await self._database.run(transaction)
        await self._waker.wake(count)
        return count

    async def start_afresh(self, actor: str, job_id: UUID, n: int) -> None:
        """Let a chunk that was given up again and again be tried now, with all its attempts.

        Raises:
            MailsiftError: `chunk_not_waiting`.
        """
        async with self._database.begin() as connection:
            if not await leases.start_afresh(connection, job_id, n):
                raise MailsiftError("chunk_not_waiting", "This chunk is being worked on or is already done.")
            await people.audit_operation(connection, actor, "chunk.start_afresh", str(job_id), chunk=n)
        await self._waker.wake(1)

    async def replay(self, actor: str, endpoint_id: UUID, *, hours: float) -> int:
        """Make due what was given up at an endpoint in the last hours; returns how many deliveries.

        Raises:
            MailsiftError: `webhook_not_found`, `webhook_disabled`.
        """
        now = utc_datetime(self._clock())
        async with self._database.begin() as connection:
            endpoint = await endpoints.get(connection, endpoint_id)
            if endpoint is None:
                raise MailsiftError("webhook_not_found", "There is no such endpoint.")
            if not endpoint["enabled"]:
                raise MailsiftError(
                    "webhook_disabled", "This endpoint is disabled, so nothing is sent to it."
                )
            count = await deliveries.redeliver_failed(
                connection, endpoint_id, since=now - timedelta(hours=hours), now=now
            )
            detail = {"deliveries": count, "hours": hours}
            await audit.record(
                connection, endpoint["account_id"], actor, "delivery.replay", str(endpoint_id), **detail
            )
        await self._waker.wake(min(count, 1))
        return count

    async def wake(self, actor: str, count: int) -> None:
        """Send wake-ups by hand; harmless, as a worker that finds nothing goes back to sleep."""
        await self._database.run(people.audit_operation, actor, "worker.wake", count=count)
        await self._waker.wake(count)


class JobAction(StrEnum):
    """What may be done."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"
    RESTART = "restart"
    RAISE = "priority_high"
    LEVEL = "priority_normal"
    LOWER = "priority_low"


AT_ONCE: Final[Mapping[JobAction, int]] = dict.fromkeys(JobAction, 5_000) | {
    JobAction.RETRY: 50,
    JobAction.RESTART: 500,
}
"""How many jobs one order reaches: a retry reads the results of its job, a restart copies its list."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What came of an order.

    Attributes:
        done: jobs that were changed.
        refused: jobs that could not be, by code: most are in a state that does not allow it.
    """

    done: int
    refused: Mapping[str, int]


class JobActions:
    """Changes jobs of any account; `actor` says who does: an address, or `cli`."""

    def __init__(self, *, database: Database, jobs: JobService, waker: Waker) -> None:
        self._database = database
        self._jobs = jobs
        self._waker = waker

    async def one(self, actor: str, action: JobAction, job_id: JobId) -> None:
        """Do it to one job.

        Raises:
            MailsiftError: `job_not_found`, `job_state_conflict`, and what a retry may raise.
        """
        row = await self._database.run(jobs.get, job_id)
        if row is None:
            raise jobs.job_not_found()
        await self._do(actor, action, JobId(row["id"]), AccountId(row["account_id"]))
        await self._waker.wake(1)

    async def all_matching(self, actor: str, action: JobAction, wanted: JobFilter) -> ActionResult:
        """Do it to every job that matches, oldest first; those it is not allowed for are counted.

        A restart reaches those only that failed for reasons of ours and were not run again.

        Raises:
            MailsiftError: `too_many_jobs`; nothing was done then.
        """
        if action is JobAction.RESTART:
            wanted = replace(wanted, broken_but=LIST_FAULTS)
        most = AT_ONCE[action]
        found = await self._database.run(job_search.ids, wanted, limit=most + 1)
        if len(found) > most:
            text = f"More than {most:,} jobs match, the most one order may reach: narrow the filter."
            raise MailsiftError("too_many_jobs", text)
        done, refused = 0, Counter[str]()
        for job_id, account_id in found:
            try:
                await self._do(actor, action, JobId(job_id), AccountId(account_id))
                done += 1
            except MailsiftError as error:
                refused[error.code] += 1
        await self._database.run(
            people.audit_operation, actor, f"jobs.{action.value}", jobs=done, **_asked_for(wanted)
        )
        await self._waker.wake(min(done, 4))
        return ActionResult(done, dict(refused))

    async def _do(self, actor: str, action: JobAction, job_id: JobId, account: AccountId) -> None:
        line = (account, actor, f"job.{action.value}", str(job_id))
        if action in {JobAction.RETRY, JobAction.RESTART}:
            again = self._jobs.retry if action is JobAction.RETRY else self._jobs.restart
            made = await again(account, job_id)
            await self._database.run(audit.record, *line, job=str(made))
            return

        async def transaction(connection: Connection) -> None:
            if not await _CHANGES[action](connection, job_id):
                raise MailsiftError(
                    "job_state_conflict", f"This job can’t be changed like this now: {action.value}."
                )
            await audit.record(connection, *line)

        await self._database.run(transaction)
        if action is JobAction.CANCEL:
            JOBS_ENDED.labels(JobTransition.CANCEL.target).inc()


def _asked_for(wanted: JobFilter) -> dict[str, Any]:
    told = {
        "states": list(wanted.states),
        "account": wanted.account,
        "text": wanted.text,
        "after": wanted.after and wanted.after.isoformat(timespec="seconds"),
        "before": wanted.before and wanted.before.isoformat(timespec="seconds"),
    }
    return {name: value for name, value in told.items() if value}


_CHANGES: Final[Mapping[JobAction, Callable[[Connection, UUID], Awaitable[bool]]]] = {
    JobAction.PAUSE: jobs.pause,
    JobAction.RESUME: jobs.resume,
    JobAction.CANCEL: partial(cancel_job, by="an operator"),
    JobAction.RAISE: partial(job_search.set_priority, priority=Priority.HIGH),
    JobAction.LEVEL: partial(job_search.set_priority, priority=Priority.NORMAL),
    JobAction.LOWER: partial(job_search.set_priority, priority=Priority.LOW),
}
