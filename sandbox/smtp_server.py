"""Listens for all mail servers of a world: one socket for 127.0.0.0/8, one certificate for STARTTLS."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from mailsift.sandbox.smtp_commands import SmtpContext
from mailsift.sandbox.smtp_session import SmtpSession
from mailsift.sandbox.world import BLACKHOLE

_BACKLOG = 4096


class SmtpServer:
    """Serves every host of a world on one port.

    Attributes:
        port: the port in use, 0 before the start.
    """

    def __init__(self, context: SmtpContext) -> None:
        self.port = 0
        self._context = context
        self._servers: list[asyncio.Server] = []
        self._blackhole: list[socket.socket] = []
        self._sessions: set[SmtpSession] = set()

    async def start(self, port: int) -> None:
        """Listen on a port, 0 picks a free one.

        Raises:
            OSError: the port is taken.
        """
        loop = asyncio.get_running_loop()
        sockets = _listeners(port, self._context.hosts)
        self.port = sockets[0].getsockname()[1]
        for listener in sockets:
            server = await loop.create_server(
                lambda: SmtpSession(self._context, self._sessions), sock=listener, backlog=_BACKLOG
            )
            self._servers.append(server)
        self._blackhole = _dig(sockets[0], self.port)

    async def stop(self) -> None:
        """Stop listening and cut all connections."""
        for server in self._servers:
            server.close()
        for session in self._sessions:
            session.abort()
        for hole in self._blackhole:
            hole.close()
        self._servers.clear()
        self._blackhole.clear()


def _listeners(port: int, addresses: Iterable[str]) -> list[socket.socket]:
    """Return one socket for all of loopback, or one an address where that is not permitted."""
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
    except (OSError, AttributeError):
        listener.close()
        return _one_by_one(port, addresses)
    return [_bind(listener, "0.0.0.0", port)]  # noqa: S104 - the device keeps it on loopback


def _one_by_one(port: int, addresses: Iterable[str]) -> list[socket.socket]:
    listeners: list[socket.socket] = []
    for address in addresses:
        if address not in {BLACKHOLE, "::1"}:
            listeners.append(_bind(socket.socket(), address, port))
            port = listeners[0].getsockname()[1]
    return listeners


def _bind(listener: socket.socket, address: str, port: int) -> socket.socket:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError:
        listener.close()
        raise
    return listener


def _dig(listener: socket.socket, port: int) -> list[socket.socket]:
    """Return the sockets that keep connections to the black hole from being established.

    A listener of its own with room for one connection, and that one taken: the kernel drops every further
    SYN. The port is shared only while it binds, so that a second sandbox still finds the port taken.
    """
    hole, plug = socket.socket(), socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    hole.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    hole.bind((BLACKHOLE, port))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 0)
    hole.listen(0)
    plug.settimeout(0)
    with contextlib.suppress(BlockingIOError):
        plug.connect((BLACKHOLE, port))
    return [hole, plug]


_NAME: Final = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mx.sandbox.test")])
_SINCE, _UNTIL = datetime(2020, 1, 1, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)


def server_context() -> ssl.SSLContext:
    """Return a TLS context with a fresh self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    number = x509.random_serial_number()
    certificate = (
        x509.CertificateBuilder(_NAME, _NAME, key.public_key(), number, _SINCE, _UNTIL)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as both:  # the ssl module reads files only
        Path(both.name).write_bytes(secret + certificate)
        context.load_cert_chain(both.name)
    return context
