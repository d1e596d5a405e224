"""A network of its own in which we answer to other people's names, over TLS that is trusted there."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trustme

from tests.support.connections import lead_on, talking
from tests.support.machines import one_namespace

_NEW_NET: Final = 0x40000000  # CLONE_NEWNET of <sched.h>


@dataclass(frozen=True, slots=True)
class OtherNames:
    """Where the names are known: what runs there reaches nobody but us."""

    namespace: str
    hosts: Path
    authority: Path

    async def run(self, *words: str, environment: dict[str, str]) -> tuple[str, str]:
        """Run a command there; returns what it printed and what it complained of.

        Raises:
            AssertionError: it failed, or took longer than 200 seconds.
        """
        mounted = ["sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', str(self.hosts), *words]
        trusted = dict.fromkeys(
            ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"), str(self.authority)
        )
        process = await asyncio.create_subprocess_exec(
            *("ip", "netns", "exec", self.namespace, *mounted),
            env={"PATH": os.environ["PATH"], **trusted, **environment},  # noqa: TID251 - for a child
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            output, complained = await asyncio.wait_for(process.communicate(), 200)
        except BaseException:
            process.kill()
            await process.wait()
            raise
        assert process.returncode == 0, complained.decode()
        return output.decode(), complained.decode()


@asynccontextmanager
async def other_names(names: Sequence[str], port: int, folder: Path) -> AsyncIterator[OtherNames]:
    """Lead these names, at the port of HTTPS, to a port of our own; takes root."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "authority.pem"))
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n" + "".join(f"127.0.0.1 {name}\n" for name in names))
    namespace = f"msnames{os.getpid()}"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await lead_on(reader, writer, "127.0.0.1", port)

    with one_namespace(namespace):
        taken = await asyncio.to_thread(_listening_in, namespace)
        async with talking(talk, taken=taken, tls=context):
            yield OtherNames(namespace, hosts, folder / "authority.pem")


def _listening_in(namespace: str) -> socket.socket:
    """Take the port of HTTPS in a namespace; a socket stays where it was made, whoever uses it."""
    libc = ctypes.CDLL(None, use_errno=True)
    ours, theirs = Path("/proc/thread-self/ns/net"), Path("/run/netns", namespace)
    with ours.open() as home, theirs.open() as there:
        assert libc.setns(there.fileno(), _NEW_NET) == 0, os.strerror(ctypes.get_errno())
        try:
            return socket.create_server(("127.0.0.1", 443))
        finally:
            assert libc.setns(home.fileno(), _NEW_NET) == 0
