"""Small lists in company: one three-row list on an idle, warm service, and many of them beside a big job.

Mode `fast`, so that no network is measured. Times run from handing in a list to the end of its job, as the
job's row has it. The big job is timed alone first.

    python -m benchmarks.small_lists [--rows N] [--lists N]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
from pathlib import Path

import uvloop

from mailsift.cli.run import working
from mailsift.container import open_service
from mailsift.jobs.service import JobService
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.runtime.installation import LocalWorker
from mailsift.settings import Settings

WARM = 20
FAST = JobOptions(mode=Mode.FAST)


async def time_list(service: JobService, worker: LocalWorker, account: str, source: Path) -> float:
    """Hand in a list and return the seconds to the end of its job."""
    account_id = await service.account(account)
    job_id = await service.submit(account_id, source, FAST)
    while (view := await service.get(account_id, job_id)).finished_at is None:
        worker.ensure()
        await asyncio.sleep(0.05)
    return (view.finished_at - view.created_at).total_seconds()


async def time_all(
    settings: Settings, worker: LocalWorker, folder: Path, options: argparse.Namespace
) -> None:
    """Warm up, then print the figures."""
    small, big = folder / "small.csv", folder / "big.csv"
    small.write_text("email\n" + "".join(f"user{n}@example.com\n" for n in range(3)))
    big.write_text("email\n" + "".join(f"user{n}@example.com\n" for n in range(options.rows)))
    async with open_service(settings) as service:
        alone = [await time_list(service, worker, "b", small) for _ in range(WARM)][WARM // 2 :]
        print(f"one list, warm{statistics.median(alone) * 1e3:>12,.0f} ms (median of {len(alone)})")
        before = await time_list(service, worker, "a", big)
        lists = [time_list(service, worker, "b", small) for _ in range(options.lists)]
        company, *took = await asyncio.gather(time_list(service, worker, "a", big), *lists)
        print(f"{options.rows:,} rows alone{before:>8.1f} s, in company {company:.1f} s")
        last, median = max(took), statistics.median(took)
        print(f"{options.lists:,} lists{last:>16.1f} s for the last, median {median:.1f} s")
    print(f"load {os.getloadavg()[0]:.1f}")


def main() -> None:
    """Start the servers and a worker, time the lists, stop them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--lists", type=int, default=500)
    options = parser.parse_args()
    with (
        working(Settings.from_env()) as (settings, worker),
        tempfile.TemporaryDirectory() as folder,
    ):
        uvloop.run(time_all(settings, worker, Path(folder), options))


if __name__ == "__main__":
    main()
