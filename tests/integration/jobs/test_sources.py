"""Sources add up: a provider is asked by as many workers at a time as there are sources with budget left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from mailsift.jobs.engine.chunk import close_chunk
from mailsift.storage.database import Database
from mailsift.storage.sql import accounts, chunks, jobs, throttles, workers
from mailsift.storage.sql.chunks import ClaimedChunk, LeaseTerms, NewChunk
from mailsift.storage.sql.jobs import NewJob, VerdictCounts
from mailsift.storage.sql.workers import ProcessReport
from tests.support.job_states import plan_now

A, B, C = "192.0.2.1", "192.0.2.200", "198.51.100.3"  # the first two are neighbours


class Fleet:
    """Workers that only claim and commit."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def register(self, *identities: str, owner: str = "", beat_s: float = 10.0) -> None:
        report = ProcessReport(
            owner=owner or f"worker at {identities}",
            worker_id=owner or f"worker at {identities}",
            host="host",
            pid=1,
            version="1",
            slots=6,
            in_hand=0,
            lag_s=0.0,
            rss_bytes=0,
            beat_s=beat_s,
            claimed_ago=None,
            swept_ago=None,
            sources=identities,
        )
        async with self.database.begin() as connection:
            await workers.report(connection, report)

    async def add_job(
        self,
        count: int,
        *,
        key: str = "google",
        subnet: str = "",
        account: str = "a",
        deadline_s: float = 0.0,
    ) -> UUID:
        job_id = uuid4()
        async with self.database.begin() as connection:
            account_id = await accounts.ensure_account(connection, account)
            new_job = NewJob(job_id, account_id, "list", {}, "list.csv", "", 0, deadline_s=deadline_s)
            await jobs.insert(connection, new_job)
            new = [NewChunk(100, "blob", n * 100, key, subnet=subnet) for n in range(count)]
            await plan_now(connection, job_id, new, small=False)
        return job_id

    async def claim(self, *identities: str, cap: int = 64) -> ClaimedChunk | None:
        return await self.database.run(
            lambda connection: chunks.claim(
                connection,
                LeaseTerms(str(identities), 60.0, identities),
                job_cap=cap,
                small_only=False,
                triage=True,
            )
        )

    async def commit(
        self,
        chunk: ClaimedChunk | None,
        *deferred: NewChunk,
        rests: dict[tuple[str, str], float] | None = None,
    ) -> None:
        assert chunk is not None
        await self.database.run(
            lambda connection: close_chunk(
                connection,
                chunk,
                segment_key=None,
                counts=VerdictCounts(),
                deferred=deferred,
                rests=rests,
            )
        )

    async def sql(self, statement: str) -> None:
        async with self.database.begin() as connection:
            await connection.execute(text(statement))

    async def live(self) -> tuple[str, ...]:
        async with self.database.begin() as connection:
            return throttles.identities(await throttles.live_sources(connection))


@pytest.fixture
async def fleet(database_url: str) -> AsyncIterator[Fleet]:
    database = Database(database_url)
    yield Fleet(database)
    await database.aclose()


def throttled(seconds: float, *, at: str = "google", addresses: int = 90) -> NewChunk:
    return NewChunk(addresses, "blob", 0, at, "throttled", seconds)


async def test_a_provider_is_asked_from_every_source_by_one_worker_at_a_time(fleet: Fleet) -> None:
    await fleet.add_job(9)
    assert await fleet.claim(A) is not None
    assert await fleet.claim(A) is None  # another process behind the same address
    assert await fleet.claim(C) is not None
    assert await fleet.claim(C) is None
    assert await fleet.claim(B) is not None


async def test_a_worker_with_several_sources_gets_those_that_are_free(fleet: Fleet) -> None:
    await fleet.add_job(9)
    first, second, third = await fleet.claim(A, B), await fleet.claim(B, C), await fleet.claim(A, C)
    assert first is not None
    assert sorted(first.sources) == [A, B]
    assert second is not None
    assert second.sources == [C]
    assert third is None
    await fleet.commit(first)
    again = await fleet.claim(A, C)
    assert again is not None
    assert again.sources == [A]


async def test_a_job_still_has_no_more_chunks_leased_than_its_cap(fleet: Fleet) -> None:
    await fleet.add_job(9)
    assert await fleet.claim(A, cap=2) is not None
    assert await fleet.claim(B, cap=2) is not None
    assert await fleet.claim(C, cap=2) is None


async def test_accounts_take_turns_at_every_source(fleet: Fleet) -> None:
    first, second = await fleet.add_job(9), await fleet.add_job(9, account="b")
    got = [await fleet.claim(source) for source in (A, B, C, "203.0.113.9")]
    turns = [chunk.job_id for chunk in got if chunk]
    assert (turns.count(first), turns.count(second)) == (2, 2)


