"""Schedules on a real PostgreSQL: only the clock is moved."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock
from uuid import uuid4

import polars as pl
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from mailsift.jobs.metrics import SCHEDULE_MISSED
from mailsift.jobs.schedules import RUN_LEASE, CatchUp, Overlap, Recheck
from mailsift.jobs.views import JobOptions, load_options
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.storage.blobs import Blobs, JobBlobs
from mailsift.storage.sql import schedules
from mailsift.storage.states import JobState
from tests.support.captured_metrics import Counted
from tests.support.job_states import put_job
from tests.support.schedules import HOURLY, NOON, Scheduling


async def test_a_slot_becomes_one_job_with_the_same_list_however_many_sweep(scheduling: Scheduling) -> None:
    _, source, view = await scheduling.start()
    assert view.next_runs == tuple(NOON + timedelta(hours=n) for n in range(5))
    assert await scheduling.runs.run_due() == 0
    scheduling.now = NOON + timedelta(seconds=3)
    assert sum(await asyncio.gather(*(scheduling.runs.run_due() for _ in range(8)))) == 1
    (run,) = await scheduling.made(view.id)
    assert (run["scheduled_for"], run["parent_id"], run["state"]) == (NOON, source, "uploading")
    assert (run["name"], run["source_name"]) == ("list", "list.csv")
    options = load_options(run["options"])
    assert (options.mode, options.column, options.max_age) == (Mode.FAST, "email", 0.0)
    stored = await scheduling.blobs.fetch(JobBlobs(run["id"]).source)
    assert stored.read_text() == "email\na@example.com\nb@example.com\n"
    after = await scheduling.service.get(await scheduling.jobs.account("a"), view.id)
    assert (after.last_run_at, after.next_runs[0]) == (NOON, NOON + timedelta(hours=1))


async def test_one_slot_never_has_two_jobs(scheduling: Scheduling) -> None:
    account, _, view = await scheduling.start()
    scheduling.now = NOON
    await scheduling.runs.run_due()
    other = await scheduling.jobs.submit(account, scheduling.scratch / "list.csv", JobOptions())
    with pytest.raises(IntegrityError):
        async with scheduling.database.begin() as connection:
            await schedules.attach(connection, other, view.id, NOON)


async def test_a_slot_that_comes_again_as_the_clock_was_put_back_is_left_out(scheduling: Scheduling) -> None:
    account, _, view = await scheduling.start()
    scheduling.now = NOON
    assert await scheduling.runs.run_due() == 1
    await scheduling.complete((await scheduling.made(view.id))[0]["id"])
    scheduling.now = NOON - timedelta(minutes=10)
    await scheduling.service.pause(account, view.id)
    assert (await scheduling.service.resume(account, view.id)).next_runs[0] == NOON
    scheduling.now = NOON
    assert await scheduling.runs.run_due() == 0
    scheduling.now = NOON + timedelta(hours=1)
    assert await scheduling.runs.run_due() == 1
    assert [run["scheduled_for"].hour for run in await scheduling.made(view.id)] == [12, 13]


@pytest.mark.parametrize("catch_up", CatchUp)
async def test_a_run_whose_maker_died_is_made_by_another(scheduling: Scheduling, catch_up: CatchUp) -> None:
    _, _, view = await scheduling.start(replace(HOURLY, catch_up=catch_up))
    scheduling.now = NOON
    async with scheduling.database.begin() as connection:  # and nothing more is heard of who claimed it
        assert await schedules.claim(connection, now=NOON, until=NOON + RUN_LEASE) is not None
    assert await scheduling.runs.run_due() == 0
    scheduling.now = NOON + timedelta(minutes=11)
    assert await scheduling.runs.run_due() == 1
    (made,) = await scheduling.made(view.id)
    assert made["scheduled_for"] == NOON


@pytest.mark.parametrize("catch_up", CatchUp)
async def test_a_run_that_could_not_be_made_is_made_as_soon_as_what_it_needs_is_back(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch, catch_up: CatchUp
) -> None:
    _, _, view = await scheduling.start(replace(HOURLY, catch_up=catch_up))
    scheduling.now = NOON
    with monkeypatch.context() as patch:
        away = MailsiftError("blob_store_failed", "The store is away.", retryable=True)
        patch.setattr(Blobs, "fetch", AsyncMock(side_effect=away))
        for _ in range(2):
            with pytest.raises(MailsiftError, match="blob_store_failed"):
                await scheduling.runs.run_due()
            scheduling.now += timedelta(seconds=5)
            assert await scheduling.runs.run_due() == 0  # others are not kept waiting
            scheduling.now += timedelta(seconds=5)
    assert await scheduling.runs.run_due() == 1
    (made,) = await scheduling.made(view.id)
    assert made["scheduled_for"] == NOON


async def test_a_slot_that_kills_its_makers_is_missed_and_said_to_be_where_none_is_caught_up(
    scheduling: Scheduling,
) -> None:
    account, _, view = await scheduling.start(replace(HOURLY, catch_up=CatchUp.NONE))
    for taken_at in (NOON, NOON + timedelta(minutes=11)):
        async with scheduling.database.begin() as connection:
            assert await schedules.claim(connection, now=taken_at, until=taken_at + RUN_LEASE) is not None
    scheduling.now = NOON + timedelta(minutes=22)
    assert await scheduling.runs.run_due() == 0
    assert (await scheduling.service.get(account, view.id)).last_error == "missed"


async def test_skip_leaves_a_slot_out_while_the_run_before_goes_on(scheduling: Scheduling) -> None:
    account, _, view = await scheduling.start()
    scheduling.now = NOON
    await scheduling.runs.run_due()
    scheduling.now = NOON + timedelta(hours=1)
    assert await scheduling.runs.run_due() == 0
    assert (await scheduling.service.get(account, view.id)).last_error == "still_running"
    await scheduling.complete((await scheduling.made(view.id))[0]["id"])
    scheduling.now = NOON + timedelta(hours=2)
    assert await scheduling.runs.run_due() == 1
    assert [run["scheduled_for"].hour for run in await scheduling.made(view.id)] == [12, 14]


async def test_queue_runs_a_slot_when_the_run_before_has_ended(scheduling: Scheduling) -> None:
    _, _, view = await scheduling.start(replace(HOURLY, overlap=Overlap.QUEUE))
    scheduling.now = NOON
    await scheduling.runs.run_due()
    scheduling.now = NOON + timedelta(hours=1)
    assert await scheduling.runs.run_due() == 0
    await scheduling.complete((await scheduling.made(view.id))[0]["id"])
    scheduling.now += timedelta(minutes=20)
    assert await scheduling.runs.run_due() == 1
    assert [run["scheduled_for"].hour for run in await scheduling.made(view.id)] == [12, 13]


async def test_cancel_previous_ends_the_run_before(scheduling: Scheduling) -> None:
    _, _, view = await scheduling.start(replace(HOURLY, overlap=Overlap.CANCEL_PREVIOUS))
    scheduling.now = NOON
    await scheduling.runs.run_due()
    (first,) = await scheduling.made(view.id)
    async with scheduling.database.begin() as connection:
        await put_job(connection, first["id"], JobState.RUNNING)
    scheduling.now = NOON + timedelta(hours=1)
    assert await scheduling.runs.run_due() == 1
    assert [run["state"] for run in await scheduling.made(view.id)] == ["cancelled", "uploading"]


async def test_cancel_previous_ends_no_run_when_there_is_nothing_to_run_instead(
    scheduling: Scheduling,
) -> None:
    account, source, view = await scheduling.start(replace(HOURLY, overlap=Overlap.CANCEL_PREVIOUS))
    scheduling.now = NOON
    await scheduling.runs.run_due()
    await scheduling.blobs.delete_prefix(JobBlobs(source).prefix)
    scheduling.now = NOON + timedelta(hours=1)
    assert await scheduling.runs.run_due() == 0
    assert (await scheduling.service.get(account, view.id)).last_error == "blob_not_found"
    assert [run["state"] for run in await scheduling.made(view.id)] == ["uploading"]


@pytest.mark.parametrize("catch_up", CatchUp)
async def test_a_queued_slot_is_run_however_long_the_run_before_took(
    scheduling: Scheduling, catch_up: CatchUp
) -> None:
    spec = replace(HOURLY, cron="0 12 * * *", overlap=Overlap.QUEUE, catch_up=catch_up)
    _, _, view = await scheduling.start(spec)
    scheduling.now = NOON
    assert await scheduling.runs.run_due() == 1
    (first,) = await scheduling.made(view.id)
    await scheduling.complete(first["id"])
    scheduling.now = NOON + timedelta(hours=47)
    async with scheduling.database.begin() as connection:
        ended = text("UPDATE job SET finished_at = :now WHERE id = :id")
        await connection.execute(ended, {"now": scheduling.now, "id": first["id"]})
    assert await scheduling.runs.run_due() == 1
    assert [run["scheduled_for"] for run in await scheduling.made(view.id)] == [
        NOON,
        NOON + timedelta(days=1),
    ]


@pytest.mark.parametrize("overlap", [Overlap.QUEUE, Overlap.SKIP])
async def test_all_missed_slots_are_caught_up_one_after_the_other(
    scheduling: Scheduling, overlap: Overlap
) -> None:
    spec = replace(HOURLY, overlap=overlap, catch_up=CatchUp.ALL)
    _, _, view = await scheduling.start(spec)
    scheduling.now = NOON + timedelta(hours=2, minutes=10)
    for count in (1, 2, 3):
        assert await scheduling.runs.run_due() == 1
        runs = await scheduling.made(view.id)
        assert len(runs) == count
        await scheduling.complete(runs[-1]["id"])
    assert await scheduling.runs.run_due() == 0
    assert [run["scheduled_for"].hour for run in await scheduling.made(view.id)] == [12, 13, 14]


async def test_skip_leaves_out_the_next_slot_in_time_also_where_missed_ones_are_caught_up(
    scheduling: Scheduling,
) -> None:
    account, _, view = await scheduling.start(replace(HOURLY, catch_up=CatchUp.ALL))
    scheduling.now = NOON
    await scheduling.runs.run_due()
    scheduling.now = NOON + timedelta(hours=1, seconds=5)
    assert await scheduling.runs.run_due() == 0
    assert (await scheduling.service.get(account, view.id)).last_error == "still_running"


async def test_risky_rechecks_only_what_ended_risky_the_last_time(scheduling: Scheduling) -> None:
    account, source, view = await scheduling.start(replace(HOURLY, recheck=Recheck.RISKY))
    scheduling.now, counted = NOON, Counted(SCHEDULE_MISSED)
    assert await scheduling.runs.run_due() == 0
    assert (await scheduling.service.get(account, view.id)).last_error == "no_results_yet"
    assert dict(counted) == {("schedule_missed_total", "nothing_to_retry"): 1}  # that is nobody's fault
    await scheduling.complete(source)
    scheduling.now = NOON + timedelta(hours=1)
    assert await scheduling.runs.run_due() == 1
    (run,) = await scheduling.made(view.id)
    path = await scheduling.blobs.fetch(JobBlobs(run["id"]).source)
    assert pl.read_parquet(path).to_dict(as_series=False) == {"email": ["b@example.com"]}
    options = load_options(run["options"])
    assert (options.column, options.part) == ("email", True)


async def test_stale_uses_what_is_remembered_and_is_fresh_enough(scheduling: Scheduling) -> None:
    options = JobOptions(mode=Mode.FAST, column="email", max_age=3_600)
    _, _, view = await scheduling.start(replace(HOURLY, recheck=Recheck.STALE, options=options))
    scheduling.now = NOON
    assert await scheduling.runs.run_due() == 1
    (run,) = await scheduling.made(view.id)
    assert load_options(run["options"]).max_age == 3_600


async def test_a_schedule_is_changed_paused_resumed_run_now_and_deleted(scheduling: Scheduling) -> None:
    account, _, view = await scheduling.start()
    changed = await scheduling.service.update(
        account, view.id, lambda spec: replace(spec, cron="30 2 * * *", zone="Europe/Berlin")
    )
    assert changed.next_runs[0] == datetime(2026, 5, 5, 0, 30, tzinfo=UTC)
    assert (await scheduling.service.pause(account, view.id)).next_runs == ()
    scheduling.now += timedelta(days=3)
    assert await scheduling.runs.run_due() == 0
    job = await scheduling.service.run_now(account, view.id)
    assert [run.job.id for run in await scheduling.service.runs(account, view.id)] == [job]
    resumed = await scheduling.service.resume(account, view.id)
    assert resumed.next_runs[0] > scheduling.now
    assert await scheduling.runs.run_due() == 0
    with pytest.raises(MailsiftError, match="schedule_cron_invalid"):
        await scheduling.service.update(account, view.id, lambda spec: replace(spec, cron="never"))
    await scheduling.service.delete(account, view.id)
    assert list(await scheduling.service.list(account)) == []
    assert (await scheduling.jobs.get(account, job)).id == job


@pytest.mark.parametrize(
    ("change", "hours"),
    [
        ({"name": "another"}, [12, 13]),
        ({"ends_at": NOON + timedelta(hours=9)}, [12, 13]),
        ({"cron": "30 * * * *"}, [12]),
    ],
    ids=["name", "end", "cron"],
)
async def test_a_change_does_not_forget_the_slot_that_waits_unless_it_asks_for_others(
    scheduling: Scheduling, change: dict[str, Any], hours: list[int]
) -> None:
    account, _, view = await scheduling.start(replace(HOURLY, overlap=Overlap.QUEUE))
    scheduling.now = NOON
    await scheduling.runs.run_due()
    scheduling.now = NOON + timedelta(hours=1, minutes=10)
    assert await scheduling.runs.run_due() == 0  # the slot of one o'clock waits for the run of noon
    await scheduling.service.update(account, view.id, lambda spec: replace(spec, **change))
    await scheduling.complete((await scheduling.made(view.id))[0]["id"])
    scheduling.now += timedelta(minutes=10)
    await scheduling.runs.run_due()
    assert [run["scheduled_for"].hour for run in await scheduling.made(view.id)] == hours


async def test_changes_at_the_same_time_undo_none_of_each_other(scheduling: Scheduling) -> None:
    account, _, view = await scheduling.start()
    service = scheduling.service
    await asyncio.gather(
        service.update(account, view.id, lambda spec: replace(spec, name="another")),
        service.update(account, view.id, lambda spec: replace(spec, cron="30 2 * * *")),
        service.update(account, view.id, lambda spec: replace(spec, pause_after_failures=2)),
    )
    spec = (await service.get(account, view.id)).spec
    assert (spec.name, spec.cron, spec.pause_after_failures) == ("another", "30 2 * * *", 2)


async def test_a_schedule_whose_list_is_gone_pauses_itself(scheduling: Scheduling) -> None:
    account, source, view = await scheduling.start()
    await scheduling.jobs.submit(
        account, scheduling.scratch / "list.csv", JobOptions()
    )  # an empty store is away
    await scheduling.blobs.delete_prefix(JobBlobs(source).prefix)
    scheduling.now = NOON
    assert await scheduling.runs.run_due() == 0
    after = await scheduling.service.get(account, view.id)
    assert (after.enabled, after.last_error) == (False, "blob_not_found")
    with pytest.raises(MailsiftError, match="schedule_source_gone"):
        await scheduling.service.run_now(account, view.id)


async def test_a_job_that_is_deleted_while_its_results_are_fetched_is_not_there(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, job, _ = await scheduling.start()
    await scheduling.complete(job)
    fetch = scheduling.blobs.fetch

    async def late(key: str) -> Path:
        monkeypatch.undo()
        await scheduling.jobs.delete(account, job)
        return await fetch(key)

    monkeypatch.setattr(scheduling.blobs, "fetch", late)
    with pytest.raises(MailsiftError, match="job_not_found"):
        async with scheduling.jobs.browser.results(account, job):
            pass


async def test_what_is_anothers_does_not_exist(scheduling: Scheduling) -> None:
    _, source, view = await scheduling.start()
    other = await scheduling.jobs.account("b")
    service = scheduling.service
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
