"""The fast path of the sandbox's DNS: usual queries, from answers that are built once (RFC 1035).

dnspython takes 200 microseconds to build an answer and as long to read a query, which benchmarks would see;
everything that is not usual is left to it (mailsift.sandbox.dns_server).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from dns.rdatatype import RdataType

from mailsift.sandbox.zone import ASKED, AnswerManner, SandboxZone, ZoneAnswer, ZoneRecord

HEADER = 12
"""Octets of a message header."""

PAYLOAD = 1232
"""Octets over UDP that the server says it takes (RFC 6891)."""

_MOST = 65_535  # octets over TCP
_IN = 1
_OPT = b"\x00" + struct.pack("!HHIH", RdataType.OPT, PAYLOAD, 0, 0)
_RESPONSE, _AUTHORITATIVE, _RECURSION = 0x80, 0x04, 0x80


@dataclass(frozen=True, slots=True)
class DnsQuestion:
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
class PrebuiltReply:
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

    def find(self, question: DnsQuestion) -> PrebuiltReply:
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


def read_question(query: bytes) -> DnsQuestion:
    """Return the question of a query.

    Raises:
        ValueError: the query is not a standard query with exactly one question in class IN.
        IndexError: the query is cut short.
    """
    if query[2] & 0xF8 or query[4] or query[5] != 1:
        raise ValueError("not a standard query with one question")
    stop = query.index(0, HEADER)
    if query[stop + 3] or query[stop + 4] != _IN:
        raise ValueError("not class IN")
    end = stop + 5
    room = 512
    if query[11] and query[end : end + 3] == b"\x00\x00\x29":
        room = max(room, query[end + 3] << 8 | query[end + 4])
    return DnsQuestion(query[HEADER:stop].lower(), query[stop + 1] << 8 | query[stop + 2], end, room)


def respond(query: bytes, question: DnsQuestion, reply: PrebuiltReply, *, tcp: bool) -> bytes | None:
    """Return the reply as a message for this query; None when it may not come so, or does not fit."""
    if reply.manner.tcp_only and not tcp:
        return None
    edns = 2 if query[11] else 0
    head = reply.heads[query[2] & 1 | edns]
    message = b"".join((query[:2], head, query[HEADER : question.end], reply.tail, _OPT if edns else b""))
    return message if len(message) <= (_MOST if tcp else question.room) else None


@lru_cache(maxsize=1024)
def prebuild(answer: ZoneAnswer) -> PrebuiltReply:
    """Return an answer as bytes; many names have equal ones."""

    def head(recursion: int, edns: int) -> bytes:
        flags = bytes([_RESPONSE | _AUTHORITATIVE | recursion, _RECURSION | answer.rcode])
        return flags + struct.pack("!HHHH", 1, len(answer.records), len(answer.authority), edns)

    heads = (head(0, 0), head(1, 0), head(0, 1), head(1, 1))
    tail = b"".join(_encode_record(record) for record in (*answer.records, *answer.authority))
    return PrebuiltReply(heads, tail, answer.manner)


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
