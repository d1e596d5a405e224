"""What operators see of a real database: across accounts, by filter, and while Redis is gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from mailsift.container import open_container
from mailsift.jobs.admin.actions import JobAction, Operations
from mailsift.jobs.service import JobService
from mailsift.jobs.views import JobId
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.throttle import SessionOutcome
from mailsift.settings import Settings
from mailsift.storage.sql.jobs import JobFilter
from mailsift.storage.states import JobState
from tests.support.busy_installation import fill, report_sessions, strand_messages
from tests.support.installation import settings_for
from tests.support.ready_jobs import FAST, Planter, engine_on, work_until_ended

ADDRESSES = [f"user{n}@example.com" for n in range(6)] + ["no address"]


async def test_an_empty_installation_has_a_picture_too(ops: Operations) -> None:
    seen = await ops.console.overview()
    assert (seen.stats.rate, seen.left.seconds, seen.stats.today, dict(seen.stats.jobs)) == (
        0.0,
        0.0,
        (0, 0, 0),
        {},
    )
    assert [alarm.code for alarm in seen.alarms] == ["no_workers"]
    assert len(seen.stats.minutes) == 61
    assert (await ops.console.jobs(JobFilter())).jobs == []


async def test_what_was_done_is_counted_once_by_the_commit_itself(
    settings: Settings, ops: Operations, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES, chunk=2)
    before = await ops.console.overview()
    assert (before.stats.addresses("ready"), before.stats.chunk_count("ready")) == (7, 4)
    assert before.left.seconds is None  # nobody is there to work
    async with engine_on(settings) as engine:
        await work_until_ended(engine, service, account, job)
    seen = await ops.console.overview()
    minutes = seen.stats.minutes
    assert sum(one.chunks for one in minutes) == 4
    assert sum(one.addresses for one in minutes) == 7
    assert seen.stats.today == (6, 1, 0)
    assert seen.stats.backlog == 0
    assert seen.left.seconds == 0.0
    assert 7 / 400 < seen.stats.rate <= 7 / 300
    assert seen.stats.drift == []


async def test_a_counter_that_disagrees_with_the_chunks_is_found(ops: Operations, planter: Planter) -> None:
    _, job = await planter.plant(ADDRESSES, chunk=2)
    assert (await ops.console.overview()).stats.drift == []
    await planter.sql("DELETE FROM chunk WHERE n = 3")
    seen = await ops.console.overview()
    assert [(one.job_id, one.chunks_open) for one in seen.stats.drift] == [(job, 1)]
    assert "counter_drift" in {alarm.code for alarm in seen.alarms}


async def test_jobs_that_are_paused_are_no_backlog(
    ops: Operations, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES)
    await service.pause(account, job)
    seen = await ops.console.overview()
    assert seen.stats.backlog == 0
    (left,) = [one.row for one in seen.backlogs]
    assert (left.ready, left.waiting, left.until) == (0, left.remaining, None)
    assert left.waits_for == "paused"


async def test_a_busy_installation_is_told_in_full(settings: Settings, ops: Operations) -> None:
    await fill(settings)
    await report_sessions(
        settings,
        {"google": [SessionOutcome.CLEAN, SessionOutcome.RATE], "yahoo": [SessionOutcome.BLOCKED] * 5},
    )
    await strand_messages(settings, queued=3, unacked=2)
    seen = await ops.console.overview()
    backlogs = {one.row.throttle_key: one for one in seen.backlogs}
    assert seen.stats.chunk_count("ready", "waiting", "leased") == 240  # 12 jobs run or wait
    assert seen.stats.chunk_count("leased") == sum(worker.chunks for worker in seen.stats.workers) > 0
    assert backlogs["google"].row.waiting > 0
    assert backlogs["google"].row.waits_for == "throttled"
    assert {"schedules_late", "provider_closed", "worker_gone", "broker_stranded"} <= {
        alarm.code for alarm in seen.alarms
    }
    outbox, endpoints = await ops.console.deliveries()
    assert (outbox.pending > 0, outbox.exhausted > 0, outbox.due) == (True, True, 0)
    assert endpoints[0].failures == 4
    schedules = await ops.console.schedules()
    assert [(one.late_s > 400, one.last_error) for one in schedules] == [
        (True, ""),
        (False, "missed"),
        (False, ""),
    ]
    broker = await ops.reader.broker()
    assert broker is not None
    assert (broker.queued, broker.unacked) == (3, 2)


async def test_jobs_of_all_accounts_are_found_by_what_is_known_of_them(
    settings: Settings, ops: Operations
) -> None:
    await fill(settings)
    jobs = ops.console.jobs
    everything = await jobs(JobFilter(), limit=1_000)
    assert (len(everything.jobs), everything.matching) == (60, 60)
    assert [seen.view.name for seen in everything.jobs[:2]] == ["newsletter 1", "newsletter 2"]
    running = await jobs(JobFilter(states=("running",)), limit=100)
    assert {seen.view.state for seen in running.jobs} == {JobState.RUNNING}
    assert {seen.account for seen in (await jobs(JobFilter(account="acme"))).jobs} == {"acme"}
    assert (await jobs(JobFilter(account="acm"))).matching == 0
    assert (await jobs(JobFilter(text="LETTER 5"))).matching == 11
    assert (await jobs(JobFilter(text="subscribers-17.csv"))).matching == 1
    assert (await jobs(JobFilter(text="%"))).matching == 0  # no wildcard of theirs
    some = running.jobs[0].view
    assert [seen.view.id for seen in (await jobs(JobFilter(text=str(some.id)[:8].upper()))).jobs] == [some.id]
    now = datetime.now(UTC)  # noqa: TID251 - the rows are as old as the database's clock says
    young = JobFilter(after=now - timedelta(minutes=45))
    old = JobFilter(before=now - timedelta(minutes=45))
    assert ((await jobs(young)).matching, (await jobs(old)).matching) == (4, 56)


async def test_pages_follow_one_another_without_a_gap(settings: Settings, ops: Operations) -> None:
    await fill(settings)
    pages = [await ops.console.jobs(JobFilter(), limit=7, page=number) for number in range(1, 11)]
    seen = [one.view.id for page in pages for one in page.jobs]
    assert len(seen) == len(set(seen)) == 60
    largest = (await ops.console.jobs(JobFilter(), limit=60, sort="-done")).jobs
    done = [one.view.processed for one in largest]
    assert done == sorted(done, reverse=True)


async def test_a_job_is_shown_with_its_backlogs_chunks_leases_events_and_history(
    ops: Operations, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES, chunk=1, options=replace(FAST, name="spring"))
    await planter.sql(
        "UPDATE chunk SET state = 'leased', lease_token = gen_random_uuid(), lease_owner = 'w',"
        " leased_at = clock_timestamp(), lease_until = clock_timestamp() + interval '1 h' WHERE n = 2"
    )
    await planter.sql(
        "UPDATE chunk SET lane = 'google', waits_for = 'throttled',"
        " ready_at = clock_timestamp() + interval '1 h' WHERE n = 3"
    )
    await ops.jobs.one("olga", JobAction.RAISE, job)
    seen = await ops.console.job(job)
    assert (seen.job.account, seen.priority) == ("tests", "high")
    assert {
        one.row.throttle_key: (one.row.ready, one.row.leased, one.row.waiting) for one in seen.backlogs
    } == {
        "": (5, 1, 0),
        "google": (0, 0, 1),
    }
    (google,) = [one for one in seen.backlogs if one.row.throttle_key == "google"]
    assert (google.rate, google.row.waits_for) == (5000.0, "throttled")
    kinds = [
        next(name for name in ("leased", "waiting", "ready", "done") if getattr(span, name))
        for span in seen.strip
    ]
    assert kinds == ["ready", "ready", "leased", "waiting", "ready", "ready", "ready"]
    assert [(lease.n, lease.owner) for lease in seen.leases] == [(2, "w")]
    assert [(line.action, line.actor) for line in seen.audit] == [("job.priority_high", "olga")]
    await service.cancel(account, job)
    (event,) = (await ops.console.job(job)).events
    assert (event.type, event.deliveries) == ("bulk.validation.failed", {})
    with pytest.raises(MailsiftError) as refused:
        await ops.console.job(JobId(uuid4()))
    assert refused.value.code == "job_not_found"


async def test_a_strip_has_a_bounded_number_of_cells(settings: Settings, ops: Operations) -> None:
    await fill(settings, jobs=1, chunks=1_000, running=1)
    (job,) = (await ops.console.jobs(JobFilter())).jobs
    strip = (await ops.console.job(job.view.id)).strip
    assert len(strip) == 240
    assert sum(span.ready + span.leased + span.waiting for span in strip) == 1_000
    assert (strip[0].first, strip[-1].last) == (0, 999)


async def test_while_redis_is_gone_everything_that_the_database_knows_is_shown(
    settings: Settings, tmp_path: Path
) -> None:
    await fill(settings)
    assert settings.database_url is not None
    alone = settings_for(
        tmp_path / "alone",
        database_url=settings.database_url.get_secret_value(),
        redis_url="redis://127.0.0.1:1",
        sandbox={},
    )
    async with open_container(alone) as container:
        ops = container.operations
        seen = await ops.console.overview()
        assert "redis_gone" in {alarm.code for alarm in seen.alarms}
        assert seen.stats.backlog > 0
        assert await ops.console.throttles() is None
        assert await ops.reader.broker() is None
        assert await ops.console.facts("example.com") is None
        assert (await ops.console.throttle("google", "")).state == "open"
        for order in (
            ops.throttles.reset("olga", "google", ""),
            ops.throttles.forget("olga", "example.com"),
        ):
            with pytest.raises(MailsiftError) as refused:
                await order
            assert refused.value.code == "redis_unavailable"
