from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from mailsift.jobs.engine.chunk import close_chunk
from mailsift.jobs.engine.end import end_job
from mailsift.storage.database import Database
from mailsift.storage.sql import accounts, chunks, jobs, stats
from mailsift.storage.sql.chunks import ClaimedChunk, LeaseLostError, LeaseTerms, NewChunk
from mailsift.storage.sql.jobs import NewJob, VerdictCounts
from mailsift.storage.states import JobTransition
from tests.support.job_states import events_of, plan_now

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
    slices: list[NewChunk],
    small: bool = False,
    deadline_s: float = 0,
) -> UUID:
    """Insert a job that is ready to be claimed."""
    job_id = uuid4()
    async with database.begin() as connection:
        account_id = await accounts.ensure_account(connection, account)
        await jobs.insert(
            connection, NewJob(job_id, account_id, "list", OPTIONS, "list.csv", "", 0, None, deadline_s)
        )
        await plan_now(connection, job_id, slices, small=small)
    return job_id


async def claim(
    database: Database, *, lease: float = 60, small_only: bool = False, cap: int = 64, triage: bool = True
) -> ClaimedChunk | None:
    async with database.begin() as connection:
        return await chunks.claim(
            connection, LeaseTerms("me", lease), job_cap=cap, small_only=small_only, triage=triage
        )


async def claim_again(database: Database) -> tuple[ClaimedChunk, ClaimedChunk]:
    """Return a lease that has run out, and the one that somebody else got of the same chunk."""
    late = await claim(database, lease=0)
    async with database.begin() as connection:
        assert await chunks.free_expired_leases(connection) == 1
    again = await claim(database)
    assert late is not None
    assert again is not None
    assert late.n == again.n
    return late, again


async def close(database: Database, chunk: ClaimedChunk, deferred: list[NewChunk] | None = None) -> bool:
    counts = VerdictCounts(valid=chunk.addresses - sum(new.addresses for new in deferred or []))
    segment = f"segment-{chunk.lease_token}"
    closed = await database.run(
        lambda connection: close_chunk(
            connection, chunk, segment_key=segment, counts=counts, deferred=deferred or []
        )
    )
    return closed.last


def some(count: int, addresses: int = 10, lane: str = "", delay: float = 0) -> list[NewChunk]:
    return [
        NewChunk(addresses, "blob", n * addresses, lane, "throttled" if delay else "", delay)
        for n in range(count)
    ]


async def test_a_hundred_claimers_at_once_never_get_the_same_chunk(database_url: str) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, slices=some(30))
        claimed = await asyncio.gather(*(claim(database) for _ in range(100)))
        got = [(chunk.job_id, chunk.n) for chunk in claimed if chunk]
        assert sorted(got) == [(job, n) for n in range(30)]


async def test_the_first_claim_starts_the_job(database_url: str) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, slices=some(1))
        await claim(database)
        async with database.begin() as connection:
            row = await jobs.get(connection, job)
        assert row is not None
        assert row["state"] == "running"
        assert row["started_at"] is not None


async def test_accounts_share_the_workers_whatever_the_size_of_their_jobs(database_url: str) -> None:
    async with opened(database_url) as database:
        big = await add_job(database, account="big", slices=some(200))
        for _ in range(50):
            await claim(database, cap=1000)
        late = await add_job(database, account="late", slices=some(200))
        turns = [chunk.job_id for chunk in [await claim(database, cap=1000) for _ in range(40)] if chunk]
        assert turns.count(late) == pytest.approx(20, abs=1)
        assert turns.count(big) == pytest.approx(20, abs=1)


async def test_a_job_that_comes_late_does_not_starve_the_earlier_one(database_url: str) -> None:
    async with opened(database_url) as database:
        first = await add_job(database, slices=some(200))
        for _ in range(100):
            await claim(database, cap=1000)
        await add_job(database, slices=some(200))
        turns = [chunk.job_id for chunk in [await claim(database, cap=1000) for _ in range(20)] if chunk]
        assert turns.count(first) == pytest.approx(10, abs=1)


async def test_a_small_job_goes_first(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, slices=some(200))
        small = await add_job(database, slices=some(1), small=True)
        chunk = await claim(database)
        assert chunk is not None
        assert chunk.job_id == small


async def test_the_slot_for_small_jobs_takes_nothing_else(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, slices=some(5))
        assert await claim(database, small_only=True) is None


