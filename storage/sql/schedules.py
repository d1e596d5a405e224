"""Schedules in SQL: what is due, leased to one worker, and the job of each slot, made once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import delete as delete_from
from sqlalchemy import func, select, text, update
from sqlalchemy import insert as insert_into

from mailsift.storage.database import Connection, Row
from mailsift.storage.sql.tables import job, newest_first, schedule

RUNS_FAILED = "runs_failed"
"""Why a schedule was paused whose runs failed again and again."""
PUNCTUAL: Final = timedelta(minutes=5)
"""A slot this late still counts as in time."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of a schedule and when its run starts."""

    at: datetime
    starts_at: datetime


_RUN_GOES_ON: Final = "EXISTS (SELECT FROM job j WHERE j.schedule_id = s.id AND j.finished_at IS NULL)"


def waits_for_run(now: str) -> str:
    """Return the condition in SQL that at this time schedule `s` runs nothing before its last run has ended.

    With `queue` no slot is left out for a run that goes on; with `skip` none of those that were missed and
    are caught up one after the other.
    """
    return f"""((s.overlap = 'queue' OR s.overlap = 'skip' AND s.catch_up = 'all'
            AND greatest(s.starts_at, s.next_run_at) < {now} - interval '{PUNCTUAL.total_seconds():.0f} s')
        AND {_RUN_GOES_ON})"""


_CLAIM = text(f"""
    WITH due AS MATERIALIZED (
        SELECT s.id, s.lease_until AS lost_at FROM schedule s
        WHERE s.enabled AND s.next_run_at <= :now AND (s.starts_at IS NULL OR s.starts_at <= :now)
          AND (s.lease_until IS NULL OR s.lease_until < :now)
          AND NOT {waits_for_run("CAST(:now AS timestamptz)")}
        ORDER BY s.next_run_at LIMIT 1 FOR UPDATE SKIP LOCKED
    )
    UPDATE schedule SET lease_token = gen_random_uuid(), lease_until = :until
    FROM due WHERE schedule.id = due.id
    RETURNING schedule.*, due.lost_at
""")  # noqa: S608 - a condition of this file

_RECORD_SLOT = text("""
    UPDATE schedule SET next_run_at = :next_run_at, starts_at = :starts_at,
        last_run_at = coalesce(:last_run_at, last_run_at),
        last_error = :last_error, enabled = enabled AND NOT :pause,
        lease_token = NULL, lease_until = NULL
    WHERE id = :id AND lease_token = :token
""")

_FAILED = text("""
    WITH before AS (SELECT id, enabled FROM schedule WHERE id = :id FOR UPDATE),
    after AS (
        UPDATE schedule s SET failures = failures + 1,
            enabled = s.enabled AND (pause_after_failures = 0 OR failures + 1 < pause_after_failures)
        FROM before WHERE s.id = before.id
        RETURNING s.id, before.enabled AND NOT s.enabled AS paused)
    SELECT paused FROM after
""")


_LIST_EXPIRES_AT: Final = (
    select(job.c.expires_at)
    .where(job.c.id == schedule.c.source_job_id, schedule.c.fetches.is_(False))
    .scalar_subquery()
    .label("list_expires_at")
)
"""When the list that it repeats is deleted, unless it is fetched from a place for every run."""


async def insert(connection: Connection, **values: Any) -> None:
    """Insert a schedule with these columns, enabled."""
    await connection.execute(insert_into(schedule).values(**values))


async def get(connection: Connection, schedule_id: UUID, *, lock: bool = False) -> Row | None:
    """Return the schedule's row; `lock` keeps others from changing it until the transaction ends."""
    wanted = select(schedule, _LIST_EXPIRES_AT).where(schedule.c.id == schedule_id)
    found = await connection.execute(wanted.with_for_update() if lock else wanted)
    return found.mappings().one_or_none()


async def of_account(connection: Connection, account_id: UUID) -> Sequence[Row]:
    """Return the account's schedules, oldest first."""
    statement = (
        select(schedule, _LIST_EXPIRES_AT)
        .where(schedule.c.account_id == account_id)
        .order_by(schedule.c.created_at, schedule.c.id)
    )
    return (await connection.execute(statement)).mappings().all()


async def change(connection: Connection, schedule_id: UUID, **values: Any) -> None:
    """Set columns of the schedule; a run that is being made ready is given up."""
    free = {"lease_token": None, "lease_until": None}
    await connection.execute(update(schedule).where(schedule.c.id == schedule_id).values(**values, **free))


async def delete(connection: Connection, schedule_id: UUID) -> None:
    """Delete the schedule; its jobs stay."""
    await connection.execute(delete_from(schedule).where(schedule.c.id == schedule_id))


