"""Schedules that spread, end and pause themselves, on a real PostgreSQL: only the clock is moved."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from jobs.schedule_runs import LEASE
from jobs.schedule_views import ScheduleSpec
from pipeline.errors import MailsiftError
from storage import schedule_rows
from storage.blobs import Blobs
from storage.database import Database
from tests.schedule_house import HOURLY, NOON, House

HOUR = timedelta(hours=1)


@pytest.fixture
async def house(database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    database = Database(database_url)
    try:
        yield House(database, Blobs((tmp_path / "blobs").as_uri(), tmp_path / "cache"), tmp_path)
    finally:
        await database.aclose()


async def failed_runs(house: House, spec: ScheduleSpec, count: int) -> tuple[bool, str, int]:
    """Let so many runs fail; return whether the schedule is enabled, its last error and its failures."""
    account, _, view = await house.start(spec)
    for n in range(count):
        house.now = NOON + n * HOUR
        assert await house.runs.run_due() == 1
        await house.fail((await house.made(view.id))[-1]["id"])
    after = await house.service.get(account, view.id)
    return after.enabled, after.last_error, after.failures


async def test_a_run_starts_late_by_its_share_of_the_jitter_and_keeps_its_slot(house: House) -> None:
    account, _, view = await house.start(replace(HOURLY, jitter_seconds=3_000))
    starts = view.next_runs
    slots = [NOON + n * HOUR for n in range(5)]
    late = [start - slot for start, slot in zip(starts, slots, strict=True)]
    assert all(timedelta() <= delay <= timedelta(seconds=3_000) for delay in late)
    assert len(set(late)) == 5
    for slot, start in zip(slots[:3], starts, strict=False):
        house.now = start - timedelta(seconds=1)
        assert await house.runs.run_due() == 0
        assert (await house.service.get(account, view.id)).next_runs[0] == start
        house.now = start
        assert await house.runs.run_due() == 1
        run = (await house.made(view.id))[-1]
        assert run["scheduled_for"] == slot
        await house.complete(run["id"])


async def test_a_worker_of_the_release_before_leaves_the_start_behind_and_nothing_runs_early(
    house: House,
) -> None:
    await house.start(replace(HOURLY, jitter_seconds=600))
    async with house.database.begin() as connection:  # as that release settles a run
        await connection.execute(text("UPDATE schedule SET next_run_at = next_run_at + interval '1 hour'"))
    house.now = NOON + HOUR - timedelta(seconds=1)
    assert await house.runs.run_due() == 0
    house.now = NOON + HOUR
    assert await house.runs.run_due() == 1


async def test_a_schedule_ends_after_its_last_slot(house: House) -> None:
    account, _, view = await house.start(replace(HOURLY, ends_at=NOON + HOUR))
    assert view.next_runs == (NOON, NOON + HOUR)
    for slot, goes_on in ((NOON, True), (NOON + HOUR, False)):
        house.now = slot
        assert await house.runs.run_due() == 1
        await house.complete((await house.made(view.id))[-1]["id"])
        assert (await house.service.get(account, view.id)).enabled is goes_on
    house.now = NOON + 5 * HOUR
    assert await house.runs.run_due() == 0
    for refused in (
        house.service.resume(account, view.id),
        house.service.create(account, (await house.made(view.id))[0]["id"], replace(HOURLY, ends_at=NOON)),
    ):
        with pytest.raises(MailsiftError, match="schedule_ended"):
            await refused
    longer = await house.service.update(account, view.id, lambda spec: replace(spec, ends_at=NOON + 7 * HOUR))
    assert not longer.enabled
    resumed = await house.service.resume(account, view.id)
    assert resumed.next_runs == (NOON + 6 * HOUR, NOON + 7 * HOUR)
    with pytest.raises(MailsiftError, match="schedule_ended"):
        await house.service.update(account, view.id, lambda spec: replace(spec, ends_at=NOON))


async def test_five_failed_runs_in_a_row_pause_a_schedule_and_say_why(house: House) -> None:
    assert await failed_runs(house, HOURLY, 4) == (True, "", 4)
    account = await house.jobs.account("a")
    (view,) = await house.service.list(account)
    house.now = NOON + 4 * HOUR
    assert await house.runs.run_due() == 1
    await house.fail((await house.made(view.id))[-1]["id"])
    paused = await house.service.get(account, view.id)
    assert (paused.enabled, paused.last_error, paused.next_runs) == (False, "runs_failed", ())
    house.now = NOON + 9 * HOUR
    assert await house.runs.run_due() == 0
    resumed = await house.service.resume(account, view.id)
    assert (resumed.enabled, resumed.last_error, resumed.failures) == (True, "", 0)


async def test_a_run_that_completes_begins_the_count_anew_and_a_cancelled_one_does_not(house: House) -> None:
    spec = replace(HOURLY, pause_after_failures=2)
    account, _, view = await house.start(spec)
    ends = ["fail", "complete", "fail", "cancel", "fail"]
    told = []
    for n, end in enumerate(ends):
        house.now = NOON + n * HOUR
        assert await house.runs.run_due() == 1
        job = (await house.made(view.id))[-1]["id"]
        await {"fail": house.fail, "complete": house.complete}.get(
            end, lambda job: house.jobs.cancel(account, job)
        )(job)
        after = await house.service.get(account, view.id)
        told.append((after.failures, after.enabled))
    assert told == [(1, True), (0, True), (1, True), (1, True), (2, False)]


async def test_with_zero_a_schedule_never_pauses_itself(house: House) -> None:
    assert await failed_runs(house, replace(HOURLY, pause_after_failures=0), 7) == (True, "", 7)


async def test_a_pause_while_a_run_is_being_made_is_not_undone_by_it(house: House) -> None:
    account, _, view = await house.start(replace(HOURLY, pause_after_failures=1))
    job = await house.service.run_now(account, view.id)
    house.now = NOON
    async with house.database.begin() as connection:
        row = await schedule_rows.claim(connection, now=house.now, until=house.now + LEASE)
    assert row is not None
    await house.fail(job)
    assert await house.runs._work(row) == 0
    after = await house.service.get(account, view.id)
    assert (after.enabled, after.last_error) == (False, "runs_failed")
    assert [run["id"] for run in await house.made(view.id)] == [job]