async def test_a_job_gets_no_more_than_its_cap(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, slices=some(5))
        claimed = [await claim(database, cap=2) for _ in range(4)]
        assert [chunk is not None for chunk in claimed] == [True, True, False, False]


async def test_a_providers_lane_is_served_by_one_worker_while_mixed_lanes_are_not_held_up(
    database_url: str,
) -> None:
    async with opened(database_url) as database:
        await add_job(database, slices=[*some(3, lane="google"), *some(2, lane="*")])
        lanes = [chunk.throttle_key for chunk in [await claim(database) for _ in range(5)] if chunk]
        assert sorted(lanes) == ["*", "*", "google"]


async def test_a_chunk_is_not_claimed_before_it_is_ready_and_the_job_says_what_it_waits_for(
    database_url: str,
) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, slices=some(2, lane="google", delay=3600))
        assert await claim(database) is None
        async with database.begin() as connection:
            (wait,) = await chunks.waits(connection, job)
        assert (wait.throttle_key, wait.reason, wait.addresses) == ("google", "throttled", 20)


async def test_nothing_waits_beyond_the_deadline_of_its_job(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, slices=some(1, delay=3600), deadline_s=0.001)
        chunk = await claim(database)
        assert chunk is not None
        assert chunk.deadline_passed


async def test_a_source_that_is_expected_is_waited_for_until_the_deadline(database_url: str) -> None:
    subnet = "192.0.2.0/24"
    async with opened(database_url) as database:
        slices = [NewChunk(10, "blob", delay=delay, subnet=subnet) for delay in (0, 3600)]
        await add_job(database, slices=slices, deadline_s=60)
        async with database.begin() as connection:
            expected = (await connection.execute(text("SELECT subnet FROM chunk ORDER BY n"))).scalars()
    assert list(expected) == [subnet, ""]


async def test_who_read_a_list_takes_its_first_ready_chunk_that_nobody_looked_at_and_no_other(
    database_url: str,
) -> None:
    terms = LeaseTerms("me", 60)
    async with opened(database_url) as database:
        await add_job(database, slices=some(1))
        slices = [*some(1, lane="google"), *some(1, delay=3600), *some(2)]
        job = await add_job(database, slices=slices)
        async with database.begin() as connection:
            taken = [await chunks.lease_first(connection, job, terms, token=uuid4()) for _ in range(3)]
    assert [chunk and (chunk.job_id, chunk.n) for chunk in taken] == [(job, 2), (job, 3), None]


async def test_a_commit_after_the_lease_was_lost_changes_nothing(database_url: str) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, slices=some(1))
        late, again = await claim_again(database)
        assert again.attempt == 2
        with pytest.raises(LeaseLostError):
            await close(database, late)
        assert await close(database, again)
        async with database.begin() as connection:
            row = await jobs.get(connection, job)
        assert row is not None
        assert (row["processed"], row["valid"], row["state"]) == (10, 10, "finalizing")


async def test_rows_of_a_lost_lease_are_not_counted_beside_those_of_who_has_it_now(database_url: str) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, slices=some(1))
        late, again = await claim_again(database)
        with pytest.raises(LeaseLostError):
            await close(database, late)
        assert not await close(database, again, some(1, addresses=2))  # so the job goes on
        with pytest.raises(LeaseLostError):
            await close(database, late)
        async with database.begin() as connection:
            row = await jobs.get(connection, job)
        assert row is not None
        assert (row["processed"], row["chunks_open"]) == (8, 1)


async def test_deferred_chunks_keep_the_job_open_until_the_last_is_done(database_url: str) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, slices=some(1))
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
            row = await jobs.get(connection, job)
        assert row is not None
        assert (row["processed"], row["chunks"], row["chunks_open"]) == (10, 3, 0)


async def test_when_a_lane_is_throttled_its_other_chunks_wait_too(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, slices=some(2, lane="google"))
        first = await claim(database)
        assert first is not None
        await close(database, first, [NewChunk(5, "blob", 0, "google", "throttled", 600)])
        assert await claim(database) is None


