"""A worker process of a command's own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread

from mailsift.pipeline.errors import MailsiftError
from mailsift.runtime.embedded import EmbeddedServers
from mailsift.settings import PREFIX, Settings, server_url

_WARM_SECONDS = 20.0
_POLL_SECONDS = 0.01  # the library's own wait looks every 50 ms, and so long nobody can end
MOST_YOUNG_DEATHS = 4


class LocalWorker:
    """A worker process of this command, started again when it dies; its log is `HOME/worker.log`.

    Of a `spare` one none is started while somebody else's serves the installation, which is looked at every
    `look_s` seconds. Within `young_s` seconds a worker has died as soon as it had started.
    """

    def __init__(
        self, settings: Settings, *, spare: bool = False, young_s: float = 15.0, look_s: float = 2.0
    ) -> None:
        self._young_s, self._look_s = young_s, look_s
        self._settings = settings
        self._spare = spare
        self._looked_at = float("-inf")
        self.environment = {**_foreign_environment(), **settings.environment()}
        self._log = settings.home / "worker.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._started_at = float("-inf")
        self._young_deaths = 0

    def ensure(self) -> None:
        """Start the worker when it does not run.

        Raises:
            MailsiftError: `worker_failed` when it dies again and again as soon as it has started, or its log
                cannot be written.
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
        try:
            self._start()
        except OSError as error:
            raise MailsiftError("worker_failed", f"The worker can’t start: {error}.") from error

    def _is_served(self) -> bool:
        """Say whether there is a worker, as of a few seconds ago; what died on this machine is none."""
        if time.monotonic() - self._looked_at < self._look_s:
            return True
        from mailsift.storage.sql.workers import claiming  # noqa: PLC0415 - slow to load

        try:
            found = claiming(server_url(self._settings.database_url))
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
        ends_at = time.monotonic() + _WARM_SECONDS
        while self.process.poll() is None and time.monotonic() < ends_at:
            time.sleep(_POLL_SECONDS)
        self.process.kill()  # no-op when it has ended
        self.process.wait()
        self.process = None


@contextmanager
def early_worker(settings: Settings) -> Iterator[LocalWorker | None]:
    """Give a worker that loads while its command does, and servers that start and get their tables meanwhile.

    It is None where there may be another one. Why the servers do not come up is told by who needs them.

    Raises:
        MailsiftError: `bad_overrides`, `bad_opt_outs`, `bad_settings`.
    """
    settings.check_files()
    settings.make_home()
    servers = EmbeddedServers(settings.home, valkey=settings.redis_url is None)
    if settings.database_url is not None or servers.are_used():
        yield None
        return
    starting = Thread(target=_start, args=(servers,))
    starting.start()
    worker = LocalWorker(settings)
    try:
        worker.ensure()
        yield worker
    finally:
        worker.stop()
        starting.join()
        servers.stop()


def _start(servers: EmbeddedServers) -> None:
    with suppress(Exception):
        servers.start()
        from mailsift.storage.schema import migrate  # noqa: PLC0415 - the command loads it meanwhile

        migrate(servers.database_url)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def _foreign_environment() -> dict[str, str]:
    """Return the environment but for our settings: those the child gets from us, the unset ones too."""
    inherited = os.environ.items()  # noqa: TID251 - handed on to a child, not read
    return {name: value for name, value in inherited if not name.startswith(PREFIX)}
