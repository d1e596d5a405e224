"""The end of a job, in one transaction: its last state, the one event that reports it, mail to members."""

from __future__ import annotations

from typing import Final
from uuid import UUID, uuid5

import structlog

from mailsift.events.outbox import JobMailKind
from mailsift.events.payloads import JobEnd, envelope, job_event
from mailsift.storage.database import Connection, from_row
from mailsift.storage.sql import chunks, deliveries, jobs, outbox, schedules
from mailsift.storage.sql.deliveries import EventRow
from mailsift.storage.states import JobTransition

_log = structlog.get_logger()


async def cancel_job(connection: Connection, job_id: UUID, *, by: str = "") -> bool:
    """End a job and its open chunks; the verdicts it has are kept. False when its state forbids it."""
    error = ("cancelled", f"The job was cancelled{by and f' by {by}'}; the verdicts found so far are kept.")
    ended = await end_job(connection, job_id, JobTransition.CANCEL, error=error)
    if ended:
        await chunks.cancel(connection, job_id)
    return ended


_MAIL_OF: Final = {
    JobTransition.COMPLETE: JobMailKind.ENDED,
    JobTransition.FAIL: JobMailKind.FAILED,
}
"""The mail members get about an end; whoever cancels a job knows already."""


async def end_job(
    connection: Connection,
    job_id: UUID,
    transition: JobTransition,
    *,
    token: UUID | None = None,
    error: tuple[str, str] = ("", ""),
) -> bool:
    """Move a job to its terminal state and store the one event that reports it.

    Args:
        connection: an open transaction.
        job_id: the job.
        transition: COMPLETE, FAIL or CANCEL.
        token: the lease of the step that ends the job, when one does.
        error: stable code and sentence, empty for COMPLETE.

    Returns:
        False when the job may not end so (any more); nothing has changed then.
    """
    row = await jobs.end(connection, job_id, transition, token=token, error=error)
    if row is None:
        return False
    await _count_run(connection, row["schedule_id"], transition)
    message = ": ".join(error) if transition is not JobTransition.COMPLETE else ""
    end = from_row(JobEnd, row, job_id=job_id, error=message)
    type_, data = job_event(end)
    event_id = uuid5(job_id, type_.value)  # the same when a restored backup ends the job once more
    body = envelope(event_id, type_, row["finished_at"], data)
    await deliveries.insert_event(
        connection,
        EventRow(
            id=event_id,
            account_id=row["account_id"],
            job_id=job_id,
            type=type_.value,
            body=body,
            created_at=row["finished_at"],
            once=f"job:{job_id}:end",
        ),
    )
    if transition in _MAIL_OF:
        await outbox.remember_ended(connection, job_id, _MAIL_OF[transition].value)
    return True


async def _count_run(connection: Connection, schedule_id: UUID | None, transition: JobTransition) -> None:
    """Count how a schedule's run ended; a cancelled one does not count."""
    if schedule_id is not None and transition is not JobTransition.CANCEL:
        paused = await schedules.count_end(connection, schedule_id, failed=transition is JobTransition.FAIL)
        if paused:
            _log.warning("schedule.paused", schedule=str(schedule_id), code=schedules.RUNS_FAILED)