async def test_cancel_ends_the_job_once_with_one_event_and_takes_the_leases(database_url: str) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, slices=some(3))
        chunk = await claim(database)
        assert chunk is not None
        async with database.begin() as connection:
            assert await end_job(
                connection, job, JobTransition.CANCEL, error=("cancelled", "The job was cancelled.")
            )
            await chunks.cancel(connection, job)
        async with database.begin() as connection:
            assert not await end_job(connection, job, JobTransition.CANCEL, error=("cancelled", "Again."))
        with pytest.raises(LeaseLostError):
            await close(database, chunk)
        async with database.begin() as connection:
            (event,) = await events_of(connection, job)
            assert await chunks.held_leases(connection, limit=1) == []
        assert event.type == "bulk.validation.failed"
        assert b'"error":"cancelled: The job was cancelled."' in event.body


async def test_the_database_refuses_a_second_terminal_event(database_url: str) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, slices=some(1))
        async with database.begin() as connection:
            await end_job(connection, job, JobTransition.CANCEL, error=("cancelled", "x"))
            (event,) = await events_of(connection, job)
        with pytest.raises(IntegrityError):
            async with database.begin() as connection:
                await connection.execute(
                    text(
                        "INSERT INTO event SELECT gen_random_uuid(), account_id, job_id, type, body,"
                        " created_at, once FROM event WHERE id = :id"
                    ),
                    {"id": event.id},
                )


async def test_claimers_of_different_jobs_do_not_wait_for_each_other(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, account="a", slices=some(1))
        other = await add_job(database, account="b", slices=some(1))
        async with asyncio.timeout(30), database.begin() as connection:
            first = await chunks.claim(
                connection, LeaseTerms("slow", 60), job_cap=9, small_only=False, triage=True
            )
            second = await claim(database)  # while the first one's transaction is open
        assert first is not None
        assert second is not None
        assert {first.job_id, second.job_id} >= {other}
        assert first.job_id != second.job_id


async def test_a_waiting_chunk_is_not_claimed_in_the_place_of_a_ready_one_that_is_held_up(
    database_url: str,
) -> None:
    async with opened(database_url) as database:
        await add_job(database, account="a", slices=some(1, lane="google"))
        assert await claim(database)
        later = NewChunk(10, "blob", 0, "yahoo", "throttled", 600)
        await add_job(database, account="b", slices=[*some(1, lane="google"), later])
        assert await claim(database) is None


async def test_a_job_whose_providers_are_all_busy_blocks_nobody(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, account="busy", slices=some(9, lane="google"))
        assert await claim(database)
        await add_job(database, account="idle", slices=some(1, lane="google"), small=True)
        free = await add_job(database, account="free", slices=some(1, lane="yahoo"))
        found = await claim(database)
        assert found is not None
        assert found.job_id == free


async def test_jobs_that_have_nothing_to_take_hide_nobody_however_many_they_are(database_url: str) -> None:
    async with opened(database_url) as database:
        for _ in range(33):
            await add_job(database, slices=some(1, lane="google", delay=600))
        ready = await add_job(database, slices=some(1))
        await put_last(database, ready)
        found = await claim(database)
        assert found is not None
        assert found.job_id == ready
        for _ in range(33):
            await add_job(database, slices=some(1))
        looked_at = await add_job(database, slices=some(1, lane="yahoo"))
        await put_last(database, looked_at)
        found = await claim(database, triage=False)
        assert found is not None
        assert found.job_id == looked_at


async def test_what_another_claimer_is_taking_is_neither_waited_for_nor_replaced(database_url: str) -> None:
    async with opened(database_url) as database:
        later = NewChunk(10, "blob", 0, "yahoo", "throttled", 600)
        job = await add_job(database, slices=[*some(1, lane="google"), later])
        async with asyncio.timeout(60), database.begin() as connection:
            taken = await chunks.claim(
                connection, LeaseTerms("slow", 60), job_cap=9, small_only=False, triage=True
            )
            assert taken is not None
            assert await claim(database) is None  # and not the one whose time has not come
            async with database.begin() as beside:
                await chunks.hold(beside, job, throttle_key="google", delay=60, waits_for="throttled")


async def test_the_job_that_is_furthest_behind_is_served_first_among_many(database_url: str) -> None:
    async with opened(database_url) as database:
        order = [await add_job(database, account=f"a{n}", slices=some(2)) for n in range(6)]
        async with database.begin() as connection:
            for place, job in enumerate(order):
                raised = text(
                    "UPDATE account SET vtime = :v WHERE id = (SELECT account_id FROM job WHERE id = :j)"
                )
                await connection.execute(raised, {"v": 1000 - 100 * place, "j": job})
        turns = [chunk.job_id for chunk in [await claim(database, cap=1) for _ in order] if chunk]
        assert turns == order[::-1]


