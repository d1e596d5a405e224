"""One list on one machine and on two: network namespaces that share PostgreSQL, Redis and an S3 endpoint."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from mailsift.container import open_service
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobOptions, JobView
from mailsift.pipeline.facts import Mode
from mailsift.sandbox.world import PROVIDERS, SandboxWorld, WorldMix
from mailsift.storage.states import JobState
from tests.support.installation import ended
from tests.support.machines import MachinesError, Network, Side, network, servers, sides

SEED = 3
# What limits is how long mail servers take to answer: eight recipients in each of five sessions of six round
# trips. Nobody's rate does: a destination would take twenty a second.
OVERRIDES = """\
[limits]
rate = 100000
burst = 100000
"""
SLOTS = 16
DOMAINS = 25_000
_PATIENCE = 3_600.0


@dataclass(frozen=True, slots=True)
class Run:
    """One run: seconds from handing in the list to its end, and the part of the processor all of it took."""

    seconds: float
    rows: int
    busy: float
    states: Counter[str]

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.rows / self.seconds


def write_companies(world: SandboxWorld, path: Path, rows: int) -> Counter[str]:
    """Write a list of company addresses; returns how many have which status.

    Nobody's mail is run by one of the big providers: those are asked by one worker at a time, however many
    machines there are, and a list of theirs would time that.
    """
    big = {provider.label for provider in PROVIDERS}
    domains = [one.name for one in world.ranked if one.behaviour.name == "ordinary" and one.label not in big]
    addresses = [f"known{n}@{domains[n % len(domains)]}" for n in range(rows)]
    path.write_text("\n".join(addresses))
    return Counter(world.truth(address).deep.status for address in addresses)


async def finished(service: JobService, account: AccountId, source: Path) -> JobView:
    """Hand in the list and wait for the end of its job."""
    job_id = await service.submit(account, source, JobOptions(mode=Mode.DEEP))
    return await ended(service, account, job_id, within=_PATIENCE)


async def time_job(machines: list[Side], source: Path, warm: Path) -> Run:
    """Let the machines that are up do the list."""
    async with open_service(machines[0].settings) as service:
        account = await service.account("benchmark")
        await asyncio.gather(*(finished(service, account, warm) for _ in range(4)))
        began, computed = time.perf_counter(), _cpu_seconds()
        view = await finished(service, account, source)
        seconds = time.perf_counter() - began
        busy = (_cpu_seconds() - computed) / seconds / (os.cpu_count() or 1)
    if view.state is not JobState.COMPLETED or view.processed != view.total:
        raise RuntimeError(f"the job ended {view.state.value} with {view.processed} of {view.total} rows")
    counts = Counter({"valid": view.valid, "risky": view.risky, "invalid": view.invalid})
    return Run(seconds, view.total, busy, +counts)


def _cpu_seconds() -> float:
    """Return what everything we have started has computed so far: workers, servers and mail servers."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def run(count: int, source: Path, world: dict[str, Any]) -> Run:
    """Set up so many machines and let them do the list."""
    with tempfile.TemporaryDirectory(prefix="ms-bench-", dir="/tmp") as name:
        folder = Path(name)
        warm = folder / "warm.txt"
        warm.write_text("known@ordinary.sandbox.test\n")
        with network(2) as net, servers(net.host, folder) as shared:
            os.environ.update(shared.store)  # noqa: TID251 - how the blob store is told of its bucket
            part = Network(net.host, net.namespaces[:count])
            options = {"worker_processes": 1, "chunk_slots": SLOTS, "overrides": OVERRIDES}
            with sides(part, shared, folder, world=world, **options) as machines:
                for machine in machines:
                    machine.start()
                return asyncio.run(time_job(machines, source, warm))


def main() -> None:
    """Time both and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--latency-ms", type=float, default=400)
    options = parser.parse_args()
    world = {"seed": SEED, "domains": DOMAINS, "mix": WorldMix.CALM, "latency_ms": options.latency_ms}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "list.txt"
        truth = write_companies(
            SandboxWorld(seed=SEED, domains=DOMAINS, mix=WorldMix.CALM), source, options.rows
        )
        try:
            one, two = (run(count, source, world) for count in (1, 2))
        except MachinesError as error:
            sys.exit(f"two machines were not compared: {error}")
    if not one.states == two.states == truth:
        sys.exit(f"verdicts are wrong: {one.states} and {two.states} instead of {truth}")
    about = f"{options.rows:,} rows, {DOMAINS:,} domains, {options.latency_ms:g} ms a reply"
    print(f"deep, {about}, {SLOTS} chunks at a time on a machine; every verdict right")
    for label, done in (("one machine ", one), ("two machines", two)):
        figures = f"{done.seconds:7.1f} s  {done.rate:7.0f} rows/s  CPU {100 * done.busy:3.0f} %"
        print(f"    {label}  {figures}")
    print(f"    ratio {one.seconds / two.seconds:.2f}")


if __name__ == "__main__":
    main()
