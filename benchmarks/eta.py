"""Time left, predicted and true: a deep list on the sandbox at the rates of the provider table.

    python -m benchmarks.eta [--rows N] [--speed N]

With `--speed` all rates are so many times what they are, greylisting waits so much shorter, and so many
times as many recipients of a minute may be unknown at servers that may mind that. Without it 50,000 rows take
about as long as they would in the world: two hours.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.sandboxed import SEED, home, surrounded
from mailsift.cli.lists import working
from mailsift.container import open_service
from mailsift.jobs.views import JobOptions, JobSnapshot
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.providers import DEFAULT, PROVIDERS
from mailsift.runtime.local_worker import LocalWorker
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld
from mailsift.settings import Settings

MARKS: Final = (5.0, 25.0, 50.0, 75.0)
GOAL: Final = 0.25
DELAYS: Final = (300.0, 900.0, 3600.0)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What was said when so many percent of the rows had a verdict; `at` and `seconds` in seconds."""

    percent: float
    at: float
    seconds: float | None
    reason: str


def overrides(speed: float) -> str:
    """Return an overrides file in which every provider takes so many times as many recipients in any time."""
    return "\n".join(
        f'[[provider]]\nkey = "{row.key}"\nrate = {row.rate * speed}\nceiling = {row.ceiling * speed}\n'
        f"harvest = {round(row.harvest * speed)}\ncareful = {round(row.careful * speed)}\n"
        for row in (DEFAULT, *PROVIDERS)
    )


async def follow(settings: Settings, worker: LocalWorker, source: Path) -> tuple[list[Prediction], float]:
    """Run the list; return what was said on the way, and how long it took."""
    predictions: list[Prediction] = []
    async with open_service(settings) as service:
        account = await service.account("benchmark")
        started = time.perf_counter()
        job_id = await service.submit(account, source, JobOptions(mode=Mode.DEEP))
        while True:
            view = await service.get(account, job_id)
            at, seen = time.perf_counter() - started, JobSnapshot(view, system_clock())
            if view.finished_at is not None:
                return predictions, at
            if len(predictions) < len(MARKS) and seen.percent >= MARKS[len(predictions)]:
                predictions.append(Prediction(seen.percent, at, seen.eta_seconds, seen.eta_reason))
            worker.ensure()
            await asyncio.sleep(0.2)


def show(predictions: Sequence[Prediction], took: float) -> None:
    """Print a line for each prediction, and what the average rate so far would have said."""
    print(f"{'done':>6} {'after':>8} {'said':>8} {'truth':>8} {'off':>7} {'average':>8}   what decides")
    for one in predictions:
        truth = took - one.at
        average = one.at * (100 - one.percent) / one.percent
        text = "nobody" if one.seconds is None else f"{one.seconds:.0f} s"
        off = float("nan") if one.seconds is None else one.seconds / truth - 1
        good = "" if abs(off) <= GOAL else "  (!)"
        print(
            f"{one.percent:>5.0f}% {one.at:>6.0f} s {text:>8} {truth:>6.0f} s {off:>+7.0%} {average:>6.0f} s"
            f"   {one.reason}{good}"
        )


def main() -> None:
    """Run the list and print predictions beside the truth."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.eta", description=__doc__)
    options.add_argument("--rows", type=int, default=50_000)
    options.add_argument("--speed", type=float, default=1.0, help="times the rates of the provider table")
    chosen = options.parse_args()
    domains = max(50, chosen.rows // 50)
    with tempfile.TemporaryDirectory(prefix="ms-eta-list-") as folder:
        world = SandboxWorld(seed=SEED, domains=domains)
        source = write_list(world, Path(folder) / "list.csv", rows=chosen.rows)
        delays = ",".join(str(delay / chosen.speed) for delay in DELAYS)
        with (
            SandboxProcess(seed=SEED, domains=domains) as sandbox,
            home(sandbox, overrides(chosen.speed), MAILSIFT_GREYLIST_DELAYS=delays) as (_, environment),
            surrounded(environment),
            working(Settings.from_env()) as (settings, worker),
        ):
            predictions, took = uvloop.run(follow(settings, worker, source))
    load = os.getloadavg()[0]
    print(
        f"{chosen.rows:,} rows, {domains:,} domains, rates x {chosen.speed:g}: {took:.0f} s, load {load:.1f}"
    )
    show(predictions, took)


if __name__ == "__main__":
    main()