async def test_a_slot_without_triage_leaves_new_chunks_to_others(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, slices=[*some(1), NewChunk(10, "blob", 10, "google")])
        found = await claim(database, triage=False)
        assert found is not None
        assert found.throttle_key == "google"
        assert await claim(database, triage=False) is None
        assert await claim(database) is not None


async def test_what_one_job_waits_for_delays_no_other(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, account="a", slices=some(2, lane="google"))
        first = await claim(database)
        assert first is not None
        other = await add_job(database, account="b", slices=some(1, lane="google"))
        await close(database, first, [NewChunk(5, "blob", 0, "google", "throttled", 600)])
        found = await claim(database)
        assert found is not None
        assert found.job_id == other


async def test_the_next_chunk_to_get_ready_says_in_how_many_seconds(database_url: str) -> None:
    async with opened(database_url) as database:
        for delays, least, most in (((), inf, inf), ((900,), 800, 900), ((300, 0), 200, 300)):
            await add_job(database, slices=[NewChunk(1, "blob", 0, "google", "", delay) for delay in delays])
            async with database.begin() as connection:
                assert least <= await chunks.next_ready(connection, ()) <= most


async def test_only_what_may_be_claimed_and_asked_from_here_wakes_a_worker(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, slices=some(1, lane="google", delay=900))
        for transition in (JobTransition.PAUSE, JobTransition.CANCEL):
            idle = await add_job(database, slices=some(1, lane="google", delay=100))
            async with database.begin() as connection:
                if transition is JobTransition.PAUSE:
                    assert await jobs.pause(connection, idle)
                else:
                    assert await jobs.end(connection, idle, transition)
        done = text("UPDATE chunk SET state = 'done', ready_at = ready_at - interval '500 s' WHERE n = 1")
        await add_job(database, slices=some(2, lane="google", delay=950))
        async with database.begin() as connection:
            await connection.execute(done)
            for source, seconds, least, most in (
                ("other", 200, 800, 900),  # another worker's rest
                ("mine", -200, 800, 900),  # is over
                ("mine", 2_000, 800, 900),
                ("mine", 300, 200, 300),
            ):
                rest = text(
                    "INSERT INTO source_rest VALUES ('google', :source,"
                    " clock_timestamp() + make_interval(secs => :seconds)) ON CONFLICT (provider, source)"
                    " DO UPDATE SET rests_until = excluded.rests_until"
                )
                await connection.execute(rest, {"source": source, "seconds": seconds})
                assert least <= await chunks.next_ready(connection, ["mine"]) <= most


async def test_a_hold_ends_no_wait_early_and_none_after_the_deadline(database_url: str) -> None:
    async with opened(database_url) as database:
        waits = [*some(1, lane="google", delay=900), *some(1, lane="google", delay=5)]
        free, bound = [await add_job(database, slices=waits, deadline_s=end) for end in (0, 1_000)]
        for job, delay, ends in ((free, 60, (900, 60)), (bound, 9_000, (1_000, 1_000))):
            async with database.begin() as connection:
                await chunks.hold(connection, job, throttle_key="google", delay=delay, waits_for="throttled")
                left = text(
                    "SELECT extract(epoch FROM ready_at - clock_timestamp()) FROM chunk"
                    " WHERE job_id = :job ORDER BY n"
                )
                found = (await connection.execute(left, {"job": job})).scalars()
                assert [float(one) for one in found] == [pytest.approx(end, abs=30) for end in ends]


async def test_a_small_job_goes_first_behind_however_many_big_ones(database_url: str) -> None:
    async with opened(database_url) as database:
        for _ in range(33):
            await add_job(database, slices=some(1))
        small = await add_job(database, slices=some(1), small=True)
        found = await claim(database)
        assert found is not None
        assert found.job_id == small


