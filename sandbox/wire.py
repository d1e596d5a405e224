"""DNS messages as bytes: the few records the sandbox needs, built once and patched per query (RFC 1035)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Type(IntEnum):
    """Record types the sandbox knows."""

    A = 1
    NS = 2
    CNAME = 5
    SOA = 6
    PTR = 12
    MX = 15
    TXT = 16
    AAAA = 28


class Rcode(IntEnum):
    """Response codes (RFC 1035 section 4.1.1)."""

    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5


HEADER = 12
"""Octets of a message header."""

_IN = 1
_OPT = b"\x00" + struct.pack("!HHIH", 41, 1232, 0, 0)  # RFC 6891, advertising 1,232 octets
_RESPONSE, _AUTHORITATIVE, _TRUNCATED, _RECURSION = 0x80, 0x04, 0x02, 0x80


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


ASKED = "@"
"""As an owner: the name in the question, whatever its case (a compression pointer)."""


def record(owner: str, rtype: Type, ttl: int, data: bytes) -> bytes:
    """Return one resource record."""
    name = b"\xc0\x0c" if owner == ASKED else encode_name(owner)
    return name + struct.pack("!HHIH", rtype, _IN, ttl, len(data)) + data


def mx(owner: str, ttl: int, preference: int, exchange: str) -> bytes:
    """Return an MX record; the exchange "" is the null MX of RFC 7505."""
    return record(owner, Type.MX, ttl, struct.pack("!H", preference) + encode_name(exchange))


def address(owner: str, ttl: int, text: str) -> bytes:
    """Return an A or AAAA record for an address in text form."""
    family, rtype = (socket.AF_INET6, Type.AAAA) if ":" in text else (socket.AF_INET, Type.A)
    return record(owner, rtype, ttl, socket.inet_pton(family, text))


def alias(owner: str, ttl: int, target: str, rtype: Type = Type.CNAME) -> bytes:
    """Return a CNAME or PTR record."""
    return record(owner, rtype, ttl, encode_name(target))


def soa(ttl: int) -> bytes:
    """Return the root SOA that goes with negative answers; its minimum is their TTL (RFC 2308)."""
    names = encode_name("ns.sandbox.example") + encode_name("hostmaster.sandbox.example")
    return record("", Type.SOA, ttl, names + struct.pack("!IIIII", 1, 3600, 600, 86400, ttl))


@dataclass(frozen=True, slots=True)
class Manner:
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


PROMPT = Manner()


@dataclass(frozen=True, slots=True)
class Reply:
    """A prebuilt response, ready to be patched with a query's id and question.

    Attributes:
        heads: flags and section counts, by recursion-desired bit + 2 * (the query has EDNS).
        tail: all records, names uncompressed.
        manner: how it is given; PROMPT (by identity) is the plain way.
    """

    heads: tuple[bytes, bytes, bytes, bytes]
    tail: bytes
    manner: Manner = PROMPT


def build(
    rcode: Rcode, answers: Sequence[bytes] = (), authority: Sequence[bytes] = (), manner: Manner = PROMPT
) -> Reply:
    """Return the prebuilt response with these records."""

    def head(recursion: int, edns: int) -> bytes:
        flags = bytes([_RESPONSE | _AUTHORITATIVE | recursion, _RECURSION | rcode])
        return flags + struct.pack("!HHHH", 1, len(answers), len(authority), edns)

    heads = (head(0, 0), head(1, 0), head(0, 1), head(1, 1))
    return Reply(heads, b"".join((*answers, *authority)), manner)


@dataclass(frozen=True, slots=True)
class Question:
    """What a query asks.

    Attributes:
        name: wire form of the name in lower case.
        qtype: the type asked for.
        end: offset just after the question section.
        room: octets the asker takes over UDP.
    """

    name: bytes
    qtype: int
    end: int
    room: int


def read_question(query: bytes) -> Question:
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
    return Question(query[HEADER:stop].lower(), query[stop + 1] << 8 | query[stop + 2], end, room)


def respond(query: bytes, question: Question, reply: Reply, *, tcp: bool) -> bytes:
    """Return the reply as a message for this query; truncated when it does not fit (RFC 2181 section 9)."""
    edns = 2 if query[11] else 0
    head = reply.heads[query[2] & 1 | edns]
    asked = query[HEADER : question.end]
    message = b"".join((query[:2], head, asked, reply.tail, _OPT if edns else b""))
    if tcp or (len(message) <= question.room and not reply.manner.tcp_only):
        return message
    counts = struct.pack("!HHHH", 1, 0, 0, 0)
    return b"".join((query[:2], bytes([head[0] | _TRUNCATED, head[1]]), counts, asked))


def failure(query: bytes, rcode: Rcode) -> bytes:
    """Return a bare header that says why a query cannot be answered."""
    return query[:2] + bytes([_RESPONSE | query[2] & 0x79, _RECURSION | rcode]) + bytes(8)
