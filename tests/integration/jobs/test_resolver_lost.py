"""Resolvers that die: the job ends exactly, on the one that is left."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailsift.container import open_service
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.world import SandboxWorld, WorldMix
from mailsift.settings import Settings
from mailsift.storage.states import JobState
from tests.support.ready_jobs import Planter, engine_on, work_until_ended

DOMAINS = 60
MEDIUM = JobOptions(mode=Mode.MEDIUM)
WORLD = SandboxWorld(seed=1, domains=DOMAINS, mix=WorldMix.CALM)
ADDRESSES = [f"known@{domain.name}" for domain in WORLD.ranked]
VALID = sum(WORLD.truth(address).medium.status == "valid" for address in ADDRESSES)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(domains=DOMAINS, mix=WorldMix.CALM) as running:
        yield running


def asking(settings: Settings, *servers: str) -> Settings:
    return settings.model_copy(update={"dns_servers": servers})


async def check_ended(service: JobService, account: AccountId, job: JobId) -> None:
    view = await service.get(account, job)
    assert view.state is JobState.COMPLETED
    assert (view.processed, view.valid) == (len(ADDRESSES), VALID)
    assert VALID > 0


async def test_one_of_two_resolvers_is_dead_from_the_start(settings: Settings, tmp_path: Path) -> None:
    with socket.socket(
        socket.AF_INET, socket.SOCK_DGRAM
    ) as silent:  # it takes every question, and says nothing
        silent.bind(("127.0.0.1", 0))
        both = asking(settings, f"127.0.0.1:{silent.getsockname()[1]}", *settings.dns_servers)
        planter = Planter(both, tmp_path)
        account, job = await planter.plant(ADDRESSES, chunk=20, options=MEDIUM)
        async with open_service(both) as service, engine_on(both) as engine:
            await work_until_ended(engine, service, account, job, within=60)
            await check_ended(service, account, job)


async def test_one_of_two_resolvers_dies_in_the_middle(settings: Settings, tmp_path: Path) -> None:
    with SandboxProcess(domains=DOMAINS, mix=WorldMix.CALM) as dying:
        both = asking(settings, f"127.0.0.1:{dying.dns_port}", *settings.dns_servers)
        planter = Planter(both, tmp_path)
        account, job = await planter.plant(ADDRESSES, chunk=20, options=MEDIUM)
        await planter.sql("UPDATE chunk SET ready_at = clock_timestamp() + interval '1 hour' WHERE n > 0")
        async with open_service(both) as service, engine_on(both) as engine:
            await engine.drain()
            assert (await service.get(account, job)).processed == 20
            dying.stop()
            await planter.sql("UPDATE chunk SET ready_at = clock_timestamp() WHERE state = 'ready'")
            await work_until_ended(engine, service, account, job, within=60)
            await check_ended(service, account, job)
