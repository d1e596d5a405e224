"""One job that is interrupted in every way there is, told as a story whose chapters tests look at."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from mailsift.runtime.embedded import EmbeddedServers
from tests.support.commands import CommandLine, Typed
from tests.support.installation import settings_for

T = TypeVar("T")

PATIENCE = 40.0
# Each of these runs its mail itself, so each becomes a lane of its own; two lanes are served at a time.
_BACKLOGS = (
    *("ordinary", "exim", "exchange", "exchange-online", "google-like", "outlook-like", "sendmail"),
    *("qmail", "opensmtpd", "mx-cname", "truncated", "no-pipelining", "no-smtputf8", "starttls"),
)
_QUICK: dict[str, Any] = {"lease_seconds": 2.0, "heartbeat_seconds": 0.5, "sweep_seconds": 0.5}
_PACED = """\
[limits]
rate = 80
burst = 20
sessions = 40
"""
MANY = [f"known{n}@{lane}.sandbox.test" for lane in _BACKLOGS for n in range(80)]
FEW = [f"nobody{n}@{name}.sandbox.test" for name in ("cname", "implicit-mx") for n in range(20)]


@dataclass(frozen=True, slots=True)
class Story:
    """What happened.

    Attributes:
        interrupted: what the command said that Ctrl-C ended.
        left_by_ctrl_c: processes that were still there when it had ended.
        paused: state and processed rows then.
        killed: state and processed rows after the second command was killed and its worker had gone.
        resumed: what the command said that went on to the end.
    """

    interrupted: Typed
    left_by_ctrl_c: list[str]
    paused: tuple[str, int]
    killed: tuple[str, int]
    resumed: Typed


def interrupt_everything(home: Path, out: Path, sandbox: Mapping[str, str]) -> Story:
    """Run a list on embedded servers: kill the worker, press Ctrl-C, go on, kill the command, go on."""
    line = CommandLine(settings_for(home, sandbox=sandbox, overrides=_PACED, chunk_slots=2, **_QUICK))
    source = home / "a list.txt"
    source.write_text("\n".join([*MANY, *FEW]))
    with _typed(line, "run", source, "--output", out) as running:
        _after(line, rows=0)
        first = line.workers()[0]
        first.kill()
        _wait_for(lambda: any(one != first for one in line.workers_of(running.pid)))
        _after(line, rows=_look(line)[1])
        os.killpg(running.pid, signal.SIGINT)
        _, err = running.communicate(timeout=PATIENCE)
    interrupted, left = Typed(running.returncode, "", err), line.running()
    again = shlex.split(err.splitlines()[-1].partition("mailsift ")[2])
    with EmbeddedServers(line.settings.home, valkey=False):
        paused = _look(line)
    with _typed(line, *again) as running:
        _after(line, rows=paused[1])
        running.kill()
    _wait_for(lambda: not line.workers())
    with EmbeddedServers(line.settings.home, valkey=False):
        killed = _look(line)
    return Story(interrupted, left, paused, killed, line.run(*again, "--json"))


@contextmanager
def _typed(line: CommandLine, *words: object) -> Iterator[subprocess.Popen[str]]:
    process = line.start(*words)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _after(line: CommandLine, *, rows: int) -> None:
    """Wait until more rows than these have a verdict."""
    _wait_for(lambda: _look(line)[1] > rows)


def _look(line: CommandLine) -> tuple[str, int]:
    """Return state and processed rows of the job, without becoming a user of the servers."""
    address = EmbeddedServers(line.settings.home).database_url.replace("+psycopg", "")
    try:
        with psycopg.connect(address) as connection:
            found = connection.execute("SELECT state, processed FROM job").fetchone()
    except psycopg.Error:  # neither server nor table are there yet
        found = None
    return found or ("", 0)


def _wait_for(condition: Callable[[], T]) -> T:
    limit = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < limit, f"nothing happened within {PATIENCE} s"
        time.sleep(0.1)
    return found
