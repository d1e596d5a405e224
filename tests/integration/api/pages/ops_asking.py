"""What tests of the operator pages ask of the database and of a page."""

from __future__ import annotations

import re

from tests.integration.api.conftest import Api
from tests.operating import sql


async def some_job(api: Api, state: str = "running") -> str:
    statement = "SELECT id FROM job WHERE state = :state ORDER BY created_at DESC LIMIT 1"
    (row,) = await sql(api.settings, statement, state=state)
    return str(row["id"])


async def actions(api: Api) -> list[tuple[str, str]]:
    rows = await sql(api.settings, "SELECT actor, action FROM audit ORDER BY id")
    return [
        (row["actor"], row["action"]) for row in rows if not row["action"].startswith(("session", "member"))
    ]


def words(html: str) -> str:
    """Return what a reader sees."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))
