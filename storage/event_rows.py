"""Events in SQL: what happened, with the very bytes that tell of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import insert as insert_into
from sqlalchemy import select

from storage.database import Connection
from storage.tables import event


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event.

    Attributes:
        body: the envelope as bytes, made once: these are signed and sent at every attempt.
        once: what may happen only once, e.g. the end of a job.
    """

    id: UUID
    account_id: UUID
    job_id: UUID
    type: str
    body: bytes
    created_at: datetime
    once: str


async def insert(connection: Connection, row: EventRow) -> None:
    """Remember an event; one with the same `once` is an IntegrityError and undoes the transaction."""
    await connection.execute(insert_into(event).values(asdict(row)))


async def of_job(connection: Connection, job_id: UUID) -> list[EventRow]:
    """Return the job's events, oldest first."""
    found = await connection.execute(
        select(event).where(event.c.job_id == job_id).order_by(event.c.created_at)
    )
    return [EventRow(**row) for row in found.mappings()]
