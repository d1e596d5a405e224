"""A world with every hostile behaviour: each verdict is true, and the slow hosts hold nobody up."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from mailsift.container import open_service
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix
from tests.support.completeness import check_complete, submit
from tests.support.installation import ended, settings_for
from tests.support.workers import workers

SEED, DOMAINS, ROWS = 11, 500, 8_000  # by whose dice a short list has everything that one of 20,000 has


async def test_every_verdict_is_true_whatever_the_servers_do(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    source = tmp_path / "list.csv"
    world = SandboxWorld(seed=SEED, domains=DOMAINS, mix=WorldMix.HOSTILE)
    truth = pl.read_csv(write_list(world, source, rows=ROWS), infer_schema=False)
    domains = truth["email"].drop_nulls().str.split("@").list.last().unique()
    assert len({found.behaviour.name for one in domains if (found := world.find(one))}) > 70
    with SandboxProcess(seed=SEED, domains=DOMAINS, mix=WorldMix.HOSTILE) as sandbox:
        settings = settings_for(
            tmp_path / "home", database_url=database_url, redis_url=redis_url, sandbox=sandbox.env
        )
        async with open_service(settings) as service:
            with workers(settings, 2, tmp_path / "workers.log"):
                account, job_id = await submit(service, source)
                view = await ended(service, account, job_id, within=200)
            await check_complete(settings, service, account, view, source)
        assert sandbox.counters()["control_bytes"] == 0
        assert sandbox.counters()["data"] == 0
