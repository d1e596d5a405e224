"""Sources in use against mail servers: one of a pool is held, and greylisting meets the source it knows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from mailsift.container import open_service
from mailsift.jobs.engine.chunk import ChunkSizes
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from mailsift.storage.states import JobState
from tests.support.ready_jobs import Planter, engine_on, work_until_ended

DEEP = JobOptions(mode=Mode.DEEP)
HOLD = "INSERT INTO throttle_edit (provider, source, held, edited_by) VALUES ('*', :source, true, 'test')"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    with SandboxProcess(domains=1, greylist_seconds=0.01) as running:
        yield running


@pytest.fixture
def settings(make_settings: Callable[..., Settings], sandbox: SandboxProcess) -> Settings:
    return make_settings(sandbox=sandbox.env, greylist_delays=(0.2, 0.2, 0.2))


def at(settings: Settings, *addresses: str) -> Settings:
    return settings.model_copy(update={"source_addresses": addresses})


@pytest.mark.parametrize("count", [40, 120])  # asked at the first look; in chunks of their own
async def test_a_list_ends_though_one_source_of_the_pool_is_held(
    settings: Settings, tmp_path: Path, count: int
) -> None:
    mine = at(settings, "127.0.0.11", "127.0.0.12")
    planter = Planter(mine, tmp_path)
    await planter.sql(HOLD, source="127.0.0.11")
    addresses = [f"known{n}@ordinary.sandbox.test" for n in range(count)]
    options = JobOptions(mode=Mode.DEEP, evidence=True)
    account, job = await planter.plant(addresses, options=options)
    plan: dict[str, object] = {"cut": ChunkSizes(provider_chunk=60)}
    async with open_service(mine) as service, engine_on(mine, work_plan=plan) as engine:
        view = await work_until_ended(engine, service, account, job, within=60)
        async with service.browser.results(account, job) as path:
            evidence = pl.read_parquet(path)["mailsift_evidence"].to_list()
    assert (view.state, view.valid) == (JobState.COMPLETED, count)
    asked_from = {json.loads(one)["mailbox"]["source"] for one in evidence}
    assert asked_from == {"127.0.0.12"}


async def test_greylisted_addresses_go_back_to_the_source_that_asked(
    settings: Settings, tmp_path: Path
) -> None:
    planter = Planter(settings, tmp_path)
    addresses = [f"known{n}@greylist-named.sandbox.test" for n in range(3)]
    account, job = await planter.plant(addresses, options=DEEP)
    known, stranger = at(settings, "127.0.0.11"), at(settings, "127.0.1.5")
    async with open_service(settings) as service:
        async with engine_on(known) as engine:
            await engine.drain()
        assert (await service.get(account, job)).processed == 0
        await planter.sql("UPDATE chunk SET ready_at = clock_timestamp() WHERE state = 'ready'")
        async with engine_on(stranger) as engine:
            await engine.drain()
        (subnet,) = await planter.sql("SELECT subnet FROM chunk WHERE state = 'ready'")
        assert subnet["subnet"] == "127.0.0.0/24"
        async with engine_on(known) as engine:
            view = await work_until_ended(engine, service, account, job, within=60)
    assert (view.state, view.valid) == (JobState.COMPLETED, 3)
    assert view.chunks == 2  # nobody greylisted them twice