async def test_a_claim_names_the_sources_of_all_workers_that_claim(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, slices=some(2))
        added = text(
            "INSERT INTO worker (owner, crew, host, pid, version, slots, in_hand, lag_s, rss_bytes, beat_s,"
            " beat_at, stopped_at, drain_since, sources) SELECT owner, '', '', 1, '', 6, 0, 0, 0, 5,"
            " clock_timestamp() - ago * interval '1 s', CASE WHEN gone THEN clock_timestamp() END,"
            " CASE WHEN drained THEN clock_timestamp() END, ARRAY[owner, 'all']"
            " FROM (VALUES ('a', 0, false, false), ('b', 8, false, false), ('dead', 90, false, false),"
            " ('gone', 0, true, false), ('drained', 0, false, true)) AS v(owner, ago, gone, drained)"
        )
        async with database.begin() as connection:
            await connection.execute(added)
        found = await claim(database)
        assert found is not None
        assert found.live_sources == 3  # a, b and the one of all


async def test_a_claim_costs_its_account_five_hundred_addresses_beside_those_in_it(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, account="long", slices=some(9, addresses=1_000))
        await add_job(database, account="short", slices=some(30, addresses=1))
        found = [chunk for chunk in [await claim(database) for _ in range(20)] if chunk]
        assert [chunk.addresses for chunk in found].count(1_000) == pytest.approx(5, abs=1)  # 1,500 to 501


async def test_what_is_said_and_done_of_one_job_concerns_no_other(database_url: str) -> None:
    async with opened(database_url) as database:
        slices = [*some(2), NewChunk(5, "blob", 20, "google", "throttled", 600)]
        ours, theirs = [await add_job(database, account=name, slices=slices) for name in ("ours", "theirs")]
        both = {chunk.job_id: chunk for chunk in [await claim(database), await claim(database)] if chunk}
        async with database.begin() as connection:
            for job, chunk in both.items():
                assert await chunks.close(connection, chunk, f"segment of {job}")
            redone = NewChunk(1, "jobs/x/residual/redone-1.parquet", 0, "yahoo")
            await chunks.insert(connection, theirs, 3, [redone])
        due = await claim_of(database, ours)
        async with database.begin() as connection:
            await chunks.release(connection, due, waits_for="storage")  # and is ready at once
            (wait,) = await chunks.waits(connection, ours)
            assert (wait.throttle_key, wait.reason, wait.addresses) == ("google", "throttled", 5)
            (others,) = await chunks.waits(connection, theirs)
            await chunks.hold(connection, ours, throttle_key="google", delay=9_000, waits_for="held")
            assert await chunks.waits(connection, theirs) == [others]
            assert [await chunks.redone(connection, job) for job in (ours, theirs)] == [0, 1]
            assert await chunks.segments(connection, ours) == [f"segment of {ours}"]
            await chunks.forget_lost(connection, ours, [])
            assert await chunks.segments(connection, ours) == []
            assert await chunks.segments(connection, theirs) == [f"segment of {theirs}"]
            await chunks.cancel(connection, ours)
        left = {(chunk.job_id, chunk.n) for chunk in [await claim(database) for _ in range(3)] if chunk}
        assert left == {(theirs, 1), (theirs, 3)}


async def claim_of(database: Database, job: UUID) -> ClaimedChunk:
    """Claim until a chunk is this job's, and give back the others."""
    others: list[ClaimedChunk] = []
    while (chunk := await claim(database)) and chunk.job_id != job:
        others.append(chunk)
    async with database.begin() as connection:
        for other in others:
            await chunks.release(connection, other)
    assert chunk is not None
    return chunk


async def test_a_late_worker_gives_back_nobody_elses_chunk(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, slices=some(1))
        late, now = await claim_again(database)
        async with database.begin() as connection:
            await chunks.release(connection, late)
            assert await chunks.renew(connection, [now.lease_token], lease=60) == {now.lease_token}
        assert await claim(database) is None


