"""The clock of PostgreSQL jumps while lists are validated: nothing is lost, and nothing is done twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
from sqlalchemy import make_url

from mailsift.jobs.service import JobService
from mailsift.settings import Settings
from mailsift.storage.sql.chunks import LEASE_SECONDS
from mailsift.storage.states import JobState
from tests.support.databases import Databases
from tests.support.installation import until
from tests.support.ready_jobs import Gate, Planter, caught, engine_on, work_until_ended

GIVEN = [f"user{n}@example.com" for n in range(6)]


@dataclass
class DatabaseClock:
    """What PostgreSQL tells our statements for the time: its own, and so many seconds."""

    planter: Planter

    async def install(self) -> None:
        """Put our clock before that of the system, where statements look for it (`database_url`)."""
        await self.planter.sql("CREATE SCHEMA clock")
        await self.planter.sql("CREATE TABLE clock.ahead AS SELECT interval '0' AS by")
        await self.planter.sql(
            "CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE"
            " AS 'SELECT pg_catalog.clock_timestamp() + (SELECT by FROM clock.ahead)'"
        )

    async def remove(self) -> None:
        """Give the system's clock back; the database is used again."""
        await self.planter.sql("DROP SCHEMA clock CASCADE")

    async def jump(self, seconds: float) -> None:
        """Set it so much forwards, or backwards."""
        await self.planter.sql("UPDATE clock.ahead SET by = by + make_interval(secs => :by)", by=seconds)


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    with databases.migrated() as url:
        options = {"options": "-csearch_path=clock,pg_catalog,public"}
        yield make_url(url).update_query_dict(options).render_as_string(hide_password=False)


@pytest.fixture
async def clock(planter: Planter) -> AsyncIterator[DatabaseClock]:
    found = DatabaseClock(planter)
    await found.install()
    yield found
    await found.remove()


@pytest.mark.parametrize("seconds", [600, -600, 86_400, -86_400])
async def test_what_a_worker_holds_is_done_once(
    settings: Settings, planter: Planter, clock: DatabaseClock, service: JobService, seconds: float
) -> None:
    account, job = await planter.plant(GIVEN, chunk=2)
    async with engine_on(settings, gate := Gate(), lease_s=3.0, heartbeat_s=0.2, sweep_s=0.1) as engine:
        draining = await caught(engine, gate)
        await clock.jump(seconds)
        await until(lambda: _leases_are_of_now(planter), within=20)
        gate.opened.set()
        await draining
        view = await work_until_ended(engine, service, account, job)
    assert (view.state, view.valid, view.processed) == (JobState.COMPLETED, 6, 6)
    assert [event["type"] for event in await planter.events(job)] == ["bulk.validation.completed"]


async def _leases_are_of_now(planter: Planter) -> bool:
    """Say whether every lease was renewed, or taken back, since the clock has jumped."""
    (row,) = await planter.sql(
        "SELECT count(*) AS stale FROM chunk WHERE state = 'leased' AND lease_until"
        " NOT BETWEEN clock_timestamp() AND clock_timestamp() + interval '4 s'"
    )
    return bool(row["stale"] == 0)


async def test_what_is_ready_waits_for_no_clock_that_was_set_back(
    settings: Settings, planter: Planter, clock: DatabaseClock, service: JobService
) -> None:
    account, job = await planter.plant(GIVEN, chunk=2)
    async with engine_on(settings, gate := Gate(), job_cap=1, heartbeat_s=0.2) as engine:
        draining = await caught(engine, gate)  # of one chunk; two are ready
        await clock.jump(-86_400)
        gate.opened.set()
        await draining
        view = await work_until_ended(engine, service, account, job)
    assert (view.state, view.valid) == (JobState.COMPLETED, 6)


@pytest.mark.parametrize("seconds", [600, -600])
async def test_what_a_dead_worker_held_is_done_once_its_lease_would_end(
    settings: Settings, planter: Planter, clock: DatabaseClock, service: JobService, seconds: float
) -> None:
    async with engine_on(settings, sweep_s=0.1, heartbeat_s=0.1) as engine:
        await engine.drain()  # its heart beats from now on
        account, job = await planter.plant(GIVEN, chunk=2)
        await planter.sql(
            "UPDATE chunk SET state = 'leased', attempt = 1, lease_token = gen_random_uuid(),"
            " lease_owner = 'dead', leased_at = clock_timestamp(),"
            " lease_until = clock_timestamp() + interval '1 s' WHERE n = 0"
        )
        await clock.jump(seconds)
        before = await engine.drain()
        await until(lambda: _no_lease_lasts(planter, LEASE_SECONDS), within=20)
        await clock.jump(LEASE_SECONDS + 1)
        view = await work_until_ended(engine, service, account, job)
    assert before is False  # nobody asks again and again for what is not due
    assert (view.state, view.valid) == (JobState.COMPLETED, 6)


async def _no_lease_lasts(planter: Planter, seconds: float) -> bool:
    """Say whether every lease ends so soon."""
    (row,) = await planter.sql(
        "SELECT count(*) AS longer FROM chunk WHERE state = 'leased'"
        " AND lease_until > clock_timestamp() + make_interval(secs => :seconds)",
        seconds=seconds,
    )
    return bool(row["longer"] == 0)
