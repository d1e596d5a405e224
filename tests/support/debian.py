"""Servers as Debian ships them, each a process of the test's own on a loopback port."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.support.ports import free_port
from tests.support.required_programs import POSTGRES_BIN

PATIENCE = 60.0
NOBODY = 65534
PASSWORD = "not-a-secret"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder with a path short enough for unix sockets, which everybody may pass through."""
    folder = Path(tempfile.mkdtemp(prefix="ms-debian-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def daemon(
    argv: Sequence[str | Path],
    *,
    log: Path,
    up: Callable[[], bool],
    stop: signal.Signals = signal.SIGTERM,
    environment: dict[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server that stays in the foreground, from when it is up; shows the log when it does not come."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(part) for part in argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**ENVIRONMENT, **(environment or {})},
            start_new_session=True,
        )
    try:
        wait_until(up, process=process, log=log)
        yield process
    finally:
        end(process, stop)


def end(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGTERM) -> int:
    """Ask a process to end, then make it; returns its status."""
    with suppress(ProcessLookupError):
        process.send_signal(number)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def wait_until(condition: Callable[[], bool], *, process: subprocess.Popen[bytes], log: Path) -> None:
    """Look until the condition holds; fail with the log when the process ends or time is over."""
    limit = time.monotonic() + PATIENCE
    while not condition():
        state = f"{process.args!r}\n{log.read_text(errors='replace')[-3000:]}"
        assert process.poll() is None, f"it ended with {process.returncode}: {state}"
        assert time.monotonic() < limit, f"it did not come up: {state}"
        time.sleep(0.05)


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Say whether somebody takes connections there."""
    with suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


@contextmanager
def postgres(*, host: str = "127.0.0.1", password: str = PASSWORD) -> Iterator[str]:
    """PostgreSQL 15 with an empty database `mailsift`; gives the address, for libpq."""
    with short_folder() as home:
        data, port = home / "data", free_port()
        (home / "password").write_text(password)
        _give(home)
        options = (
            "--auth=scram-sha-256",
            "--username=mailsift",
            f"--pwfile={home / 'password'}",
            "--no-sync",
        )
        _as_nobody([POSTGRES_BIN / "initdb", *options, "--encoding=UTF8", "--locale=C", "-D", data])
        with (data / "pg_hba.conf").open("a") as hba:
            hba.write("host all all 0.0.0.0/0 scram-sha-256\n")
        settings = {
            "listen_addresses": host,
            "port": port,
            "unix_socket_directories": home,
            "fsync": "off",
            "max_connections": 200,
        }
        flags = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        server = f"postgresql://mailsift:{password}@{host}:{port}"

        def up() -> bool:
            with suppress(psycopg.OperationalError):
                with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
                    admin.execute("CREATE DATABASE mailsift")
                return True
            return False

        argv: list[str | Path] = [*_nobody(), POSTGRES_BIN / "postgres", "-D", data, *flags]
        with daemon(argv, log=home / "postgres.log", up=up, stop=signal.SIGINT):
            yield f"{server}/mailsift"


@contextmanager
def pooler(server: str) -> Iterator[str]:
    """PgBouncer before a database of `postgres`: all clients share one connection, a transaction each.

    Gives the address, for libpq.
    """
    with short_folder() as home:
        port, known = free_port(), conninfo_to_dict(server)
        (home / "users").write_text(f'"{known["user"]}" "{known["password"]}"\n')
        target = " ".join(f"{name}={known[name]}" for name in ("host", "port", "dbname", "user", "password"))
        settings = {
            "listen_addr": "127.0.0.1",
            "listen_port": port,
            "unix_socket_dir": "",
            "auth_type": "plain",
            "auth_file": home / "users",
            "pool_mode": "transaction",
            "default_pool_size": 1,
        }
        lines = [f"{name} = {value}" for name, value in settings.items()]
        own = home / "pgbouncer.ini"
        own.write_text("\n".join(("[databases]", f"{known['dbname']} = {target}", "[pgbouncer]", *lines, "")))
        _give(home)
        argv: list[str | Path] = [*_nobody(), "pgbouncer", own]
        with daemon(argv, log=home / "pgbouncer.log", up=lambda: listens(port)):
            yield f"postgresql://{known['user']}:{known['password']}@127.0.0.1:{port}/{known['dbname']}"


@contextmanager
def redis(
    *, host: str = "127.0.0.1", config: Path | None = None, acl: Path | None = None, password: str = ""
) -> Iterator[int]:
    """Redis 7, of a configuration, with users or a password where they are given; gives its port."""
    with short_folder() as home:
        port = free_port()
        lines = config.read_text().splitlines() if config else []
        own = home / "redis.conf"
        own.write_text("\n".join(line for line in lines if not line.startswith(("dir ", "aclfile "))))
        argv: list[str | Path] = [*_nobody(), "redis-server", own]
        argv += ["--port", str(port), "--dir", home, "--bind", host]
        if password:
            argv += ["--requirepass", password]
        if acl is not None:
            argv += ["--aclfile", shutil.copy(acl, home / "acl")]
        _give(home)
        with daemon(argv, log=home / "redis.log", up=lambda: listens(port, host)):
            yield port


def _nobody() -> list[str]:
    """Return what to put in front of a command so that it runs as nobody; nothing when we are not root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def _as_nobody(argv: Sequence[str | Path]) -> None:
    command = [*_nobody(), *map(str, argv)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=ENVIRONMENT, cwd="/")
    assert done.returncode == 0, done.stderr


def _give(folder: Path) -> None:
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, NOBODY, NOBODY)
