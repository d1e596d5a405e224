"""DNS messages as bytes: questions packed and replies read by hand, for speed (RFC 1035, RFC 6891).

A record counts only when its owner is the name that was asked for, or stands at the end of the CNAME chain
that begins there; whatever else a reply carries is not believed (RFC 5452 section 6).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from mailsift.pipeline.dns.rules import DENIALS, FAILED, FOUND, MX, DnsAnswer, DnsOutcome, RecordType

HEADER: Final = 12
"""Octets before the question."""

UDP_ROOM: Final = 4096
"""Octets that are read of a datagram; more than we say we take."""

_NS: Final = 2
_TYPE_CODES: Final = {RecordType.A: 1, RecordType.NS: _NS, RecordType.MX: 15, RecordType.AAAA: 28}
_CNAME: Final = 5
_SOA: Final = 6
_IN: Final = b"\x00\x01"
_IN_CODE: Final = 1
_ENDINGS: Final = {kind: struct.pack("!BH", 0, code) + _IN for kind, code in _TYPE_CODES.items()}
_LENGTHS: Final = [bytes([size]) for size in range(64)]
_CASE_BITS: Final = bytes(
    [0x20 if chr(octet).isascii() and chr(octet).isalpha() else 0 for octet in range(256)]
)
_as_int = int.from_bytes
_RECORD: Final = struct.Struct("!HHIH")
_TTL_AND_SIZE: Final = struct.Struct("!iH")  # a TTL with its top bit set is below 0, and counts as 0
_TTL_AT: Final = 6  # where the TTL and where the data of a record begin whose owner is a pointer
_DATA_AT: Final = 12
_OPTION: Final = struct.Struct("!HH")
_OPT_CODE: Final = 41
_OWNER_ASKED: Final = b"\xc0\x0c"  # a pointer to the question's name

_COUNTS: Final = struct.Struct("!HHHHHH")  # id, flags, and how many records are in each section
_AUTHORITATIVE: Final = 0x0400
_TELLING_FLAGS: Final = 0xFA0F  # reply, opcode, truncated, rcode
_GOOD_REPLY: Final = 0x8000

_FLAGS: Final = b"\x01\x00"  # a standard query, recursion desired
_ONE_QUESTION: Final = _FLAGS + struct.pack("!HHHH", 1, 0, 0, 0)
_ONE_QUESTION_EDNS: Final = _FLAGS + struct.pack("!HHHH", 1, 0, 0, 1)
_NO_RECORDS: Final = bytes(4)  # counts of answers and authorities
_OPT_START: Final = b"\x00" + struct.pack("!H", _OPT_CODE)
_OPT: Final = _OPT_START + struct.pack("!HIH", 1232, 0, 0)
"""Our EDNS: 1,232 octets pass every link unfragmented."""

Value: TypeAlias = "str | tuple[int, str]"
"""What a record says: an address, the target of an alias, a name server, or (preference, exchanger)."""

MALFORMED: Final = (ValueError, IndexError, OSError, struct.error)
"""What reading a malformed message raises."""

NO_DATA: Final = DnsAnswer(DnsOutcome.NO_DATA, detail="NODATA")
NO_NAME: Final = DnsAnswer(DnsOutcome.NO_NAME, detail="NXDOMAIN")
DISOWNED: Final = {
    4: "forged",
    15: "blocked",
    16: "censored",
    17: "filtered",
    18: "prohibited",
    19: "stale NXDOMAIN",
}
"""Extended errors (RFC 8914) by which a resolver says that an answer is its own, or not of today."""
_EXTENDED_ERROR: Final = 15
_RCODES: Final = {1: "FORMERR", 2: "SERVFAIL", 4: "NOTIMP", 5: "REFUSED", 16: "BADVERS"}
_NXDOMAIN: Final = 3
_EDNS_REFUSED: Final = {1, 4, 16}
_UPPER_RCODE: Final = 5  # the octet of OPT that holds the upper bits of the rcode (RFC 6891 section 6.1.3)
_UPPER_RCODE_AT_END: Final = _UPPER_RCODE - len(_OPT)


class ResourceRecord(NamedTuple):
    """A record of a reply: owner in lower case without the final dot, type code, TTL in seconds, its data."""

    owner: str
    code: int
    ttl: int
    value: Value


def encode_question(name: str, record_type: RecordType) -> bytes:
    """Return the question section for an absolute ASCII name in lower case, without the final dot.

    Raises:
        ValueError: the name is not ASCII or beyond the limits of RFC 1035 section 2.3.4.
    """
    question = b""
    for label in name.encode("ascii").split(b"."):
        if not 0 < len(label) < 64:
            raise ValueError("not a possible name")
        question += _LENGTHS[len(label)] + label
    if len(name) > 253:
        raise ValueError("not a possible name")
    return question + _ENDINGS[record_type]


def mix_case(question: bytes, entropy: bytes) -> bytes:
    """Return the question with its letters in random case: bits a forger has to guess as well.

    Args:
        question: from `encode_question`.
        entropy: random octets, as many as the question has.
    """
    flips = _as_int(question.translate(_CASE_BITS)) & _as_int(entropy)
    return (_as_int(question) ^ flips).to_bytes(len(question))


def pack_query(number: bytes, question: bytes, *, edns: bool) -> bytes:
    """Return the whole message: two octets of id, and with EDNS the room we have for a reply."""
    if edns:
        return b"".join((number, _ONE_QUESTION_EDNS, question, _OPT))
    return number + _ONE_QUESTION + question


def is_truncated(reply: bytes) -> bool:
    """Tell whether the rest of a reply has to be fetched over TCP (RFC 2181 section 9)."""
    return bool(reply[2] & 0x02)


def edns_refusal(reply: bytes, offset: int = HEADER) -> str:
    """Return how a server said that it did not understand the question, perhaps for its EDNS; "" otherwise.

    Args:
        reply: the message (RFC 6891 sections 6.1.3 and 7).
        offset: where its question ends.
    """
    rcode = reply[3] & 0x0F
    if rcode == 0 and reply[6:10] == _NO_RECORDS and reply[offset : offset + 3] == _OPT_START:
        rcode |= int.from_bytes(reply[offset + _UPPER_RCODE : offset + _UPPER_RCODE + 1]) << 4
    return _RCODES[rcode] if rcode in _EDNS_REFUSED else ""


def read_usual(reply: bytes, question: bytes, record_type: RecordType) -> DnsAnswer | None:
    """Read what nearly every reply is; None for any other: `read_reply` takes twice the time.

    That is: to this very question, whole, without an error; records of the asked name and type alone, and at
    the end at most an OPT that says nothing.

    Args:
        reply: anything that came with the right id.
        question: the question section, as sent.
        record_type: the type asked for.
    """
    start, read = _USUAL_RECORDS[record_type]
    offset, shortest, values = HEADER + len(question), _LONGEST_TTL, []
    try:
        _, flags, questions, count, _, additional = _COUNTS.unpack_from(reply)
        if (
            flags & _TELLING_FLAGS != _GOOD_REPLY
            or questions != 1
            or not reply.startswith(question, HEADER)
            or not count
            or (additional and not _ends_with_plain_opt(reply))
        ):
            return None
        for _ in range(count):
            if not reply.startswith(start, offset):
                return None
            ttl, size = _TTL_AND_SIZE.unpack_from(reply, offset + _TTL_AT)
            offset += _DATA_AT
            values.append(read(reply, offset, size))
            offset += size
            shortest = min(shortest, ttl)
    except MALFORMED:
        return None
    if offset > len(reply):
        return None
    return _found(record_type, values, max(shortest, 0), authoritative=flags & _AUTHORITATIVE != 0)


def read_reply(reply: bytes, question: bytes, record_type: RecordType) -> DnsAnswer:
    """Read any reply that is not truncated and whose id and question have been compared.

    Args:
        reply: the message.
        question: its question section, as sent.
        record_type: the type asked for.

    Raises:
        MALFORMED: one of these, when it is.
    """
    rcode = reply[3] & 0x0F
    if rcode and rcode != _NXDOMAIN:
        return DnsAnswer(FAILED, detail=_RCODES.get(rcode, f"RCODE {rcode}"))
    _, flags, _, answers, authorities, additional = _COUNTS.unpack_from(reply)
    offset = HEADER + len(question)
    if additional and not _ends_with_plain_opt(reply):
        upper, extended_errors = _read_opt(reply, offset)
        if upper:
            rcode |= upper << 4
            return DnsAnswer(FAILED, detail=_RCODES.get(rcode, f"RCODE {rcode}"))
        disowned = next((DISOWNED[error] for error in extended_errors if error in DISOWNED), "")
        if disowned:
            return DnsAnswer(FAILED, detail=f"the resolver's own answer: {disowned}")
    name, _ = read_name(question, 0)
    records, offset = _read_records(reply, offset, answers)
    answer = answer_from(name, record_type, records, exists=rcode == 0, zone=None)
    zone = _read_zone(reply, offset, authorities) if answer.outcome in DENIALS else None
    return answer._replace(zone=zone, authoritative=flags & _AUTHORITATIVE != 0)


def answer_from(
    name: str, record_type: RecordType, records: Sequence[ResourceRecord], *, exists: bool, zone: str | None
) -> DnsAnswer:
    """Follow the aliases from the asked name and take the records of the name they lead to.

    Args:
        name: what was asked for, in lower case.
        record_type: the type asked for.
        records: the answer section, in any order.
        exists: the rcode was NOERROR.
        zone: owner of the SOA in the authority section; None without one.
    """
    aliases = {record.owner: record for record in records if record.code == _CNAME}
    code, passed, ttls = _TYPE_CODES[record_type], {name}, []
    while name in aliases:
        alias = aliases[name]
        ttls.append(alias.ttl)
        name = str(alias.value)
        if name in passed:
            return DnsAnswer(FAILED, detail="CNAME loop", name=name)
        passed.add(name)
    own = [record for record in records if record.owner == name and record.code == code]
    if own:
        ttls.extend([record.ttl for record in own])
        return _found(record_type, [record.value for record in own], _shortest(ttls))
    denial = NO_DATA if exists else NO_NAME
    return DnsAnswer(denial.outcome, detail=denial.detail, name=name, zone=zone)


def _found(
    record_type: RecordType, values: Iterable[Any], ttl: float, *, authoritative: bool = False
) -> DnsAnswer:
    if record_type is MX:
        return DnsAnswer(FOUND, tuple(values), (), ttl, authoritative=authoritative)
    if record_type is RecordType.NS:
        return DnsAnswer(FOUND, (), (), ttl, authoritative=authoritative, name_servers=tuple(values))
    return DnsAnswer(FOUND, (), tuple(values), ttl, authoritative=authoritative)


def _shortest(ttls: Sequence[int]) -> int:
    """Return the shortest TTL; one with its top bit set counts as 0 (RFC 2181 section 8)."""
    return min(ttls) if max(ttls) <= _LONGEST_TTL else 0


_LONGEST_TTL: Final = (1 << 31) - 1  # seconds


def _read_records(reply: bytes, offset: int, count: int) -> tuple[list[ResourceRecord], int]:
    """Read a section; returns what it says in class IN that anybody asks for, and where it ends."""
    records = []
    for _ in range(count):
        owner, offset = read_name(reply, offset)
        kind, record_class, seconds, size = _RECORD.unpack_from(reply, offset)
        offset += _RECORD.size
        if record_class == _IN_CODE and kind in _READERS:
            records.append(ResourceRecord(owner, kind, seconds, _READERS[kind](reply, offset, size)))
        offset += size
        if offset > len(reply):
            raise ValueError("a record runs over the end")
    return records, offset


def _read_zone(reply: bytes, offset: int, count: int) -> str | None:
    """Return the owner of the SOA that comes with a denial (RFC 2308 section 2), in lower case."""
    for _ in range(count):
        owner, offset = read_name(reply, offset)
        kind, record_class, _, size = _RECORD.unpack_from(reply, offset)
        if kind == _SOA and record_class == _IN_CODE:
            return owner
        offset += _RECORD.size + size
    return None


def _ends_with_plain_opt(reply: bytes) -> bool:
    """Tell whether the last record is an OPT that says nothing: no options and no upper bits of the rcode."""
    return reply[-11:-8] == _OPT_START and not reply[_UPPER_RCODE_AT_END] and reply.endswith(b"\0\0")


def _read_opt(reply: bytes, offset: int) -> tuple[int, Sequence[int]]:
    """Return the upper bits of the rcode and extended errors, of which there may be several (RFC 8914)."""
    upper, errors = 0, []
    for _ in range(sum(struct.unpack_from("!HHH", reply, 6))):
        _, offset = read_name(reply, offset)
        kind, _, flags, size = _RECORD.unpack_from(reply, offset)
        if kind == _OPT_CODE:
            upper = flags >> 24
        offset += _RECORD.size
        at, offset = offset, offset + size
        while kind == _OPT_CODE and at < offset:
            option, size = _OPTION.unpack_from(reply, at)
            at += _OPTION.size
            if option == _EXTENDED_ERROR:
                errors.append(reply[at] << 8 | reply[at + 1])
            at += size
    return upper, errors


def _read_mx(reply: bytes, offset: int, size: int) -> Value:
    exchanger, end = read_name(reply, offset + 2)
    if end != offset + size:
        raise ValueError("a record is longer or shorter than what it says")
    return reply[offset] << 8 | reply[offset + 1], exchanger


def _read_a(reply: bytes, offset: int, size: int) -> Value:
    return socket.inet_ntoa(reply[offset : offset + size])


def _read_aaaa(reply: bytes, offset: int, size: int) -> Value:
    return socket.inet_ntop(socket.AF_INET6, reply[offset : offset + size])


def _read_target(reply: bytes, offset: int, _size: int) -> Value:
    return read_name(reply, offset)[0]


_READERS: Final = {1: _read_a, _NS: _read_target, _CNAME: _read_target, 15: _read_mx, 28: _read_aaaa}
_USUAL_RECORDS: Final = {
    kind: (_OWNER_ASKED + struct.pack("!H", code) + _IN, _READERS[code]) for kind, code in _TYPE_CODES.items()
}
"""By type, how a record of the asked name begins, and what reads its data."""


_STEPS: Final = range(256)
"""Through a name: of its 127 labels at most (RFC 1035, section 2.3.4) each may stand behind a pointer.

A reply of 64 kB may have thousands of names that all lead through most of it.
"""


def read_name(message: bytes, offset: int) -> tuple[str, int]:
    """Return the name that begins at an offset, in lower case without the final dot, and the offset after it.

    A dot inside a label comes as a backslash and a dot, which makes it no host name; octets beyond ASCII come
    as Latin-1, to the same end.

    Raises:
        ValueError: compression that does not lead backwards, or a name longer than names are.
        IndexError: the name runs over the end.
    """
    labels, end, lowest = [], 0, offset
    for _ in _STEPS:
        size = message[offset]
        if not size:
            break
        if size < 64:
            start = offset + 1
            offset = start + size
            labels.append(message[start:offset])
            continue
        target = (size & 0x3F) << 8 | message[offset + 1]
        if size < 0xC0 or target >= lowest:
            raise ValueError("bad compression")
        end = end or offset + 2
        offset = lowest = target
    else:
        raise ValueError("a name without end")
    name = b".".join(labels)
    if name.count(b".") >= len(labels):
        name = b".".join([label.replace(b".", b"\\.") for label in labels])
    return name.lower().decode("latin-1"), end or offset + 1
