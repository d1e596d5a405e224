"""What most measurements begin with: a list in a calm world, an installation on the sandbox, a job in it."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.measured import Measured, measure
from mailsift.pipeline.allocator import FREE_SOON, LITTLE_AHEAD
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.listing import write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix

SEED: Final = 1


def calm_world(domains: int) -> SandboxWorld:
    """Return a world where no DNS server and no mail server makes anybody wait."""
    return SandboxWorld(seed=SEED, domains=domains, mix=WorldMix.CALM)


def calm_sandbox(domains: int, *, latency_ms: float = 0) -> SandboxProcess:
    """Return its servers, which have not been started."""
    return SandboxProcess(seed=SEED, domains=domains, mix=WorldMix.CALM, latency_ms=latency_ms)


def calm_list(path: Path, rows: int, domains: int) -> Path:
    """Write a list of addresses in such a world; returns the truth beside it, which is a list as well."""
    return write_list(calm_world(domains), path, rows=rows)


@contextmanager
def home(
    sandbox: SandboxProcess, overrides: str = "", **settings: str
) -> Iterator[tuple[Path, dict[str, str]]]:
    """Give a folder with a fresh MAILSIFT_HOME, and the environment of an installation on the sandbox.

    Args:
        sandbox: has been started.
        overrides: what is in the file of overrides.
        settings: more variables.
    """
    with tempfile.TemporaryDirectory(prefix="ms-bench-", dir="/tmp") as folder:
        file = Path(folder) / "overrides.toml"
        file.write_text(overrides)
        environment = {
            **os.environ,  # noqa: TID251 - handed on to a child
            **FREE_SOON,  # as the command `mailsift` does
            **LITTLE_AHEAD,
            **sandbox.env,
            "MAILSIFT_HOME": f"{folder}/home",
            "MAILSIFT_OVERRIDES": str(file),
            "MAILSIFT_HELO_NAME": "bench.sandbox.test",
            "MAILSIFT_WORKER_PROCESSES": "2",
            "MAILSIFT_GREYLIST_DELAYS": "2,4,8",
            **settings,
        }
        yield Path(folder), environment


@contextmanager
def surrounded(environment: Mapping[str, str]) -> Iterator[None]:
    """Let this process, and those that it starts, have an environment for the time of the block."""
    before = dict(os.environ)  # noqa: TID251 - put back below
    os.environ.update(environment)  # noqa: TID251 - workers inherit it
    try:
        yield
    finally:
        os.environ.clear()  # noqa: TID251
        os.environ.update(before)  # noqa: TID251


def run_job(
    folder: Path, environment: Mapping[str, str], source: Path, mode: str
) -> tuple[Measured, dict[str, Any]]:
    """Run a job in an installation that is up, from handing in the list to the finished `out.csv`.

    Args:
        folder: with the home, as `home` gives it.
        environment: of the installation.
        source: the list.
        mode: of the job.

    Returns:
        What all of it took, and the summary with the seconds of the job and its CPU seconds by role.
    """
    command = [sys.executable, "-m", "benchmarks.installed", str(source), mode, str(folder / "out.csv")]
    done = measure(command, environment=environment, servers=folder / "home")
    return done, json.loads(done.stdout.splitlines()[-1])
