"""Put jobs into states without the work that leads there."""

from __future__ import annotations

from uuid import UUID, uuid4

from sqlalchemy import func, select, update

from mailsift.jobs.engine.step import plan_job
from mailsift.storage.database import Connection, Row
from mailsift.storage.sql import jobs
from mailsift.storage.sql.chunks import NewChunk
from mailsift.storage.sql.deliveries import EventRow
from mailsift.storage.sql.jobs import JobPlan
from mailsift.storage.sql.tables import event, job
from mailsift.storage.states import ENDED, JobState


async def put_job(connection: Connection, job_id: UUID, state: JobState, **columns: object) -> None:
    """Put a job into a state, whatever its own is."""
    finished = func.clock_timestamp() if state in ENDED else None
    values = {"state": state, "finished_at": finished, **columns}
    await connection.execute(update(job).where(job.c.id == job_id).values(values))


async def plan_now(connection: Connection, job_id: UUID, slices: list[NewChunk], *, small: bool) -> None:
    """Give a job that was just inserted its chunks, as if its intake had been done."""
    total, token = sum(new.addresses for new in slices), uuid4()
    await put_job(connection, job_id, JobState.INTAKE, step_token=token)
    planned = JobPlan("email", total, total, list_rows=0, list_addresses=0, small=small)
    await plan_job(connection, job_id, planned, slices, token=token)


async def events_of(connection: Connection, job_id: UUID) -> list[EventRow]:
    """Return the events of a job, oldest first."""
    wanted = select(event).where(event.c.job_id == job_id).order_by(event.c.created_at)
    return [EventRow(**row) for row in (await connection.execute(wanted)).mappings()]


async def row_of(connection: Connection, job_id: UUID) -> Row:
    """Return a job's row."""
    row = await jobs.get(connection, job_id)
    assert row is not None
    return row
