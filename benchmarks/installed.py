"""Times one job in an installation that is up, from handing in the list to the finished file: IN MODE OUT."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from mailsift.cli import prepare

prepare()  # as the command does

from benchmarks.measured import cpu_by_role
from mailsift.cli.lists import summary_of, working
from mailsift.container import open_service
from mailsift.jobs.results.export import export, format_of
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobOptions, JobView
from mailsift.pipeline.facts import Mode
from mailsift.runtime.local_worker import LocalWorker
from mailsift.settings import Settings

_WARM_UPS = 8
"""Lists of one address, handed in together: enough that each of a few processes gets some."""


async def finished(
    service: JobService, worker: LocalWorker, account: AccountId, source: Path, mode: Mode
) -> JobView:
    """Hand in the list and wait for the end of its job.

    Raises:
        MailsiftError: `worker_failed` when the worker keeps dying.
    """
    job_id = await service.submit(account, source, JobOptions(mode=mode))
    while True:
        view = await service.get(account, job_id)
        if view.finished_at is not None:
            return view
        worker.ensure()
        await asyncio.sleep(0.2)  # no person looks more often


async def time_job(settings: Settings, worker: LocalWorker, source: Path, mode: Mode, out: Path) -> None:
    """Warm every worker process up, then time the list and print its summary with the seconds."""
    async with open_service(settings) as service:
        account = await service.account("benchmark")
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as one:
            one.write("known@ordinary.sandbox.test\n")
            one.flush()
            warm = [finished(service, worker, account, Path(one.name), mode) for _ in range(_WARM_UPS)]
            await asyncio.gather(*warm)
        started, before = time.perf_counter(), cpu_by_role(settings.home)
        view = await finished(service, worker, account, source, mode)
        async with service.browser.results(account, view.id) as results:
            export(results, out, format=format_of(out))
        seconds = time.perf_counter() - started
        after = cpu_by_role(settings.home)
        cpu = {role: round(after[role] - before.get(role, 0.0), 3) for role in after}
        print(json.dumps({**summary_of(view), "seconds": seconds, "cpu": cpu}))


def main() -> None:
    """Start the servers and a worker, time the job, stop them."""
    source, mode, out = Path(sys.argv[1]), Mode(sys.argv[2]), Path(sys.argv[3])
    with working(Settings.from_env()) as (settings, worker):
        uvloop.run(time_job(settings, worker, source, mode, out))


if __name__ == "__main__":
    main()
