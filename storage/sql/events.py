"""Events in SQL: what happened, with the very bytes that tell of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import insert as insert_into
from sqlalchemy import select, text

from mailsift.storage.database import Connection, row_as, rows_as
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


# The outbox: who is to be told is decided in the transaction that makes it happen. An endpoint that is
# deleted at that moment is waited for, and is none any more.
_FAN_OUT = text("""
    INSERT INTO delivery (event_id, endpoint_id, next_attempt_at)
    SELECT :event_id, id, :created_at FROM endpoint
    WHERE account_id = :account_id AND enabled AND (types = '{}' AND NOT :asked_only OR :type = ANY(types))
    FOR KEY SHARE
""")


_IS_ASKED_FOR = text("""
    SELECT EXISTS (SELECT FROM endpoint WHERE account_id = :account_id AND enabled AND :type = ANY(types))
""")


async def insert(connection: Connection, row: EventRow, *, asked_only: bool = False) -> None:
    """Remember an event and one delivery for every enabled endpoint that wants it.

    An event with the same `once` is an IntegrityError and undoes the transaction. With `asked_only` an
    endpoint that wants all events does not want this one: it has to name its type.
    """
    await remember(connection, row)
    values = asdict(row) | {"event_id": row.id, "asked_only": asked_only}
    await connection.execute(_FAN_OUT, values)


async def is_asked_for(connection: Connection, account_id: UUID, type_: str) -> bool:
    """Say whether an enabled endpoint of the account names this type of event."""
    return bool(
        (await connection.execute(_IS_ASKED_FOR, {"account_id": account_id, "type": type_})).scalar_one()
    )


async def remember(connection: Connection, row: EventRow) -> None:
    """Remember an event that is told to nobody by itself."""
    await connection.execute(insert_into(event).values(asdict(row)))


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events; what is empty or None does not narrow.

    Attributes:
        types: of one of these.
        since: that happened then or later.
        job_id: of this job.
        after: behind this place: time and id.
    """

    types: Sequence[str]
    since: datetime | None
    job_id: UUID | None
    after: tuple[datetime, UUID] | None


_LIST = text("""
    SELECT id, account_id, job_id, type, body, created_at, once FROM event
    WHERE account_id = :account_id
      AND (cardinality(CAST(:types AS text[])) = 0 OR type = ANY(CAST(:types AS text[])))
      AND created_at >= coalesce(CAST(:since AS timestamptz), '-infinity')
      AND (CAST(:job_id AS uuid) IS NULL OR job_id = CAST(:job_id AS uuid))
      AND (created_at, id) > (coalesce(CAST(:after_at AS timestamptz), '-infinity'),
                              coalesce(CAST(:after_id AS uuid), '00000000-0000-0000-0000-000000000000'))
    ORDER BY created_at, id LIMIT :limit
""")


async def of_account(
    connection: Connection, account_id: UUID, wanted: EventFilter, limit: int
) -> list[EventRow]:
    """Return the account's events, oldest first."""
    at, event_id = wanted.after or (None, None)
    values = {
        "types": list(wanted.types),
        "since": wanted.since,
        "job_id": wanted.job_id,
        "after_at": at,
        "after_id": event_id,
    }
    return await rows_as(EventRow, connection, _LIST, {"account_id": account_id, "limit": limit, **values})


async def get(connection: Connection, account_id: UUID, event_id: UUID) -> EventRow | None:
    """Return the account's event."""
    wanted = select(event).where(event.c.account_id == account_id, event.c.id == event_id)
    return await row_as(EventRow, connection, wanted)
