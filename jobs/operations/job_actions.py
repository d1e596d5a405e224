"""What operators do to jobs: to one, or to all that match a filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from jobs.commit import end_job
from jobs.meters import JOBS_ENDED
from jobs.ports import Waker
from jobs.service import JobService
from jobs.states import Step, sources, target
from jobs.views import AccountId, JobId, Priority
from pipeline.errors import MailsiftError
from storage import chunk_rows, job_rows, job_search, people_rows
from storage.database import Connection, Database
from storage.job_search import JobFilter

_CANCELLED: Final = (
    "cancelled",
    "The job was cancelled by an operator; the verdicts found so far are kept.",
)


class JobAction(StrEnum):
    """What may be done."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"
    RAISE = "priority_high"
    LEVEL = "priority_normal"
    LOWER = "priority_low"


AT_ONCE: Final[Mapping[JobAction, int]] = dict.fromkeys(JobAction, 5_000) | {JobAction.RETRY: 50}
"""How many jobs one order reaches: a retry reads the results of its job."""

_PRIORITIES: Final = {
    JobAction.RAISE: Priority.HIGH,
    JobAction.LEVEL: Priority.NORMAL,
    JobAction.LOWER: Priority.LOW,
}


@dataclass(frozen=True, slots=True)
class Applied:
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
        async with self._database.begin() as connection:
            row = await job_rows.get(connection, job_id)
        if row is None:
            raise MailsiftError("job_not_found", "There is no such job.")
        await self._do(actor, action, JobId(row["id"]), AccountId(row["account_id"]))
        await self._waker.wake(1)

    async def all_matching(self, actor: str, action: JobAction, wanted: JobFilter) -> Applied:
        """Do it to every job that matches, oldest first; those it is not allowed for are counted.

        Raises:
            MailsiftError: `too_many_jobs`; nothing was done then.
        """
        most = AT_ONCE[action]
        async with self._database.begin() as connection:
            found = await job_search.ids(connection, wanted, limit=most + 1)
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
        await self._tell(actor, action, wanted, done)
        await self._waker.wake(min(done, 4))
        return Applied(done, dict(refused))

    async def _do(self, actor: str, action: JobAction, job_id: JobId, account: AccountId) -> None:
        if action is JobAction.RETRY:
            made = await self._jobs.retry(account, job_id)
            async with self._database.begin() as connection:
                await _audit(connection, actor, action, job_id, account, {"job": str(made)})
            return

        async def transaction(connection: Connection) -> None:
            if not await _CHANGES[action](connection, job_id, action):
                raise MailsiftError("job_state_conflict", f"This job cannot be changed: {action.value}.")
            await _audit(connection, actor, action, job_id, account, {})

        await self._database.run(transaction)
        if action is JobAction.CANCEL:
            JOBS_ENDED.add(target(Step.CANCEL))

    async def _tell(self, actor: str, action: JobAction, wanted: JobFilter, done: int) -> None:
        asked = {
            "states": list(wanted.states),
            "account": wanted.account,
            "text": wanted.text,
            "after": wanted.after.isoformat(timespec="seconds") if wanted.after else "",
            "before": wanted.before.isoformat(timespec="seconds") if wanted.before else "",
        }
        detail = {"jobs": done, **{name: value for name, value in asked.items() if value}}
        async with self._database.begin() as connection:
            await people_rows.audit(
                connection, account_id=None, actor=actor, action=f"jobs.{action.value}", detail=detail
            )


async def _pause(connection: Connection, job_id: UUID, _: JobAction) -> bool:
    step = Step.PAUSE
    return await job_rows.move(connection, job_id, to=target(step), allowed=sources(step))


async def _resume(connection: Connection, job_id: UUID, _: JobAction) -> bool:
    step = Step.RESUME
    moved = await job_rows.move(connection, job_id, to=target(step), allowed=sources(step))
    if moved:
        await job_rows.catch_up(connection, job_id)
    return moved


async def _cancel(connection: Connection, job_id: UUID, _: JobAction) -> bool:
    ended = await end_job(connection, job_id, Step.CANCEL, error=_CANCELLED)
    if ended:
        await chunk_rows.cancel(connection, job_id)
    return ended


async def _set_priority(connection: Connection, job_id: UUID, action: JobAction) -> bool:
    return await job_search.set_priority(connection, job_id, _PRIORITIES[action])


_CHANGES: Final[Mapping[JobAction, Callable[[Connection, UUID, JobAction], Awaitable[bool]]]] = {
    JobAction.PAUSE: _pause,
    JobAction.RESUME: _resume,
    JobAction.CANCEL: _cancel,
    **dict.fromkeys(_PRIORITIES, _set_priority),
}


async def _audit(
    connection: Connection,
    actor: str,
    action: JobAction,
    job_id: UUID,
    account: UUID,
    detail: Mapping[str, str],
) -> None:
    await people_rows.audit(
        connection,
        account_id=account,
        actor=actor,
        action=f"job.{action.value}",
        subject=str(job_id),
        detail=detail,
    )
