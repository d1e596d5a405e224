"""The transactions that end a piece of work: fenced by the lease, all or nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID, uuid5

import structlog

from mailsift.events.job_mail import JobMailKind
from mailsift.events.payloads import JobEnd, envelope, job_event
from mailsift.jobs.engine.small_list import SmallList
from mailsift.pipeline.facts import WaitReason
from mailsift.pipeline.stop import NEVER_STOPS, AskedCounts, ListStop, StopPolicy, ThrottleKey
from mailsift.storage.database import Connection, from_row
from mailsift.storage.sql import chunks, events, job_asked, job_mail, jobs, schedules, sources
from mailsift.storage.sql.chunks import SHARED_KEYS, ClaimedChunk, LeaseTerms, NewChunk
from mailsift.storage.sql.events import EventRow
from mailsift.storage.sql.jobs import ClaimedStep, JobPlan, VerdictCounts
from mailsift.storage.sql.leases import LeaseLostError
from mailsift.storage.states import JobTransition

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ChunkDone:
    """What a closed chunk leaves to be done.

    Attributes:
        last: whether it was the job's last open one, so that the job is to be finished.
        finish: that step, where it has been leased to the caller.
        in_hand: the list with its verdicts, where nothing of it has to be read for that.
    """

    last: bool
    finish: ClaimedStep | None = None
    in_hand: SmallList | None = None


async def close_chunk(  # noqa: PLR0913 - what one commit writes
    connection: Connection,
    chunk: ClaimedChunk,
    *,
    segment_key: str | None,
    counts: VerdictCounts,
    deferred: Sequence[NewChunk],
    warning: str = "",
    rests: Mapping[tuple[str, str], float] | None = None,
    terms: LeaseTerms | None = None,
    asked: Mapping[ThrottleKey, AskedCounts] | None = None,
    stop: ListStop = NEVER_STOPS,
) -> ChunkDone:
    """Close a chunk: count its rows, point to its segment, insert what comes back later.

    Args:
        connection: an open transaction.
        chunk: as claimed.
        segment_key: blob with its verdicts, None when there are none.
        counts: its rows that have a verdict.
        deferred: the chunks that come back later.
        warning: code of what the customer should know about these verdicts, or "".
        rests: seconds until asking a provider from a source makes sense again, by throttle key and identity.
        terms: on which the caller takes the finish of a small job at once, under the lease's token; None: it
            does not.
        asked: what servers answered about real recipients, by provider and source.
        stop: when the job leaves a provider alone, and what it had asked when the chunk was claimed.

    Returns:
        What is to be done next.

    Raises:
        LeaseLostError: the lease is gone; the transaction must be rolled back.
    """
    progress = await jobs.count(
        connection,
        chunk.job_id,
        counts,
        n=chunk.n,
        token=chunk.lease_token,
        added=len(deferred),
        warning=warning,
    )
    if progress is None or not await chunks.close(connection, chunk, segment_key):
        raise LeaseLostError
    first_free, still_open = progress
    left = [new for new in deferred if new.throttle_key == chunk.throttle_key]
    if left and chunk.throttle_key not in SHARED_KEYS:
        await chunks.give_back(connection, chunk, left)
    opens = await _hold_sources(connection, rests or {}, deferred)
    due = [_with_earliest_start(new, opens) for new in deferred]
    await chunks.insert(connection, chunk.job_id, first_free, due)
    for new in _longest_waits(deferred):
        delay = opens.get(new.throttle_key, new.delay) if new.waits_for in _BOUND_TO_SOURCE else new.delay
        if delay > 0:
            await chunks.hold(
                connection,
                chunk.job_id,
                throttle_key=new.throttle_key,
                delay=delay,
                waits_for=new.waits_for,
            )
    if asked or deferred:
        await _apply_stop_rule(connection, chunk.job_id, asked or {}, stop)
    done = await _close_job(connection, chunk, terms, still_open=still_open)
    await jobs.record_use(connection, chunk.job_id, counts)
    return done


async def _close_job(
    connection: Connection, chunk: ClaimedChunk, terms: LeaseTerms | None, *, still_open: int
) -> ChunkDone:
    """Let the job be finished when no chunk is open, a small one by the caller."""
    if still_open or not await jobs.close(connection, chunk.job_id):
        return ChunkDone(last=False)
    if terms is None or not chunk.small:
        return ChunkDone(last=True)
    finish = await jobs.lease_finish(
        connection, chunk.job_id, owner=terms.owner, lease=terms.lease_s, token=chunk.lease_token
    )
    return ChunkDone(last=True, finish=finish)


async def _apply_stop_rule(
    connection: Connection, job_id: UUID, asked: Mapping[ThrottleKey, AskedCounts], stop: ListStop
) -> None:
    """Let the job leave providers alone where too few of its addresses are known, in all its chunks."""
    rule = stop.rule
    if not rule.share:
        return
    for place in await job_asked.count(connection, job_id, asked, stop):
        _log.warning("job.stopped", provider=place.provider, source=place.source, policy=rule.policy)
    if rule.policy is not StopPolicy.LATER:
        return
    for provider, seconds in sorted((await job_asked.stopped(connection, job_id)).items()):
        await chunks.hold(
            connection,
            job_id,
            throttle_key=provider,
            delay=seconds,
            waits_for=WaitReason.TOO_MANY_MISSING,
        )


_BOUND_TO_SOURCE: Final = frozenset({WaitReason.THROTTLED.value, WaitReason.BLOCKED.value})
"""Waits between a provider and one source of ours: another source may go on."""


async def _hold_sources(
    connection: Connection, rests: Mapping[tuple[str, str], float], deferred: Sequence[NewChunk]
) -> dict[str, float]:
    """Hold sources at the providers that have chunks of their own.

    Returns:
        In how many seconds the first source of the fleet may ask these, by throttle key.
    """
    lanes = {new.throttle_key for new in deferred if new.waits_for in _BOUND_TO_SOURCE} - set(SHARED_KEYS)
    await sources.rest(connection, {place: s for place, s in rests.items() if place[0] in lanes})
    return await sources.opens(connection, lanes)


def _with_earliest_start(new: NewChunk, opens: Mapping[str, float]) -> NewChunk:
    """Let a chunk that was throttled wait only until some source may ask for it."""
    if new.waits_for != WaitReason.THROTTLED or new.throttle_key not in opens:
        return new
    delay = min(new.delay, opens[new.throttle_key])
    return replace(new, delay=delay, waits_for=new.waits_for if delay > 0 else "")


def _longest_waits(deferred: Sequence[NewChunk]) -> Iterable[NewChunk]:
    """Return one chunk for each provider and reason for which others wait as well: that which waits longest.

    Greylisted addresses hold up no others: for those the wait has yet to begin.
    """
    found = {(new.throttle_key, new.waits_for): new for new in sorted(deferred, key=lambda new: new.delay)}
    return [
        new
        for new in found.values()
        if new.delay > 0 and new.throttle_key not in SHARED_KEYS and new.waits_for != WaitReason.GREYLISTED
    ]


async def plan_job(
    connection: Connection,
    job_id: UUID,
    planned: JobPlan,
    new: Sequence[NewChunk],
    *,
    token: UUID,
    terms: LeaseTerms | None = None,
) -> ClaimedChunk | None:
    """Give a job its chunks, so that they can be claimed.

    Args:
        connection: an open transaction.
        job_id: the job.
        planned: what intake found out about it.
        new: its chunks.
        token: the lease of the intake.
        terms: on which the caller takes the only chunk of a small job at once, under the same token; None: it
            does not.

    Returns:
        The chunk that has been leased to the caller, if any.

    Raises:
        LeaseLostError: the lease is gone; the transaction must be rolled back.
    """
    if not await jobs.plan(connection, job_id, planned, chunks=len(new), token=token):
        raise LeaseLostError
    await chunks.insert(connection, job_id, 0, new)
    await jobs.catch_up(connection, job_id)
    if terms is None or not planned.small or len(new) != 1:
        return None
    return await chunks.lease_first(connection, job_id, terms, token=token)


async def redo_lost(
    connection: Connection,
    job_id: UUID,
    counts: VerdictCounts,
    new: Sequence[NewChunk],
    *,
    sound: Sequence[str],
    token: UUID,
) -> None:
    """Let a job that is being finished find verdicts again that were lost.

    Args:
        connection: an open transaction.
        job_id: the job.
        counts: its rows that still have a verdict.
        new: chunks of all its other addresses.
        sound: the segments that hold what is left.
        token: the lease of the finish.

    Raises:
        LeaseLostError: the lease is gone; the transaction must be rolled back.
    """
    before = await jobs.get(connection, job_id)
    first_free = await jobs.redo(connection, job_id, counts, added=len(new), token=token)
    if before is None or first_free is None:
        raise LeaseLostError
    addresses = await chunks.forget_lost(connection, job_id, sound)
    await chunks.insert(connection, job_id, first_free, new)
    rows = before["processed"] - counts.processed
    await jobs.take_back_use(connection, job_id, rows=rows, addresses=addresses)


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
    said = ": ".join(error) if transition is not JobTransition.COMPLETE else ""
    end = from_row(JobEnd, row, job_id=job_id, error=said)
    type_, data = job_event(end)
    event_id = uuid5(job_id, type_.value)  # the same when a restored backup ends the job once more
    body = envelope(event_id, type_, row["finished_at"], data)
    await events.insert(
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
        await job_mail.remember(connection, job_id, _MAIL_OF[transition].value)
    return True


async def _count_run(connection: Connection, schedule_id: UUID | None, transition: JobTransition) -> None:
    """Count how a schedule's run ended; a cancelled one does not count."""
    if schedule_id is not None and transition is not JobTransition.CANCEL:
        paused = await schedules.count_end(connection, schedule_id, failed=transition is JobTransition.FAIL)
        if paused:
            _log.warning("schedule.paused", schedule=str(schedule_id), code=schedules.RUNS_FAILED)
