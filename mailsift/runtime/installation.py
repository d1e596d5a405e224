"""The servers this command works with: the configured ones, or the embedded ones for as long as it runs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import SecretStr

from mailsift.pipeline.errors import MailsiftError
from mailsift.runtime.embedded import EmbeddedServers
from mailsift.settings import PREFIX, Settings
from mailsift.storage.schema import migrate
from mailsift.storage.sql.workers import claiming

_WARM_SECONDS = 20.0
MOST_YOUNG_DEATHS = 4


@contextmanager
def installation(settings: Settings, *, database: bool = True, forks: bool = False) -> Iterator[Settings]:
    """Give settings whose DATABASE_URL and REDIS_URL are set, and start what is needed for it.

    A server of ours that dies meanwhile is started again.

    Args:
        settings: as read from the environment.
        database: False for a command that needs only Redis.
        forks: True for a command whose process forks: another one watches the servers then.

    Raises:
        MailsiftError: `embedded_missing`, `embedded_failed`, `database_unavailable`.
    """
    need_postgres = database and settings.database_url is None
    need_valkey = settings.redis_url is None
    if not need_postgres and not need_valkey:
        yield settings
        return
    with EmbeddedServers(settings.home, postgres=need_postgres, valkey=need_valkey) as servers:
        found: dict[str, SecretStr] = {}
        if need_postgres:
            migrate(servers.database_url)
            found["database_url"] = SecretStr(servers.database_url)
        if need_valkey:
            found["redis_url"] = SecretStr(servers.redis_url)
        servers.keep_up(apart=forks)
        yield settings.model_copy(update=found)


class LocalWorker:
    """A worker process of this command, started again when it dies; its log is `HOME/worker.log`.

    Args:
        settings: with the addresses of the servers set.
        spare: none is started while somebody else's serves the installation.
        young_s: seconds within which a worker has died as soon as it had started.
        look_s: seconds between two looks at other people's workers.

    Attributes:
        environment: what it is started with.
        process: the worker, None before its first start.
    """

    def __init__(
        self, settings: Settings, *, spare: bool = False, young_s: float = 15.0, look_s: float = 2.0
    ) -> None:
        self._young_s, self._look_s = young_s, look_s
        self._settings = settings
        self._spare = spare
        self._looked_at = float("-inf")
        self.environment = {**_inherited(), **settings.environment()}
        self._log = settings.home / "worker.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._started_at = float("-inf")
        self._young_deaths = 0

    def ensure(self) -> None:
        """Start the worker when it does not run.

        Raises:
            MailsiftError: `worker_failed` when it dies again and again as soon as it has started.
        """
        if self.process is not None:
            if self.process.poll() is None:
                return
            young = time.monotonic() - self._started_at < self._young_s
            self._young_deaths = self._young_deaths + 1 if young else 0
            if self._young_deaths == MOST_YOUNG_DEATHS:
                raise MailsiftError("worker_failed", f"The worker keeps dying; {self._log} says why.")
        elif self._spare and self._is_served():
            return
        self._start()

    def _is_served(self) -> bool:
        """Say whether there is a worker, as of a few seconds ago; what died on this machine is none."""
        if time.monotonic() - self._looked_at < self._look_s:
            return True
        url = self._settings.database_url
        try:
            found = claiming(url.get_secret_value()) if url else []
        except MailsiftError:  # away, as for a worker of ours
            return True
        if not any(host != socket.gethostname() or _is_alive(pid) for host, pid in found):
            return False
        self._looked_at = time.monotonic()
        return True

    def _start(self) -> None:
        self._started_at = time.monotonic()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                # -P: a folder named mailsift where the command was typed, a checkout perhaps, is not it
                [sys.executable, "-P", "-m", "mailsift", "worker", "--with-parent", str(os.getpid())],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is ours; the worker is told by SIGTERM
            )

    def stop(self) -> None:
        """Stop warm: what runs is finished or given back."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(_WARM_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _inherited() -> dict[str, str]:
    """Return the environment but for our settings: those the child gets from us, the unset ones too."""
    inherited = os.environ.items()  # noqa: TID251 - handed on to a child, not read
    return {name: value for name, value in inherited if not name.startswith(PREFIX)}
