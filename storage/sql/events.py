"""Events in SQL: what happened, with the very bytes that tell of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import insert as insert_into
from sqlalchemy import select, text

from mailsift.storage.database import Connection
from mailsift.storage.sql.tables import event


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event.

    Attributes:
        body: the envelope as bytes, made once: these are signed and sent at every attempt.
        once: what may happen only once, e.g. the end of a job; None for what may happen often.
    """

    id: UUID
    account_id: UUID
    job_id: UUID | None
    type: str
    body: bytes
    created_at: datetime
    once: str | None


# The outbox: who is to be told is decided in the transaction that makes it happen.
_FAN_OUT = text("""
    INSERT INTO delivery (event_id, endpoint_id, next_attempt_at)
    SELECT :event_id, id, :created_at FROM endpoint
    WHERE account_id = :account_id AND enabled AND (types = '{}' OR :type = ANY(types))
""")


async def insert(connection: Connection, row: EventRow) -> None:
    """Remember an event and one delivery for every enabled endpoint that wants it.

    An event with the same `once` is an IntegrityError and undoes the transaction.
    """
    await remember(connection, row)
    values = {
        "event_id": row.id,
        "account_id": row.account_id,
        "type": row.type,
        "created_at": row.created_at,
    }
    await connection.execute(_FAN_OUT, values)


async def remember(connection: Connection, row: EventRow) -> None:
    """Remember an event that is told to nobody by itself."""
    await connection.execute(insert_into(event).values(asdict(row)))


async def of_job(connection: Connection, job_id: UUID) -> list[EventRow]:
    """Return the job's events, oldest first."""
    found = await connection.execute(
        select(event).where(event.c.job_id == job_id).order_by(event.c.created_at)
    )
    return [EventRow(**row) for row in found.mappings()]
