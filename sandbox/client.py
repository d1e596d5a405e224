"""Starts a sandbox in a process of its own and talks to it; for tests, demo and benchmarks."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from mailsift.sandbox.world import WorldMix

_PATIENCE = 30.0  # seconds for an answer or the end


class SandboxProcess:
    """A sandbox in a subprocess that ends with its parent; a context manager.

    Args:
        smtp_port: 0 picks a free one.
        latency_ms: milliseconds between an SMTP command and its reply.
        greylist_seconds: how long greylisting servers put a first contact off.
        minute_seconds: how long a limit a minute counts.

    Attributes:
        within: what to put before the command, so that it starts in a network namespace, say.
        dns_port, smtp_port: known once started.
        env: the environment that points Mailsift here.
    """

    def __init__(  # noqa: PLR0913 - what a sandbox is like, one argument each
        self,
        *,
        seed: int = 1,
        domains: int = 1_000,
        mix: WorldMix = WorldMix.PLAIN,
        smtp_port: int = 0,
        latency_ms: float = 0,
        greylist_seconds: float = 2,
        minute_seconds: float = 2,
    ) -> None:
        options = {
            "--seed": seed,
            "--domains": domains,
            "--mix": mix.value,
            "--smtp-port": smtp_port,
            "--latency-ms": latency_ms,
            "--greylist-seconds": greylist_seconds,
            "--minute-seconds": minute_seconds,
        }
        self._arguments = [f"{name}={value}" for name, value in options.items()]
        self.within: Sequence[str] = ()
        self._process: subprocess.Popen[bytes] | None = None
        self.dns_port = self.smtp_port = self.control_port = 0
        self.env: dict[str, str] = {}

    @property
    def pid(self) -> int | None:
        """Of its process, while there is one."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it and wait until it serves.

        Raises:
            RuntimeError: it ended instead; its standard error has said why.
        """
        # Its standard input is a pipe from here: when this process dies, however it dies, the pipe ends.
        process = subprocess.Popen(  # noqa: S603 - our own module
            [
                *self.within,
                sys.executable,
                "-m",
                "mailsift.sandbox",
                "serve",
                "--until-eof",
                *self._arguments,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).resolve().parent.parent,  # where the package `sandbox` is found
        )
        self._process = process
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        line = process.stdout.readline()
        if not line:
            self.stop()
            raise RuntimeError("the sandbox did not start")
        ready = json.loads(line)
        self.dns_port, self.smtp_port = ready["dns_port"], ready["smtp_port"]
        self.control_port, self.env = ready["control_port"], ready["env"]

    def stop(self) -> None:
        """End it and wait for its end."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def counters(self) -> dict[str, Any]:
        """Return what it saw (mailsift.sandbox.counters.Counters.snapshot)."""
        return self._ask("counters")

    def reports(self) -> list[str]:
        """Return the bounces and complaints that came since the last time, as messages."""
        found: list[str] = self._ask("reports")["reports"]
        return found

    def reset(self) -> None:
        """Set the counters back."""
        self._ask("reset")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _ask(self, op: str) -> dict[str, Any]:
        with socket.create_connection(("127.0.0.1", self.control_port), timeout=_PATIENCE) as connection:
            connection.sendall(json.dumps({"op": op}).encode() + b"\n")
            with connection.makefile("rb") as answers:
                answer: dict[str, Any] = json.loads(answers.readline())
                return answer
