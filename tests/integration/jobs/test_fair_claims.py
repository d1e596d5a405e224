"""In which order free slots take what waits: nobody starves, whoever sends whatever."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from mailsift.jobs.engine.chunk import close_chunk
from mailsift.jobs.engine.engine import Claimer, EngineConfig
from mailsift.jobs.tracing import Stopwatch
from mailsift.storage.database import Database
from mailsift.storage.sql import accounts, jobs
from mailsift.storage.sql.chunks import ClaimedChunk, NewChunk
from mailsift.storage.sql.jobs import ClaimedStep, NewJob, VerdictCounts
from mailsift.storage.states import JobState
from tests.support.job_states import plan_now, put_job

Claimed = ClaimedChunk | ClaimedStep
TO_BE_FETCHED = 0  # bytes, as far as anybody knows
TRANSFERS: list[dict[str, Any]] = [
    {"size": TO_BE_FETCHED},
    {"size": 4_000_000, "state": JobState.FINALIZING, "delivers": True},
]


class Process:
    """The slots of one worker process, without the work: what was claimed first ends first."""

    def __init__(
        self, database: Database, *, slots: int = 6, host: str = "here", unhurried: str = ""
    ) -> None:
        config = EngineConfig(owner=f"{host}:1:0", slots=slots)
        self._claimer = Claimer(database, config, lambda key: key == unhurried)
        self.held: list[Claimed] = []

    async def claim(self) -> Claimed | None:
        claimed = await self._claimer.claim(self.held, Stopwatch())
        if claimed is not None:
            self.held.append(claimed)
        return claimed

    async def fill(self) -> None:
        while await self.claim() is not None:
            pass


async def send_list(
    database: Database,
    account: str,
    *,
    size: int = 60,
    state: JobState = JobState.UPLOADING,
    delivers: bool = False,
) -> UUID:
    job_id = uuid4()
    async with database.begin() as connection:
        account_id = await accounts.ensure_account(connection, account)
        await jobs.insert(connection, NewJob(job_id, account_id, "list", {}, "list.csv", "", size))
        await put_job(connection, job_id, state, delivers=delivers)
    return job_id


async def plan_job(
    database: Database, account: str, count: int, *, addresses: int = 20_000, key: str = ""
) -> UUID:
    job_id = await send_list(database, account, size=4_000_000)
    slices = [NewChunk(addresses, "blob", n * addresses, key) for n in range(count)]
    async with database.begin() as connection:
        await plan_now(connection, job_id, slices, small=addresses * count <= 1_000)
    return job_id


async def end(database: Database, done: Claimed) -> None:
    """Let a piece of work end: a chunk is done, a list that was read has one small chunk."""
    async with database.begin() as connection:
        if isinstance(done, ClaimedChunk):
            await close_chunk(connection, done, segment_key=None, counts=VerdictCounts(), deferred=[])
        elif done.state == JobState.INTAKE:
            await plan_now(connection, done.job_id, [NewChunk(3, "blob")], small=True)
        else:
            await put_job(connection, done.job_id, JobState.COMPLETED)


async def set_vtime(database: Database, **vtimes: float) -> None:
    async with database.begin() as connection:
        for name, vtime in vtimes.items():
            await connection.execute(
                text("UPDATE account SET vtime = :vtime WHERE name = :name"), {"vtime": vtime, "name": name}
            )


def kind(claimed: Claimed) -> str:
    return "chunk" if isinstance(claimed, ClaimedChunk) else claimed.state


async def test_a_big_job_goes_on_while_another_account_sends_five_hundred_lists(database: Database) -> None:
    big = await plan_job(database, "a", 8)
    for _ in range(500):
        await send_list(database, "b")
    process, order, ends = Process(database), list[str](), dict[int, int]()
    while len(order) < 400:
        claimed = await process.claim()
        if claimed is None:
            done = min(process.held, key=lambda one: ends[id(one)])
            process.held.remove(done)
            await end(database, done)
        else:
            ends[id(claimed)] = len(order) + (3 if claimed.small else 60)  # a large chunk takes longer
            order.append(kind(claimed) if claimed.job_id != big else f"big {kind(claimed)}")
    assert order[:2].count("big chunk") == 1  # both begin at once
    places = [place for place, what in enumerate(order) if what == "big chunk"]
    assert len(places) == 8
    gaps = [later - earlier for earlier, later in pairwise(places)]
    assert max(gaps) < 100  # three chunks at first, then one for each 20,000 addresses' worth of lists
    between = order[: places[-1]]
    assert between.count("intake") > 10  # neither does the big job keep the lists from being read
    assert between.count("chunk") > 10  # nor does reading keep them from being worked on


async def test_reading_takes_no_more_than_half_of_the_slots_and_chunks_find_room(database: Database) -> None:
    for _ in range(20):
        await send_list(database, "b")
    process = Process(database)
    await process.fill()
    assert [kind(one) for one in process.held] == ["intake"] * 3
    await plan_job(database, "a", 8)
    await process.fill()
    assert [kind(one) for one in process.held[3:]] == ["chunk"] * 3
    assert len(process.held) == 6  # the seventh slot is for small jobs


@pytest.mark.parametrize("transfer", TRANSFERS)
@pytest.mark.parametrize(("slots", "size"), [(1, 60), (1, 4_000_000), (2, 60), (6, 4_000_000)])
async def test_what_goes_slowly_from_or_to_places_holds_no_slot(
    database: Database, transfer: dict[str, Any], slots: int, size: int
) -> None:
    for account in "abcdefghij":
        await send_list(database, account, **transfer)
    process = Process(database, slots=slots)
    await process.fill()
    moved = len(process.held)
    assert 0 < moved < 10
    here = {await send_list(database, "z", size=size), await plan_job(database, "y", 1)}
    await process.fill()
    assert {one.job_id for one in process.held[moved:]} == here


@pytest.mark.parametrize("transfer", TRANSFERS)
async def test_whose_places_are_slow_leaves_room_for_those_of_others(
    database: Database, transfer: dict[str, Any]
) -> None:
    for _ in range(20):
        await send_list(database, "many", **transfer)
    process = Process(database, slots=1)
    await process.fill()
    other = await send_list(database, "other", **transfer)
    claimed = await process.claim()
    assert claimed is not None
    assert claimed.job_id == other


async def test_a_list_that_was_fetched_is_read_in_its_turn_for_its_size(database: Database) -> None:
    process = Process(database, slots=1)
    fetched = await send_list(database, "a", size=TO_BE_FETCHED)
    step = await process.claim()
    assert isinstance(step, ClaimedStep)
    await database.run(jobs.record_fetched, step, 4_000_000)
    behind = await send_list(database, "b")
    await set_vtime(database, a=9e9)
    process.held.clear()
    for job in (behind, fetched):
        claimed = await process.claim()
        assert isinstance(claimed, ClaimedStep)
        assert (claimed.job_id, claimed.fetches, claimed.attempt) == (job, False, 1)
        process.held.clear()
        async with database.begin() as connection:
            await put_job(connection, job, JobState.COMPLETED)


async def test_the_slot_for_small_lists_waits_for_no_place(database: Database) -> None:
    for account in "abcdef":
        await plan_job(database, account, 1, key=account)
    process = Process(database)
    await process.fill()
    assert len(process.held) == 6
    for job in [await send_list(database, "b", size=TO_BE_FETCHED), await send_list(database, "c")]:
        claimed = await process.claim()
        assert claimed is not None
        assert claimed.job_id == job


@pytest.mark.parametrize("slots", [1, 2, 6])
async def test_however_many_steps_wait_a_chunk_of_a_big_job_gets_a_slot(
    database: Database, slots: int
) -> None:
    for _ in range(20):
        await send_list(database, "b")
        await send_list(database, "c", state=JobState.FINALIZING)
    process = Process(database, slots=slots)
    await process.fill()
    assert len(process.held) == slots
    await plan_job(database, "a", 8)
    await process.fill()
    assert [kind(one) for one in process.held[slots:]] == ["chunk"]


async def test_finishing_comes_before_reading(database: Database) -> None:
    await send_list(database, "a")
    await send_list(database, "b", state=JobState.FINALIZING, size=4_000_000)
    process = Process(database)
    await process.fill()
    assert [kind(one) for one in process.held] == ["finalizing", "intake"]


async def test_the_finish_of_a_big_job_waits_for_nobody_whose_lists_are_read(database: Database) -> None:
    for _ in range(20):
        await send_list(database, "behind")
    process = Process(database)
    await process.claim()
    big = await send_list(database, "ahead", state=JobState.FINALIZING, size=4_000_000)
    async with database.begin() as connection:
        await connection.execute(text("UPDATE account SET vtime = 1000000 WHERE name = 'ahead'"))
    claimed = await process.claim()
    assert claimed is not None
    assert claimed.job_id == big


async def test_accounts_have_their_lists_read_in_turn_small_ones_first(database: Database) -> None:
    many = [await send_list(database, "many") for _ in range(50)]
    late = [await send_list(database, "late", size=size) for size in (300_000, 60, 60)]
    process, order = Process(database), list[UUID]()
    while len(order) < 6:
        claimed = await process.claim()
        if claimed is None:
            process.held.pop()
        else:
            order.append(claimed.job_id)
    assert [job in many for job in order].count(True) == 3
    assert [job for job in order if job in late] == [late[1], late[2], late[0]]


@pytest.mark.parametrize(
    "ahead", ["first", "second"], ids=["who_was_idle_waits_not", "who_was_alone_pays_not"]
)
async def test_who_was_idle_and_who_was_alone_start_side_by_side(database: Database, ahead: str) -> None:
    async with database.begin() as connection:
        await accounts.ensure_account(connection, ahead)
        await connection.execute(text("UPDATE account SET vtime = 1000000"))
    first = [await send_list(database, "first") for _ in range(20)]
    for _ in range(20):
        await send_list(database, "second")
    process, order = Process(database), list[UUID]()
    for _ in range(8):
        claimed = await process.claim()
        assert claimed is not None
        order.append(claimed.job_id)
        process.held.clear()
    assert 3 <= [job in first for job in order].count(True) <= 5


async def test_who_is_ahead_takes_nothing_of_a_process_that_computes_for_who_is_behind(
    database: Database,
) -> None:
    await plan_job(database, "behind", 2)
    busy, free = Process(database), Process(database)
    await busy.fill()
    assert [kind(one) for one in busy.held] == ["chunk", "chunk"]
    ahead = await send_list(database, "ahead")
    async with database.begin() as connection:
        await connection.execute(text("UPDATE account SET vtime = 1000000 WHERE name = 'ahead'"))
    assert await busy.claim() is None
    claimed = await free.claim()
    assert claimed is not None
    assert claimed.job_id == ahead


@pytest.mark.parametrize("state", [JobState.UPLOADING, JobState.FINALIZING])
async def test_who_is_ahead_waits_for_a_big_list_to_be_read_or_finished_only_as_long_as_that_is_paid_for(
    database: Database, state: JobState
) -> None:
    reader, free = Process(database), Process(database)
    await send_list(database, "behind", size=400_000_000, state=state)
    async with database.begin() as connection:
        await connection.execute(text("UPDATE job SET total = 16000000"))
    await reader.fill()
    ahead = {await send_list(database, "ahead") for _ in range(2)}
    await set_vtime(database, ahead=9e9)
    assert await free.claim() is None
    assert await Process(database, host="elsewhere").claim() is not None
    other = await send_list(database, "other")  # who is not ahead of it does not wait
    await set_vtime(database, behind=1e6, other=0.0)
    claimed = await free.claim()
    assert claimed is not None
    assert claimed.job_id == other
    async with database.begin() as connection:
        await connection.execute(text("UPDATE job SET step_at = step_at - make_interval(mins => 20)"))
    claimed = await free.claim()
    assert claimed is not None
    assert claimed.job_id in ahead


@pytest.mark.parametrize(
    ("others", "waits"),
    [
        ("(0, 6, false)", True),
        ("(0, 6, false), (0, 6, false)", False),
        ("(0, 0, false), (0, 6, true), (90, 6, false)", True),
    ],
)
async def test_where_more_processes_are_than_a_big_list_keeps_busy_nobody_waits_for_it(
    database: Database, others: str, *, waits: bool
) -> None:
    reader, free = Process(database), Process(database)
    await send_list(database, "behind", size=400_000_000)
    await reader.fill()
    await send_list(database, "ahead")
    await set_vtime(database, ahead=9e9)
    add = (
        "INSERT INTO worker (owner, crew, host, pid, version, slots, in_hand, lag_s, rss_bytes, beat_s,"  # noqa: S608 - of this file
        " beat_at, stopped_at) SELECT CAST(gen_random_uuid() AS text), '', host, 1, '', slots, 0, 0, 0, 5,"
        " clock_timestamp() - ago * interval '1 s', CASE WHEN gone THEN clock_timestamp() END"
        f" FROM (VALUES {others}, (0, 6, false)) AS v(ago, slots, gone),"
        " (VALUES ('here'), ('elsewhere')) AS h(host)"
    )
    async with database.begin() as connection:
        await connection.execute(text(add))
    assert (await free.claim() is None) == waits


@pytest.mark.parametrize(
    ("behind", "waits"),
    [
        ("UPDATE job SET test = false", True),  # it has a chunk to be taken
        ("UPDATE chunk SET ready_at = 'infinity'", False),
        ("UPDATE chunk SET state = CASE n WHEN 0 THEN 'done' ELSE state END", True),
        ("UPDATE chunk SET state = 'done'", False),
        ("UPDATE job SET state = 'paused' WHERE total > 0", False),
        ("UPDATE job SET state = 'intake', step_until = 'infinity' WHERE total > 0", True),
        ("UPDATE job SET state = 'uploading', step_until = 'infinity' WHERE total > 0", False),
        (
            "UPDATE job SET state = 'intake', step_until = 'infinity', source_bytes = 0 WHERE total > 0",
            False,  # what is fetched for it takes nobody's time
        ),
        (
            "UPDATE job SET state = 'finalizing', step_until = 'infinity', delivers = true WHERE total > 0",
            False,  # nor does what is delivered
        ),
    ],
)
async def test_a_list_waits_in_turn_only_for_who_is_behind_and_can_be_served(
    database: Database, behind: str, *, waits: bool
) -> None:
    await plan_job(database, "behind", 2)
    await send_list(database, "ahead")
    await set_vtime(database, ahead=9e9)
    async with database.begin() as connection:
        await connection.execute(text(behind))
        found = await jobs.claim_step(connection, owner="here:1:0", lease=60, small_only=False, in_turn=True)
    assert (found.step is None, found.is_due) == (waits, True)


@pytest.mark.parametrize("starts", ["other", "slow"])
@pytest.mark.parametrize(
    ("slow", "served"),
    [
        ("UPDATE chunk SET ready_at = 'infinity'", "first"),
        ("UPDATE job SET test = false", "first"),  # its chunks stand in line at the provider
        ("UPDATE chunk SET state = 'leased', lease_token = gen_random_uuid(), lease_until = now()", "first"),
        ("UPDATE job SET state = 'uploading', source_bytes = 0", "first"),  # a place has the list
        ("UPDATE job SET state = 'finalizing', delivers = true", "first"),
        ("UPDATE job SET test = false", "slow"),  # nobody else is served: beside it, not behind it
    ],
)
async def test_who_starts_begins_beside_who_is_served_not_beside_who_waits_for_others(
    database: Database, starts: str, slow: str, served: str
) -> None:
    await plan_job(database, "slow", 3, addresses=1_000, key="google")
    async with database.begin() as connection:
        await connection.execute(text(slow))
    await send_list(database, "first", size=4_000_000, state=JobState.PAUSED)
    if served == "first":
        await plan_job(database, "first", 9)
    await set_vtime(database, slow=1_000.0, first=9e9)
    await send_list(database, starts)
    async with database.begin() as connection:
        found = await connection.execute(text("SELECT name, vtime FROM account"))
        vtimes = {row.name: row.vtime for row in found}
    assert vtimes[starts] == vtimes[served]


async def test_a_list_waits_for_nobody_whose_turn_at_a_provider_has_not_come(database: Database) -> None:
    await plan_job(database, "slow", 3, addresses=5_000, key="google")
    await Process(database, host="elsewhere").fill()
    await plan_job(database, "big", 20)
    process = Process(database)
    await process.fill()
    small = await send_list(database, "small")
    await set_vtime(database, slow=1_000.0, small=1e6, big=9e9)
    claimed = await process.claim()
    assert claimed is not None
    assert claimed.job_id == small


async def test_a_job_has_no_more_than_sixty_four_chunks_in_hand(database: Database) -> None:
    await plan_job(database, "a", 70, addresses=1)
    process = Process(database, slots=80)
    await process.fill()
    assert len(process.held) == 64


async def test_reading_and_finishing_cost_an_account_by_the_size_of_the_list(database: Database) -> None:
    small, big, far = (
        await send_list(database, "small", size=250),
        await send_list(database, "big", size=1_000_000),
        await send_list(database, "far", size=TO_BE_FETCHED),
    )
    for account, job, costs in (
        ("small", small, (6_010, 0)),
        ("big", big, (13_000, 3_025)),
        ("far", far, (3_000,)),
    ):
        for state, cost in zip((JobState.UPLOADING, JobState.FINALIZING), costs, strict=False):
            async with database.begin() as connection:
                await connection.execute(text("UPDATE account SET vtime = 100"))
                await connection.execute(text("UPDATE job SET total = 100, step_until = 'infinity'"))
                await put_job(connection, job, state, step_token=None, step_until=None)
                claimed = await jobs.claim_step(connection, owner="here:1:0", lease=60, small_only=False)
                assert claimed.step is not None
                found = await connection.execute(text("SELECT name, vtime FROM account"))
                vtimes = {row.name: row.vtime for row in found}
            assert vtimes.pop(account) == 100 + cost
            assert set(vtimes.values()) == {100}


async def test_a_small_list_of_a_crowd_costs_more_than_one_of_a_few(database: Database) -> None:
    for _ in range(jobs.CROWD):
        await send_list(database, "many", size=250)
    paid = []
    for _ in range(2):
        async with database.begin() as connection:
            await connection.execute(text("UPDATE account SET vtime = 0"))
            await jobs.claim_step(connection, owner="here:1:0", lease=60, small_only=False)
            paid.append((await connection.execute(text("SELECT vtime FROM account"))).scalar_one())
            await connection.execute(text("UPDATE job SET state = 'queued' WHERE state = 'intake'"))
    assert paid == [jobs.CROWD_PRICE * 6_010, 6_010]


async def test_a_job_is_found_behind_forty_whose_provider_is_being_served(database: Database) -> None:
    for _ in range(41):
        await plan_job(database, "a", 2, addresses=50, key="google")
    process = Process(database)
    await process.fill()
    assert len(process.held) == 1
    await plan_job(database, "a", 1)
    assert await process.claim() is not None


async def test_of_a_provider_that_only_sessions_limit_a_process_takes_the_next_chunk_beside_the_last(
    database: Database,
) -> None:
    job = await plan_job(database, "a", 4, addresses=1_000, key="google")
    async with database.begin() as connection:
        await connection.execute(
            text("UPDATE chunk SET lane = 'gmx' WHERE job_id = :job AND n IN (1, 2)"), {"job": job}
        )
    process, other = (Process(database, host=host, unhurried="google") for host in ("here", "elsewhere"))
    await process.fill()
    await other.fill()
    assert [chunk.throttle_key for chunk in chunks_of(process)] == ["google", "google", "gmx"]
    assert other.held == []  # who holds one alone holds the next one, too
    done = next(chunk for chunk in chunks_of(process) if chunk.throttle_key == "google")
    process.held.remove(done)
    await end(database, done)
    await process.fill()
    assert len(process.held) == 2  # nothing is left at that provider


def chunks_of(process: Process) -> list[ClaimedChunk]:
    return [one for one in process.held if isinstance(one, ClaimedChunk)]


async def close(database: Database, chunk: ClaimedChunk, left: int, key: str = "google") -> None:
    """Close a chunk of which so many addresses are left for the provider."""
    deferred = [NewChunk(left, "blob", 0, key)]
    async with database.begin() as connection:
        await close_chunk(connection, chunk, segment_key=None, counts=VerdictCounts(), deferred=deferred)


async def take_turns(database: Database, process: Process, count: int) -> list[ClaimedChunk]:
    """Let so many turns at providers be taken, one after another, while all else is worked on at once."""
    turns = list[ClaimedChunk]()
    while True:
        claimed = await process.claim()
        if isinstance(claimed, ClaimedStep):
            process.held.remove(claimed)
            await end(database, claimed)
        elif claimed is not None and claimed.throttle_key:
            turns.append(claimed)
        else:
            done = claimed or process.held[0]
            process.held.remove(done)
            assert isinstance(done, ClaimedChunk)
            left = done.addresses - 100 if done.throttle_key else WAITING
            await close(database, done, left, done.throttle_key or "google")
            if len(turns) == count:
                return turns


WAITING = 20_000


async def test_a_small_list_waits_for_a_turn_at_a_provider_not_for_many_of_another_account(
    database: Database,
) -> None:
    big = await plan_job(database, "a", 1, key="google")
    await send_list(database, "b")
    turns = [turn.job_id == big for turn in await take_turns(database, Process(database), 8)]
    assert False in turns[:2]
    assert 3 <= turns.count(False) <= 4  # from then on by turns


async def test_who_waits_for_ten_providers_has_his_turns_at_one_beside_who_waits_for_that_alone(
    database: Database,
) -> None:
    many = [await plan_job(database, "a", 1, key=f"provider{n}") for n in range(9)]
    many.append(await plan_job(database, "a", 1, key="google"))
    await plan_job(database, "b", 1, key="google")
    turns = await take_turns(database, Process(database, slots=20), 100)
    at_google = [turn.job_id in many for turn in turns if turn.throttle_key == "google"]
    assert 9 <= len(at_google) <= 11
    assert abs(at_google.count(True) - at_google.count(False)) <= 1


async def test_an_account_that_comes_back_to_a_provider_neither_pays_nor_is_paid_for_the_time_between(
    database: Database,
) -> None:
    first = await plan_job(database, "a", 1, key="google")
    process = Process(database)
    await take_turns(database, process, 20)
    await plan_job(database, "b", 1, key="google")
    turns = [turn.job_id == first for turn in await take_turns(database, process, 8)]
    assert 3 <= turns.count(True) <= 5
    async with database.begin() as connection:
        await connection.execute(text("UPDATE job SET state = 'paused' WHERE id = :id"), {"id": first})
    await take_turns(database, process, 20)
    async with database.begin() as connection:
        await connection.execute(text("UPDATE job SET state = 'running' WHERE id = :id"), {"id": first})
    turns = [turn.job_id == first for turn in await take_turns(database, process, 8)]
    assert 3 <= turns.count(True) <= 5


async def test_a_turn_is_paid_for_by_what_it_asked_and_what_it_left_is_not(database: Database) -> None:
    few = await plan_job(database, "a", 1, addresses=600, key="google")
    await plan_job(database, "b", 1, addresses=600, key="google")
    process, asked = Process(database), list[bool]()
    while len(asked) < 12:
        turn = await process.claim()
        assert isinstance(turn, ClaimedChunk)
        asked.append(turn.job_id == few)
        process.held.remove(turn)
        await close(database, turn, turn.addresses - (50 if asked[-1] else 150))  # and TURN_COST for each
    assert asked.count(True) == 8
    async with database.begin() as connection:
        found = await connection.execute(text("SELECT name, vtime FROM account ORDER BY name"))
        assert [row.vtime - 500 * count for row, count in zip(found, (8, 4), strict=True)] == [400, 600]


async def test_slots_that_are_always_full_of_small_work_take_big_work_in_turn(database: Database) -> None:
    for _ in range(60):
        await plan_job(database, "b", 1, addresses=3)
    process = Process(database)
    await process.fill()
    big = await plan_job(database, "a", 2)
    jobs_in_turn = []
    for _ in range(4):
        await end(database, process.held.pop(0))
        await process.fill()
        jobs_in_turn.append(process.held[-1].job_id)
    assert big in jobs_in_turn
