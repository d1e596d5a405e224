"""The log of attempts in SQL; after a while it is forgotten, its deliveries are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import insert as insert_into
from sqlalchemy import select, text

from storage.database import Connection, Row
from storage.tables import attempt


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """One HTTP request that was made; `ms` is how long it took, `error` is "" when it arrived.

    `wish` is what the receiver asked for beside its answer, "" for nothing.
    """

    delivery_id: UUID
    n: int
    at: datetime
    trigger: str
    ms: int
    status_code: int
    error: str
    response: str
    wish: str = ""


async def add(connection: Connection, made: NewAttempt) -> None:
    """Add an attempt to the log."""
    await connection.execute(insert_into(attempt).values(asdict(made)))


async def of_delivery(connection: Connection, delivery_id: UUID) -> Sequence[Row]:
    """Return the delivery's attempts in order."""
    statement = select(attempt).where(attempt.c.delivery_id == delivery_id).order_by(attempt.c.n)
    return (await connection.execute(statement)).mappings().all()


# Materialized, here and wherever rows are locked up to a limit: a subquery of IN may run again for every row,
# and then it passes over those just deleted and takes the next ones.
_PURGE = text("""
    WITH old AS MATERIALIZED (
        SELECT delivery_id, n FROM attempt WHERE at < :before ORDER BY at LIMIT :limit FOR UPDATE SKIP LOCKED
    )
    DELETE FROM attempt USING old WHERE attempt.delivery_id = old.delivery_id AND attempt.n = old.n
""")


async def purge(connection: Connection, *, before: datetime, limit: int) -> int:
    """Delete attempts made before then, the oldest first, `limit` at most; returns how many."""
    return (await connection.execute(_PURGE, {"before": before, "limit": limit})).rowcount
