"""Runs a command and measures it from outside: wall seconds, and the peak memory of all its processes."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from typing_extensions import override

_EVERY_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run took: seconds of the wall clock, MiB at the peak (shared pages counted once)."""

    seconds: float
    peak_mib: float
    stdout: str
    stderr: str


def measure(
    command: Sequence[str], *, environment: Mapping[str, str], servers: Path | None = None
) -> Measured:
    """Run the command to its end.

    Args:
        command: what to run.
        environment: its whole environment.
        servers: also count processes whose command line names this folder (daemons that left the tree).

    Raises:
        RuntimeError: it failed; the message holds the end of what it printed.
    """
    started = time.perf_counter()
    with subprocess.Popen(
        command, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        sampler = _Sampler(process.pid, servers)
        sampler.start()
        stdout, stderr = process.communicate()
        seconds = time.perf_counter() - started
        sampler.stop()
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}: {stderr[-2000:]}")
    return Measured(seconds, sampler.peak / 2**20, stdout, stderr)


class _Sampler(threading.Thread):
    def __init__(self, pid: int, servers: Path | None) -> None:
        super().__init__(daemon=True)
        self._pid, self._servers, self._over = pid, servers, threading.Event()
        self.peak = 0

    @override
    def run(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            self.peak = max(self.peak, sum(_proportional(pid) for pid in self._pids()))

    def stop(self) -> None:
        self._over.set()
        self.join()

    def _pids(self) -> set[int]:
        roots = [self._pid]
        if self._servers is not None:
            roots += [
                process.pid
                for process in psutil.process_iter(["cmdline"])
                if any(str(self._servers) in part for part in process.info["cmdline"] or ())
            ]
        return {pid for root in roots for pid in _tree(root)}


def _tree(root: int) -> list[int]:
    try:
        process = psutil.Process(root)
        return [root, *(child.pid for child in process.children(recursive=True))]
    except psutil.NoSuchProcess:
        return []


def _proportional(pid: int) -> int:
    """Return the PSS in bytes: private pages, and each shared page divided by its users."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
