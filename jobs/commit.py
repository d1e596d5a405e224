"""The transactions that end a piece of work: fenced by the lease, all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

import structlog

from events.payloads import JobEnd, envelope, job_end
from jobs.states import Step, sources, target
from storage import chunk_rows, event_rows, job_rows, schedule_rows
from storage.chunk_rows import FREE_LANES, ClaimedChunk, NewChunk
from storage.database import Connection
from storage.event_rows import EventRow
from storage.job_rows import Counts

_log = structlog.get_logger()


class LeaseLostError(Exception):
    """Somebody else holds the work now, or its job has ended: what was done is thrown away."""


async def close_chunk(
    connection: Connection,
    chunk: ClaimedChunk,
    *,
    segment_key: str | None,
    counts: Counts,
    residuals: Sequence[NewChunk],
    warning: str = "",
) -> bool:
    """Close a chunk: count its rows, point to its segment, insert what comes back later.

    Args:
        connection: an open transaction.
        chunk: as claimed.
        segment_key: blob with its verdicts, None when there are none.
        counts: its rows that have a verdict.
        residuals: the chunks that come back later.
        warning: code of what the customer should know about these verdicts, or "".

    Returns:
        Whether it was the job's last open chunk, so that the job is to be finished.

    Raises:
        LeaseLostError: the lease is gone; the transaction must be rolled back.
    """
    counted = await job_rows.count(connection, chunk.job_id, counts, added=len(residuals), warning=warning)
    if counted is None or not await chunk_rows.close(connection, chunk, segment_key):
        raise LeaseLostError
    first_free, still_open = counted
    await chunk_rows.insert(connection, chunk.job_id, first_free, residuals)
    for new in residuals:
        if new.delay > 0 and new.lane not in FREE_LANES:
            await chunk_rows.hold_lane(
                connection, chunk.job_id, lane=new.lane, delay=new.delay, waits_for=new.waits_for
            )
    if still_open:
        return False
    return await job_rows.move(connection, chunk.job_id, to=target(Step.CLOSE), allowed=sources(Step.CLOSE))


async def end_job(
    connection: Connection,
    job_id: UUID,
    step: Step,
    *,
    token: UUID | None = None,
    error: tuple[str, str] = ("", ""),
) -> bool:
    """Move a job to its terminal state and remember the one event that tells of it.

    Args:
        connection: an open transaction.
        job_id: the job.
        step: COMPLETE, FAIL or CANCEL.
        token: the lease of the step that ends the job, when one does.
        error: stable code and sentence, empty for COMPLETE.

    Returns:
        False when the job may not end so (any more); nothing has changed then.
    """
    row = await job_rows.end(
        connection, job_id, state=target(step), allowed=sources(step), token=token, error=error
    )
    if row is None:
        return False
    await _count_run(connection, row["schedule_id"], step)
    told = JobEnd(
        job_id=job_id,
        total=row["total"],
        processed=row["processed"],
        valid=row["valid"],
        invalid=row["invalid"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        error=": ".join(error) if step is not Step.COMPLETE else "",
    )
    event_id, (type_, data) = uuid4(), job_end(told)
    body = envelope(event_id, type_, row["finished_at"], data)
    await event_rows.insert(
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
    return True


async def _count_run(connection: Connection, schedule_id: UUID | None, step: Step) -> None:
    """Let a schedule know how its run ended; one that was cancelled tells nothing."""
    if schedule_id is not None and step is not Step.CANCEL:
        paused = await schedule_rows.count_end(connection, schedule_id, failed=step is Step.FAIL)
        if paused:
            _log.warning("schedule.paused", schedule=str(schedule_id), code=schedule_rows.RUNS_FAILED)
