"""What tests of pages ask of the database itself."""

from __future__ import annotations

from sqlalchemy import text

from mailsift.settings import Settings
from mailsift.wiring import open_database


async def sql(settings: Settings, statement: str, **values: object) -> list[tuple[object, ...]]:
    """Run one statement in a transaction of its own; returns its rows."""
    database = open_database(settings)
    try:
        async with database.begin() as connection:
            found = await connection.execute(text(statement), values)
            return [tuple(row) for row in found] if found.returns_rows else []
    finally:
        await database.aclose()


async def audit_of(settings: Settings) -> list[tuple[str, str]]:
    """Return (action, subject) of every line of the audit log, oldest first; sign-ins are left out."""
    rows = await sql(settings, "SELECT action, subject FROM audit ORDER BY id")
    return [
        (str(action), str(subject))
        for action, subject in rows
        if action not in {"session.create", "member.join"}
    ]
