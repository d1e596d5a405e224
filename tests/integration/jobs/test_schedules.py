"""Schedules on a real PostgreSQL: only the clock is moved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import polars as pl
import pytest
from sqlalchemy.exc import IntegrityError

from jobs.options import load_options
from jobs.schedule_views import Overlap, Recheck
from jobs.timetable import CatchUp
from jobs.views import JobOptions
from pipeline.errors import MailsiftError
from pipeline.facts import Mode
from storage import job_rows, schedule_rows
from storage.blobs import Blobs, JobBlobs
from storage.database import Database
from tests.schedule_house import HOURLY, NOON, House


@pytest.fixture
async def house(database_url: str, tmp_path: Path) -> AsyncIterator[House]:
    database = Database(database_url)
    try:
        yield House(database, Blobs((tmp_path / "blobs").as_uri(), tmp_path / "cache"), tmp_path)
    finally:
        await database.aclose()


async def test_a_slot_becomes_one_job_with_the_same_list_however_many_sweep(house: House) -> None:
    _, source, view = await house.start()
    assert view.next_runs == tuple(NOON + timedelta(hours=n) for n in range(5))
    assert await house.runs.run_due() == 0
    house.now = NOON + timedelta(seconds=3)
    assert sum(await asyncio.gather(*(house.runs.run_due() for _ in range(8)))) == 1
    (run,) = await house.made(view.id)
    assert (run["scheduled_for"], run["parent_id"], run["state"]) == (NOON, source, "uploading")
    assert (run["name"], run["source_name"]) == ("list", "list.csv")
    options = load_options(run["options"])
    assert (options.mode, options.column, options.max_age) == (Mode.FAST, "email", 0.0)
    stored = await house.blobs.fetch(JobBlobs(run["id"]).source)
    assert stored.read_text() == "email\na@example.com\nb@example.com\n"
    after = await house.service.get(await house.jobs.account("a"), view.id)
    assert (after.last_run_at, after.next_runs[0]) == (NOON, NOON + timedelta(hours=1))


async def test_one_slot_never_has_two_jobs(house: House) -> None:
    account, _, view = await house.start()
    house.now = NOON
    await house.runs.run_due()
    other = await house.jobs.submit(account, house.scratch / "list.csv", JobOptions())
    with pytest.raises(IntegrityError):
        async with house.database.begin() as connection:
            await schedule_rows.attach(connection, other, view.id, NOON)


async def test_a_run_whose_maker_died_is_made_by_another(house: House) -> None:
    _, _, view = await house.start()
    house.now = NOON
    assert await house.runs._claim() is not None  # and nothing more is heard of it
    assert await house.runs.run_due() == 0
    house.now = NOON + timedelta(minutes=11)
    assert await house.runs.run_due() == 1
    assert [run["scheduled_for"] for run in await house.made(view.id)] == [NOON]


async def test_skip_leaves_a_slot_out_while_the_run_before_goes_on(house: House) -> None:
    account, _, view = await house.start()
    house.now = NOON
    await house.runs.run_due()
    house.now = NOON + timedelta(hours=1)
    assert await house.runs.run_due() == 0
    assert (await house.service.get(account, view.id)).last_error == "still_running"
    await house.complete((await house.made(view.id))[0]["id"])
    house.now = NOON + timedelta(hours=2)
    assert await house.runs.run_due() == 1
    assert [run["scheduled_for"].hour for run in await house.made(view.id)] == [12, 14]


async def test_queue_runs_a_slot_when_the_run_before_has_ended(house: House) -> None:
    _, _, view = await house.start(replace(HOURLY, overlap=Overlap.QUEUE))
    house.now = NOON
    await house.runs.run_due()
    house.now = NOON + timedelta(hours=1)
    assert await house.runs.run_due() == 0
    await house.complete((await house.made(view.id))[0]["id"])
    house.now += timedelta(minutes=20)
    assert await house.runs.run_due() == 1
    assert [run["scheduled_for"].hour for run in await house.made(view.id)] == [12, 13]


async def test_cancel_previous_ends_the_run_before(house: House) -> None:
    _, _, view = await house.start(replace(HOURLY, overlap=Overlap.CANCEL_PREVIOUS))
    house.now = NOON
    await house.runs.run_due()
    (first,) = await house.made(view.id)
    async with house.database.begin() as connection:
        await job_rows.move(connection, first["id"], to="running", allowed={"uploading"})
    house.now = NOON + timedelta(hours=1)
    assert await house.runs.run_due() == 1
    assert [run["state"] for run in await house.made(view.id)] == ["cancelled", "uploading"]


async def test_all_missed_slots_are_caught_up_one_after_the_other(house: House) -> None:
    spec = replace(HOURLY, overlap=Overlap.QUEUE, catch_up=CatchUp.ALL)
    _, _, view = await house.start(spec)
    house.now = NOON + timedelta(hours=2, minutes=10)
    for count in (1, 2, 3):
        assert await house.runs.run_due() == 1
        runs = await house.made(view.id)
        assert len(runs) == count
        await house.complete(runs[-1]["id"])
    assert await house.runs.run_due() == 0
    assert [run["scheduled_for"].hour for run in await house.made(view.id)] == [12, 13, 14]


async def test_risky_rechecks_only_what_ended_risky_the_last_time(house: House) -> None:
    account, source, view = await house.start(replace(HOURLY, recheck=Recheck.RISKY))
    house.now = NOON
    assert await house.runs.run_due() == 0
    assert (await house.service.get(account, view.id)).last_error == "no_results_yet"
    await house.complete(source)
    house.now = NOON + timedelta(hours=1)
    assert await house.runs.run_due() == 1
    (run,) = await house.made(view.id)
    path = await house.blobs.fetch(JobBlobs(run["id"]).source)
    assert pl.read_parquet(path).to_dict(as_series=False) == {"email": ["b@example.com"]}
    assert load_options(run["options"]).column == "email"


async def test_stale_uses_what_is_remembered_and_is_fresh_enough(house: House) -> None:
    options = JobOptions(mode=Mode.FAST, column="email", max_age=3_600)
    _, _, view = await house.start(replace(HOURLY, recheck=Recheck.STALE, options=options))
    house.now = NOON
    assert await house.runs.run_due() == 1
    (run,) = await house.made(view.id)
    assert load_options(run["options"]).max_age == 3_600


async def test_a_schedule_is_changed_paused_resumed_run_now_and_deleted(house: House) -> None:
    account, _, view = await house.start()
    changed = await house.service.update(
        account, view.id, lambda spec: replace(spec, cron="30 2 * * *", zone="Europe/Berlin")
    )
    assert changed.next_runs[0] == datetime(2026, 5, 5, 0, 30, tzinfo=UTC)
    assert (await house.service.pause(account, view.id)).next_runs == ()
    house.now += timedelta(days=3)
    assert await house.runs.run_due() == 0
    job = await house.service.run_now(account, view.id)
    assert [run.job.id for run in await house.service.runs(account, view.id)] == [job]
    resumed = await house.service.resume(account, view.id)
    assert resumed.next_runs[0] > house.now
    assert await house.runs.run_due() == 0
    with pytest.raises(MailsiftError, match="schedule_cron_invalid"):
        await house.service.update(account, view.id, lambda spec: replace(spec, cron="never"))
    await house.service.delete(account, view.id)
    assert list(await house.service.list(account)) == []
    assert (await house.jobs.get(account, job)).id == job


async def test_a_schedule_whose_list_is_gone_pauses_itself(house: House) -> None:
    account, source, view = await house.start()
    await house.blobs.delete_prefix(JobBlobs(source).prefix)
    house.now = NOON
    assert await house.runs.run_due() == 0
    after = await house.service.get(account, view.id)
    assert (after.enabled, after.last_error) == (False, "blob_not_found")


async def test_what_is_anothers_does_not_exist(house: House) -> None:
    _, source, view = await house.start()
    other = await house.jobs.account("b")
    service = house.service
    for asked in (
        service.get(other, view.id),
        service.update(other, view.id, lambda spec: spec),
        service.pause(other, view.id),
        service.resume(other, view.id),
        service.runs(other, view.id),
        service.run_now(other, view.id),
        service.delete(other, view.id),
        service.get(other, uuid4()),
    ):
        with pytest.raises(MailsiftError, match="schedule_not_found"):
            await asked
    with pytest.raises(MailsiftError, match="job_not_found"):
        await service.create(other, source, HOURLY)
