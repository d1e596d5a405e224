"""Queries over the rows of jobs, with others beside them: each finds and touches what is meant, no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, text

from mailsift.storage.database import Connection, Database, Row
from mailsift.storage.sql import accounts, jobs
from mailsift.storage.sql.jobs import NewJob, VerdictCounts
from mailsift.storage.sql.tables import job
from mailsift.storage.states import JobState
from tests.support.job_states import put_job

_NEVER = text("UPDATE job SET step_until = '2001-01-01Z'")
_RENEWED = select(job.c.id).where(job.c.step_until > text("'2001-01-01Z'"))


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    database = Database(database_url)
    async with database.begin() as opened:
        yield opened
    await database.aclose()


def named(account: UUID, name: str = "list", *, sha256: str = "", parent: UUID | None = None) -> NewJob:
    return NewJob(uuid4(), account, name, {"mode": "deep"}, "list.csv", sha256, 0, parent)


async def put(connection: Connection, new: NewJob) -> Row:
    await jobs.insert(connection, new)
    row = await jobs.get(connection, new.id)
    assert row is not None
    return row


@pytest.mark.parametrize(
    ("words", "found"), [("NEWS", ["News", "news_1", "100%news"]), ("%", ["100%news"]), ("_", ["news_1"])]
)
async def test_jobs_are_found_by_a_part_of_their_name_to_the_letter(
    connection: Connection, words: str, found: list[str]
) -> None:
    mine, other = [await accounts.ensure_account(connection, name) for name in ("mine", "other")]
    for name in ("News", "news_1", "100%news", "offers"):
        await put(connection, named(mine, name))
    await put(connection, named(other, "news of others"))
    rows = await jobs.newest(connection, mine, 9, name=words)
    assert sorted(row["name"] for row in rows) == sorted(found)


async def test_the_same_list_is_looked_for_in_its_family_and_by_its_bytes_in_one_account(
    connection: Connection,
) -> None:
    mine, other = [await accounts.ensure_account(connection, name) for name in ("mine", "other")]
    first = await put(connection, named(mine, sha256="same"))
    rerun = await put(connection, named(mine, sha256="later", parent=first["id"]))
    again = await put(connection, named(mine, sha256="same"))
    await put(connection, named(mine, sha256="different"))
    await put(connection, named(mine))
    await put(connection, named(other, sha256="same"))
    of_first = await jobs.same_list(connection, first, 9)
    assert {row["id"] for row in of_first} == {rerun["id"], again["id"]}
    assert {row["id"] for row in await jobs.same_list(connection, rerun, 9)} == {first["id"]}
    assert len(await jobs.same_list(connection, first, 1)) == 1


async def test_only_a_job_with_a_successor_was_repeated(connection: Connection) -> None:
    account = await accounts.ensure_account(connection, "mine")
    first, second = [await put(connection, named(account)) for _ in range(2)]
    await put(connection, named(account, parent=first["id"]))
    assert await jobs.was_repeated(connection, first["id"])
    assert not await jobs.was_repeated(connection, second["id"])


async def test_a_job_that_is_there_is_not_inserted_again_and_what_follows_is_kept(
    connection: Connection,
) -> None:
    new = named(await accounts.ensure_account(connection, "mine"))
    assert await jobs.insert_once(connection, new)
    assert not await jobs.insert_once(connection, new)
    assert not connection.in_nested_transaction()
    assert (await put(connection, named(new.account_id)))["state"] == JobState.UPLOADING


async def test_only_the_named_leases_of_steps_that_are_held_are_renewed(connection: Connection) -> None:
    account = await accounts.ensure_account(connection, "mine")
    tokens = {state: uuid4() for state in (JobState.INTAKE, JobState.FINALIZING, JobState.RUNNING)}
    for state, token in tokens.items():
        await put_job(connection, (await put(connection, named(account)))["id"], state, step_token=token)
    other = (await put(connection, named(account)))["id"]
    await put_job(connection, other, JobState.INTAKE, step_token=uuid4())
    await connection.execute(_NEVER)
    held = {tokens[JobState.INTAKE], tokens[JobState.FINALIZING]}
    assert await jobs.renew_steps(connection, list(tokens.values()), lease=60) == held
    assert len((await connection.execute(_RENEWED)).all()) == len(held)


@pytest.mark.parametrize(("rows", "probes"), [(0, 0), (3, 0), (0, 2), (3, 2)])
async def test_rows_and_probes_are_counted_as_use_each_without_the_other(
    connection: Connection, rows: int, probes: int
) -> None:
    account = await accounts.ensure_account(connection, "mine")
    job_id = (await put(connection, named(account)))["id"]
    counts = VerdictCounts(valid=rows, addresses=rows, probes=probes)
    for _ in range(2):
        await jobs.record_use(connection, job_id, counts)
    used = (await connection.execute(text("SELECT rows, probes FROM usage"))).all()
    assert [tuple(row) for row in used] == ([(2 * rows, 2 * probes)] if rows or probes else [])
