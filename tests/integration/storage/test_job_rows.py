"""Queries over the rows of jobs, with others beside them: each finds and touches what is meant, no more."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, text

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Connection, Row
from mailsift.storage.sql import accounts, jobs
from mailsift.storage.sql.jobs import NewJob, VerdictCounts
from mailsift.storage.sql.tables import job
from mailsift.storage.states import JobState, JobTransition
from tests.support.job_states import put_job, row_of

_NEVER = text("UPDATE job SET step_until = '2001-01-01Z'")
_RENEWED = select(job.c.id).where(job.c.step_until > text("'2001-01-01Z'"))


def named(account: UUID, name: str = "list", *, sha256: str = "", parent: UUID | None = None) -> NewJob:
    return NewJob(uuid4(), account, name, {"mode": "deep"}, "list.csv", sha256, 0, parent)


async def put(connection: Connection, new: NewJob) -> Row:
    await jobs.insert(connection, new)
    return await row_of(connection, new.id)


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
    used = (await connection.execute(text("SELECT rows, addresses, probes FROM usage"))).all()
    assert [tuple(row) for row in used] == ([(2 * rows, 2 * rows, 2 * probes)] if rows or probes else [])


async def test_what_the_service_does_is_counted_but_for_tests(connection: Connection) -> None:
    account = await accounts.ensure_account(connection, "mine")
    tests = await accounts.ensure_test_account(connection, account)
    ours, simulated = [await put(connection, named(one)) for one in (account, tests)]
    assert (ours["test"], simulated["test"]) == (False, True)
    counts = VerdictCounts(valid=1, invalid=2, risky=3, addresses=5)
    for job_id in (ours["id"], ours["id"], simulated["id"]):
        await jobs.record_use(connection, job_id, counts)
    asked = text("SELECT sum(chunks), sum(addresses), sum(valid), sum(invalid), sum(risky) FROM throughput")
    assert tuple((await connection.execute(asked)).one()) == (2, 10, 2, 4, 6)


def test_nothing_is_counted_of_a_chunk_without_verdicts() -> None:
    assert set(asdict(VerdictCounts()).values()) == {0}


@pytest.mark.parametrize(
    ("of_account", "of_job", "kept"), [(0, 0, None), (900, 0, 900), (0, 60, 60), (900, 60, 60)]
)
async def test_a_job_is_kept_as_long_as_it_says_or_else_its_account(
    connection: Connection, of_account: int, of_job: int, kept: int | None
) -> None:
    mine, other = [await accounts.ensure_account(connection, name) for name in ("mine", "other")]
    await connection.execute(
        text("UPDATE account SET retention_s = CASE id WHEN :mine THEN :kept ELSE 5 END"),
        {"mine": mine, "kept": of_account},
    )
    row = await put(connection, NewJob(uuid4(), mine, "list", {}, "list.csv", "", 0, retention_s=of_job))
    seconds = row["expires_at"] and (row["expires_at"] - row["created_at"]).total_seconds()
    assert seconds == (kept and pytest.approx(kept, abs=3))
    assert not await jobs.expired(connection, 9)
    ended = [await put(connection, named(other)) for _ in range(3)]
    for one in ended:
        await put_job(connection, one["id"], JobState.COMPLETED)
    await connection.execute(text("UPDATE job SET expires_at = '2001-01-01Z'"))
    found = await jobs.expired(connection, 9)
    assert sorted(found) == sorted(one["id"] for one in ended)  # what has not ended is not over
    assert len(await jobs.expired(connection, 2)) == 2


@pytest.mark.parametrize(
    ("kept", "took", "left"),
    [(0, 60, None), (60, 600, 60), (5 * 86_400, 9 * 86_400, 86_400), (5 * 86_400, 86_400, 4 * 86_400)],
)
async def test_a_job_that_took_longer_than_it_is_kept_can_be_fetched_still(
    connection: Connection, kept: int, took: int, left: int | None
) -> None:
    mine = await accounts.ensure_account(connection, "mine")
    row = await put(connection, NewJob(uuid4(), mine, "list", {}, "list.csv", "", 0, retention_s=kept))
    await put_job(connection, row["id"], JobState.FINALIZING)
    earlier = text(
        "UPDATE job SET created_at = created_at - t, expires_at = expires_at - t FROM (VALUES "
        "(make_interval(secs => :took))) AS v(t)"
    )
    await connection.execute(earlier, {"took": took})

    ended = await jobs.end(connection, row["id"], JobTransition.COMPLETE)

    assert ended is not None
    seconds = ended["expires_at"] and (ended["expires_at"] - ended["finished_at"]).total_seconds()
    assert seconds == (left and pytest.approx(left, abs=5))


async def test_a_job_goes_by_the_policy_it_names_or_else_by_its_accounts(connection: Connection) -> None:
    mine, other = [await accounts.ensure_account(connection, name) for name in ("mine", "other")]
    await connection.execute(
        text("UPDATE account SET policy = CAST(:policy AS jsonb) WHERE id = :id"),
        {"id": other, "policy": '{"tiers": {"a": "send"}}'},
    )
    own = NewJob(uuid4(), other, "list", {"policy": {"b": "remove"}}, "list.csv", "", 0)
    rows = [await put(connection, new) for new in (named(mine), named(other), own)]
    assert [row["options"].get("policy") for row in rows] == [None, {"a": "send"}, {"b": "remove"}]


async def test_jobs_are_listed_newest_first_by_state_and_day_from_where_the_page_before_ended(
    connection: Connection,
) -> None:
    mine = await accounts.ensure_account(connection, "mine")
    rows = [await put(connection, named(mine)) for _ in range(4)]
    await put(connection, named(await accounts.ensure_account(connection, "other")))
    await put_job(connection, rows[0]["id"], JobState.COMPLETED)
    ids, days = [row["id"] for row in rows], [row["created_at"] for row in rows]

    async def listed(**narrowed: object) -> list[UUID]:
        return [row["id"] for row in await jobs.newest(connection, mine, 3, **narrowed)]  # type: ignore[arg-type]  # any

    assert await listed() == ids[:0:-1]
    assert await listed(before=(days[2], ids[2])) == [ids[1], ids[0]]
    assert await listed(states=["completed"]) == [ids[0]]
    assert await listed(days=(days[2], None)) == [ids[3], ids[2]]
    assert await listed(days=(None, days[2])) == [ids[1], ids[0]]


async def test_a_job_of_somebody_else_is_not_there(connection: Connection) -> None:
    mine, other = [await accounts.ensure_account(connection, name) for name in ("mine", "other")]
    row = await put(connection, named(mine))
    assert (await jobs.owned(connection, mine, row["id"]))["id"] == row["id"]
    for account, job_id in ((other, row["id"]), (mine, uuid4())):
        with pytest.raises(MailsiftError, match="job_not_found"):
            await jobs.owned(connection, account, job_id)


async def test_a_number_leads_to_the_accounts_own_and_newest_job_and_fits_into_javascript(
    connection: Connection,
) -> None:
    mine, other = [await accounts.ensure_account(connection, name) for name in ("mine", "other")]
    row, twin = await put(connection, named(mine)), UUID(int=2**127 + 5)
    number = jobs.number_of(row["id"])
    assert jobs.number_of(UUID(int=2**128 - 1)) == 2**52 - 1
    assert await jobs.numbered(connection, mine, number) == row["id"]
    assert await jobs.numbered(connection, other, number) is None
    assert await jobs.numbered(connection, mine, number ^ 1) is None
    for job_id in (UUID(int=2**126 + 5), twin):
        await jobs.insert(connection, NewJob(job_id, mine, "list", {}, "list.csv", "", 0))
    assert await jobs.numbered(connection, mine, 5) == twin


@pytest.mark.parametrize("how", ["resume", "redo"])
async def test_what_goes_on_does_so_beside_the_other_jobs_not_before_them(
    connection: Connection, how: str
) -> None:
    mine, token = await accounts.ensure_account(connection, "mine"), uuid4()
    old, busy = [(await put(connection, named(mine)))["id"] for _ in range(2)]
    await put_job(connection, busy, JobState.RUNNING, vtime=700.0)
    if how == "resume":
        await put_job(connection, old, JobState.PAUSED)
        assert await jobs.resume(connection, old)
    else:
        await put_job(connection, old, JobState.FINALIZING, step_token=token, chunks=4, total=9)
        assert (
            await jobs.redo(connection, old, VerdictCounts(valid=3, send=3), added=2, token=uuid4()) is None
        )
        assert await jobs.redo(connection, old, VerdictCounts(valid=3, send=3), added=2, token=token) == 4
    row = await row_of(connection, old)
    assert row["vtime"] == 700.0
    if how == "redo":
        assert (row["chunks"], row["chunks_open"], row["valid"], row["processed"]) == (6, 2, 3, 3)


async def test_the_finish_is_leased_out_of_turn_for_the_named_job_once_and_a_late_one_frees_nothing(
    connection: Connection,
) -> None:
    account, token = await accounts.ensure_account(connection, "mine"), uuid4()
    running, due, other = [(await put(connection, named(account)))["id"] for _ in range(3)]
    await put_job(connection, running, JobState.RUNNING)
    for job_id in (due, other):
        await put_job(connection, job_id, JobState.FINALIZING)

    async def lease(job_id: UUID, token: UUID = token) -> jobs.ClaimedStep | None:
        return await jobs.lease_finish(connection, job_id, owner="me", lease=60, token=token)

    assert await lease(running) is None
    step = await lease(due)
    assert step is not None
    assert (step.job_id, step.token, step.attempt) == (due, token, 1)
    assert await lease(due, uuid4()) is None
    assert (await row_of(connection, other))["step_token"] is None
    theirs = await lease(other, uuid4())
    assert theirs is not None
    await jobs.release_step(connection, step, delay=600)
    row, untouched = await row_of(connection, due), await row_of(connection, other)
    assert (row["step_token"], row["step_attempt"]) == (None, 0)
    assert row["step_until"] - row["step_at"] > timedelta(seconds=500)
    assert (untouched["step_token"], untouched["step_attempt"]) == (theirs.token, 1)
