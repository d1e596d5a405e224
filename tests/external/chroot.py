"""Servers of Debian run below a folder of their own: started for the tests, ended by process id."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import trustme

_PATIENCE = 20.0
"""Seconds for a server to answer its first connection, or to end."""

_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin", "LC_ALL": "C"}
_SHOWN = 2_500
"""Characters of every log that are shown beside a failure."""


@dataclass
class Chroot:
    """The folder that `.ci/install-mail-servers` made, and what this run starts in it.

    Attributes:
        root: the folder.
        port: where servers listen that are given no port of their own.
        home: configuration, spools and logs of this run, below the root.
    """

    root: Path
    port: int = 0
    home: Path = field(init=False)
    _daemons: list[tuple[subprocess.Popen[bytes], Path]] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.home = Path(tempfile.mkdtemp(prefix="mta-", dir=self.root / "tmp"))
        self.home.chmod(0o755)
        return self

    def __exit__(self, *_: object) -> None:
        for process, _log in reversed(self._daemons):
            _end(process)
        shutil.rmtree(self.home)

    def inside(self, path: Path) -> str:
        """Return a path below the root as its servers see it."""
        return f"/{path.relative_to(self.root)}"

    def write(self, name: str, text: str) -> str:
        """Write a file below home; return its path as the servers see it."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return self.inside(path)

    def folder(self, name: str, *, user: str = "root", mode: int = 0o755) -> str:
        """Make a folder below home for one of the root's own users; return it as the servers see it."""
        path = self.home / name
        path.mkdir(parents=True)
        path.chmod(mode)
        os.chown(path, self._uid(user), self._uid(user))
        return self.inside(path)

    def write_certificate(self, name: str, *, user: str = "root") -> str:
        """Write a key and its certificate for one of the root's users; return it as the servers see it."""
        certificate = trustme.CA().issue_cert("mx.test", key_type=trustme.KeyType.RSA)
        pem = certificate.private_key_pem.bytes() + certificate.cert_chain_pems[0].bytes()
        inside = self.write(name, pem.decode())
        (self.home / name).chmod(0o600)
        os.chown(self.home / name, self._uid(user), self._uid(user))
        return inside

    def run(self, *argv: str, given: str = "") -> str:
        """Run a command as seen from the root, with this on its input; return what it prints."""
        done = subprocess.run(
            ["chroot", self.root, *argv],
            input=given,
            capture_output=True,
            text=True,
            check=False,
            env=_ENVIRONMENT,
            timeout=60,
        )
        assert done.returncode == 0, (argv, done.stdout, done.stderr)
        return done.stdout

    def start(self, argv: Sequence[str], *, listening: Sequence[str], port: int = 0) -> None:
        """Start a server that stays in the foreground, and wait until it answers.

        Args:
            argv: the command as seen from the root.
            listening: the addresses to wait for.
            port: where they listen, if not at that of all.
        """
        log = self.home / f"{len(self._daemons)}-{Path(argv[0]).name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["chroot", self.root, *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_ENVIRONMENT,
                start_new_session=True,
            )
        self._daemons.append((process, log))
        for address in listening:
            self._await(process, (address, port or self.port), log)

    def logs(self) -> str:
        """Return the end of what each server wrote, for the report of a failed test."""
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')[-_SHOWN:]}"
            for path in sorted(self.home.rglob("*log"))
            if path.is_file()
        )

    def _uid(self, user: str) -> int:
        """Return the user's number; it is the number of its group, too."""
        users = (self.root / "etc/passwd").read_text().splitlines()
        return next(int(line.split(":")[2]) for line in users if line.startswith(f"{user}:"))

    def _await(self, process: subprocess.Popen[bytes], address: tuple[str, int], log: Path) -> None:
        ends_at = time.monotonic() + _PATIENCE
        while time.monotonic() < ends_at and process.poll() is None:
            with suppress(OSError), socket.create_connection(address, timeout=1):
                return
            time.sleep(0.02)  # the server has no other way to say that it is up
        raise AssertionError(f"nobody listens at {address}\n{self.logs() or log.read_text()}")


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Keep other runs from what they cannot share: the mail servers' name server and OpenSMTPD's spool."""
    with (root / ".ready").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a server in good order, and then whatever is left of its process group."""
    with suppress(ProcessLookupError):
        process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_PATIENCE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
