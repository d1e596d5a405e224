"""Sources add up: a list at one provider that limits us, by one worker and by several.

One worker, several with a source each, and several that share one source; every time the same list, and every
verdict is looked at. Times run from handing in the list to the end of its job, the workers being up.

    python -m benchmarks.sources [--rows N] [--rate N] [--workers N]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import uvloop

from mailsift.container import open_service
from mailsift.jobs.views import JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.runtime.embedded import installation
from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from mailsift.storage.sql import throttles
from tests.support.installation import ended, until
from tests.support.parts import open_database
from tests.support.workers import WorkerGroup

PROVIDER: Final = "ordinary.sandbox.test"
_PATIENCE: Final = 120.0
_LONGEST: Final = 3_600.0


def overrides(rate: float) -> str:
    """Return an overrides file: everybody may be asked so many times a second from each source."""
    return f"[limits]\nrate = {rate}\nburst = {max(20, round(rate / 4))}\nrecipients = 20\nsessions = 10\n"


@contextmanager
def workers(settings: Settings, addresses: Sequence[str]) -> Iterator[None]:
    """Run a worker of one process at each of these addresses."""
    with ExitStack() as running:
        for address in addresses:
            own = settings.model_copy(update={"source_addresses": (address,)})
            running.enter_context(WorkerGroup(own, 1, settings.home / "worker.log"))
        yield


async def time_list(settings: Settings, source: Path, identities: set[str], count: int) -> float:
    """Wait for the workers, hand in the list and return the seconds to the end of its job."""
    database = open_database(settings)

    async def all_live() -> bool:
        live = await database.run(throttles.live_sources)
        return {one.identity for one in live} == identities and sum(one.processes for one in live) == count

    await until(all_live, within=_PATIENCE)
    await database.aclose()
    async with open_service(settings) as service:
        account = await service.account("benchmark")
        job_id = await service.submit(account, source, JobOptions(mode=Mode.DEEP, max_age=0))
        view = await ended(service, account, job_id, within=_LONGEST)
    if view.finished_at is None or view.valid != view.total:
        raise RuntimeError(f"verdicts are wrong: {view.valid} of {view.total} are valid")
    return (view.finished_at - view.created_at).total_seconds()


def run(addresses: Sequence[str], source: Path, rate: float) -> float:
    """Let workers at these addresses do the list in a fresh installation."""
    with (
        SandboxProcess(domains=20) as sandbox,
        tempfile.TemporaryDirectory(prefix="ms-src-", dir="/tmp") as folder,
    ):
        rows = Path(folder) / "overrides.toml"
        rows.write_text(overrides(rate))
        values = {name.removeprefix("MAILSIFT_").lower(): value for name, value in sandbox.env.items()}
        base = Settings(home=Path(folder) / "home", overrides=rows, helo_name="bench.sandbox.test", **values)  # type: ignore[arg-type]
        with installation(base) as settings, workers(settings, addresses):
            return uvloop.run(time_list(settings, source, set(addresses), len(addresses)))


def main() -> None:
    """Time the three ways and print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sources", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=300.0, help="recipients a second from each source")
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    many = [f"127.0.0.{place}" for place in range(11, 11 + options.workers)]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "list.csv"
        source.write_text(
            "email\n" + "".join(f"known{n % 10_000}+{n // 10_000}@{PROVIDER}\n" for n in range(options.rows))
        )
        ways = {
            "one worker": many[:1],
            "a source each": many,
            "one shared source": many[:1] * options.workers,
        }
        took = {name: run(addresses, source, options.rate) for name, addresses in ways.items()}
    alone = took["one worker"]
    print(
        f"{options.rows:,} addresses at one provider, {options.rate:g}/s from each source, {options.workers}"
    )
    for name, seconds in took.items():
        workers_of = len(ways[name])
        print(
            f"{name:<18}{workers_of:>3} workers{seconds:>8.1f} s {options.rows / seconds:>8.0f}/s"
            f" {alone / seconds:>6.2f}x"
        )
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
