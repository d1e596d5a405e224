"""The command line for tests: typed in a process of its own, or in this one to save the start of one."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

from mailsift.cli import main
from mailsift.settings import Settings
from tests.support.captured_logs import logs_as_before
from tests.support.child_processes import environment_for
from tests.support.workers import ROOT


@dataclass(frozen=True, slots=True)
class Typed:
    """What a command did."""

    status: int
    out: str
    err: str


class CommandLine:
    """Commands of one installation, each a process in a session of its own."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def start(self, *words: object, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "mailsift", *map(str, words)],
            cwd=ROOT,
            env=environment_for(self.settings.environment()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            errors="surrogateescape",
            start_new_session=True,
        )

    def run(self, *words: object, stdin: str = "", within: float = 60) -> Typed:
        process = self.start(*words)
        out, err = process.communicate(stdin, timeout=within)
        return Typed(process.returncode, out, err)

    def on_terminal(self, *words: object, within: float = 60) -> tuple[str, Typed]:
        """Run a command whose stderr is a terminal; returns what was seen there, without its controls."""
        ours, theirs = pty.openpty()
        with ThreadPoolExecutor(1) as pool, os.fdopen(ours, "rb", buffering=0) as terminal:
            process = self.start(*words, stderr=theirs)
            os.close(theirs)
            seen = pool.submit(_read_all, terminal)
            out, _ = process.communicate(timeout=within)
            text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", seen.result(within).decode())
        return " ".join(text.split()), Typed(process.returncode, out, "")

    def running(self) -> list[str]:
        """Name every process that belongs to this installation, servers too."""
        return [name for process in psutil.process_iter() if (name := self._mine(process))]

    def workers(self) -> list[psutil.Process]:
        """Find the worker processes, the one that leads the others first."""
        found = [process for process in psutil.process_iter() if "worker" in self._mine(process).split()]
        return sorted(found, key=lambda process: process.create_time())

    def workers_of(self, parent: int) -> list[psutil.Process]:
        """Find the worker processes that this process has started itself."""
        return [one for one in psutil.Process(parent).children() if "worker" in self._mine(one).split()]

    def _mine(self, process: psutil.Process) -> str:
        home = str(self.settings.home)
        try:
            words = process.cmdline()
            mine = process.environ().get("MAILSIFT_HOME") == home or any(home in word for word in words)
            return " ".join(words) if mine and process.status() != psutil.STATUS_ZOMBIE else ""
        except psutil.Error:
            return ""


class Keyboard:
    """Types commands in this process; saves the second that a new one takes to start."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def type(self, settings: Settings | None, *words: object, stdin: bytes = b"") -> Typed:
        """Run one command; without settings, in an environment that says nothing."""
        patch = self._monkeypatch
        for name, _, _ in Settings.describe():
            patch.delenv(name, raising=False)
        for name, value in (settings.environment() if settings else {}).items():
            patch.setenv(name, value)
        patch.setenv("COLUMNS", "200")
        patch.setattr(sys, "argv", ["mailsift", *map(str, words)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._capsys.readouterr()
        with logs_as_before(), pytest.raises(SystemExit) as left:
            main()
        printed = self._capsys.readouterr()
        return Typed(_status(left.value.code), printed.out, printed.err)


def _read_all(terminal: io.RawIOBase) -> bytes:
    """Read until the other side is closed, which Linux tells as an error."""
    pieces = []
    with suppress(OSError):
        while piece := terminal.read(65_536):
            pieces.append(piece)
    return b"".join(pieces)


def _status(code: Any) -> int:
    return code if isinstance(code, int) else int(code is not None)
