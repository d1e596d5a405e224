from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from jobs.commit import LeaseLostError, close_chunk, end_job
from jobs.states import Step
from storage import chunk_rows, event_rows, job_rows, lease_rows
from storage.chunk_rows import ClaimedChunk, NewChunk
from storage.database import Database
from storage.job_rows import Counts, NewJob

OPTIONS = {"mode": "deep"}


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    database = Database(url)
    try:
        yield database
    finally:
        await database.aclose()


async def add_job(
    database: Database,
    *,
    account: str = "a",
    chunks: list[NewChunk],
    small: bool = False,
    deadline_s: float = 0,
) -> UUID:
    """Insert a job that is ready to be claimed."""
    job_id = uuid4()
    async with database.begin() as connection:
        account_id = await job_rows.ensure_account(connection, account)
        await job_rows.insert(
            connection, NewJob(job_id, account_id, "list", OPTIONS, "list.csv", "", 0, None, deadline_s)
        )
        total = sum(new.addresses for new in chunks)
        await job_rows.move(
            connection,
            job_id,
            to="queued",
            allowed={"uploading"},
            total=total,
            addresses=total,
            chunks=len(chunks),
            chunks_open=len(chunks),
            small=small,
        )
        await chunk_rows.insert(connection, job_id, 0, chunks)
        await job_rows.catch_up(connection, job_id)
    return job_id


async def claim(
    database: Database, *, lease: float = 60, small_only: bool = False, cap: int = 64
) -> ClaimedChunk | None:
    async with database.begin() as connection:
        return await chunk_rows.claim(
            connection, owner="me", lease=lease, job_cap=cap, small_only=small_only, survey=True
        )


async def close(database: Database, chunk: ClaimedChunk, residuals: list[NewChunk] | None = None) -> bool:
    counts = Counts(valid=chunk.addresses - sum(new.addresses for new in residuals or []))
    return await database.run(
        lambda connection: close_chunk(
            connection, chunk, segment_key="segment", counts=counts, residuals=residuals or []
        )
    )


def some(count: int, addresses: int = 10, lane: str = "", delay: float = 0) -> list[NewChunk]:
    return [
        NewChunk(addresses, "blob", n * addresses, lane, "throttled" if delay else "", delay)
        for n in range(count)
    ]


async def test_a_hundred_claimers_at_once_never_get_the_same_chunk(database_url: str) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, chunks=some(30))
        claimed = await asyncio.gather(*(claim(database) for _ in range(100)))
        got = [(chunk.job_id, chunk.n) for chunk in claimed if chunk]
        assert sorted(got) == [(job, n) for n in range(30)]


async def test_the_first_claim_starts_the_job(database_url: str) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, chunks=some(1))
        await claim(database)
        async with database.begin() as connection:
            row = await job_rows.get(connection, job)
        assert row is not None
        assert row["state"] == "running"
        assert row["started_at"] is not None


async def test_accounts_share_the_workers_whatever_the_size_of_their_jobs(database_url: str) -> None:
    async with opened(database_url) as database:
        big = await add_job(database, account="big", chunks=some(200))
        for _ in range(50):
            await claim(database, cap=1000)
        late = await add_job(database, account="late", chunks=some(200))
        turns = [chunk.job_id for chunk in [await claim(database, cap=1000) for _ in range(40)] if chunk]
        assert turns.count(late) == pytest.approx(20, abs=1)
        assert turns.count(big) == pytest.approx(20, abs=1)


async def test_a_job_that_comes_late_does_not_starve_the_earlier_one(database_url: str) -> None:
    async with opened(database_url) as database:
        first = await add_job(database, chunks=some(200))
        for _ in range(100):
            await claim(database, cap=1000)
        await add_job(database, chunks=some(200))
        turns = [chunk.job_id for chunk in [await claim(database, cap=1000) for _ in range(20)] if chunk]
        assert turns.count(first) == pytest.approx(10, abs=1)


async def test_a_small_job_goes_first(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, chunks=some(200))
        small = await add_job(database, chunks=some(1), small=True)
        chunk = await claim(database)
        assert chunk is not None
        assert chunk.job_id == small


async def test_the_slot_for_small_jobs_takes_nothing_else(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, chunks=some(5))
        assert await claim(database, small_only=True) is None