async def claim(connection: Connection, *, now: datetime, until: datetime) -> Row | None:
    """Lease the schedule that is most overdue, if any is due; `lost_at` is when its last lease ran out."""
    return (await connection.execute(_CLAIM, {"now": now, "until": until})).mappings().one_or_none()


async def record_slot(
    connection: Connection,
    claimed: Row,
    *,
    following: Slot,
    last_run_at: datetime | None = None,
    last_error: str = "",
    pause: bool = False,
) -> bool:
    """Move a claimed schedule on to its next slot; False when its lease was lost."""
    values = {
        "id": claimed["id"],
        "token": claimed["lease_token"],
        "next_run_at": following.at,
        "starts_at": following.starts_at,
        "last_run_at": last_run_at,
        "last_error": last_error,
        "pause": pause,
    }
    return (await connection.execute(_RECORD_SLOT, values)).rowcount == 1


async def record_trouble(connection: Connection, claimed: Row, code: str) -> None:
    """Write down why the slot of a claimed schedule waits; the lease goes on."""
    await _change_claimed(connection, claimed, last_error=code)


async def release(connection: Connection, claimed: Row, *, now: datetime) -> None:
    """End the lease of a claimed schedule whose slot was not run."""
    await _change_claimed(connection, claimed, lease_until=now)


async def _change_claimed(connection: Connection, claimed: Row, **values: Any) -> None:
    mine = (schedule.c.id == claimed["id"], schedule.c.lease_token == claimed["lease_token"])
    await connection.execute(update(schedule).where(*mine).values(**values))


async def attach(
    connection: Connection, job_id: UUID, schedule_id: UUID, scheduled_for: datetime | None
) -> None:
    """Say which schedule and slot a job is of; a second job of one slot is an IntegrityError.

    Of a schedule that has been deleted by now it is no run.
    """
    there = (
        select(schedule.c.id).where(schedule.c.id == schedule_id).with_for_update(read=True, key_share=True)
    )
    values = {"schedule_id": there.scalar_subquery(), "scheduled_for": scheduled_for}
    await connection.execute(update(job).where(job.c.id == job_id).values(**values))


async def runs(
    connection: Connection,
    schedule_id: UUID,
    *,
    limit: int = 20,
    before: tuple[datetime, UUID] | None = None,
) -> Sequence[Row]:
    """Return the schedule's jobs, newest first, those older than (created_at, id) `before`."""
    statement = newest_first(select(job).where(job.c.schedule_id == schedule_id), job, limit, before)
    return (await connection.execute(statement)).mappings().all()


async def place_of_run(
    connection: Connection, schedule_id: UUID, job_id: UUID
) -> tuple[datetime, UUID] | None:
    """Return (created_at, id) of a job of the schedule, None when it has no such job."""
    found = select(job.c.created_at, job.c.id).where(job.c.schedule_id == schedule_id, job.c.id == job_id)
    row = (await connection.execute(found)).one_or_none()
    return (row.created_at, row.id) if row else None


async def was_run(connection: Connection, schedule_id: UUID, slot: datetime) -> bool:
    """Say whether a slot of the schedule has its job."""
    found = select(job.c.id).where(job.c.schedule_id == schedule_id, job.c.scheduled_for == slot)
    return (await connection.execute(found)).first() is not None


async def open_runs(connection: Connection, schedule_id: UUID) -> list[UUID]:
    """Return the schedule's jobs that have not ended."""
    found = select(job.c.id).where(job.c.schedule_id == schedule_id, job.c.finished_at.is_(None))
    return list((await connection.execute(found)).scalars())


async def last_end(connection: Connection, schedule_id: UUID) -> datetime | None:
    """Return when the last of the schedule's jobs ended; None when none has."""
    found = select(func.max(job.c.finished_at)).where(job.c.schedule_id == schedule_id)
    ended: datetime | None = (await connection.execute(found)).scalar_one()
    return ended


async def last_completed(connection: Connection, schedule_id: UUID) -> Row | None:
    """Return the schedule's newest job that has completed."""
    statement = (
        select(job)
        .where(job.c.schedule_id == schedule_id, job.c.state == "completed")
        .order_by(job.c.finished_at.desc())
        .limit(1)
    )
    return (await connection.execute(statement)).mappings().one_or_none()


async def count_end(connection: Connection, schedule_id: UUID, *, failed: bool) -> bool:
    """Count a run that has ended; too many failures in a row pause the schedule.

    Returns:
        Whether this very failure paused it.
    """
    if not failed:
        over = update(schedule).where(schedule.c.id == schedule_id, schedule.c.failures > 0)
        await connection.execute(over.values(failures=0))
        return False
    paused = bool((await connection.execute(_FAILED, {"id": schedule_id})).scalar_one_or_none())
    if paused:
        await change(connection, schedule_id, last_error=RUNS_FAILED)
    return paused
