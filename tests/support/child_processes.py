"""Processes that a test starts: what they are told of our environment, and ours as a service has them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from mailsift.settings import Settings

_HANDED_ON: Final = ("PATH", "COVERAGE_PROCESS_CONFIG")
"""The second one is there under `make cover` only."""


def environment_for(*more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: these variables, and what every child needs."""
    environment = {name: os.environ[name] for name in _HANDED_ON if name in os.environ}  # noqa: TID251 - for a child
    for variables in more:
        environment |= variables
    return environment


def start_service(
    settings: Settings,
    log: IO[bytes],
    *words: str,
    within: Sequence[str] = (),
    more: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process of ours as a service manager would, without a terminal and in a session of its own.

    Args:
        settings: which it gets.
        log: for its words.
        words: the module and the command, `mailsift worker`.
        within: what to put before that, so that it starts in a network namespace, say.
        more: variables that are no settings.
    """
    return subprocess.Popen(
        [*within, sys.executable, "-m", *words],
        cwd=Path(__file__).parents[2],
        env=environment_for(settings.environment(), more or {}),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )


def open_pipes() -> set[str]:
    """Return the pipes of this process; those that a test leaves open are there after it and not before.

    Not to be counted: what earlier tests have left to the garbage collector goes at any time.
    """
    links = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return {str(link) for link in links if str(link).startswith("pipe:")}
