"""Measures commands and installations from outside: wall and CPU seconds, peak memory of all processes."""

from __future__ import annotations

import os
import resource
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from typing_extensions import override

_EVERY_SECONDS = 0.1
_REST_FACTOR = 19.0
"""Looking at memory takes at most a twentieth of one processor: who uses all of them would pay for more."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run took: seconds of the wall clock and of processors, MiB at the peak (shared pages once).

    The CPU seconds are those of the command and of all it waited for, not of servers that left its tree.
    """

    seconds: float
    cpu: float
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
    started, used = time.perf_counter(), _cpu_of_children()
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
    return Measured(seconds, _cpu_of_children() - used, sampler.peak / 2**20, stdout, stderr)


def _cpu_of_children() -> float:
    """Return the CPU seconds of all processes this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_by_role(servers: Path) -> dict[str, float]:
    """Return the CPU seconds so far of this process, its tree and the daemons that name a folder, by role.

    What has ended counts for the process that waited for it.
    """
    spent: defaultdict[str, float] = defaultdict(float)
    for pid in pids_of(os.getpid(), servers):
        try:
            process = psutil.Process(pid)
            times = process.cpu_times()
            spent[_role_of(process.cmdline(), ours=pid == os.getpid())] += times.user + times.system
            spent["ended"] += times.children_user + times.children_system
        except psutil.NoSuchProcess:
            continue
    return spent


_ROLES = {
    "postgres": "PostgreSQL",
    "valkey": "Valkey",
    "intake.child": "intake",
    "mailsift worker": "workers",
}


def _role_of(command: Sequence[str], *, ours: bool) -> str:
    line = " ".join(command)
    return "submitter" if ours else next((role for word, role in _ROLES.items() if word in line), "others")


class _Sampler(threading.Thread):
    def __init__(self, pid: int, servers: Path | None) -> None:
        super().__init__(daemon=True)
        self._pid, self._servers, self._over = pid, servers, threading.Event()
        self.peak = 0

    @override
    def run(self) -> None:
        rest = _EVERY_SECONDS
        while not self._over.wait(rest):
            started = time.thread_time()
            self.peak = max(self.peak, sum(_proportional(pid) for pid in pids_of(self._pid, self._servers)))
            rest = max(_EVERY_SECONDS, _REST_FACTOR * (time.thread_time() - started))

    def stop(self) -> None:
        self._over.set()
        self.join()


def pids_of(root: int, servers: Path | None) -> set[int]:
    """Return a process, all below it, and the daemons that name or work in a folder, with theirs."""
    wanted = ["ppid"] if servers is None else ["ppid", "cmdline", "cwd"]
    children: defaultdict[int, list[int]] = defaultdict(list)
    left = [root]
    for process in psutil.process_iter(wanted):
        info = process.info
        children[info["ppid"]].append(process.pid)
        if servers is not None and any(
            str(servers) in part for part in (*(info["cmdline"] or ()), info["cwd"] or "")
        ):
            left.append(process.pid)
    found: set[int] = set()
    while left:
        if (pid := left.pop()) not in found:
            found.add(pid)
            left += children[pid]
    return found


def _proportional(pid: int) -> int:
    """Return the PSS in bytes: private pages, and each shared page divided by its users."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
