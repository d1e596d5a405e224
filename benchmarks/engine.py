"""The whole engine beside what a user would write: medium and deep mode, and how time grows."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measured import Measured, measure
from sandbox.client import SandboxProcess
from sandbox.listing import write_list
from sandbox.world import Mix, World

SEED = 1
PATIENT_HOSTS = "[limits]\nrate = 100000\nburst = 100000\nsessions = 5\nrecipients = 50\n"
ENGINE_PHASES = ("claim_ms", "read_ms", "store_ms", "commit_ms")


@contextmanager
def home(sandbox: SandboxProcess, **more: str) -> Iterator[tuple[Path, dict[str, str]]]:
    """Give a fresh MAILSIFT_HOME and the environment of an installation on the sandbox."""
    with tempfile.TemporaryDirectory(prefix="ms-bench-", dir="/tmp") as folder:
        overrides = Path(folder) / "overrides.toml"
        overrides.write_text(PATIENT_HOSTS)
        environment = {
            **os.environ,  # noqa: TID251 - handed on to a child
            **sandbox.env,
            "MAILSIFT_HOME": f"{folder}/home",
            "MAILSIFT_OVERRIDES": str(overrides),
            "MAILSIFT_HELO_NAME": "bench.sandbox.test",
            "MAILSIFT_WORKER_PROCESSES": "2",
            "MAILSIFT_GREYLIST_DELAYS": "2,4,8",
            **more,
        }
        yield Path(folder), environment


def sift(sandbox: SandboxProcess, source: Path, mode: str) -> tuple[Measured, dict[str, float], float]:
    """Run `mailsift run` from nothing to the result file; returns figures, summary and the engine's share."""
    with home(sandbox) as (folder, environment):
        out = folder / "out.csv"
        command = [sys.executable, "-m", "mailsift", "run", str(source), "--mode", mode]
        done = measure(
            [*command, "--output", str(out), "--json"], environment=environment, servers=folder / "home"
        )
    summary = json.loads(done.stdout.splitlines()[-1])
    return done, summary, engine_share(done.stderr)


def engine_share(log: str) -> float:
    """Return which part of the workers' time went into claims, commits and blobs."""
    own = total = 0.0
    for line in log.splitlines():
        if '"chunk.done"' in line:
            event = json.loads(line)
            own += sum(event[phase] for phase in ENGINE_PHASES)
            total += sum(event[phase] for phase in (*ENGINE_PHASES, "sift_ms"))
    return own / total if total else float("nan")


def medium(folder: Path, rows: int, domains: int) -> None:
    """(a): medium mode beside the plain loop, in a world where DNS makes nobody wait."""
    world = World(seed=SEED, domains=domains, mix=Mix.CALM)
    source = write_list(world, folder / "medium.csv", rows=rows)
    with SandboxProcess(seed=SEED, domains=domains, mix=Mix.CALM) as sandbox:
        ours, summary, share = sift(sandbox, source, "medium")
        server = sandbox.env["MAILSIFT_DNS_SERVERS"]
        script = [
            sys.executable,
            str(HERE / "naive_medium.py"),
            str(source),
            str(folder / "naive.csv"),
            server,
        ]
        naive = measure(script, environment=os.environ)  # noqa: TID251 - handed on to a child
    tell(f"(a) medium, {rows:,} rows, {domains:,} domains", ours, naive)
    print(f"    the job alone: {summary['seconds']:.2f} s; engine's own share {100 * share:.1f} %")


def deep(folder: Path, rows: int, latency_ms: int) -> None:
    """(b): deep mode beside one connection for each address, with the same sessions a host."""
    domains = rows // 10
    source = write_list(World(seed=SEED, domains=domains), folder / "deep.csv", rows=rows)
    with SandboxProcess(seed=SEED, domains=domains, latency_ms=latency_ms) as sandbox:
        ours, summary, share = sift(sandbox, source, "deep")
        server, port = sandbox.env["MAILSIFT_DNS_SERVERS"], sandbox.env["MAILSIFT_SMTP_PORT"]
        script = [sys.executable, "-m", "benchmarks.naive_deep", str(source), str(folder / "naive.csv")]
        naive = measure([*script, server, port, "500", "5"], environment=os.environ)  # noqa: TID251 - same
    tell(f"(b) deep, {rows:,} rows, {latency_ms} ms a reply, 5 sessions a host", ours, naive)
    print(f"    the job alone: {summary['seconds']:.2f} s; engine's own share {100 * share:.1f} %")


def growth(folder: Path, sizes: list[int]) -> None:
    """(c): time for each row as the list grows."""
    print("(c) growth, medium")
    for rows in sizes:
        domains = max(500, rows * 57 // 1000)
        world = World(seed=SEED, domains=domains, mix=Mix.CALM)
        source = write_list(world, folder / "growth.csv", rows=rows)
        with SandboxProcess(seed=SEED, domains=domains, mix=Mix.CALM) as sandbox:
            done, summary, _ = sift(sandbox, source, "medium")
        each = 1e6 * summary["seconds"] / rows
        print(
            f"    {rows:>9,} rows: job {summary['seconds']:6.2f} s, {each:6.2f} us a row,"
            f" peak {done.peak_mib:.0f} MiB"
        )


def tell(title: str, ours: Measured, naive: Measured) -> None:
    """Print both runs and their ratio."""
    print(title)
    print(
        f"    mailsift: {ours.seconds:7.2f} s from nothing to the result file, peak {ours.peak_mib:.0f} MiB"
    )
    print(f"    naive:    {naive.seconds:7.2f} s, peak {naive.peak_mib:.0f} MiB")
    print(f"    ratio:    {naive.seconds / ours.seconds:7.1f} x")


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