async def test_a_job_gets_no_more_than_its_cap(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, chunks=some(5))
        claimed = [await claim(database, cap=2) for _ in range(4)]
        assert [chunk is not None for chunk in claimed] == [True, True, False, False]


async def test_a_providers_lane_is_served_by_one_worker_while_mixed_lanes_are_not_held_up(
    database_url: str,
) -> None:
    async with opened(database_url) as database:
        await add_job(database, chunks=[*some(3, lane="google"), *some(2, lane="*")])
        lanes = [chunk.lane for chunk in [await claim(database) for _ in range(5)] if chunk]
        assert sorted(lanes) == ["*", "*", "google"]


async def test_a_chunk_is_not_claimed_before_it_is_ready_and_the_job_says_what_it_waits_for(
    database_url: str,
) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, chunks=some(2, lane="google", delay=3600))
        assert await claim(database) is None
        async with database.begin() as connection:
            (wait,) = await chunk_rows.waits(connection, job)
        assert (wait.lane, wait.reason, wait.addresses) == ("google", "throttled", 20)


async def test_nothing_waits_beyond_the_deadline_of_its_job(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, chunks=some(1, delay=3600), deadline_s=0.001)
        chunk = await claim(database)
        assert chunk is not None
        assert chunk.deadline_passed


async def test_a_commit_after_the_lease_was_lost_changes_nothing(database_url: str) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, chunks=some(1))
        late = await claim(database, lease=0)
        assert late is not None
        async with database.begin() as connection:
            assert await lease_rows.free_expired(connection) == 1
        again = await claim(database)
        assert again is not None
        assert again.attempt == 2
        with pytest.raises(LeaseLostError):
            await close(database, late)
        assert await close(database, again)
        async with database.begin() as connection:
            row = await job_rows.get(connection, job)
        assert row is not None
        assert (row["processed"], row["valid"], row["state"]) == (10, 10, "finalizing")


async def test_residual_chunks_keep_the_job_open_until_the_last_is_done(database_url: str) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, chunks=some(1))
        first = await claim(database)
        assert first is not None
        assert not await close(database, first, some(2, addresses=3))
        second, third = await claim(database), await claim(database)
        assert second is not None
        assert third is not None
        assert {second.n, third.n} == {1, 2}
        assert not await close(database, second)
        assert await close(database, third)
        async with database.begin() as connection:
            row = await job_rows.get(connection, job)
        assert row is not None
        assert (row["processed"], row["chunks"], row["chunks_open"]) == (10, 3, 0)


async def test_when_a_lane_is_throttled_its_other_chunks_wait_too(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, chunks=some(2, lane="google"))
        first = await claim(database)
        assert first is not None
        await close(database, first, [NewChunk(5, "blob", 0, "google", "throttled", 600)])
        assert await claim(database) is None


async def test_cancel_ends_the_job_once_with_one_event_and_takes_the_leases(database_url: str) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, chunks=some(3))
        chunk = await claim(database)
        assert chunk is not None
        async with database.begin() as connection:
            assert await end_job(connection, job, Step.CANCEL, error=("cancelled", "The job was cancelled."))
            await chunk_rows.cancel(connection, job)
        async with database.begin() as connection:
            assert not await end_job(connection, job, Step.CANCEL, error=("cancelled", "Again."))
        with pytest.raises(LeaseLostError):
            await close(database, chunk)
        async with database.begin() as connection:
            (event,) = await event_rows.of_job(connection, job)
            assert await chunk_rows.leased(connection) == 0
        assert event.type == "bulk.validation.failed"
        assert b'"error":"cancelled: The job was cancelled."' in event.body


async def test_the_database_refuses_a_second_terminal_event(database_url: str) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, chunks=some(1))
        async with database.begin() as connection:
            await end_job(connection, job, Step.CANCEL, error=("cancelled", "x"))
            (event,) = await event_rows.of_job(connection, job)
        with pytest.raises(IntegrityError):
            async with database.begin() as connection:
                await connection.execute(
                    text(
                        "INSERT INTO event SELECT gen_random_uuid(), account_id, job_id, type, body,"
                        " created_at, once FROM event WHERE id = :id"
                    ),
                    {"id": event.id},
                )
