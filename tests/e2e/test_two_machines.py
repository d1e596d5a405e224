"""Two machines work on one list, and one of them dies as a whole: nothing is lost, nothing counted twice."""

from __future__ import annotations

from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from mailsift.container import open_service
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld
from tests.support.completeness import check_complete, submit
from tests.support.installation import ended, until
from tests.support.machines import network, servers, sides

pytestmark = [pytest.mark.needs("root", "ip", "postgresql", "redis-server"), pytest.mark.timeout(400)]
SEED, DOMAINS, ROWS = 13, 2_000, 12_000
WORLD = {"seed": SEED, "domains": DOMAINS, "latency_ms": 40}


async def test_a_whole_machine_dies_and_every_row_comes_back_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "list.csv"
    write_list(SandboxWorld(seed=SEED, domains=DOMAINS), source, rows=ROWS)
    with network(2) as net, servers(net.host, tmp_path) as shared:
        for name, value in shared.store.items():
            monkeypatch.setenv(name, value)
        with sides(net, shared, tmp_path, world=WORLD, worker_processes=2) as machines:
            settings = machines[0].settings
            async with open_service(settings) as service:
                for machine in machines:
                    machine.start()

                async def both_are_up() -> bool:
                    return len(workers(shared.database_url, UP)) == len(machines)

                await until(both_are_up, within=90)
                account, job_id = await submit(service, source)

                async def both_hold_some() -> bool:
                    assert (await service.get(account, job_id)).finished_at is None, "too fast to be killed"
                    return len(workers(shared.database_url, AT_WORK)) == len(machines)

                await until(both_hold_some, within=90, every=0.02)
                assert machines[0].die() >= 3
                left = await service.get(account, job_id)
                assert left.processed < left.total
                view = await ended(service, account, job_id, within=200)
                await check_complete(settings, service, account, view, source)


UP = "SELECT DISTINCT crew FROM worker"
AT_WORK = (
    "SELECT DISTINCT w.crew FROM chunk c JOIN worker w ON w.owner = c.lease_owner WHERE c.state = 'leased'"
)


def workers(url: str, query: LiteralString) -> set[str]:
    """Return the machines' workers that are up, or whose processes hold chunks."""
    with psycopg.connect(url) as connection:
        return {worker for (worker,) in connection.execute(query).fetchall()}
