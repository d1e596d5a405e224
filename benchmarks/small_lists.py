"""Small lists in company: one three-row list on an idle, warm service, and many of them beside a big job.

Times run from handing in a list to the end of its job, as the job's row has it. The big list is timed alone
first, then another of its kind in company: both times no fact about its domains is known. The client asks
once for all its lists, ten times a second.

    python -m benchmarks.small_lists [--rows N] [--lists N] [--mode fast|medium]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.measured import cpu_by_role
from benchmarks.sandboxed import calm_sandbox, calm_world, home, surrounded
from mailsift.cli.lists import working
from mailsift.container import open_service
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.settings import Settings
from mailsift.storage.states import ENDED, JobState

WARM: Final = 20
_OPEN: Final = tuple(state for state in JobState if state not in ENDED)
_AT_ONCE: Final = 16  # lists that one customer hands in


@dataclass(frozen=True, slots=True)
class Lists:
    """The files: a small one, and two big ones without a domain in common."""

    small: Path
    alone: Path
    company: Path


@dataclass(frozen=True, slots=True)
class Customer:
    """Hands in lists for one account."""

    service: JobService
    account: AccountId
    options: JobOptions

    async def time(self, source: Path, lists: int = 1) -> list[float]:
        """Hand in the list so many times; return the seconds each job took."""
        room = asyncio.Semaphore(_AT_ONCE)

        async def submit() -> JobId:
            async with room:
                return await self.service.submit(self.account, source, self.options)

        jobs = await asyncio.gather(*(submit() for _ in range(lists)))
        while True:
            await asyncio.sleep(0.1)
            if not (await self.service.page(self.account, limit=1, states=_OPEN)).jobs:
                break
        views = [await self.service.get(self.account, job) for job in jobs]
        if any(view.state is not JobState.COMPLETED or view.finished_at is None for view in views):
            raise RuntimeError("a job failed")
        return [(view.finished_at - view.created_at).total_seconds() for view in views if view.finished_at]


def write_lists(folder: Path, rows: int, domains: int) -> Lists:
    """Write the files; each of the big ones has half of the domains."""
    lists = Lists(*(folder / f"{name}.csv" for name in ("small", "alone", "company")))
    lists.small.write_text("email\n" + "".join(f"known{n}@ordinary.sandbox.test\n" for n in range(3)))
    ranked = calm_world(domains).ranked
    for path, half in ((lists.alone, ranked[::2]), (lists.company, ranked[1::2])):
        addresses = (f"known{n}@{half[n * 7919 % len(half)].name}\n" for n in range(rows))
        path.write_text("email\n" + "".join(addresses))
    return lists


async def time_all(settings: Settings, lists: Lists, chosen: argparse.Namespace) -> None:
    """Warm up, then print the figures."""
    async with open_service(settings) as service:
        options = JobOptions(mode=chosen.mode)
        a, b = [Customer(service, await service.account(name), options) for name in ("a", "b")]
        await b.time(lists.small, WARM)
        one = [(await b.time(lists.small))[0] for _ in range(WARM)]
        print(f"one list, warm{statistics.median(one) * 1e3:>12,.0f} ms (median of {len(one)})")
        [alone] = await a.time(lists.alone)
        before = cpu_by_role(settings.home)
        [company], took = await asyncio.gather(a.time(lists.company), b.time(lists.small, chosen.lists))
        used = cpu_by_role(settings.home)
    print(
        f"{chosen.rows:,} rows alone{alone:>8.1f} s, in company {company:.1f} s: {company / alone:.2f} times"
    )
    print(f"{chosen.lists:,} lists{max(took):>16.1f} s for the last, median {statistics.median(took):.1f} s")
    roles = ", ".join(f"{role} {spent - before.get(role, 0.0):.1f}" for role, spent in used.items())
    print(f"CPU seconds in company: {roles}; load {os.getloadavg()[0]:.1f}")


def main() -> None:
    """Start the servers and a worker, time the lists, stop them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small_lists", description=__doc__)
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--lists", type=int, default=500)
    parser.add_argument("--mode", type=Mode, choices=[Mode.FAST, Mode.MEDIUM], default=Mode.MEDIUM)
    chosen = parser.parse_args()
    domains = 2 * max(25, chosen.rows * 57 // 1000)
    with (
        calm_sandbox(domains) as sandbox,
        home(sandbox) as (folder, environment),
        surrounded(environment),
        working(Settings.from_env()) as (settings, _),
    ):
        uvloop.run(time_all(settings, write_lists(folder, chosen.rows, domains), chosen))


if __name__ == "__main__":
    main()
