"""The sandbox's DNS: what a world's zone says about every name, and the server that says it over UDP and TCP.

dnspython takes 200 microseconds to build an answer and as long to read a query, which benchmarks would see:
usual queries get answers that are built once, and only what is not usual is left to it (RFC 1035).
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
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
from dns.rdatatype import RdataType
from typing_extensions import override

from mailsift.sandbox.behaviours import DnsBehaviour
from mailsift.sandbox.counters import Counters
from mailsift.sandbox.world import SandboxDomain, SandboxWorld

# What the zone says.

_TTL = 300
"""Seconds that answers may be kept."""

NEGATIVE_TTL = 60
"""Seconds that negative answers may be kept (RFC 2308)."""

ASKED = "@"
"""As an owner: the name in the question, whatever its case."""


@dataclass(frozen=True, slots=True)
class ZoneRecord:
    """A resource record of class IN; `data` is in presentation form, its names end in a dot (RFC 1035)."""

    owner: str
    rtype: RdataType
    data: str
    ttl: int = _TTL


@dataclass(frozen=True, slots=True)
class AnswerManner:
    """How an answer is given.

    Attributes:
        delay: seconds to wait before answering.
        silent: never answer.
        tcp_only: over UDP only the truncated form is sent.
        once_lost: the first query over UDP is dropped.
    """

    delay: float = 0.0
    silent: bool = False
    tcp_only: bool = False
    once_lost: bool = False


PROMPT = AnswerManner()


@dataclass(frozen=True, slots=True)
class ZoneAnswer:
    """What the zone says to a question; PROMPT (by identity) is the plain manner."""

    rcode: Rcode = Rcode.NOERROR
    records: tuple[ZoneRecord, ...] = ()
    authority: tuple[ZoneRecord, ...] = ()
    manner: AnswerManner = PROMPT


# The minimum, its last number, is how long "there is none" may be kept (RFC 2308).
_SOA = f"ns.sandbox.example. hostmaster.sandbox.example. 1 3600 600 86400 {NEGATIVE_TTL}"
_TOP_LEVEL = frozenset({"com", "net", "org", "de"})  # exist, whatever a world has below them

# Servers that are names and addresses only; nobody listens there.
_STAGE: dict[str, tuple[str, ...]] = {
    "private.mx-stage.test": ("10.11.12.13",),
    "special.mx-stage.test": (
        "169.254.169.254",
        "224.0.0.1",
        "0.0.0.0",  # noqa: S104 - an answer, not something to bind to
        "::ffff:10.11.12.13",
        "64:ff9b::a0b:c0d",
        "2002:a0b:c0d::1",
        "fe80::1",
        "ff02::1",
    ),
    "probe.sandbox.test": ("127.0.0.1",),
    # A block list with its test entry and one source that is in it, and one that lists nobody.
    "2.0.0.127.dnsbl.sandbox.test": ("127.0.0.2",),
    "99.113.0.203.dnsbl.sandbox.test": ("127.0.0.4",),
    "2.0.0.127.dnsbl-empty.sandbox.test": ("127.0.0.2",),
}
_IPV6 = {"gmail-smtp-in.l.google.com": ("::1",)}  # so that a resolver can be seen to know IPv6
_POINTERS = {"1.0.0.127.in-addr.arpa": "probe.sandbox.test"}  # so that the prober's own name is confirmed

# Exchangers of domains that have none of their own.
_STAGED: dict[DnsBehaviour, tuple[tuple[int, str], ...]] = {
    DnsBehaviour.NULL_MX: ((0, ""),),
    DnsBehaviour.PRIVATE: ((10, "private.mx-stage.test"),),
    DnsBehaviour.SPECIAL: ((10, "special.mx-stage.test"),),
    DnsBehaviour.LITERAL: ((10, "192.0.2.25"),),
    DnsBehaviour.DANGLING: ((10, "gone.mx-stage.test"),),
    DnsBehaviour.MIXED: ((5, "private.mx-stage.test"),),
    DnsBehaviour.MANY_MX: tuple((100 + n, f"mx{n}.mx-stage.test") for n in range(999)),
}
_COLON: dict[int, bool] = {RdataType.A: False, RdataType.AAAA: True}  # which addresses answer a question
_RCODES = {
    DnsBehaviour.NXDOMAIN: Rcode.NXDOMAIN,
    DnsBehaviour.SERVFAIL: Rcode.SERVFAIL,
    DnsBehaviour.REFUSED: Rcode.REFUSED,
}


class SandboxZone:
    """Answers questions about a world.

    Args:
        slow: seconds that DnsBehaviour.SLOW takes.
    """

    def __init__(self, world: SandboxWorld, *, slow: float = 1.0) -> None:
        self._world = world
        self._manners = {
            DnsBehaviour.SLOW: AnswerManner(delay=slow),
            DnsBehaviour.SILENT: AnswerManner(silent=True),
            DnsBehaviour.TRUNCATED: AnswerManner(tcp_only=True),
            DnsBehaviour.FLAKY: AnswerManner(once_lost=True),
        }
        self._parents: frozenset[str] = frozenset()

    def usual_questions(self) -> Iterator[tuple[str, RdataType]]:
        """Yield what will be asked: the exchangers of every domain, the address of every host."""
        yield from ((name, RdataType.MX) for name in self._world.domains)
        yield from ((name, RdataType.A) for name in self._world.hosts)

    def is_listed(self, name: str) -> bool:
        """Whether the world knows a name by itself and not by a pattern."""
        return name in self._world.domains or name in self._world.hosts

    def answer(self, name: str, qtype: int) -> ZoneAnswer:
        """Return the answer about a name in lower case without the final dot."""
        world = self._world
        chain, owner = [], ASKED
        while name in world.aliases:
            chain.append(ZoneRecord(owner, RdataType.CNAME, f"{world.aliases[name]}."))
            name = owner = world.aliases[name]
        nothing = ZoneAnswer(records=tuple(chain), authority=(self._soa(name),))
        if name in world.hosts:
            addresses = (world.hosts[name].address, *_IPV6.get(name, ()))
            return _addresses(owner, addresses, qtype, chain) or nothing
        domain = world.find(name)
        if domain is not None:
            return self._domain(owner, domain, qtype, nothing)
        if name in _STAGE:
            return _addresses(owner, _STAGE[name], qtype, chain) or nothing
        if name in _POINTERS and qtype == RdataType.PTR:
            return ZoneAnswer(records=(ZoneRecord(owner, RdataType.PTR, f"{_POINTERS[name]}."),))
        return replace(nothing, rcode=Rcode.NOERROR if self._is_parent(name) else Rcode.NXDOMAIN, records=())

    def _domain(self, owner: str, domain: SandboxDomain, qtype: int, nothing: ZoneAnswer) -> ZoneAnswer:
        """Return what a domain of the world answers; `nothing` is its NODATA, with the aliases before it."""
        kind = domain.behaviour.dns
        if kind in _RCODES:
            authority = nothing.authority if kind is DnsBehaviour.NXDOMAIN else ()
            return ZoneAnswer(_RCODES[kind], authority=authority)
        manner = self._manners.get(kind, PROMPT)
        exchangers = (*_STAGED.get(kind, ()), *domain.exchangers)
        if qtype != RdataType.MX or not exchangers:
            return replace(nothing, manner=manner)
        records = [
            ZoneRecord(owner, RdataType.MX, f"{preference} {host}.") for preference, host in exchangers
        ]
        return ZoneAnswer(records=(*nothing.records, *records), manner=manner)

    def _soa(self, name: str) -> ZoneRecord:
        """Return the SOA of the zone above a name: its top-level domain where there is one, else the root."""
        label = name.rpartition(".")[2]
        zone = label if label in _TOP_LEVEL or self._is_parent(label) else ""
        return ZoneRecord(zone, RdataType.SOA, _SOA, NEGATIVE_TTL)

    def _is_parent(self, name: str) -> bool:
        """Whether names exist below this one, so that it exists too (RFC 8020)."""
        if not self._parents:
            self._parents = frozenset(
                _parents((*self._world.domains, *self._world.hosts, *_STAGE, *_POINTERS))
            )
        return name in self._parents


def _addresses(
    owner: str, addresses: Iterable[str], qtype: int, chain: list[ZoneRecord]
) -> ZoneAnswer | None:
    """Return the answer with those of the addresses that are of the type asked for; None when none is."""
    wanted = _COLON.get(qtype)
    found = [text for text in addresses if (":" in text) is wanted]
    records = [ZoneRecord(owner, RdataType(qtype), text) for text in found]
    return ZoneAnswer(records=(*chain, *records)) if records else None


def _parents(names: Iterable[str]) -> Iterable[str]:
    for name in names:
        parent = name.partition(".")[2]
        while parent:
            yield parent
            parent = parent.partition(".")[2]


# Usual queries: answers that are built once.

_HEADER = 12
"""Octets of a message header."""

_PAYLOAD = 1232
"""Octets over UDP that the server says it takes (RFC 6891)."""

_MOST = 65_535  # octets over TCP
_IN = 1
_OPT = b"\x00" + struct.pack("!HHIH", RdataType.OPT, _PAYLOAD, 0, 0)
_RESPONSE, _AUTHORITATIVE, _RECURSION = 0x80, 0x04, 0x80


@dataclass(frozen=True, slots=True)
class _DnsQuestion:
    """What a query asks.

    Attributes:
        name: wire form of the name in lower case, without the root's octet.
        qtype: the type asked for.
        end: offset just after the question section.
        room: octets the asker takes over UDP.
    """

    name: bytes
    qtype: int
    end: int
    room: int


@dataclass(frozen=True, slots=True)
class _PrebuiltReply:
    """A response, ready to be patched with a query's id and question.

    Attributes:
        heads: flags and section counts, by recursion-desired bit + 2 * (the query has EDNS).
        tail: all records, names uncompressed.
    """

    heads: tuple[bytes, bytes, bytes, bytes]
    tail: bytes
    manner: AnswerManner


class PrebuiltReplies:
    """The answers of a zone as bytes: of every domain and host from the start, others when asked for."""

    def __init__(self, zone: SandboxZone) -> None:
        self._zone = zone
        self._replies = {
            (encode_name(name)[:-1], int(rtype)): prebuild(zone.answer(name, rtype))
            for name, rtype in zone.usual_questions()
        }

    def __len__(self) -> int:
        return len(self._replies)

    def find(self, question: _DnsQuestion) -> _PrebuiltReply:
        """Return the reply to a question.

        Raises:
            ValueError: the name is malformed.
        """
        key = (question.name, question.qtype)
        found = self._replies.get(key)
        if found is None:
            name = decode_name(question.name)
            found = prebuild(self._zone.answer(name, question.qtype))
            if self._zone.is_listed(name):  # random names must not fill memory
                self._replies[key] = found
        return found


def read_question(query: bytes) -> _DnsQuestion:
    """Return the question of a query.

    Raises:
        ValueError: the query is not a standard query with exactly one question in class IN.
        IndexError: the query is cut short.
    """
    if query[2] & 0xF8 or query[4] or query[5] != 1:
        raise ValueError("not a standard query with one question")
    stop = query.index(0, _HEADER)
    if query[stop + 3] or query[stop + 4] != _IN:
        raise ValueError("not class IN")
    end = stop + 5
    room = 512
    if query[11] and query[end : end + 3] == b"\x00\x00\x29":
        room = max(room, query[end + 3] << 8 | query[end + 4])
    return _DnsQuestion(query[_HEADER:stop].lower(), query[stop + 1] << 8 | query[stop + 2], end, room)


def respond(query: bytes, question: _DnsQuestion, reply: _PrebuiltReply, *, tcp: bool) -> bytes | None:
    """Return the reply as a message for this query; None when it may not come so, or does not fit."""
    if reply.manner.tcp_only and not tcp:
        return None
    edns = 2 if query[11] else 0
    head = reply.heads[query[2] & 1 | edns]
    message = b"".join((query[:2], head, query[_HEADER : question.end], reply.tail, _OPT if edns else b""))
    return message if len(message) <= (_MOST if tcp else question.room) else None


@lru_cache(maxsize=1024)
def prebuild(answer: ZoneAnswer) -> _PrebuiltReply:
    """Return an answer as bytes; many names have equal ones."""

    def head(recursion: int, edns: int) -> bytes:
        flags = bytes([_RESPONSE | _AUTHORITATIVE | recursion, _RECURSION | answer.rcode])
        return flags + struct.pack("!HHHH", 1, len(answer.records), len(answer.authority), edns)

    heads = (head(0, 0), head(1, 0), head(0, 1), head(1, 1))
    tail = b"".join(_encode_record(record) for record in (*answer.records, *answer.authority))
    return _PrebuiltReply(heads, tail, answer.manner)


def encode_name(name: str) -> bytes:
    """Return the uncompressed wire form of an ASCII domain name; "" is the root."""
    labels = [label.encode("ascii") for label in name.rstrip(".").split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\x00"


def decode_name(wire: bytes) -> str:
    """Return the domain name of an uncompressed wire form, without the final dot.

    Raises:
        ValueError: a label runs over the end, is compressed or is not ASCII.
    """
    labels, at = [], 0
    while at < len(wire) and (size := wire[at]):
        label = wire[at + 1 : at + 1 + size]
        if size > 63 or len(label) != size:
            raise ValueError("bad label")
        labels.append(label.decode("ascii"))
        at += 1 + size
    return ".".join(labels)


def _encode_record(record: ZoneRecord) -> bytes:
    owner = b"\xc0\x0c" if record.owner == ASKED else encode_name(record.owner)  # a pointer to the question
    data = _ENCODE[record.rtype](record.data)
    return owner + struct.pack("!HHIH", record.rtype, _IN, record.ttl, len(data)) + data


def _encode_mx(data: str) -> bytes:
    preference, exchange = data.split()
    return struct.pack("!H", int(preference)) + encode_name(exchange)


def _encode_soa(data: str) -> bytes:
    server, mailbox, *numbers = data.split()
    return encode_name(server) + encode_name(mailbox) + struct.pack("!IIIII", *map(int, numbers))


_ENCODE: dict[RdataType, Callable[[str], bytes]] = {
    RdataType.A: socket.inet_aton,
    RdataType.AAAA: lambda data: socket.inet_pton(socket.AF_INET6, data),
    RdataType.CNAME: encode_name,
    RdataType.MX: _encode_mx,
    RdataType.PTR: encode_name,
    RdataType.SOA: _encode_soa,
}


# The server, and all other queries.

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
        self._prebuilt = PrebuiltReplies(zone)
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
        if len(query) < _HEADER or query[2] & 0x80:
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

    def _fast_answer(self, query: bytes, *, tcp: bool) -> _GivenAnswer | None:
        """Return the prebuilt answer to a usual query, None where there is none that fits."""
        try:
            question = read_question(query)
            reply = self._prebuilt.find(question)
        except (ValueError, IndexError):
            return None
        message = respond(query, question, reply, tcp=tcp)
        return _GivenAnswer(message, question.name, question.qtype, reply.manner) if message else None

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
class _GivenAnswer:
    """A message to be sent; `qtype` is None when no question was understood, `name` is in wire form."""

    message: bytes
    name: bytes = b""
    qtype: int | None = None
    manner: AnswerManner = PROMPT


def answer_slowly(zone: SandboxZone, query: bytes, *, tcp: bool) -> _GivenAnswer:
    """Answer any query by dnspython: truncated, and what is no usual query."""
    try:
        asked = dns.message.from_wire(query)
    except dns.exception.DNSException:
        return _GivenAnswer(_failure(query, Rcode.FORMERR))
    if asked.opcode() != Opcode.QUERY:
        return _GivenAnswer(_failure(query, Rcode.NOTIMP))
    if len(asked.question) != 1 or asked.question[0].rdclass != RdataClass.IN:
        return _GivenAnswer(_failure(query, Rcode.FORMERR))
    name, qtype = asked.question[0].name.canonicalize(), asked.question[0].rdtype
    answer = zone.answer(name.to_text().rstrip("."), qtype)
    return _GivenAnswer(_message(asked, answer, tcp=tcp), name.to_digestable()[:-1], qtype, answer.manner)


def _message(asked: dns.message.Message, answer: ZoneAnswer, *, tcp: bool) -> bytes:
    """Return the answer as a message; truncated where it does not fit (RFC 2181 section 9)."""
    response = dns.message.make_response(asked, recursion_available=True, our_payload=_PAYLOAD)
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
    room = _MOST if tcp else max(512, asked.payload if asked.edns >= 0 else 0)
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
