"""PgBouncer between us and PostgreSQL, in transaction mode, as docs/operations.md says it works."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from mailsift.storage.database import Database
from tests.support import debian


@pytest.mark.needs("postgresql", "pgbouncer")
async def test_who_shares_a_connection_to_the_server_meets_no_statement_of_others() -> None:
    """What psycopg prepares after some repetitions has the same names for everybody."""
    with debian.postgres() as server, debian.pooler(server) as url:
        databases = {
            "SELECT 1 + CAST(:n AS integer)": Database(url),
            "SELECT 5 * CAST(:n AS integer)": Database(url),
        }
        found = []
        for _ in range(8):
            for question, database in databases.items():
                async with database.begin() as connection:
                    found.append((await connection.execute(text(question), {"n": 2})).scalar_one())
        for database in databases.values():
            await database.aclose()
    assert found == [3, 10] * 8
