"""What an engine counts: how attempts end, what is poison, whose leases ran out, how much is in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mailsift.container import open_service
from mailsift.jobs.engine import engine as engine_module
from mailsift.jobs.engine.chunk import ChunkDone, ChunkWorker
from mailsift.jobs.engine.engine import attempt_at_step
from mailsift.jobs.metrics import (
    ADDRESSES,
    ATTEMPTS,
    FAILING_CHUNKS,
    IN_FLIGHT,
    JOBS_ENDED,
    LEASES_EXPIRED,
    PHASES,
    SCHEDULE_MISSED,
    STEP_ATTEMPTS,
    UP,
    count_missed,
)
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings
from mailsift.storage.sql.chunks import LeaseLostError
from mailsift.storage.sql.jobs import ClaimedStep
from mailsift.storage.states import JobState, JobTransition
from tests.support.captured_metrics import Counted
from tests.support.installation import until
from tests.support.ready_jobs import Gate, Planter, Poisoned, caught, engine_on, work_until_ended

PEOPLE = [f"jane{n}@customer{n}.example" for n in range(30)]
JOB = UUID(int=7)
COUNTED = (
    ADDRESSES,
    ATTEMPTS,
    IN_FLIGHT,
    JOBS_ENDED,
    LEASES_EXPIRED,
    PHASES,
    FAILING_CHUNKS,
    STEP_ATTEMPTS,
    UP,
)


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(dns_servers=("127.0.0.1:9",))


def addresses(counts: Counted) -> float:
    return sum(value for key, value in counts.items() if key[0] == "addresses_total")


async def test_a_job_that_goes_well(settings: Settings, tmp_path: Path) -> None:
    account, job_id = await Planter(settings, tmp_path).plant(PEOPLE, chunk=10)
    counts = Counted(*COUNTED)
    async with open_service(settings) as service, engine_on(settings) as engine:
        await work_until_ended(engine, service, account, job_id)
    assert addresses(counts) == len(PEOPLE)
    assert counts["chunk_attempts_total", "done"] == 3
    assert counts["step_attempts_total", "finalizing", "done"] == 1
    assert counts["jobs_ended_total", "completed"] == 1
    for phase in ("claim", "read", "sift", "store", "commit"):
        assert counts["chunk_phase_seconds_total", phase] > 0
    assert counts["worker_up",] >= 1


async def test_a_chunk_that_fails_and_is_done_by_another_attempt(settings: Settings, tmp_path: Path) -> None:
    planter = Planter(settings, tmp_path)
    account, job_id = await planter.plant(PEOPLE, chunk=10)
    counts = Counted(*COUNTED)
    async with (
        open_service(settings) as service,
        engine_on(settings, Poisoned(times=1)) as engine,
    ):
        await engine.drain()
        await planter.sql("UPDATE chunk SET ready_at = clock_timestamp() WHERE state = 'ready'")
        await work_until_ended(engine, service, account, job_id)
    assert (counts["chunk_attempts_total", "error"], counts["chunk_attempts_total", "done"]) == (1, 3)
    assert addresses(counts) == len(PEOPLE)


async def test_poison_is_counted_when_it_is_split_and_when_it_is_given_up(
    settings: Settings, tmp_path: Path
) -> None:
    planter = Planter(settings, tmp_path)
    account, job_id = await planter.plant(PEOPLE[:2], chunk=2)
    counts = Counted(*COUNTED)
    async with open_service(settings) as service, engine_on(settings) as engine:
        await planter.sql("UPDATE chunk SET attempt = 9")
        await engine.drain()
        await planter.sql("UPDATE chunk SET attempt = 9 WHERE state = 'ready'")
        view = await work_until_ended(engine, service, account, job_id)
    assert counts["poison_total", "split"] == 1
    assert counts["poison_total", "given_up"] + counts["chunk_attempts_total", "done"] > 2
    assert view.state is JobState.COMPLETED


async def test_leases_of_the_dead_and_work_that_was_stopped(settings: Settings, tmp_path: Path) -> None:
    planter = Planter(settings, tmp_path)
    await planter.plant(PEOPLE, chunk=30)
    counts = Counted(*COUNTED)
    async with engine_on(settings, gate := Gate(), heartbeat_s=0.2, sweep_s=3_600.0) as engine:
        draining = await caught(engine, gate)
        assert counts["worker_inflight", "survey"] == 1
        await planter.sql(  # a lease of somebody who is dead: nobody renews it
            """UPDATE chunk SET lease_token = gen_random_uuid(),
                   lease_until = clock_timestamp() - interval '1 s'"""
        )
        await draining  # a heartbeat finds the lease lost and stops the work
        assert counts["chunk_attempts_total", "stopped"] == 1
        assert counts["lease_expired_total", "chunk"] == 0
    async with engine_on(settings, Gate(), sweep_s=0.0) as engine:
        draining = asyncio.create_task(engine.drain())

        async def swept() -> bool:
            return counts["lease_expired_total", "chunk"] == 1

        await until(swept, within=30)
        engine.stop()
        await engine.aclose(grace_s=0)
        await draining
    assert counts["chunk_attempts_total", "done"] == 0


async def test_who_ends_while_the_database_fails_gives_back_all_that_it_can_and_takes_his_leave(
    settings: Settings, tmp_path: Path
) -> None:
    planter = Planter(settings, tmp_path)
    await planter.plant(PEOPLE, chunk=10, small=False)
    async with engine_on(settings, gate := Gate()) as engine:
        draining = await caught(engine, gate)

        async def holds_two() -> bool:
            return len(await planter.sql("SELECT FROM chunk WHERE state = 'leased'")) > 1

        await until(holds_two, within=30)
        await planter.sql(
            """CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'disk' USING ERRCODE = '58030'; END $$"""
        )
        await planter.sql(
            "CREATE TRIGGER fail BEFORE UPDATE ON chunk FOR EACH ROW WHEN (OLD.n = 0) EXECUTE FUNCTION fail()"
        )
        await engine.aclose(grace_s=0)
        await draining
        await planter.sql("DROP FUNCTION fail CASCADE")
    rows = await planter.sql("SELECT state, attempt FROM chunk ORDER BY n")
    assert [(row["state"], row["attempt"]) for row in rows] == [("leased", 1), ("ready", 0), ("ready", 0)]
    assert await planter.sql("SELECT FROM worker WHERE stopped_at IS NULL") == []


async def test_work_that_has_just_committed_has_lost_no_lease(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_gone = asyncio.Event()
    renew, work = engine_module.renew_leases, ChunkWorker.work

    async def seeing(*arguments: Any, **terms: Any) -> set[UUID]:
        gone = await renew(*arguments, **terms)
        monkeypatch.setattr(
            engine_module, "set_process_gauges", lambda **_: seen_gone.set() if gone else None
        )
        return gone

    async def back_late(*arguments: Any) -> ChunkDone:
        closed = await work(*arguments)
        await seen_gone.wait()
        return closed

    monkeypatch.setattr(engine_module, "renew_leases", seeing)
    monkeypatch.setattr(ChunkWorker, "work", back_late)
    account, job_id = await Planter(settings, tmp_path).plant(PEOPLE, small=False)
    counts = Counted(*COUNTED)
    async with open_service(settings) as service, engine_on(settings, heartbeat_s=0.1) as engine:
        await work_until_ended(engine, service, account, job_id)
    assert (counts["chunk_attempts_total", "done"], counts["chunk_attempts_total", "stopped"]) == (1, 0)


async def test_a_step_counts_how_it_ended() -> None:
    step = ClaimedStep(JOB, JOB, None, "intake", 1, JOB, {}, "list.csv", 10, delivers=False, test=False)
    counts = Counted(*COUNTED)
    for error in (MailsiftError("x", "y"), LeaseLostError(), asyncio.CancelledError()):
        with pytest.raises(type(error)), attempt_at_step(step):
            raise error
    assert counts == {
        ("step_attempts_total", "intake", outcome): 1 for outcome in ("error", "lease_lost", "stopped")
    }


async def test_a_cancelled_job_is_counted_where_it_was_cancelled(settings: Settings, tmp_path: Path) -> None:
    account, job_id = await Planter(settings, tmp_path).plant(PEOPLE)
    counts = Counted(*COUNTED)
    async with open_service(settings) as service:
        await service.cancel(account, job_id)
    assert counts == {("jobs_ended_total", JobTransition.CANCEL.target): 1}


def test_slots_that_were_left_out_have_four_reasons() -> None:
    counts = Counted(SCHEDULE_MISSED)
    for code in ("missed", "still_running", "schedule_source_gone", "nothing_to_retry"):
        count_missed(code)
    assert counts == {
        ("schedule_missed_total", "missed"): 1,
        ("schedule_missed_total", "still_running"): 1,
        ("schedule_missed_total", "nothing_to_retry"): 1,
        ("schedule_missed_total", "failed"): 1,
    }
