"""A sweeper of its own: with it alone lost leases are mended, workers woken and webhooks sent."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg

from mailsift.container import OtherParts, open_container, open_service
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.runtime.worker import run_sweeper
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from mailsift.storage.states import JobState
from tests.support.commands import CommandLine
from tests.support.completeness import submit
from tests.support.installation import ended, settings_for, until
from tests.support.parts import open_waker
from tests.support.receiver import receiving
from tests.support.webhooks import verify
from tests.support.workers import Multiplied, kill_group, workers

NEVER = 86_400.0
LANES = ("ordinary", "exim", "exchange", "google-like", "sendmail", "qmail", "opensmtpd", "starttls")
# Many sessions a host: those of the worker that dies are missed only when their leases have run out.
PACED = """\
[limits]
rate = 40
burst = 20
sessions = 40
"""


@contextmanager
def sweeper(settings: Settings) -> Iterator[subprocess.Popen[str]]:
    process = CommandLine(settings).start("sweeper")
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


def owners(url: str) -> set[int]:
    """Return the processes that hold chunks (mailsift.jobs.engine.heartbeat names them in their leases)."""
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        rows = connection.execute("SELECT lease_owner FROM chunk WHERE state = 'leased'").fetchall()
    return {int(owner.split(":")[1]) for (owner,) in rows}


def pool_of(worker: int) -> set[int]:
    return {process.pid for process in psutil.Process(worker).children()}


async def test_a_job_ends_although_its_workers_never_tick_nobody_wakes_them_and_one_dies(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    source = tmp_path / "list.txt"
    source.write_text("\n".join(f"known{n}@{lane}.sandbox.test" for lane in LANES for n in range(160)))
    with SandboxProcess(domains=1, latency_ms=40) as sandbox:
        settings = settings_for(
            tmp_path / "home",
            database_url=database_url,
            redis_url=redis_url,
            sandbox=sandbox.env,
            overrides=PACED,
        )
        still = settings.model_copy(update={"sweep_seconds": NEVER})

        nobody = Multiplied(open_waker(settings), 0)
        async with open_service(settings, OtherParts(waker=nobody)) as service:
            with workers(still, 2, tmp_path / "workers.log") as group, sweeper(settings):
                account, job_id = await submit(service, source)

                holding: list[int] = []

                async def somebody_holds_some() -> bool:
                    holding[:] = [worker for worker in group.pids if owners(database_url) & pool_of(worker)]
                    return bool(holding)

                await until(somebody_holds_some, within=60, every=0.01)
                # Nobody takes its place: a worker looks for lost leases once, when it starts.
                assert kill_group(holding[0])
                view = await ended(service, account, job_id, within=90)
    assert (view.state, view.valid, view.total) == (JobState.COMPLETED, 1_280, 1_280)


async def test_webhooks_are_sent_without_any_worker(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    settings = settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_url,
        sandbox={"MAILSIFT_ALLOW_NON_PUBLIC": "true"},
        webhook_allow_http=True,
        sweep_seconds=0.2,
    )
    source = tmp_path / "list.csv"
    source.write_text("email\na@example.com\n")
    async with open_container(settings) as container, receiving() as receiver:
        jobs, service = container.jobs, container.webhooks
        account = await jobs.account("a")
        _, secret = await service.create(account, receiver.url)
        job_id = await jobs.submit(account, source, JobOptions(mode=Mode.FAST))
        await jobs.cancel(account, job_id)
        stop = asyncio.Event()
        sweeping = asyncio.create_task(run_sweeper(settings, stop=stop))

        async def arrived() -> bool:
            return bool(receiver.requests)

        await until(arrived, within=30)
        stop.set()
        await sweeping
    (request,) = receiver.requests
    verify(secret, request)
    event = json.loads(request.body)
    assert (event["type"], event["data"]["job_id"]) == ("bulk.validation.failed", str(job_id))
