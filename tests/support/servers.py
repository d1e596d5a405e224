"""The real servers tests run against."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import NamedTuple

from mailsift.runtime.embedded import EmbeddedServers


class Urls(NamedTuple):
    """Addresses of a database and a Redis, as `tests.support.installation.settings_for` takes them."""

    database_url: str
    redis_url: str


class RedisServer:
    """A Valkey of one test's own, to be killed and emptied."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._servers = EmbeddedServers(home, postgres=False)
        self._servers.start()

    @property
    def url(self) -> str:
        return self._servers.redis_url

    @property
    def pid(self) -> int:
        pid = self._servers.valkey.pid()
        assert pid is not None
        return pid

    def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        os.kill(self.pid, signal.SIGKILL)
        self._servers.stop()

    def start(self, *, emptied: bool = False) -> None:
        """Start again after `kill` or `stop`, with what the disk remembers or with nothing."""
        if emptied:
            shutil.rmtree(self._home / "valkey")
        self._servers.start()

    def stop(self) -> None:
        self._servers.stop()
