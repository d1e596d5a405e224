"""The servers this command works with: the configured ones, or the embedded ones for as long as it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import SecretStr

from mailsift.embedded import EmbeddedServers
from mailsift.settings import Settings
from storage.schema import migrate

_WARM_SECONDS = 20.0


@contextmanager
def installation(settings: Settings, *, database: bool = True) -> Iterator[Settings]:
    """Give settings whose DATABASE_URL and REDIS_URL are set, and start what is needed for it.

    Args:
        settings: as read from the environment.
        database: False for a command that needs only Redis.

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
        yield settings.model_copy(update=found)


class LocalWorker:
    """A worker process of this command, started again when it dies; its log is `HOME/worker.log`."""

    def __init__(self, settings: Settings) -> None:
        self._environment = {**_inherited(), **settings.environment()}
        self._log = settings.home / "worker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def ensure(self) -> None:
        """Start the worker when it does not run."""
        if self._process is None or self._process.poll() is not None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                    [sys.executable, "-m", "mailsift", "worker", "--with-parent", str(os.getpid())],
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is ours; the worker is told by SIGTERM
                )

    def stop(self) -> None:
        """Stop warm: what runs is finished or given back."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_WARM_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def _inherited() -> dict[str, str]:
    return dict(os.environ)  # noqa: TID251 - handed on to a child, not read
