"""Small jobs do not wait for big ones, and no mail server sees more of us than the operator allows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from mailsift.container import open_service
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.providers import Providers
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix
from mailsift.storage.states import JobState
from tests.support.installation import ended, settings_for, until
from tests.support.workers import workers

SEED, DOMAINS = 7, 100
DEEP = JobOptions(mode=Mode.DEEP)
BIG, SMALL = 500_000, 10


@pytest.fixture(scope="module")
def world() -> SandboxWorld:
    return SandboxWorld(seed=SEED, domains=DOMAINS, mix=WorldMix.CALM)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(seed=SEED, domains=DOMAINS, mix=WorldMix.CALM) as running:
        yield running


async def test_ten_rows_behind_half_a_million_do_not_wait_for_it(
    tmp_path: Path, database_url: str, redis_url: str, sandbox: SandboxProcess, world: SandboxWorld
) -> None:
    names = [domain.name for domain in world.ranked]
    big, small, log = tmp_path / "big.txt", tmp_path / "small.txt", tmp_path / "workers.log"
    big.write_text("\n".join(f"known{n}@{names[n % len(names)]}" for n in range(BIG)))
    small.write_text("\n".join(f"known{BIG + n}@{names[n]}" for n in range(SMALL)))
    settings = settings_for(
        tmp_path / "home", database_url=database_url, redis_url=redis_url, sandbox=sandbox.env
    )
    async with open_service(settings) as service:
        account = await service.account("tests")
        big_job = await service.submit(account, big, DEEP)
        with workers(settings, 1, log):

            async def busy() -> bool:
                return (await service.get(account, big_job)).processed > 0

            await until(busy, within=60)
            small_job = await service.submit(account, small, DEEP)
            view = await ended(service, account, small_job, within=60)
            assert (view.state, view.processed) == (JobState.COMPLETED, SMALL)
            assert (await service.get(account, big_job)).state is JobState.RUNNING
            await service.cancel(account, big_job)
            view = await service.get(account, big_job)
    assert (view.state, view.total) == (JobState.CANCELLED, BIG)
    assert SMALL < view.processed < BIG
    assert "Traceback" not in log.read_text()


async def test_no_provider_sees_more_than_the_operator_allows_across_four_processes(
    tmp_path: Path, database_url: str, redis_url: str, sandbox: SandboxProcess, world: SandboxWorld
) -> None:
    source, sessions, rate, burst = tmp_path / "list.csv", 3, 200, 50
    write_list(world, source, rows=2_000)
    settings = settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_url,
        sandbox=sandbox.env,
        overrides=f"[limits]\nsessions = {sessions}\nrate = {rate}\nburst = {burst}\n",
        worker_processes=2,
    )
    sandbox.reset()
    with redis.Redis.from_url(redis_url) as client:
        client.config_resetstat()
        async with open_service(settings) as service:
            account = await service.account("tests")
            job = await service.submit(account, source, DEEP)
            with workers(settings, 2, tmp_path / "workers.log"):
                view = await ended(service, account, job, within=60)
        calls = {name: stats["calls"] for name, stats in client.info("commandstats").items()}
    seen = sandbox.counters()
    assert view.state is JobState.COMPLETED
    assert max(seen["peak_sessions_by_provider"].values()) <= sessions
    assert max(seen["peak_sessions_by_host"].values()) <= sessions
    peaks = seen["peak_rcpts_per_second_by_provider"]
    for provider, peak in peaks.items():
        late = sessions * Providers().row(provider).recipients  # granted just before, on its way since
        assert peak <= rate + burst + late, provider
    assert max(peaks.values()) > rate / 2, "the limit was never felt"
    assert calls["cmdstat_evalsha"] + calls["cmdstat_mget"] <= 0.25 * view.addresses
