"""Transactions that are wanted at the same time share one commit, and nothing else."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from functools import partial

import pytest
from sqlalchemy import text

from mailsift.storage.database import Connection, Database, GroupCommits

WHO: ContextVar[str] = ContextVar("who", default="")


async def who_and_where(connection: Connection) -> tuple[str, int]:
    """Return the caller's own context, and the transaction."""
    found = await connection.execute(text("SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint)"))
    return WHO.get(), found.scalar_one()


async def test_those_that_come_meanwhile_share_a_transaction_each_in_its_own_context(
    database_url: str,
) -> None:
    database = Database(database_url)
    commits = GroupCommits(database)

    async def caller(name: str, key: str) -> tuple[str, int]:
        WHO.set(name)
        return await commits.run(key, who_and_where)

    found = await asyncio.gather(*(caller(f"caller {n}", "a") for n in range(9)), caller("other", "b"))
    await database.aclose()
    assert [name for name, _ in found] == [*(f"caller {n}" for n in range(9)), "other"]
    first, *others, elsewhere = [place for _, place in found]
    assert len(set(others)) == 1
    assert len({first, others[0], elsewhere}) == 3


async def test_one_that_fails_takes_nobody_with_it(database_url: str) -> None:
    database = Database(database_url)
    commits = GroupCommits(database)
    async with database.begin() as connection:
        await connection.execute(text("CREATE TABLE noted (name text PRIMARY KEY)"))

    async def note(connection: Connection, name: str) -> str:
        await connection.execute(text("INSERT INTO noted VALUES (:name)"), {"name": name})
        if name == "bad":
            raise ValueError(name)
        return name

    names = ["first", "good", "bad", "better"]
    found = await asyncio.gather(
        *(commits.run("a", partial(note, name=name)) for name in names),
        return_exceptions=True,
    )
    async with database.begin() as connection:
        noted = (await connection.execute(text("SELECT name FROM noted ORDER BY name"))).scalars().all()
    await database.aclose()
    assert [str(one) for one in found] == names
    assert isinstance(found[2], ValueError)
    assert noted == ["better", "first", "good"]


async def test_who_works_for_others_may_be_cancelled(database_url: str) -> None:
    database = Database(database_url)
    commits = GroupCommits(database)
    begun, never = asyncio.Event(), asyncio.Event()

    async def hang(_: Connection) -> str:
        begun.set()
        await never.wait()
        return "never"

    async def say(_: Connection) -> str:
        return "said"

    first = asyncio.create_task(commits.run("a", hang))
    await begun.wait()
    leader = asyncio.create_task(commits.run("a", hang))
    follower = asyncio.create_task(commits.run("a", say))
    await asyncio.sleep(0)
    begun.clear()
    first.cancel()
    await begun.wait()  # the second one works for both now
    leader.cancel()
    assert await follower == "said"
    with pytest.raises(asyncio.CancelledError):
        await leader
    await database.aclose()
