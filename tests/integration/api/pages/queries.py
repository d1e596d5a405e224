"""What tests of pages ask of the database itself, and what they read on a page."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import text

from mailsift.settings import Settings
from tests.integration.api.conftest import Api
from tests.support.installation import until
from tests.support.parts import open_database


async def sql(settings: Settings, statement: str, **values: object) -> list[tuple[object, ...]]:
    """Run one statement in a transaction of its own; returns its rows."""
    database = open_database(settings)
    try:
        async with database.begin() as connection:
            found = await connection.execute(text(statement), values)
            return [tuple(row) for row in found] if found.returns_rows else []
    finally:
        await database.aclose()


@asynccontextmanager
async def meanwhile(api: Api, statement: str, **values: object) -> AsyncIterator[None]:
    """Do something to the database that is committed when the block ends, and seen by nobody before."""
    database = open_database(api.settings)
    try:
        async with database.begin() as connection:
            await connection.execute(text(statement), values)
            yield
    finally:
        await database.aclose()


async def wait_for_locks(api: Api, count: int) -> None:
    """Return when so many transactions wait for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"

    async def are_waiting() -> bool:
        return await sql(api.settings, f"{waiting} AND datname = current_database()") == [(count,)]

    await until(are_waiting, within=20)


async def audit_of(settings: Settings) -> list[tuple[str, str]]:
    """Return (action, subject) of every line of the audit log, oldest first; sign-ins are left out."""
    rows = await sql(settings, "SELECT action, subject FROM audit ORDER BY id")
    return [
        (str(action), str(subject))
        for action, subject in rows
        if action not in {"session.create", "member.join"}
    ]


async def some_job(api: Api, state: str = "running") -> str:
    statement = "SELECT id FROM job WHERE state = :state ORDER BY created_at DESC LIMIT 1"
    (row,) = await sql(api.settings, statement, state=state)
    return str(row[0])


async def actions(api: Api) -> list[tuple[str, str]]:
    rows = await sql(api.settings, "SELECT actor, action FROM audit ORDER BY id")
    found = [(str(actor), str(action)) for actor, action in rows]
    return [(actor, action) for actor, action in found if not action.startswith(("session", "member"))]


def words(html: str) -> str:
    """Return what a reader sees."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))
