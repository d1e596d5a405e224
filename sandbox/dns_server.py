"""The authoritative DNS server: UDP and TCP on one loopback port; dnspython answers what is not usual."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import dns.exception
import dns.message
import dns.name
import dns.opcode
import dns.rdata
from dns.flags import Flag
from dns.opcode import Opcode
from dns.rcode import Rcode
from dns.rdataclass import RdataClass
from typing_extensions import override

from mailsift.sandbox import wire
from mailsift.sandbox.counters import Counters
from mailsift.sandbox.zone import ASKED, PROMPT, AnswerManner, SandboxZone, ZoneAnswer, ZoneRecord

_BURST = 64  # datagrams read in one go, so that TCP and SMTP get their turn
_TRIES = 20  # free UDP ports tried until one is free over TCP too


class DnsServer:
    """Serves a zone on 127.0.0.1.

    Attributes:
        port: the port in use, 0 before the start.
    """

    def __init__(self, zone: SandboxZone, counters: Counters) -> None:
        self.port = 0
        self._zone, self._counters = zone, counters
        self._prebuilt = wire.PrebuiltReplies(zone)
        self._lost: set[bytes] = set()
        self._udp: socket.socket | None = None
        self._tcp: asyncio.Server | None = None
        self._streams: set[asyncio.Transport] = set()

    async def start(self, port: int) -> None:
        """Listen on a port; 0 picks a free one.

        Raises:
            OSError: the port is taken.
        """
        loop = asyncio.get_running_loop()
        udp, tcp = _bind(port)
        self._udp, self.port = udp, udp.getsockname()[1]
        self._tcp = await loop.create_server(lambda: _Stream(self.handle, self._streams), sock=tcp)
        loop.add_reader(udp.fileno(), self._read_queries, udp)

    async def stop(self) -> None:
        """Stop listening, and hang up."""
        if self._udp:
            asyncio.get_running_loop().remove_reader(self._udp.fileno())
            self._udp.close()
        if self._tcp:
            self._tcp.close()
        for stream in self._streams:
            stream.abort()
        await asyncio.sleep(0)  # the loop closes them in its next turn

    def handle(self, query: bytes, send: Callable[[bytes], None], *, tcp: bool) -> None:
        """Answer one query through `send`: now, later or never."""
        if len(query) < wire.HEADER or query[2] & 0x80:
            return
        given = self._fast_answer(query, tcp=tcp) or answer_slowly(self._zone, query, tcp=tcp)
        if given.qtype is not None:
            self._counters.dns[given.qtype] += 1
            self._counters.dns_tcp += tcp
        manner = given.manner
        if manner is PROMPT:
            send(given.message)
        elif manner.silent or (manner.once_lost and not tcp and self._lose(given.name)):
            return
        else:
            asyncio.get_running_loop().call_later(manner.delay, send, given.message)

    def _fast_answer(self, query: bytes, *, tcp: bool) -> GivenAnswer | None:
        """Return the prebuilt answer to a usual query, None where there is none that fits."""
        try:
            question = wire.read_question(query)
            reply = self._prebuilt.find(question)
        except (ValueError, IndexError):
            return None
        message = wire.respond(query, question, reply, tcp=tcp)
        return GivenAnswer(message, question.name, question.qtype, reply.manner) if message else None

    def _lose(self, name: bytes) -> bool:
        """Say whether this is the first query for a name."""
        first = name not in self._lost
        self._lost.add(name)
        return first

    def _read_queries(self, udp: socket.socket) -> None:
        for _ in range(_BURST):
            try:
                query, peer = udp.recvfrom(4096)
            except OSError:  # nothing more to read, or the port unreachable of an asker that has gone
                return
            self.handle(query, lambda message, peer=peer: _send(udp, message, peer), tcp=False)  # type: ignore[misc]  # the default binds the loop variable


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """A message to be sent; `qtype` is None when no question was understood, `name` is in wire form."""

    message: bytes
    name: bytes = b""
    qtype: int | None = None
    manner: AnswerManner = PROMPT


def answer_slowly(zone: SandboxZone, query: bytes, *, tcp: bool) -> GivenAnswer:
    """Answer any query by dnspython: truncated, and what is no usual query."""
    try:
        asked = dns.message.from_wire(query)
    except dns.exception.DNSException:
        return GivenAnswer(_failure(query, Rcode.FORMERR))
    if asked.opcode() != Opcode.QUERY:
        return GivenAnswer(_failure(query, Rcode.NOTIMP))
    if len(asked.question) != 1 or asked.question[0].rdclass != RdataClass.IN:
        return GivenAnswer(_failure(query, Rcode.FORMERR))
    name, qtype = asked.question[0].name.canonicalize(), asked.question[0].rdtype
    answer = zone.answer(name.to_text().rstrip("."), qtype)
    return GivenAnswer(_message(asked, answer, tcp=tcp), name.to_digestable()[:-1], qtype, answer.manner)


def _message(asked: dns.message.Message, answer: ZoneAnswer, *, tcp: bool) -> bytes:
    """Return the answer as a message; truncated where it does not fit (RFC 2181 section 9)."""
    response = dns.message.make_response(asked, recursion_available=True, our_payload=wire.PAYLOAD)
    response.flags |= Flag.AA
    response.set_rcode(answer.rcode)
    if answer.manner.tcp_only and not tcp:
        response.flags |= Flag.TC
        return response.to_wire()
    for section, records in ((response.answer, answer.records), (response.authority, answer.authority)):
        for record in records:
            owner = asked.question[0].name if record.owner == ASKED else dns.name.from_text(record.owner)
            rrset = response.find_rrset(section, owner, RdataClass.IN, record.rtype, create=True)
            rrset.add(_rdata(record), record.ttl)
    room = 65_535 if tcp else max(512, asked.payload if asked.edns >= 0 else 0)
    return response.to_wire(max_size=room, prefer_truncation=True)


@lru_cache(maxsize=4096)
def _rdata(record: ZoneRecord) -> dns.rdata.Rdata:
    return dns.rdata.from_text(RdataClass.IN, record.rtype, record.data)


def _failure(query: bytes, rcode: Rcode) -> bytes:
    """Return a bare header that says why a query cannot be answered."""
    opcode = dns.opcode.from_flags(int.from_bytes(query[2:4], "big"))
    response = dns.message.Message(int.from_bytes(query[:2], "big"))
    response.flags = Flag.QR | Flag.RA | dns.opcode.to_flags(opcode)
    response.set_rcode(rcode)
    return response.to_wire()


class _Stream(asyncio.Protocol):
    """DNS over TCP: messages with their length in front (RFC 1035 section 4.2.2)."""

    def __init__(self, handle: Callable[..., None], open_streams: set[asyncio.Transport]) -> None:
        self._handle = handle
        self._open_streams = open_streams
        self._buffer = b""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # TCP gives nothing else
        self._open_streams.add(self._transport)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._open_streams.discard(self._transport)

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
