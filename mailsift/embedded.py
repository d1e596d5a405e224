"""PostgreSQL and Valkey from wheels, for a machine where nobody has set the two database addresses.

Below the home directory:

    postgres/, valkey/        data and logs
    run/users.lock            locked shared by every command that uses the servers; whoever can lock it alone
                              on leaving is the last and stops them
    run/start.lock            locked by the command that is starting them
    run/<server>.alive        locked through a descriptor the server inherits: free means that none of its
                              processes is left, whatever a stale pid file says
    run/valkey.sock, run/pg/  the sockets; in /tmp/mailsift-<uid>-<hash> when this path does not suit a socket
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import stat
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from mailsift.daemons import START_SECONDS, Daemon, Postgres, Valkey
from pipeline.errors import MailsiftError

STOP_SECONDS = 5.0  # after the polite signal, and again after the other
POLL_SECONDS = 0.01
SOCKET_NAME_ROOM = 75  # bytes for the folder: a socket's path ends at 107 (Linux) or 103 (macOS)
SOCKET_SAFE = re.compile(
    r"[A-Za-z0-9._/-]+"
)  # needs no quoting in a URL, a command line or libpq's host list
LOG_LINES = 3


class EmbeddedServers:
    """The embedded servers of one home directory, shared by every command that runs on it.

    The first to enter starts what does not run, the last to leave stops it; servers that a killed command
    left behind are taken over. Ctrl-C in the terminal reaches the command, not the servers.
    """

    def __init__(self, home: Path, *, postgres: bool = True, valkey: bool = True) -> None:
        """Take the home directory and which of the servers the caller needs."""
        self._home = home.expanduser().absolute()
        self._run = self._home / "run"
        self._sockets = _socket_folder(self._run)
        self._postgres = Postgres(self._home, self._sockets)
        self._valkey = Valkey(self._home, self._sockets)
        self._needed: list[Daemon] = [*([self._postgres] * postgres), *([self._valkey] * valkey)]
        self._user: int | None = None

    @property
    def database_url(self) -> str:
        """Address for SQLAlchemy: `postgresql+psycopg://...`."""
        return self._postgres.url

    @property
    def redis_url(self) -> str:
        """Address for redis-py: `unix:///...`."""
        return self._valkey.url

    @property
    def postgres_pid(self) -> int | None:
        """Process id of the postmaster; None when there is no pid file."""
        return self._postgres.pid()

    @property
    def valkey_pid(self) -> int | None:
        """Process id of Valkey; None when there is no pid file."""
        return self._valkey.pid()

    def start(self) -> None:
        """Join the users of the servers and start what does not run; returns when they answer.

        Raises:
            MailsiftError: `embedded_missing` without the extra, `embedded_failed` when a server does not come
                up, with what its log says.
        """
        try:
            for folder in (self._home, self._run, self._sockets):
                _private_folder(folder)
            self._user = _lock(self._run / "users.lock", fcntl.LOCK_SH)
            with _closing(_lock(self._run / "start.lock", fcntl.LOCK_EX)):
                for daemon in self._needed:
                    self._ensure(daemon)
        except OSError as error:
            self.stop()
            raise MailsiftError("embedded_failed", f"The embedded servers cannot start: {error}.") from error
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Leave the users; the last one stops the servers. Doing it twice is harmless."""
        user, self._user = self._user, None
        if user is None:
            return
        with _closing(user):
            if _lock_alone(user):
                self._stop_all([self._postgres, self._valkey])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _ensure(self, daemon: Daemon) -> None:
        """Wait until the server answers, starting it once if none of its processes lives."""
        deadline = time.monotonic() + START_SECONDS
        logged = daemon.logfile.stat().st_size if daemon.logfile.exists() else 0
        launched = False
        while not daemon.answers():
            dead = not self._lives(daemon)
            if (dead and launched) or time.monotonic() > deadline:
                raise MailsiftError(
                    "embedded_failed", f"{daemon.name} does not answer. {_tail(daemon, logged)}"
                )
            if dead:
                launched = True
                self._launch(daemon, logged)
            else:
                time.sleep(POLL_SECONDS)

    def _launch(self, daemon: Daemon, logged: int) -> None:
        with _closing(_lock(self._alive(daemon), fcntl.LOCK_EX)) as alive:
            try:
                daemon.launch(alive)
            except subprocess.CalledProcessError as error:
                why = _tail(daemon, logged) or " ".join(str(error.stderr).split())
                raise MailsiftError("embedded_failed", f"{daemon.name} does not start. {why}") from error

    def _stop_all(self, daemons: Sequence[Daemon]) -> None:
        for step in (0, 1):
            living = [daemon for daemon in daemons if self._lives(daemon)]
            for daemon in living:
                if pid := daemon.pid():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, daemon.stop_signals[step])
            deadline = time.monotonic() + STOP_SECONDS
            while any(self._lives(daemon) for daemon in living) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)

    def _alive(self, daemon: Daemon) -> Path:
        return self._run / f"{daemon.name}.alive"

    def _lives(self, daemon: Daemon) -> bool:
        with _closing(os.open(self._alive(daemon), os.O_RDWR | os.O_CREAT, 0o600)) as descriptor:
            return not _lock_alone(descriptor)


def _socket_folder(run: Path) -> Path:
    """Choose the folder of the sockets: the same for every command of one home, whatever its environment."""
    plain = str(run)
    if len(plain.encode()) <= SOCKET_NAME_ROOM and SOCKET_SAFE.fullmatch(plain):
        return run
    digest = hashlib.sha256(plain.encode()).hexdigest()[:12]
    return Path("/tmp") / f"mailsift-{os.geteuid()}-{digest}"  # noqa: S108 - checked by _private_folder


def _private_folder(folder: Path) -> None:
    """Create the folder for us alone; refuse one that somebody else laid there (a trap in /tmp).

    As root others may pass through it: PostgreSQL does, as its own user.
    """
    folder.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise MailsiftError("embedded_failed", f"{folder} must be a directory that only you may write.")


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(path: Path, how: int) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, how)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _lock_alone(descriptor: int) -> bool:
    """Lock alone if nobody else holds a lock; tells whether it worked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _tail(daemon: Daemon, start: int) -> str:
    """Return the last lines of what the server has logged since its log had `start` bytes."""
    try:
        fresh = daemon.logfile.read_bytes()[start:].decode(errors="replace")
    except OSError:
        return ""
    return " | ".join(line.strip() for line in fresh.splitlines()[-LOG_LINES:])