async def test_a_late_worker_gives_back_nobody_elses_step(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_source(database, "a", 10)
        late = await claim_step(database, lease=0)
        now = await claim_step(database)
        assert late is not None
        assert now is not None
        async with database.begin() as connection:
            await jobs.release_step(connection, late)
            assert await jobs.renew_steps(connection, [now.token], lease=60) == {now.token}
        assert await claim_step(database) is None


async def test_a_job_starts_beside_the_others_and_changes_nobodys_turn(database_url: str) -> None:
    async with opened(database_url) as database:
        idle = await add_job(database, account="idle", slices=some(1))
        async with database.begin() as connection:
            assert await jobs.end(connection, idle, JobTransition.CANCEL)
        old = await add_job(database, account="old", slices=some(20))
        for _ in range(9):
            await claim(database)
        before = await vtimes(database)
        new = await add_job(database, account="new", slices=some(20))
        after = await vtimes(database)
        account, behind = before[old]
        assert after.pop(new) == (account, 0.0)  # its account has no other job
        assert after == before
        beside = await add_job(database, account="new", slices=some(20))
        assert (await vtimes(database))[old] == before[old]
        assert (await vtimes(database))[beside] == (account, 0.0)
        own = await add_job(database, account="old", slices=some(20))
        assert (await vtimes(database))[own] == (account, behind)
        async with database.begin() as connection:
            raised = text("UPDATE job SET vtime = vtime + 1000 WHERE id = :id")
            await connection.execute(raised, {"id": old})
        third = await add_job(database, account="old", slices=some(20))
        assert (await vtimes(database))[third] == (account, behind)  # beside the one that is furthest behind
        assert (await vtimes(database))[idle] == before[idle] == (0.0, 0.0)  # until it has something to do


async def test_the_end_of_a_job_leaves_its_start_alone(database_url: str) -> None:
    async with opened(database_url) as database:
        job = await add_job(database, slices=some(1))
        await claim(database)
        async with database.begin() as connection:
            early = text("UPDATE job SET started_at = started_at - interval '1 hour' RETURNING started_at")
            started = (await connection.execute(early)).scalar_one()
            assert await jobs.end(connection, job, JobTransition.CANCEL)
            row = await jobs.get(connection, job)
        assert row is not None
        assert row["started_at"] == started


async def put_last(database: Database, job: UUID) -> None:
    """Let all other jobs have their turn before this one."""
    async with database.begin() as connection:
        await connection.execute(text("UPDATE job SET vtime = 1e9 WHERE id = :id"), {"id": job})


async def vtimes(database: Database) -> dict[UUID, tuple[float, float]]:
    """Return the virtual time of each job: its account's and its own."""
    async with database.begin() as connection:
        asked = text("SELECT j.id, a.vtime, j.vtime FROM job j JOIN account a ON a.id = j.account_id")
        return {row[0]: (float(row[1]), float(row[2])) for row in await connection.execute(asked)}


async def add_source(database: Database, account: str, size: int) -> UUID:
    """Insert a job whose list of so many bytes waits to be taken in."""
    job_id = uuid4()
    async with database.begin() as connection:
        account_id = await accounts.ensure_account(connection, account)
        await jobs.insert(
            connection, NewJob(job_id, account_id, "list", OPTIONS, "list.csv", "", size, None, 0)
        )
    return job_id


async def claim_step(database: Database, lease: float = 60) -> jobs.ClaimedStep | None:
    async with database.begin() as connection:
        return (await jobs.claim_step(connection, owner="me", lease=lease, small_only=False)).step


async def test_a_renewal_reaches_the_named_leases_alone(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, slices=some(2))
        kept, lost = await claim(database, lease=0), await claim(database, lease=0)
        assert kept is not None
        assert lost is not None
        async with database.begin() as connection:
            assert await chunks.renew(connection, [kept.lease_token], lease=60) == {kept.lease_token}
            assert await chunks.free_expired_leases(connection) == 1
            assert await chunks.renew(connection, [lost.lease_token], lease=60) == set()


async def test_what_is_given_back_untried_counts_no_attempt(database_url: str) -> None:
    async with opened(database_url) as database:
        await add_job(database, slices=some(1))
        for tried, attempt in ((False, 1), (True, 1), (True, 2), (False, 3), (False, 3)):
            chunk = await claim(database)
            assert chunk is not None
            assert chunk.attempt == attempt
            async with database.begin() as connection:
                await chunks.release(connection, chunk, tried=tried)


async def test_progress_tells_free_mail_that_was_looked_at_from_what_is_ahead(database_url: str) -> None:
    slices = [NewChunk(10, "blob", n * 10, free_mail={"google": n, "yahoo": 1}) for n in (3, 4, 5)]
    async with opened(database_url) as database:
        job = await add_job(database, slices=slices)
        first = await claim(database)
        assert first is not None
        await close(database, first, [NewChunk(5, "blob", 0, "google", "throttled", 600)])
        async with database.begin() as connection:
            rows = {row.throttle_key: row for row in await stats.progress(connection, job)}
    assert {key: (row.named, row.named_ahead) for key, row in rows.items()} == {
        "": (0, 0),
        "google": (3, 9),
        "yahoo": (1, 2),
    }
