"""The whole engine beside what a user would write: medium and deep mode, and how time grows."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measured import Measured, measure
from benchmarks.naive_medium import LOOPS
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix

SEED = 1
SESSIONS = 5
# Only the sessions limit us, as they limit the other one. Microsoft's tenants each have a host of their own:
# there five sessions a host are more than five for all of them.
OVERRIDES = """\
[[provider]]
key = "microsoft365"
sessions = 40

[limits]
rate = 100000
burst = 100000
recipients = 50
"""
ENGINE_PHASES = ("claim_ms", "read_ms", "store_ms", "commit_ms")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of ours: the job in an installation that is up, and the processes around it."""

    seconds: float
    peak_mib: float


@contextmanager
def home(sandbox: SandboxProcess, **settings: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """Give a fresh MAILSIFT_HOME and the environment of an installation on the sandbox."""
    with tempfile.TemporaryDirectory(prefix="ms-bench-", dir="/tmp") as folder:
        overrides = Path(folder) / "overrides.toml"
        overrides.write_text(OVERRIDES)
        environment = {
            **os.environ,  # noqa: TID251 - handed on to a child
            **sandbox.env,
            "MAILSIFT_HOME": f"{folder}/home",
            "MAILSIFT_OVERRIDES": str(overrides),
            "MAILSIFT_HELO_NAME": "bench.sandbox.test",
            "MAILSIFT_WORKER_PROCESSES": "2",
            "MAILSIFT_GREYLIST_DELAYS": "2,4,8",
            **settings,
        }
        yield Path(folder), environment


def run_ours(sandbox: SandboxProcess, source: Path, mode: str) -> Run:
    """Run a job in an installation that is up, from handing in the list to the finished file."""
    with home(sandbox) as (folder, environment):
        done = _installed(folder, environment, source, mode)
    summary = json.loads(done.stdout.splitlines()[-1])
    return Run(summary["seconds"], done.peak_mib)


def _installed(folder: Path, environment: Mapping[str, str], source: Path, mode: str) -> Measured:
    command = [sys.executable, "-m", "benchmarks.installed", str(source), mode, str(folder / "out.csv")]
    return measure(command, environment=environment, servers=folder / "home")


def engine_share(sandbox: SandboxProcess, source: Path, mode: str) -> float:
    """Return which part of the chunks' time goes into claims, commits and blobs.

    A run of its own, in which a process works on one chunk after another: where chunks overlap, the time one
    waits for another's computing would count as its own.
    """
    with home(sandbox, MAILSIFT_SURVEY_SLOTS="1") as (folder, environment):
        _installed(folder, environment, source, mode)
        log = (folder / "home" / "worker.log").read_text(encoding="utf-8")
    own = total = 0.0
    for line in log.splitlines():
        event = json.loads(line) if '"chunk.done"' in line else {}
        if event and not event["lane"]:
            own += sum(event[phase] for phase in ENGINE_PHASES)
            total += sum(event[phase] for phase in (*ENGINE_PHASES, "sift_ms"))
    return own / total if total else float("nan")


def medium(folder: Path, rows: int, domains: int) -> None:
    """(a): medium mode beside the plain loop, in a world where DNS makes nobody wait."""
    source = write_list(
        SandboxWorld(seed=SEED, domains=domains, mix=WorldMix.CALM), folder / "medium.csv", rows=rows
    )
    with SandboxProcess(seed=SEED, domains=domains, mix=WorldMix.CALM) as sandbox:
        ours = run_ours(sandbox, source, "medium")
        share = engine_share(sandbox, source, "medium")
        naive = {loop: _naive_medium(sandbox, loop, source, folder / "naive.csv") for loop in LOOPS}
    tell(f"(a) medium, {rows:,} rows, {domains:,} domains", ours, naive)
    print(f"    engine's own share of the chunks' time: {100 * share:.1f} %")


def _naive_medium(sandbox: SandboxProcess, loop: str, source: Path, out: Path) -> Measured:
    script = [sys.executable, "-m", "benchmarks.naive_medium", loop, str(source), str(out)]
    return measure(
        [*script, sandbox.env["MAILSIFT_DNS_SERVERS"]],
        environment=os.environ,  # noqa: TID251 - handed on to a child
    )


def deep(folder: Path, rows: int, latency_ms: int) -> None:
    """(b): deep mode beside one connection for each address, with as many sessions a host."""
    domains = rows // 10
    source = write_list(
        SandboxWorld(seed=SEED, domains=domains, mix=WorldMix.CALM), folder / "deep.csv", rows=rows
    )
    with SandboxProcess(seed=SEED, domains=domains, mix=WorldMix.CALM, latency_ms=latency_ms) as sandbox:
        ours = run_ours(sandbox, source, "deep")
        peaks = [max(sandbox.counters()["peak_sessions_by_host"].values())]
        sandbox.reset()
        script = [sys.executable, "-m", "benchmarks.naive_deep", str(source), str(folder / "naive.csv")]
        server, port = sandbox.env["MAILSIFT_DNS_SERVERS"], sandbox.env["MAILSIFT_SMTP_PORT"]
        naive = measure(
            [*script, server, port, "500", str(SESSIONS)],
            environment=os.environ,  # noqa: TID251 - handed on to a child
        )
        peaks.append(max(sandbox.counters()["peak_sessions_by_host"].values()))
    tell(
        f"(b) deep, {rows:,} rows, {latency_ms} ms a reply, {SESSIONS} sessions a host",
        ours,
        {"naive": naive},
    )
    print(f"    most sessions one host saw: mailsift {peaks[0]}, naive {peaks[1]}")


def growth(folder: Path, sizes: list[int]) -> None:
    """(c): time for each row as the list grows."""
    print("(c) growth, medium")
    for rows in sizes:
        domains = max(500, rows * 57 // 1000)
        world = SandboxWorld(seed=SEED, domains=domains, mix=WorldMix.CALM)
        source = write_list(world, folder / "growth.csv", rows=rows)
        with SandboxProcess(seed=SEED, domains=domains, mix=WorldMix.CALM) as sandbox:
            done = run_ours(sandbox, source, "medium")
        each = 1e6 * done.seconds / rows
        print(
            f"    {rows:>9,} rows: {done.seconds:6.2f} s, {each:6.2f} us a row, peak {done.peak_mib:.0f} MiB"
        )


def tell(title: str, ours: Run, others: Mapping[str, Measured]) -> None:
    """Print all runs and how many times longer the others took."""
    print(title)
    line = f"    {'mailsift':11} {ours.seconds:7.2f} s from the list to the result file"
    print(f"{line}, peak {ours.peak_mib:.0f} MiB")
    for name, other in others.items():
        ratio = other.seconds / ours.seconds
        print(f"    {name:11} {other.seconds:7.2f} s, peak {other.peak_mib:.0f} MiB: {ratio:.1f} x")


def main() -> None:
    """Run what was asked for; all of it by default."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["medium", "deep", "growth"])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of (a)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ms-lists-") as scratch:
        folder = Path(scratch)
        if chosen.only in {None, "medium"}:
            medium(folder, chosen.rows, chosen.rows * 57 // 1000)
        if chosen.only in {None, "deep"}:
            deep(folder, 20_000, 20)
        if chosen.only in {None, "growth"}:
            growth(folder, [10_000, 100_000, 1_000_000])


if __name__ == "__main__":
    main()
