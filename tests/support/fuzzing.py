"""Properties that a test run tries a few times, and `make fuzz` many times with other seeds."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, settings

from mailsift.jobs.intake.models import IntakeLimits
from tests.support.workers import ROOT

MORE: Final = 40
"""How many times as many examples a long run tries."""


def examples(count: int) -> settings:
    """Return how often a property is tried: so often, and much more often by `make fuzz`."""
    times = 1 if settings.default is not None and settings.default.derandomize else MORE
    quiet = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    return settings(max_examples=count * times, deadline=None, suppress_health_check=quiet)


@dataclass(frozen=True)
class ChildRun:
    """What the reading process said, its exit code, and what it took."""

    answer: dict[str, Any]
    code: int
    seconds: float
    bytes: int


# A process counts the memory of whoever started it as its own, so a small one stands between.
_MEASURE = """
import os, sys
out = (os.POSIX_SPAWN_OPEN, 1, sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=[out])
_, status, used = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def read_in_child(folder: Path, data: bytes, column: str = "") -> ChildRun:
    """Let a process of its own read a file, as the product does, and measure it."""
    source, workdir = folder / "list.bin", folder / "work"
    workdir.mkdir(parents=True, exist_ok=True)
    source.write_bytes(data)
    for left in workdir.iterdir():
        left.unlink()
    options = {"column": column, "chunk_addresses": 5_000}
    request = {"work": "take_in", "source": str(source), "workdir": str(workdir), "options": options}
    command = [sys.executable, "-P", "-m", "mailsift.jobs.intake.child"]
    measured = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _MEASURE, str(folder / "out"), *command],
        input=json.dumps({**request, "limits": asdict(IntakeLimits(seconds=60))}).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={
            "PYTHONPATH": str(ROOT),
            "PYTHONUTF8": "1",
            "POLARS_MAX_THREADS": "2",
            "POLARS_IGNORE_TIMEZONE_PARSE_ERROR": "1",
        },
        check=True,
    )
    code, seconds, kilobytes = measured.stdout.split()
    text = (folder / "out").read_bytes()
    answer = json.loads(text) if text else {}
    return ChildRun(answer, int(code), float(seconds), int(kilobytes) * 1024)