async def test_where_one_sources_budget_is_used_up_the_others_go_on(fleet: Fleet) -> None:
    await fleet.register(A)
    await fleet.register(C)
    job = await fleet.add_job(3)
    await fleet.add_job(3, account="b")
    await fleet.commit(await fleet.claim(A), throttled(600.0), rests={("google", A): 600.0})
    assert await fleet.claim(A) is None  # whichever job asks
    async with fleet.database.begin() as connection:
        assert await chunks.waits(connection, job) == []  # nothing waits: the other source may ask
    taken = 0
    while (chunk := await fleet.claim(C)) is not None:
        taken += 1
        await fleet.commit(chunk)
    assert taken == 6


async def test_when_every_source_rests_the_job_waits_for_the_first_of_them(fleet: Fleet) -> None:
    await fleet.register(A)
    await fleet.register(C)
    job = await fleet.add_job(2)
    await fleet.commit(await fleet.claim(A), throttled(900.0), rests={("google", A): 900.0})
    await fleet.commit(await fleet.claim(C), throttled(300.0), rests={("google", C): 300.0})
    assert await fleet.claim(C) is None
    async with fleet.database.begin() as connection:
        (wait,) = await chunks.waits(connection, job)
        assert await throttles.opens_in(connection, ["google"]) == {"google": pytest.approx(300, abs=30)}
    assert (wait.reason, wait.addresses) == ("throttled", 180)
    await fleet.sql("UPDATE source_rest SET rests_until = clock_timestamp() WHERE source = '198.51.100.3'")
    await fleet.sql("UPDATE chunk SET ready_at = clock_timestamp() WHERE state = 'ready'")
    assert await fleet.claim(A) is None
    assert await fleet.claim(C) is not None


async def test_a_source_that_rests_keeps_no_job_beyond_its_deadline(fleet: Fleet) -> None:
    await fleet.register(A)
    await fleet.register(C)
    await fleet.add_job(3)
    await fleet.commit(await fleet.claim(A), throttled(9_000.0), rests={("google", A): 9_000.0})
    await fleet.add_job(2, account="b", deadline_s=0.001)
    first, second = await fleet.claim(A), await fleet.claim(A, C)
    assert first is not None
    assert (first.deadline_passed, first.sources) == (True, [A])
    assert second is not None
    assert second.sources == [C]  # which does not rest
    assert await fleet.claim(A) is None  # one worker at a time, all the same
    await fleet.commit(first)
    last = await fleet.claim(A)
    assert last is not None
    assert last.deadline_passed
    await fleet.commit(last)
    assert await fleet.claim(A) is None  # the other job has time


async def test_a_worker_that_died_counts_no_more(fleet: Fleet) -> None:
    await fleet.register(A)
    await fleet.register(C, owner="dead")
    await fleet.register(B, owner="stopped")
    await fleet.register("203.0.113.9", owner="drained")
    async with fleet.database.begin() as connection:
        await workers.report_exit(connection, "stopped")
        await workers.drain(connection, drain=True, owners=["drained"])
    assert await fleet.live() == (A, C)
    await fleet.sql("UPDATE worker SET beat_at = beat_at - interval '40 s' WHERE owner = 'dead'")
    assert await fleet.live() == (A,)
    job = await fleet.add_job(2)
    await fleet.commit(await fleet.claim(A), throttled(600.0), rests={("google", A): 600.0})
    async with fleet.database.begin() as connection:  # nobody else will come
        (wait,) = await chunks.waits(connection, job)
    assert wait.addresses == 190


async def test_what_a_dead_worker_held_is_asked_from_another_source(fleet: Fleet) -> None:
    await fleet.add_job(1)
    assert await fleet.claim(A) is not None
    assert await fleet.claim(C) is None  # there is but one chunk
    await fleet.sql("UPDATE chunk SET state = 'ready', lease_token = NULL, lease_until = NULL")
    chunk = await fleet.claim(C)
    assert chunk is not None
    assert chunk.sources == [C]


async def test_a_greylisting_server_sees_the_source_that_asked_or_a_neighbour(fleet: Fleet) -> None:
    await fleet.add_job(2, subnet="192.0.2.0/24")
    assert await fleet.claim(C) is None
    assert await fleet.claim(B) is not None
    assert await fleet.claim(A) is not None


async def test_when_that_source_is_gone_any_other_asks_after_a_while(fleet: Fleet) -> None:
    await fleet.add_job(1, key=chunks.MIXED_KEY, subnet="192.0.2.0/24")
    assert await fleet.claim(C) is None
    await fleet.sql("UPDATE chunk SET ready_at = ready_at - interval '1 hour'")
    assert await fleet.claim(C) is not None


async def test_a_chunk_that_the_former_release_leased_takes_every_source(fleet: Fleet) -> None:
    await fleet.add_job(2)
    assert await fleet.claim(A) is not None
    await fleet.sql("UPDATE chunk SET lease_sources = NULL WHERE state = 'leased'")
    assert await fleet.claim(C) is None
