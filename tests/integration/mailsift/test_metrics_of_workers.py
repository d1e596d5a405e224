"""A worker's metrics outlive its processes: a killed child, a killed master, a port that somebody has."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from mailsift.metrics_server import MetricsServer
from mailsift.settings import Settings
from mailsift.wiring import open_service
from tests.debian import free_port
from tests.exposition import Exposed, scraped
from tests.installation import ended, settings_for, until
from tests.planting import Planter
from tests.workers import ROOT, kill_group

ADDRESSES = 300


@pytest.fixture
def settings(tmp_path: Path, database_url: str, redis_url: str) -> Settings:
    return settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_url,
        sandbox={"MAILSIFT_SMTP_PORT": "9"},
        worker_processes=2,
        metrics_port=free_port(),
        dns_servers=("127.0.0.1:9",),
    )


@contextmanager
def worker(settings: Settings, log: Path) -> Iterator[psutil.Process]:
    """A worker with as many processes as the settings say."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "mailsift", "worker"],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], **settings.environment()},  # noqa: TID251 - for a child
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield psutil.Process(process.pid)
    finally:
        kill_group(process.pid)
        process.wait()


async def shown(settings: Settings) -> Exposed:
    assert settings.metrics_port is not None
    return await scraped(settings.metrics_port)


async def both_up(settings: Settings) -> bool:
    try:
        return (await shown(settings)).value("mailsift_worker_up") == 2
    except httpx.TransportError:
        return False


async def kill_children(settings: Settings, master: psutil.Process) -> None:
    """Kill the processes of the pool; returns when others are in their place."""
    before = {child.pid for child in master.children()}
    for pid in before:
        os.kill(pid, signal.SIGKILL)

    async def replaced() -> bool:
        now = {child.pid for child in master.children()}
        return len(now - before) == 2 and not now & before and await both_up(settings)

    await until(replaced, within=60)


async def work(settings: Settings, tmp_path: Path, account: str) -> None:
    """Have a planted list worked on."""
    names = [f"somebody{n}@{account}.example" for n in range(ADDRESSES)]
    account_id, job_id = await Planter(settings, tmp_path).plant(names, chunk=10, account=account)
    async with open_service(settings) as service:
        await ended(service, account_id, job_id, within=60)


async def test_what_a_killed_process_has_counted_stays_and_its_successor_counts_on(
    settings: Settings, tmp_path: Path
) -> None:
    with worker(settings, tmp_path / "worker.log") as master:
        await until(lambda: both_up(settings), within=60)
        await work(settings, tmp_path, "first")
        assert (await shown(settings)).value("mailsift_addresses_total") == ADDRESSES
        await kill_children(settings, master)
        assert (await shown(settings)).value("mailsift_addresses_total") == ADDRESSES
        await work(settings, tmp_path, "second")
        after = await shown(settings)
    assert after.value("mailsift_addresses_total") == 2 * ADDRESSES
    assert after.value("mailsift_chunk_claim_seconds_count") >= 2 * ADDRESSES / 10
    assert after.value("mailsift_worker_slots", kind="all") == 2 * settings.chunk_slots


async def test_a_worker_whose_master_was_killed_leaves_its_port_to_the_next_one(
    settings: Settings, tmp_path: Path
) -> None:
    with worker(settings, tmp_path / "worker.log") as master:
        await until(lambda: both_up(settings), within=60)
        await work(settings, tmp_path, "first")
        await kill_children(settings, master)  # their successors are forked while the port is open
        for child in master.children():
            assert settings.metrics_port not in listening(child)
        master.kill()
        master.wait()
        with worker(settings, tmp_path / "next.log"):
            await until(lambda: both_up(settings), within=60)
            fresh = await shown(settings)
    assert fresh.value("mailsift_addresses_total") == 0


def listening(process: psutil.Process) -> set[int]:
    return {one.laddr.port for one in process.net_connections() if one.status == psutil.CONN_LISTEN}


async def test_a_worker_says_that_its_port_is_taken_and_ends(settings: Settings, tmp_path: Path) -> None:
    assert settings.metrics_port is not None
    taken = MetricsServer("127.0.0.1", settings.metrics_port)
    log = tmp_path / "worker.log"
    with worker(settings, log) as process:
        assert await asyncio.to_thread(process.wait, 60) == 2
    taken.close()
    assert log.read_text().splitlines()[-1] == (
        f"mailsift: port_in_use: Nothing can listen on 127.0.0.1:{settings.metrics_port}, "
        "where the metrics are to be shown."
    )
