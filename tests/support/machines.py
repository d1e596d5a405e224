"""Two machines in one: network namespaces on a bridge, sharing PostgreSQL, Redis and an S3 endpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from mailsift.sandbox.client import SandboxProcess
from mailsift.settings import Settings
from mailsift.storage.schema import migrate
from tests.support import debian
from tests.support.child_processes import start_service
from tests.support.debian import PASSWORD, daemon, listens
from tests.support.installation import settings_for
from tests.support.ports import free_port
from tests.support.workers import kill_group

BUCKET = "mailsift"


class MachinesError(Exception):
    """No machines can be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Network:
    """A bridge in our own namespace, and the namespaces that are plugged into it."""

    host: str
    namespaces: tuple[str, ...]

    def within(self, place: int) -> list[str]:
        """Return what to put before a command so that it runs on that machine."""
        return ["ip", "netns", "exec", self.namespaces[place]]


@contextmanager
def network(machines: int) -> Iterator[Network]:
    """Make namespaces that reach us and one another over a bridge, and nobody else.

    Raises:
        MachinesError: not root, no iproute2, or the kernel refuses.
    """
    name, taken = f"ms{os.getpid() % 100_000}", _ip("-oneline", "-4", "address")
    # A run that was killed has left its bridge: whoever took the same net would be sent there.
    third = next(number for number in range(100, 200) if f"10.213.{number}." not in taken)
    host = f"10.213.{third}.1"
    with ExitStack() as stack:
        _ip("link", "add", f"{name}br", "type", "bridge")
        stack.callback(_quietly, "link", "delete", f"{name}br")
        _ip("address", "add", f"{host}/24", "dev", f"{name}br")
        _ip("link", "set", f"{name}br", "up")
        namespaces = []
        for place in range(machines):
            there, outer, inner = f"{name}n{place}", f"{name}o{place}", f"{name}i{place}"
            _ip("netns", "add", there)
            stack.callback(_quietly, "netns", "delete", there)
            _ip("link", "add", outer, "type", "veth", "peer", "name", inner, "netns", there)
            _ip("link", "set", outer, "master", f"{name}br", "up")
            _ip("-netns", there, "link", "set", "lo", "up")
            _ip("-netns", there, "address", "add", f"10.213.{third}.{11 + place}/24", "dev", inner)
            _ip("-netns", there, "link", "set", inner, "up")
            namespaces.append(there)
        yield Network(host, tuple(namespaces))


@contextmanager
def one_namespace(name: str) -> Iterator[list[str]]:
    """Make a namespace with nothing but loopback; gives what to put before a command so that it runs there.

    Raises:
        MachinesError: not root, no iproute2, or the kernel refuses.
    """
    _ip("netns", "add", name)
    try:
        _ip("-netns", name, "link", "set", "lo", "up")
        yield ["ip", "netns", "exec", name]
    finally:
        _quietly("netns", "delete", name)


def _ip(*words: str) -> str:
    """Return what `ip` says."""
    try:
        done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        raise MachinesError("`ip` is missing; Debian has it in iproute2.") from None
    if done.returncode:
        raise MachinesError(f"`ip {' '.join(words)}` says: {done.stderr.strip()}")
    return done.stdout


def _quietly(*words: str) -> None:
    subprocess.run(["ip", *words], check=False, capture_output=True)


@dataclass(frozen=True, slots=True)
class Servers:
    """What the machines share; `store` are the variables that lead to the bucket."""

    database_url: str
    redis_url: str
    store: Mapping[str, str]


@contextmanager
def servers(host: str, folder: Path) -> Iterator[Servers]:
    """Run PostgreSQL, Redis and an S3 endpoint on an address of ours."""
    with debian.postgres(host=host) as database, debian.redis(host=host, password=PASSWORD) as port:
        migrate(database)
        with s3(host, folder) as endpoint:
            yield Servers(database, f"redis://:{PASSWORD}@{host}:{port}/0", s3_environment(endpoint))


def s3_environment(endpoint: str) -> dict[str, str]:
    """Return what leads a process to a store."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": PASSWORD,
    }


@contextmanager
def s3(host: str, folder: Path) -> Iterator[str]:
    """Run moto's server with an empty bucket; gives its address."""
    port = free_port()
    argv = [sys.executable, "-m", "moto.server", "--host", host, "--port", str(port)]
    with daemon(argv, log=folder / "s3.log", up=lambda: listens(port, host)):
        endpoint = f"http://{host}:{port}"
        # It takes any signature, but wants to see one.
        signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=x/x/us-east-1/s3/aws4_request"}
        httpx.put(f"{endpoint}/{BUCKET}", headers=signed).raise_for_status()
        yield endpoint


@dataclass
class Side:
    """One machine: its mail internet, its settings and its worker."""

    within: list[str]
    settings: Settings
    environment: Mapping[str, str]
    sandbox: SandboxProcess
    log: Path
    worker: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start the worker."""
        with self.log.open("ab") as log:
            self.worker = start_service(
                self.settings, log, "mailsift", "worker", within=self.within, more=self.environment
            )

    def die(self) -> int:
        """SIGKILL everything that runs on it at once; returns how many processes that were."""
        assert self.worker is not None
        hit = 1 + len(psutil.Process(self.worker.pid).children(recursive=True))
        kill_group(self.worker.pid)
        self.worker.wait()
        self.sandbox.stop()
        return hit

    def stop(self) -> None:
        if self.worker is not None and self.worker.poll() is None:
            debian.end(self.worker, signal.SIGTERM)


@contextmanager
def sides(
    net: Network, shared: Servers, folder: Path, *, world: Mapping[str, Any], **more: Any
) -> Iterator[list[Side]]:
    """Set the machines up, each with a sandbox of the same world behind its own loopback.

    Args:
        net: where they are.
        shared: what they share.
        folder: for homes and logs.
        world: what a SandboxProcess takes.
        more: settings beyond those of tests.support.installation.
    """
    with ExitStack() as stack:
        made = []
        for place in range(len(net.namespaces)):
            within = net.within(place)
            box = SandboxProcess(**world)
            box.within = within
            stack.enter_context(box)
            settings = settings_for(
                folder / f"machine{place}",
                database_url=shared.database_url,
                redis_url=shared.redis_url,
                sandbox=box.env,
                blob_url=f"s3://{BUCKET}/lists",
                # As machines have: every one its own address to ask from, and with it its own limits.
                source_addresses=(f"127.0.0.{11 + place}",),
                **more,
            )
            side = Side(within, settings, shared.store, box, folder / f"machine{place}.log")
            stack.callback(side.stop)
            made.append(side)
        yield made
