"""How long every page takes and how large it is: 5,000 jobs, 500 throttles, one job with 1,000,000 rows."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.served import installed, served, settings_of
from benchmarks.syntax import realistic
from mailsift.container import open_service
from mailsift.jobs.views import JobId, JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.throttle import SessionOutcome
from mailsift.settings import Settings
from tests.support.busy_installation import fill, report_sessions, sql
from tests.support.installation import ended
from tests.support.sessions import browser, person, sign_in
from tests.support.workers import workers

ACCOUNT = "benchmark"
THROTTLES = 500
PAGES = (
    *(
        "/",
        "/jobs",
        "/jobs?state=failed",
        "/jobs?q=newsletter+9",
        "/keys",
        "/webhooks",
        "/schedules",
        "/account",
    ),
    *("{job}", "{job}/results", "{job}/results?status=invalid", "{job}/results?q=a9", "{job}/rows/{last}"),
    *(
        f"{{job}}/results?sort={order}"
        for order in ("email", "-email", "score", "-score", "result", "-result")
    ),
    *(
        "{job}/results?after=900000",
        "{job}/results?sort=-score&after=900000",
        "{job}/results?q=nobody-of-them",
    ),
    *(
        "{job}/results?tier=remove",
        "{job}/results?domain=gmail.com",
        "{job}/results?status=unknown&sort=-email",
    ),
    *(f"/ops{page}" for page in ("", "/jobs", "/workers", "/leases", "/throttles", "/deliveries", "/broker")),
    *(f"/ops{page}" for page in ("/failing-chunks", "/schedules", "/audit")),
)
MOST_MS, MOST_BYTES = 150, 100_000


@dataclass(frozen=True, slots=True)
class ServedInstallation:
    """The API, and the settings it runs with."""

    url: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class Timed:
    """One page: milliseconds of each request, and its bytes as they are sent."""

    path: str
    times: list[float]
    size: int

    @property
    def ms(self) -> float:
        """The median."""
        return statistics.median(self.times)


async def finished_job(settings: Settings, folder: Path, rows: int) -> JobId:
    """Have a worker do a list in mode fast."""
    source = folder / "list.csv"
    source.write_text("\n".join(("email", *realistic(rows))))
    async with open_service(settings) as service:
        account = await service.account(ACCOUNT)
        job = await service.submit(account, source, JobOptions(mode=Mode.FAST))
        with workers(settings, 1, folder / "worker.log"):
            await ended(service, account, job, within=600)
    return job


async def timed(client: httpx.AsyncClient, path: str, times: int) -> Timed:
    """Ask for a page once, and then so many times more.

    Raises:
        RuntimeError: the answer was not 200.
    """
    spent = []
    answer = await client.get(path)
    for _ in range(times):
        began = time.perf_counter()
        answer = await client.get(path)
        spent.append(1000 * (time.perf_counter() - began))
    if answer.status_code != 200:
        raise RuntimeError(f"{path} answered {answer.status_code}")
    return Timed(path, spent, len(answer.content))


async def populated(served: ServedInstallation) -> str:
    """Fill the installation around what is there; returns the email of an owner who is an operator, too."""
    for cleared in ("UPDATE job SET chunks = 0", "DELETE FROM throughput", "DELETE FROM worker"):
        await sql(served.settings, cleared)  # what the job has left is in the way of what is made up
    await fill(served.settings, jobs=5_000, chunks=20)
    hosts = {f"host{n}.example": [SessionOutcome.CLEAN] for n in range(THROTTLES)}
    await report_sessions(served.settings, hosts)
    move = "UPDATE job SET account_id = (SELECT id FROM account WHERE name = :name)"
    await sql(served.settings, move, name=ACCOUNT)
    return await person(served, operator=True, account=ACCOUNT)


async def measure(served: ServedInstallation, job: str, rows: int, times: int) -> list[Timed]:
    """Fill the installation and look at every page."""
    email = await populated(served)
    async with browser(served) as client:
        await sign_in(client, email)
        return [await timed(client, page.format(job=f"/jobs/{job}", last=rows - 1), times) for page in PAGES]


def main() -> None:
    """Print every page, the slowest last; fail when one is slower or larger than it may be."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--times", type=int, default=15)
    chosen = options.parse_args()
    with installed() as environment, tempfile.TemporaryDirectory(prefix="ms-bench-") as folder:
        settings = settings_of(environment)
        job = asyncio.run(finished_job(settings, Path(folder), chosen.rows))
        with served("mailsift", "api", environment=environment) as server:
            pages = asyncio.run(
                measure(ServedInstallation(server.url, settings), str(job), chosen.rows, chosen.times)
            )
    for page in sorted(pages, key=lambda page: page.ms):
        path = page.path.replace(str(job), "1m-rows")
        print(f"{page.ms:6.1f} ms  worst {max(page.times):6.1f} ms  {page.size / 1000:6.1f} kB  {path}")
    print(f"goal: {MOST_MS} ms and {MOST_BYTES // 1000} kB")
    good = all(page.ms <= MOST_MS and page.size <= MOST_BYTES for page in pages)
    sys.exit(0 if good else "a page is too slow or too large")


if __name__ == "__main__":
    main()
