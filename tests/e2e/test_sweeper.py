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
import pytest

from events.endpoints import WebhookService
from jobs.views import JobOptions, JobState
from mailsift.settings import Settings
from mailsift.sweeper import run_sweeper
from mailsift.wiring import open_blobs, open_database, open_service, open_waker
from mailsift.wiring_webhooks import Stores, open_sender, webhook_service
from pipeline.facts import Mode
from sandbox.client import SandboxProcess
from tests.commands import CommandLine
from tests.completeness import submit
from tests.installation import ended, settings_for, until
from tests.receiver import receiving
from tests.webhook_house import verify
from tests.workers import kill_group, workers

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
    """Return the processes that hold chunks (mailsift.wiring_engine names them in their leases)."""
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        rows = connection.execute("SELECT lease_owner FROM chunk WHERE state = 'leased'").fetchall()
    return {int(owner.split(":")[1]) for (owner,) in rows}


def pool_of(worker: int) -> set[int]:
    return {process.pid for process in psutil.Process(worker).children()}


async def test_a_job_ends_although_its_workers_never_tick_nobody_wakes_them_and_one_dies(
    tmp_path: Path, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
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

        async def silent(_count: int) -> None:
            """Wake nobody."""

        async with open_service(settings) as service:
            monkeypatch.setattr(service._waker, "wake", silent)
            with workers(still, 2, tmp_path / "workers.log") as group, sweeper(settings):
                account, job_id = await submit(service, source)

                both = [one.pid for one in group._running]

                holding: list[int] = []

                async def somebody_holds_some() -> bool:
                    holding[:] = [worker for worker in both if owners(database_url) & pool_of(worker)]
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
    database = open_database(settings)
    async with open_service(settings) as jobs, open_sender(settings) as sender, receiving() as receiver:
        stores = Stores(database, open_blobs(settings), open_waker(settings), jobs)
        service: WebhookService = webhook_service(settings, stores, sender)
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
    await database.aclose()
    (request,) = receiver.requests
    verify(secret, request)
    event = json.loads(request.body)
    assert (event["type"], event["data"]["job_id"]) == ("bulk.validation.failed", str(job_id))
