"""The authoritative DNS server: UDP and TCP on one loopback port, prebuilt answers patched per query."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import cast

from typing_extensions import override

from sandbox import wire
from sandbox.counters import Counters
from sandbox.wire import Rcode
from sandbox.zone import Zone

_BURST = 64  # datagrams read in one go, so that TCP and SMTP get their turn
_TRIES = 20  # free UDP ports tried until one is free over TCP too


class DnsServer:
    """Serves a zone on 127.0.0.1.

    Attributes:
        port: the port in use, 0 before the start.
    """

    def __init__(self, zone: Zone, counters: Counters) -> None:
        self.port = 0
        self._zone, self._counters = zone, counters
        self._lost: set[bytes] = set()
        self._udp: socket.socket | None = None
        self._tcp: asyncio.Server | None = None

    async def start(self, port: int) -> None:
        """Listen on a port; 0 picks a free one.

        Raises:
            OSError: the port is taken.
        """
        loop = asyncio.get_running_loop()
        udp, tcp = _bind(port)
        self._udp, self.port = udp, udp.getsockname()[1]
        self._tcp = await loop.create_server(lambda: _Stream(self.handle), sock=tcp)
        loop.add_reader(udp.fileno(), self._readable, udp)

    async def stop(self) -> None:
        """Stop listening."""
        if self._udp:
            asyncio.get_running_loop().remove_reader(self._udp.fileno())
            self._udp.close()
        if self._tcp:
            self._tcp.close()

    def handle(self, query: bytes, send: Callable[[bytes], None], *, tcp: bool) -> None:
        """Answer one query through `send`: now, later or never."""
        if len(query) < wire.HEADER or query[2] & 0x80:
            return
        try:
            question = wire.read_question(query)
            reply = self._zone.reply(question.name, question.qtype)
        except (ValueError, IndexError):
            send(wire.failure(query, Rcode.NOTIMP if query[2] & 0x78 else Rcode.FORMERR))
            return
        self._counters.dns[question.qtype] += 1
        self._counters.dns_tcp += tcp
        message = wire.respond(query, question, reply, tcp=tcp)
        manner = reply.manner
        if manner is wire.PROMPT:
            send(message)
        elif manner.silent or (manner.once_lost and not tcp and self._lose(question.name)):
            return
        else:
            asyncio.get_running_loop().call_later(manner.delay, send, message)

    def _lose(self, name: bytes) -> bool:
        """Say whether this is the first query for a name."""
        first = name not in self._lost
        self._lost.add(name)
        return first

    def _readable(self, udp: socket.socket) -> None:
        for _ in range(_BURST):
            try:
                query, peer = udp.recvfrom(4096)
            except OSError:  # nothing more to read, or the port unreachable of an asker that has gone
                return
            self.handle(query, lambda message, peer=peer: _send(udp, message, peer), tcp=False)  # type: ignore[misc]  # the default binds the loop variable


class _Stream(asyncio.Protocol):
    """DNS over TCP: messages with their length in front (RFC 1035 section 4.2.2)."""

    def __init__(self, handle: Callable[..., None]) -> None:
        self._handle = handle
        self._buffer = b""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # TCP gives nothing else

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 2 and len(self._buffer) >= (
            end := 2 + struct.unpack_from("!H", self._buffer)[0]
        ):
            query, self._buffer = self._buffer[2:end], self._buffer[end:]
            self._handle(query, self._send, tcp=True)

    def _send(self, message: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(struct.pack("!H", len(message)) + message)


def _send(udp: socket.socket, message: bytes, peer: tuple[str, int]) -> None:
    try:
        udp.sendto(message, peer)
    except OSError:  # a full buffer or a closed socket loses a datagram, as networks do
        return


def _bind(port: int) -> tuple[socket.socket, socket.socket]:
    """Bind one port for UDP and TCP."""
    for attempt in range(_TRIES):
        udp, tcp = socket.socket(type=socket.SOCK_DGRAM), socket.socket()
        try:
            udp.settimeout(0)
            udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            udp.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
            udp.bind(("127.0.0.1", port))
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tcp.bind(udp.getsockname())
        except OSError:
            udp.close()
            tcp.close()
            if port or attempt == _TRIES - 1:
                raise
        else:
            return udp, tcp
    raise AssertionError("unreachable")
