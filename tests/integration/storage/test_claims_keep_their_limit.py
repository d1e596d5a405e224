"""A claim takes no more rows than it says, however the server goes about it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from sqlalchemy import text

from mailsift.storage.database import Connection, Database
from mailsift.storage.sql import deliveries, jobs, outbox
from mailsift.storage.sql.deliveries import NewAttempt
from mailsift.storage.sql.outbox import NewNotice

THEN = datetime(2026, 3, 1, tzinfo=UTC)
NOW = THEN + timedelta(days=31)
# With these, a subquery is run again for every row it may be asked about. Rows without owners will do.
SETTINGS = (
    "SET LOCAL session_replication_role = replica",
    *(f"SET LOCAL enable_{how} = off" for how in ("hashjoin", "mergejoin", "hashagg", "sort", "material")),
)


@asynccontextmanager
async def row_by_row(database_url: str) -> AsyncIterator[Connection]:
    """Open a transaction in which the server joins row by row."""
    database = Database(database_url)
    try:
        async with database.begin() as connection:
            for setting in SETTINGS:
                await connection.execute(text(setting))
            yield connection
    finally:
        await database.aclose()


async def test_attempts_are_forgotten_up_to_the_limit(database_url: str) -> None:
    async with row_by_row(database_url) as connection:
        for n in range(12):
            await deliveries.add_attempt(connection, NewAttempt(uuid4(), n, THEN, "event", 1, 200, "", ""))
        assert [await deliveries.purge_attempts(connection, before=NOW, limit=5) for _ in range(4)] == [
            5,
            5,
            2,
            0,
        ]


async def test_one_notice_is_claimed_at_a_time(database_url: str) -> None:
    async with row_by_row(database_url) as connection:
        for _ in range(3):
            new = NewNotice(uuid4(), "webhook_disabled", uuid4(), THEN, "", THEN)
            assert await outbox.insert_notice(connection, new)
        for tried in (1, 2, 3):
            await outbox.claim_notice(connection, now=NOW, again=NOW + timedelta(hours=1))
            tries = await connection.execute(text("SELECT sum(tries) FROM notice"))
            assert tries.scalar_one() == tried


async def test_leftovers_are_sealed_up_to_the_limit(database_url: str) -> None:
    async with row_by_row(database_url) as connection:
        for _ in range(5):
            await jobs.expect_blobs(connection, uuid4(), seconds=-1)
        assert [len(await jobs.seal_blobs(connection, limit=2)) for _ in range(4)] == [2, 2, 1, 0]
