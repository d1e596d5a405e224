"""A world with every hostile behaviour: each verdict is true, and the slow hosts hold nobody up."""

from __future__ import annotations

from pathlib import Path

from mailsift.container import open_service
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix
from tests.support.completeness import check_complete, submit
from tests.support.installation import ended, settings_for
from tests.support.workers import workers

SEED, DOMAINS = 3, 2_000


async def test_every_verdict_is_true_whatever_the_servers_do(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    source = tmp_path / "list.csv"
    write_list(SandboxWorld(seed=SEED, domains=DOMAINS, mix=WorldMix.HOSTILE), source, rows=20_000)
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
