"""A worker's metrics outlive its processes: a killed child, a killed master, a port that somebody has."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from mailsift.container import open_service
from mailsift.metrics import MetricsPort
from mailsift.settings import Settings
from tests.support.child_processes import environment_for
from tests.support.exposition import Exposed, scraped
from tests.support.installation import ended, until
from tests.support.ports import free_port
from tests.support.ready_jobs import Planter
from tests.support.workers import ROOT, kill_group

ADDRESSES = 300

# Two processes count and one of them dies; what it had counted stays, what it was does not.
_CROWD = """
import os, signal, sys, json
from pathlib import Path
from mailsift.cli.operate import share_counts
from mailsift.settings import Settings

folder = share_counts(Settings(home=Path(sys.argv[1]), metrics_port=9125))
from prometheus_client import generate_latest
from mailsift.jobs.metrics import ATTEMPTS, CLAIM, LOOP_LAG, SWEPT, UP
from mailsift.metrics import SharedCounts

shared = SharedCounts(folder)
shared.forget_others()
(folder / "counter_1.db").touch()  # of a process that is making it at this moment
pages = []
for number in (1, 2):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        ATTEMPTS.labels("done").inc(number)
        CLAIM.observe(0.02 * number)
        UP.set(1)
        LOOP_LAG.set(float(number))
        SWEPT.set(100.0 * number)
        os.write(writer, b"!")
        signal.pause()
    os.read(reader, 1)
    pages.append(generate_latest(shared).decode())
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
pages.append(generate_latest(shared).decode())
print(json.dumps(pages))
os.killpg(0, signal.SIGKILL)
"""


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    return make_settings(worker_processes=2, metrics_port=free_port(), dns_servers=("127.0.0.1:9",))


@contextmanager
def worker(settings: Settings, log: Path) -> Iterator[psutil.Process]:
    """A worker with as many processes as the settings say."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "mailsift", "worker"],
            cwd=ROOT,
            env=environment_for(settings.environment()),
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


async def exposed(settings: Settings) -> Exposed:
    assert settings.metrics_port is not None
    return await scraped(settings.metrics_port)


async def both_up(settings: Settings) -> bool:
    try:
        return (await exposed(settings)).value("mailsift_worker_up") == 2
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


async def counted(settings: Settings, addresses: int) -> None:
    """Wait until so many are counted: a chunk counts after its commit, with which its job may already end."""

    async def all_counted() -> bool:
        return (await exposed(settings)).value("mailsift_addresses_total") == addresses

    await until(all_counted, within=60)


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
        await counted(settings, ADDRESSES)
        await kill_children(settings, master)
        assert (await exposed(settings)).value("mailsift_addresses_total") == ADDRESSES
        await work(settings, tmp_path, "second")
        await counted(settings, 2 * ADDRESSES)
        after = await exposed(settings)
    assert after.value("mailsift_chunk_claim_seconds_count") >= 2 * ADDRESSES / 10
    assert after.value("mailsift_worker_slots", kind="all") == 2 * settings.chunk_slots
    assert "UserWarning" not in (tmp_path / "worker.log").read_text()  # a start is nothing to warn of


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
            fresh = await exposed(settings)
    assert fresh.value("mailsift_addresses_total") == 0


def listening(process: psutil.Process) -> set[int]:
    return {one.laddr.port for one in process.net_connections() if one.status == psutil.CONN_LISTEN}


async def test_a_worker_says_that_its_port_is_taken_and_ends(settings: Settings, tmp_path: Path) -> None:
    assert settings.metrics_port is not None
    taken = MetricsPort("127.0.0.1", settings.metrics_port)
    log = tmp_path / "worker.log"
    with worker(settings, log) as process:
        assert await asyncio.to_thread(process.wait, 60) == 2
    taken.close()
    assert log.read_text().splitlines()[-1] == (
        f"mailsift: port_in_use: Can’t listen on 127.0.0.1:{settings.metrics_port}, "
        "where the metrics are to be shown."
    )


@pytest.mark.parametrize("processes", [1, 4])
async def test_a_worker_whose_store_cannot_be_opened_says_so_and_ends_in_failure(
    processes: int, settings: Settings, tmp_path: Path
) -> None:
    """Also when more than one of its processes takes it down: the second time it ends at once."""
    (tmp_path / "file").touch()
    log = tmp_path / "worker.log"
    changed = {"blob_url": (tmp_path / "file" / "blobs").as_uri(), "worker_processes": processes}
    with worker(settings.model_copy(update=changed), log) as process:
        assert await asyncio.to_thread(process.wait, 60) == 1
    assert '"error": "blob_store_failed"' in log.read_text()


def test_all_processes_of_a_worker_are_shown_as_one_and_no_count_dies_with_its_process(
    tmp_path: Path,
) -> None:
    earlier = tmp_path / "metrics" / f"{socket.gethostname()}-9125" / "earlier"
    earlier.mkdir(parents=True)
    (earlier / "counter_1.db").write_bytes(b"left over")
    done = subprocess.run(
        [sys.executable, "-c", _CROWD, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.stdout, done.stderr
    assert not earlier.exists()
    one, both, after = (Exposed(text) for text in json.loads(done.stdout))
    for exposed, counted, alive, lag in ((one, 1, 1, 1.0), (both, 3, 2, 2.0), (after, 3, 1, 1.0)):
        assert exposed.value("mailsift_chunk_attempts_total", outcome="done") == counted
        assert exposed.value("mailsift_worker_up") == alive
        assert exposed.value("mailsift_worker_loop_lag_seconds") == lag
    assert after.value("mailsift_chunk_claim_seconds_count") == 2
    assert after.value("mailsift_chunk_claim_seconds_sum") == pytest.approx(0.06)
    assert after.value("mailsift_sweeper_last_tick_timestamp_seconds") == 200
    assert after.values("mailsift_chunk_attempts_total", "outcome") == {
        *("done", "error", "lease_lost", "stopped")
    }
    assert not [name for name in after.samples if name.startswith(("mailsift_api", "mailsift_jobs{"))]
