"""Schedules that spread, end and pause themselves, on a real PostgreSQL: only the clock is moved."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from mailsift.jobs.schedules import CatchUp, Overlap, ScheduleSpec
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Connection
from mailsift.storage.sql import schedules
from tests.support.schedules import HOURLY, NOON, Scheduling

HOUR = timedelta(hours=1)


async def failed_runs(scheduling: Scheduling, spec: ScheduleSpec, count: int) -> tuple[bool, str, int]:
    """Let so many runs fail; return whether the schedule is enabled, its last error and its failures."""
    account, _, view = await scheduling.start(spec)
    for n in range(count):
        scheduling.now = NOON + n * HOUR
        assert await scheduling.runs.run_due() == 1
        await scheduling.fail((await scheduling.made(view.id))[-1]["id"])
    after = await scheduling.service.get(account, view.id)
    return after.enabled, after.last_error, after.failures


async def test_a_run_starts_late_by_its_share_of_the_jitter_and_keeps_its_slot(
    scheduling: Scheduling,
) -> None:
    account, _, view = await scheduling.start(replace(HOURLY, jitter_seconds=3_000))
    starts = view.next_runs
    slots = [NOON + n * HOUR for n in range(5)]
    late = [start - slot for start, slot in zip(starts, slots, strict=True)]
    assert all(timedelta() <= delay <= timedelta(seconds=3_000) for delay in late)
    assert len(set(late)) > 1  # chance may draw one twice
    for slot, start in zip(slots[:3], starts, strict=False):
        scheduling.now = start - timedelta(seconds=1)
        assert await scheduling.runs.run_due() == 0
        assert (await scheduling.service.get(account, view.id)).next_runs[0] == start
        scheduling.now = start
        assert await scheduling.runs.run_due() == 1
        run = (await scheduling.made(view.id))[-1]
        assert run["scheduled_for"] == slot
        await scheduling.complete(run["id"])


async def test_who_resumes_what_is_not_paused_drops_no_slot_that_waits(scheduling: Scheduling) -> None:
    account, _, view = await scheduling.start(replace(HOURLY, jitter_seconds=3_000))
    scheduling.now = view.next_runs[0]
    assert scheduling.now > NOON
    assert (await scheduling.service.resume(account, view.id)).enabled
    assert await scheduling.runs.run_due() == 1
    assert [run["scheduled_for"] for run in await scheduling.made(view.id)] == [NOON]


async def test_a_worker_of_the_release_before_leaves_the_start_behind_and_nothing_runs_early(
    scheduling: Scheduling,
) -> None:
    await scheduling.start(replace(HOURLY, jitter_seconds=600))
    async with scheduling.database.begin() as connection:  # as that release settles a run
        await connection.execute(text("UPDATE schedule SET next_run_at = next_run_at + interval '1 hour'"))
    scheduling.now = NOON + HOUR - timedelta(seconds=1)
    assert await scheduling.runs.run_due() == 0
    scheduling.now = NOON + HOUR
    assert await scheduling.runs.run_due() == 1


@pytest.mark.parametrize("catch_up", CatchUp)
@pytest.mark.parametrize("moved", [HOUR, -HOUR], ids=["earlier", "later"])
async def test_a_zone_that_gets_other_rules_loses_no_slot(
    scheduling: Scheduling, moved: timedelta, catch_up: CatchUp
) -> None:
    account, _, view = await scheduling.start(ScheduleSpec(cron="0 12 4 * *", catch_up=catch_up))
    known = NOON + moved  # by the rules of the day it was written down
    async with scheduling.database.begin() as connection:
        await connection.execute(
            text("UPDATE schedule SET next_run_at = :at, starts_at = :at"), {"at": known}
        )
    ran = []
    for minutes in range(-90, 91, 30):
        scheduling.now = NOON + timedelta(minutes=minutes)
        ran += [scheduling.now] * await scheduling.runs.run_due()
        assert (await scheduling.service.get(account, view.id)).last_error == ""
    assert ran == [max(NOON, known)]
    assert [run["scheduled_for"] for run in await scheduling.made(view.id)] == [NOON]


async def test_a_zone_that_a_machine_does_not_know_waits_for_one_that_does(scheduling: Scheduling) -> None:
    account, _, view = await scheduling.start(replace(HOURLY, catch_up=CatchUp.NONE))
    async with scheduling.database.begin() as connection:
        await schedules.change(connection, view.id, zone="Europe/Atlantis")
    scheduling.now = NOON
    assert await scheduling.runs.run_due() == 0
    waits = await scheduling.service.get(account, view.id)
    assert (waits.last_error, waits.next_runs, waits.ended) == ("schedule_zone_invalid", (), False)
    async with scheduling.database.begin() as connection:  # as a machine with newer tables reads it
        await connection.execute(text("UPDATE schedule SET zone = 'UTC'"))
    scheduling.now = NOON + timedelta(minutes=9)
    assert await scheduling.runs.run_due() == 0
    scheduling.now = NOON + timedelta(minutes=11)
    assert await scheduling.runs.run_due() == 1
    assert (await scheduling.service.get(account, view.id)).last_error == ""
    assert [run["scheduled_for"] for run in await scheduling.made(view.id)] == [NOON]


async def test_a_schedule_ends_after_its_last_slot(scheduling: Scheduling) -> None:
    account, _, view = await scheduling.start(replace(HOURLY, ends_at=NOON + HOUR))
    assert view.next_runs == (NOON, NOON + HOUR)
    for slot, goes_on in ((NOON, True), (NOON + HOUR, False)):
        scheduling.now = slot
        assert await scheduling.runs.run_due() == 1
        await scheduling.complete((await scheduling.made(view.id))[-1]["id"])
        assert (await scheduling.service.get(account, view.id)).enabled is goes_on
    scheduling.now = NOON + 5 * HOUR
    assert await scheduling.runs.run_due() == 0
    for refused in (
        scheduling.service.resume(account, view.id),
        scheduling.service.create(
            account, (await scheduling.made(view.id))[0]["id"], replace(HOURLY, ends_at=NOON)
        ),
    ):
        with pytest.raises(MailsiftError, match="schedule_ended"):
            await refused
    longer = await scheduling.service.update(
        account, view.id, lambda spec: replace(spec, ends_at=NOON + 7 * HOUR)
    )
    assert not longer.enabled
    resumed = await scheduling.service.resume(account, view.id)
    assert resumed.next_runs == (NOON + 6 * HOUR, NOON + 7 * HOUR)
    with pytest.raises(MailsiftError, match="schedule_ended"):
        await scheduling.service.update(account, view.id, lambda spec: replace(spec, ends_at=NOON))


async def test_five_failed_runs_in_a_row_pause_a_schedule_and_say_why(scheduling: Scheduling) -> None:
    assert await failed_runs(scheduling, HOURLY, 4) == (True, "", 4)
    account = await scheduling.jobs.account("a")
    (view,) = await scheduling.service.list(account)
    scheduling.now = NOON + 4 * HOUR
    assert await scheduling.runs.run_due() == 1
    await scheduling.fail((await scheduling.made(view.id))[-1]["id"])
    paused = await scheduling.service.get(account, view.id)
    assert (paused.enabled, paused.last_error, paused.next_runs) == (False, "runs_failed", ())
    scheduling.now = NOON + 9 * HOUR
    assert await scheduling.runs.run_due() == 0
    resumed = await scheduling.service.resume(account, view.id)
    assert (resumed.enabled, resumed.last_error, resumed.failures) == (True, "", 0)


async def test_a_run_that_completes_begins_the_count_anew_and_a_cancelled_one_does_not(
    scheduling: Scheduling,
) -> None:
    spec = replace(HOURLY, pause_after_failures=2)
    account, _, view = await scheduling.start(spec)
    ends = ["fail", "complete", "fail", "cancel", "fail"]
    failures = []
    for n, end in enumerate(ends):
        scheduling.now = NOON + n * HOUR
        assert await scheduling.runs.run_due() == 1
        job = (await scheduling.made(view.id))[-1]["id"]
        await {"fail": scheduling.fail, "complete": scheduling.complete}.get(
            end, lambda job: scheduling.jobs.cancel(account, job)
        )(job)
        after = await scheduling.service.get(account, view.id)
        failures.append((after.failures, after.enabled))
    assert failures == [(1, True), (0, True), (1, True), (1, True), (2, False)]


async def test_with_zero_a_schedule_never_pauses_itself(scheduling: Scheduling) -> None:
    assert await failed_runs(scheduling, replace(HOURLY, pause_after_failures=0), 7) == (True, "", 7)


@pytest.mark.parametrize(
    ("overlap", "made", "by_hand"),
    [
        (Overlap.SKIP, 0, "uploading"),
        (Overlap.QUEUE, 0, "uploading"),
        (Overlap.CANCEL_PREVIOUS, 1, "cancelled"),
    ],
)
async def test_a_run_by_hand_starts_at_once_and_is_the_run_before_to_the_next_slot(
    scheduling: Scheduling, overlap: Overlap, made: int, by_hand: str
) -> None:
    account, _, view = await scheduling.start(replace(HOURLY, overlap=overlap))
    first, second = [await scheduling.service.run_now(account, view.id) for _ in range(2)]
    scheduling.now = NOON
    assert await scheduling.runs.run_due() == made
    states = {run["id"]: run["state"] for run in await scheduling.made(view.id)}
    assert (states[first], states[second], len(states)) == (by_hand, by_hand, 2 + made)


async def test_a_pause_while_a_run_is_being_made_is_not_undone_by_it(
    scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch
) -> None:
    account, _, view = await scheduling.start(replace(HOURLY, pause_after_failures=1))
    job = await scheduling.service.run_now(account, view.id)
    scheduling.now = NOON
    open_runs = schedules.open_runs  # looked at when the schedule is claimed

    async def fail_and_look(connection: Connection, schedule_id: UUID) -> list[UUID]:
        await scheduling.fail(job)
        return await open_runs(connection, schedule_id)

    monkeypatch.setattr(schedules, "open_runs", fail_and_look)
    assert await scheduling.runs.run_due() == 0
    after = await scheduling.service.get(account, view.id)
    assert (after.enabled, after.last_error) == (False, "runs_failed")
    assert [run["id"] for run in await scheduling.made(view.id)] == [job]
