"""Workers as operators see them: heartbeats, drain, leases taken back, chunks started afresh."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from mailsift.container import open_engine
from mailsift.jobs.admin.actions import Operations
from mailsift.jobs.engine.engine import Engine
from mailsift.jobs.service import JobService
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings
from mailsift.storage.sql.chunks import TAKEN_BACK
from mailsift.storage.sql.workers import Worker
from tests.support.busy_installation import fill, sql
from tests.support.installation import until
from tests.support.ready_jobs import Gate, Planter, Poisoned, caught, engine_on, work_until_ended
from tests.support.workers import workers

ADDRESSES = [f"user{n}@example.com" for n in range(8)]
QUICK: dict[str, Any] = {"heartbeat_s": 0.2, "sweep_s": 0.2}


async def only(ops: Operations) -> Worker:
    (worker,) = await ops.console.workers()
    return worker


async def has_one_in_hand(ops: Operations) -> bool:
    return (await only(ops)).in_hand == 1


async def test_a_process_tells_of_itself_before_its_first_claim_and_says_goodbye(
    settings: Settings, ops: Operations, planter: Planter
) -> None:
    await planter.plant(ADDRESSES, chunk=8)
    async with engine_on(settings, gate := Gate(), **QUICK) as engine:
        draining = await caught(engine, gate)
        await until(lambda: has_one_in_hand(ops), within=10)
        worker = await only(ops)
        gate.opened.set()
        await draining
    assert (worker.state, worker.in_hand, worker.chunks, worker.slots) == ("active", 1, 1, 7)
    assert worker.rss_bytes > 10_000_000
    assert worker.claim_age is not None
    assert worker.sweep_age is not None
    assert await ops.console.workers() == []  # it has gone with a goodbye


async def test_a_drained_process_claims_nothing_more_until_it_may_again(
    settings: Settings, ops: Operations, planter: Planter, service: JobService
) -> None:
    async with engine_on(settings, **QUICK) as engine:
        await engine.drain()
        owner = (await only(ops)).owner
        assert await ops.actions.drain("olga", drain=True, owners=[owner]) == [owner]
        assert await ops.actions.drain("olga", drain=True, owners=[owner]) == []  # nothing new
        await until(lambda: is_draining(engine), within=10)
        account, job = await planter.plant(ADDRESSES)
        await engine.drain()
        assert (await only(ops)).state == "drained"
        assert (await service.get(account, job)).processed == 0
        await ops.actions.drain("olga", drain=False, everywhere=True)
        await until(lambda: is_claiming(engine), within=10)
        assert (await work_until_ended(engine, service, account, job)).processed == 8
    audit = [(line.actor, line.action, line.subject) for line in await ops.console.audit()]
    assert audit == [("olga", "worker.undrain", owner), ("olga", "worker.drain", owner)]


async def is_draining(engine: Engine) -> bool:
    return engine.is_draining


async def is_claiming(engine: Engine) -> bool:
    return not engine.is_draining


async def test_who_takes_a_place_in_a_drained_pool_is_drained_from_the_start(
    settings: Settings, ops: Operations, planter: Planter, service: JobService
) -> None:
    async with open_engine(settings, worker_id="pool") as first:
        await first.drain()
        await ops.actions.drain("olga", drain=True, everywhere=True)
    account, job = await planter.plant(ADDRESSES)
    async with open_engine(settings, worker_id="pool") as second:
        await second.drain()
        assert (await only(ops)).state == "drained"
        assert (await service.get(account, job)).processed == 0
    async with engine_on(settings) as stranger:
        assert (await work_until_ended(stranger, service, account, job)).processed == 8


async def test_real_workers_drain_finish_what_they_hold_and_claim_again(
    settings: Settings, ops: Operations, planter: Planter, service: JobService, tmp_path: Path
) -> None:
    with workers(settings, 1, tmp_path / "log"):
        await until(lambda: in_state(ops, "active"), within=60)
        await ops.actions.drain("olga", drain=True, hosts=[(await only(ops)).host])
        await until(lambda: in_state(ops, "drained"), within=30)
        account, job = await planter.plant(ADDRESSES)
        await ops.actions.wake("olga", 2)
        sweeps = [(await only(ops)).sweep_age]
        await until(lambda: swept_again(ops, sweeps), within=30)  # it goes on sweeping
        assert (await service.get(account, job)).processed == 0
        await ops.actions.drain("olga", drain=False, everywhere=True)
        await until(lambda: has_ended(service, account, job), within=60)


async def in_state(ops: Operations, state: str) -> bool:
    return [worker.state for worker in await ops.console.workers()] == [state]


async def swept_again(ops: Operations, seen: list[float | None]) -> bool:
    seen.append((await only(ops)).sweep_age)
    return seen[-1] is not None and seen[-2] is not None and seen[-1] < seen[-2]


async def has_ended(service: JobService, account: Any, job: Any) -> bool:
    return (await service.get(account, job)).finished_at is not None


async def test_who_is_not_heard_of_is_gone_and_after_a_day_forgotten(
    settings: Settings, ops: Operations
) -> None:
    await fill(settings, jobs=1, chunks=1, running=1, workers=3)
    await sql(settings, "UPDATE worker SET beat_at = clock_timestamp() - interval '1 h' WHERE pid = 41")
    await sql(settings, "UPDATE worker SET beat_at = clock_timestamp() - interval '25 h' WHERE pid = 42")
    found = {worker.pid: worker.state for worker in await ops.console.workers()}
    assert (found[40], found[41], found[42]) == ("active", "gone", "gone")
    async with engine_on(settings) as engine:
        await engine.drain()
        found = {worker.pid: worker.state for worker in await ops.console.workers()}
    assert (found[41], 42 in found) == ("gone", False)


async def test_a_lease_that_was_taken_back_is_claimed_by_the_next_and_the_first_cannot_commit(
    settings: Settings, ops: Operations, planter: Planter, service: JobService
) -> None:
    account, job = await planter.plant(ADDRESSES)
    async with engine_on(settings, gate := Gate(), heartbeat_s=60.0) as slow, engine_on(settings) as other:
        draining = await caught(slow, gate)
        slow.stop()
        await draining
        (lease,) = await ops.console.leases()
        assert (lease.job_id, lease.n, lease.account, lease.attempt) == (job, 0, "tests", 1)
        assert lease.held_s is not None
        assert 0 <= lease.held_s < 60
        assert lease.left_s > 0
        assert await ops.actions.take_back("olga", [lease.token]) == 1
        assert await ops.actions.take_back("olga", [lease.token]) == 0
        (row,) = await planter.sql("SELECT state, last_error FROM chunk")
        assert (row["state"], row["last_error"]) == ("ready", TAKEN_BACK)
        view = await work_until_ended(other, service, account, job)
        gate.opened.set()
        await slow.aclose(grace_s=60.0)
    assert (view.processed, view.valid) == (8, 8)
    assert await service.get(account, job) == view
    (line,) = [line for line in await ops.console.audit() if line.action == "lease.take_back"]
    assert (line.subject, line.detail) == (str(job), {"chunk": 0})


async def test_all_that_ran_out_is_taken_back_at_once_and_nothing_else(
    settings: Settings, ops: Operations
) -> None:
    await fill(settings, jobs=12, chunks=20, running=12)
    await sql(
        settings, "UPDATE chunk SET lease_until = clock_timestamp() + interval '1 h' WHERE state = 'leased'"
    )
    (first, *rest) = await ops.console.leases()
    late = "UPDATE chunk SET lease_until = clock_timestamp() - interval '1 s' WHERE lease_token = :token"
    await sql(settings, late, token=first.token)
    assert (await ops.console.leases())[0].left_s < 0
    assert await ops.actions.take_back("olga") == 1
    assert {lease.token for lease in await ops.console.leases()} == {lease.token for lease in rest}


async def test_a_step_can_be_taken_back_too(ops: Operations, planter: Planter) -> None:
    _, job = await planter.plant(ADDRESSES)
    token = uuid4()
    await planter.sql(
        "UPDATE job SET state = 'finalizing', step_token = :token, step_owner = 'w',"
        " step_at = clock_timestamp(), step_until = clock_timestamp() + interval '1 h'",
        token=token,
    )
    (lease,) = await ops.console.leases()
    assert (lease.token, lease.job_id, lease.n, lease.what) == (token, job, None, "finalizing")
    assert await ops.actions.take_back("olga", [token]) == 1
    assert await ops.console.leases() == []
    (row,) = await planter.sql("SELECT state, step_token FROM job")
    assert (row["state"], row["step_token"]) == ("finalizing", None)


async def test_leases_that_ran_out_are_counted(settings: Settings, ops: Operations, planter: Planter) -> None:
    await planter.plant(ADDRESSES, chunk=2)
    await planter.sql(
        "UPDATE chunk SET state = 'leased', lease_token = gen_random_uuid(), lease_owner = 'dead',"
        " lease_until = clock_timestamp() - interval '1 s' WHERE n < 3"
    )
    async with engine_on(settings, **QUICK) as engine:
        await engine.drain()
    seen = await ops.console.overview()
    assert sum(minute.leases_expired for minute in seen.stats.minutes) == 3
    assert "leases_expire" in {alarm.code for alarm in seen.alarms}
    rows = await planter.sql("SELECT last_error FROM chunk ORDER BY n")
    assert [row["last_error"] for row in rows] == ["lease_expired"] * 3 + [""]


async def test_a_chunk_that_makes_trouble_is_shown_with_its_error_and_can_start_afresh(
    settings: Settings, ops: Operations, planter: Planter
) -> None:
    _, job = await planter.plant(ADDRESSES)
    async with engine_on(settings, Poisoned(address=ADDRESSES[0])) as engine:
        for _ in range(3):
            await planter.sql("UPDATE chunk SET ready_at = clock_timestamp()")
            await engine.drain()
    (chunk,) = await ops.console.failing_chunks()
    assert (chunk.job_id, chunk.n, chunk.state, chunk.attempt) == (job, 0, "ready", 3)
    assert chunk.last_error == "builtins.ValueError"
    assert (await ops.console.overview()).stats.failing_chunks == 1
    await ops.actions.start_afresh("olga", job, 0)
    assert await ops.console.failing_chunks() == []
    (row,) = await planter.sql("SELECT attempt, ready_at <= clock_timestamp() AS ready FROM chunk")
    assert (row["attempt"], row["ready"]) == (0, True)
    await planter.sql("UPDATE chunk SET state = 'done'")
    with pytest.raises(MailsiftError) as refused:
        await ops.actions.start_afresh("olga", job, 0)
    assert refused.value.code == "chunk_not_waiting"
