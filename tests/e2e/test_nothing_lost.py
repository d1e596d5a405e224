"""Nothing lost, nothing twice: workers die at random, Valkey forgets, wake-ups come double or not at all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailsift.container import OtherParts, open_service
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld
from tests.support.completeness import check_complete, submit
from tests.support.installation import ended, settings_for, until
from tests.support.parts import open_waker
from tests.support.servers import RedisServer
from tests.support.workers import Multiplied, interrupt_children, workers

SEED, DOMAINS = 7, 2_000


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(seed=SEED, domains=DOMAINS, latency_ms=40) as running:
        yield running


async def test_workers_die_twenty_times_and_valkey_forgets_everything_yet_every_row_comes_back_once(
    tmp_path: Path, database_url: str, redis_server: RedisServer, sandbox: SandboxProcess
) -> None:
    source = tmp_path / "list.csv"
    write_list(SandboxWorld(seed=SEED, domains=DOMAINS), source, rows=20_000)
    settings = settings_for(
        tmp_path / "home", database_url=database_url, redis_url=redis_server.url, sandbox=sandbox.env
    )
    dice, killed, forgotten = random.Random(SEED), 0, False
    async with open_service(settings) as service:
        with workers(settings, 4, tmp_path / "workers.log") as group:
            account, job_id = await submit(service, source)

            async def started() -> bool:
                return (await service.get(account, job_id)).processed > 0

            await until(started, within=60)
            while killed < 24:
                killed += group.kill(dice.randrange(4), whole_group=killed % 3 == 0)
                if killed >= 12 and not forgotten:
                    redis_server.kill()
                    redis_server.start(emptied=True)
                    forgotten = True
                await asyncio.sleep(dice.uniform(0.1, 0.6))
                assert (await service.get(account, job_id)).finished_at is None, "too fast to be killed"
            view = await ended(service, account, job_id, within=200)
        await check_complete(settings, service, account, view, source)


async def test_ctrl_c_that_every_process_of_a_worker_hears_ends_no_frame_early(
    tmp_path: Path, database_url: str, redis_url: str, sandbox: SandboxProcess
) -> None:
    source = tmp_path / "list.csv"
    write_list(SandboxWorld(seed=SEED, domains=DOMAINS), source, rows=2_000)
    settings = settings_for(
        tmp_path / "home", database_url=database_url, redis_url=redis_url, sandbox=sandbox.env
    )
    async with open_service(settings) as service:
        with workers(settings, 1, tmp_path / "workers.log") as group:
            account, job_id = await submit(service, source)

            async def over() -> bool:
                interrupt_children(group.pids[0])
                return (await service.get(account, job_id)).finished_at is not None

            await until(over, within=90, every=0.01)
            view = await service.get(account, job_id)
        await check_complete(settings, service, account, view, source)


@pytest.mark.parametrize("wake_ups", ["double", "none"])
async def test_wake_ups_may_come_double_or_never(
    wake_ups: str,
    tmp_path: Path,
    database_url: str,
    redis_url: str,
    sandbox: SandboxProcess,
) -> None:
    source = tmp_path / "list.csv"
    write_list(SandboxWorld(seed=SEED, domains=DOMAINS), source, rows=2_000)
    settings = settings_for(
        tmp_path / "home", database_url=database_url, redis_url=redis_url, sandbox=sandbox.env
    )
    waker = Multiplied(open_waker(settings), {"double": 25, "none": 0}[wake_ups])
    async with open_service(settings, OtherParts(waker=waker)) as service:
        with workers(settings, 2, tmp_path / "workers.log"):
            account, job_id = await submit(service, source)
            view = await ended(service, account, job_id, within=90)
        await check_complete(settings, service, account, view, source)
