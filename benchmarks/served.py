"""Runs our API, or another web server, as a process of its own for the time of a measurement."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
from pydantic import SecretStr

from mailsift.settings import Settings

_LISTENS = re.compile(r"listens on (http://\S+)")


@dataclass(frozen=True, slots=True)
class Served:
    """A running server: the address it says it listens on, and its process."""

    url: str
    pid: int

    def cpu(self) -> float:
        """Return the seconds of processor it has used."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)


@contextmanager
def installed(**settings: str) -> Iterator[dict[str, str]]:
    """Give the environment of an installation with embedded servers of its own, which run meanwhile."""
    from mailsift.runtime.embedded import EmbeddedServers  # noqa: PLC0415 - others only want a process
    from mailsift.storage.schema import migrate  # noqa: PLC0415 - same

    with (
        tempfile.TemporaryDirectory(prefix="ms-bench-", dir="/tmp") as folder,
        EmbeddedServers(Path(folder) / "home") as servers,
    ):
        migrate(servers.database_url)
        yield {
            **os.environ,  # noqa: TID251 - handed on to a child
            "MAILSIFT_HOME": f"{folder}/home",
            "MAILSIFT_DATABASE_URL": servers.database_url,
            "MAILSIFT_REDIS_URL": servers.redis_url,
            "MAILSIFT_API_PORT": "0",
            "MAILSIFT_REQUESTS_PER_MINUTE": "100000000",
            **settings,
        }


def settings_of(environment: Mapping[str, str]) -> Settings:
    """Return the settings that a process of ours reads from this environment."""
    return Settings(
        home=Path(environment["MAILSIFT_HOME"]),
        database_url=SecretStr(environment["MAILSIFT_DATABASE_URL"]),
        redis_url=SecretStr(environment["MAILSIFT_REDIS_URL"]),
    )


@contextmanager
def served(*words: str, environment: Mapping[str, str] | None = None) -> Iterator[Served]:
    """Run `python -m words` until the block ends.

    Raises:
        RuntimeError: it ended instead.
    """
    with tempfile.NamedTemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield Served(_address(process, Path(log.name)), process.pid)
        finally:
            process.terminate()
            process.wait()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    while not (found := _LISTENS.search(log.read_text())):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended: {log.read_text()[-2000:]}")
        time.sleep(0.05)
    return found[1]
