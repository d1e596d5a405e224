"""Webhook endpoints in SQL: who is to be told, and how they fare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import delete as delete_from
from sqlalchemy import func, select, text, update
from sqlalchemy import insert as insert_into

from mailsift.storage.database import Connection, Row
from mailsift.storage.sql.tables import delivery, endpoint


@dataclass(frozen=True, slots=True)
class NewEndpoint:
    """An endpoint to insert; its secret is sealed, and without a rate it has the usual one."""

    id: UUID
    account_id: UUID
    url: str
    types: list[str]
    secret: bytes
    created_at: datetime
    rate_per_second: float | None


@dataclass(frozen=True, slots=True)
class EndpointHealth:
    """How an endpoint fares.

    Attributes:
        failures: attempts that failed in a row.
        failing_since: when the first of them was made.
        exhausted: deliveries given up since then.
        probe_at: the breaker is open and one attempt may be made then; None = closed.
    """

    failures: int = 0
    failing_since: datetime | None = None
    exhausted: int = 0
    probe_at: datetime | None = None


async def insert(connection: Connection, new: NewEndpoint) -> None:
    """Insert an endpoint, enabled."""
    await connection.execute(insert_into(endpoint).values(asdict(new)))


async def get(connection: Connection, endpoint_id: UUID, *, lock: bool = False) -> Row | None:
    """Return the endpoint's row; `lock` keeps others from changing it until the transaction ends."""
    statement = select(endpoint).where(endpoint.c.id == endpoint_id)
    if lock:  # events may still refer to it meanwhile
        statement = statement.with_for_update(key_share=True)
    return (await connection.execute(statement)).mappings().one_or_none()


async def of_account(connection: Connection, account_id: UUID) -> Sequence[Row]:
    """Return the account's endpoints, oldest first."""
    statement = (
        select(endpoint)
        .where(endpoint.c.account_id == account_id)
        .order_by(endpoint.c.created_at, endpoint.c.id)
    )
    return (await connection.execute(statement)).mappings().all()


async def count(connection: Connection, account_id: UUID) -> int:
    """Return how many endpoints the account has."""
    statement = select(func.count()).select_from(endpoint).where(endpoint.c.account_id == account_id)
    return int((await connection.execute(statement)).scalar_one())


async def change(connection: Connection, endpoint_id: UUID, **values: Any) -> None:
    """Set columns of the endpoint."""
    await connection.execute(update(endpoint).where(endpoint.c.id == endpoint_id).values(**values))


async def set_health(connection: Connection, endpoint_id: UUID, health: EndpointHealth) -> None:
    """Write down how the endpoint fares."""
    await change(connection, endpoint_id, **asdict(health))


async def disable(connection: Connection, endpoint_id: UUID, *, reason: str, now: datetime) -> None:
    """Disable the endpoint; what waits for it is skipped."""
    await change(connection, endpoint_id, enabled=False, disabled_reason=reason)
    waiting = update(delivery).where(delivery.c.endpoint_id == endpoint_id, delivery.c.state == "pending")
    await connection.execute(waiting.values(state="skipped", next_attempt_at=None, finished_at=now))


async def delete(connection: Connection, endpoint_id: UUID) -> None:
    """Delete the endpoint with its deliveries and their attempts."""
    await connection.execute(delete_from(endpoint).where(endpoint.c.id == endpoint_id))


# A webhook that is deleted takes its deliveries along; the events stay. One of no job was simulated for a
# test, or is a line of the audit log.
_TESTS = text("""
    SELECT (SELECT count(*) FROM delivery WHERE endpoint_id = :endpoint_id AND trigger = 'test'
                AND created_at > :minute_ago) AS endpoint,
           (SELECT count(*) FROM event WHERE account_id = :account_id AND job_id IS NULL
                AND type <> 'audit.recorded' AND created_at > :hour_ago) AS account
""")


async def tests_made(
    connection: Connection, *, account_id: UUID, endpoint_id: UUID, minute_ago: datetime, hour_ago: datetime
) -> tuple[int, int]:
    """Return how many tests the endpoint had in the last minute and the account in the last hour."""
    values = {
        "account_id": account_id,
        "endpoint_id": endpoint_id,
        "minute_ago": minute_ago,
        "hour_ago": hour_ago,
    }
    row = (await connection.execute(_TESTS, values)).one()
    return row.endpoint, row.account
