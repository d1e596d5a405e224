"""dnspython judges the messages that the sandbox builds by hand, and those it builds with it."""

from __future__ import annotations

import dns.flags
import dns.message
import dns.opcode
import dns.rcode
import dns.rdataclass
import pytest
from dns.rcode import Rcode
from dns.rdatatype import RdataType

from mailsift.sandbox import dns_server
from mailsift.sandbox.dns_server import (
    ASKED,
    NEGATIVE_TTL,
    SandboxZone,
    ZoneAnswer,
    ZoneRecord,
    answer_slowly,
)
from mailsift.sandbox.world import SandboxWorld

ZONE = SandboxZone(SandboxWorld(domains=1))


def _ask(
    name: str, rtype: str, answer: ZoneAnswer, *, edns: int | None = None, tcp: bool = False
) -> dns.message.Message | None:
    query = dns.message.make_query(name, rtype, use_edns=edns is not None, payload=edns or 1232)
    data = query.to_wire()
    message = dns_server.respond(data, dns_server.read_question(data), dns_server.prebuild(answer), tcp=tcp)
    if message is None:
        return None
    found = dns.message.from_wire(message)
    assert query.is_response(found)
    return found


def _slowly(query: dns.message.Message, *, tcp: bool = False) -> dns.message.Message:
    return dns.message.from_wire(answer_slowly(ZONE, query.to_wire(), tcp=tcp).message)


def test_an_answer_carries_the_id_the_question_in_its_case_and_the_records() -> None:
    answer = _ask(
        "ExAmPlE.com", "MX", ZoneAnswer(records=(ZoneRecord(ASKED, RdataType.MX, "10 mx.example.net."),))
    )
    assert answer is not None
    assert [rrset.to_text() for rrset in answer.answer] == ["ExAmPlE.com. 300 IN MX 10 mx.example.net."]
    assert answer.flags & dns.flags.AA
    assert answer.flags & dns.flags.RD
    assert answer.edns == -1


def test_a_query_with_edns_gets_edns_back() -> None:
    answer = _ask("example.com", "MX", ZoneAnswer(Rcode.NXDOMAIN), edns=1232)
    assert answer is not None
    assert (answer.edns, answer.rcode()) == (0, Rcode.NXDOMAIN)


def test_addresses_of_both_families_aliases_and_a_null_mx_are_well_formed() -> None:
    records = (
        ZoneRecord(ASKED, RdataType.CNAME, "b.example."),
        ZoneRecord("b.example", RdataType.A, "192.0.2.1", 60),
        ZoneRecord("b.example", RdataType.AAAA, "2001:db8::1", 60),
        ZoneRecord("b.example", RdataType.MX, "0 ."),
    )
    answer = _ask("a.example", "A", ZoneAnswer(records=records))
    assert answer is not None
    assert [rrset.to_text() for rrset in answer.answer] == [
        "a.example. 300 IN CNAME b.example.",
        "b.example. 60 IN A 192.0.2.1",
        "b.example. 60 IN AAAA 2001:db8::1",
        "b.example. 300 IN MX 0 .",
    ]


@pytest.mark.parametrize("name", ["never-heard-of-it.com", "no-mail.sandbox.test"])
def test_that_there_is_nothing_may_be_kept_as_long_as_the_soa_says(name: str) -> None:
    answer = _ask(name, "MX", ZONE.answer(name, RdataType.MX))
    assert answer is not None
    (authority,) = answer.authority
    assert (authority.ttl, authority[0].minimum) == (NEGATIVE_TTL, NEGATIVE_TTL)  # RFC 2308 section 5
    zone = name.rpartition(".")[2]  # one that can know: the root knows nothing below what exists
    assert authority.to_text().startswith(f"{zone}. 60 IN SOA ns.sandbox.example.")


@pytest.mark.parametrize(("edns", "fits"), [(None, False), (1232, True), (600, False)])
def test_what_does_not_fit_into_a_datagram_is_left_to_the_slow_way(edns: int | None, *, fits: bool) -> None:
    records = tuple(ZoneRecord(ASKED, RdataType.MX, f"{n} mx{n:02}.example.net.") for n in range(25))
    answer = _ask("example.com", "MX", ZoneAnswer(records=records), edns=edns)
    assert (answer is not None) is fits
    whole = _ask("example.com", "MX", ZoneAnswer(records=records), edns=edns, tcp=True)
    assert whole is not None
    assert len(whole.answer[0]) == len(records)


@pytest.mark.parametrize("name", ["many-mx.sandbox.test", "truncated.sandbox.test"])
def test_the_slow_way_truncates_over_udp_and_is_whole_over_tcp(name: str) -> None:
    query = dns.message.make_query(name, "MX", use_edns=0, payload=1232)
    cut, whole = _slowly(query), _slowly(query, tcp=True)
    assert cut.flags & dns.flags.TC
    assert not cut.answer
    assert not whole.flags & dns.flags.TC
    assert whole.answer


def test_names_come_back_from_their_wire_form() -> None:
    assert dns_server.decode_name(dns_server.encode_name("a.bc.example")[:-1]) == "a.bc.example"


@pytest.mark.parametrize("data", [b"\x05abc", b"\xc0\x0c", b"\x02\xff\xff"])
def test_a_malformed_name_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"bad label|ascii"):
        dns_server.decode_name(data)


def test_what_is_no_standard_query_is_refused() -> None:
    query = dns.message.make_query("example.com", "MX")
    query.set_opcode(dns.opcode.STATUS)
    with pytest.raises(ValueError, match="standard query"):
        dns_server.read_question(query.to_wire())
    refusal = _slowly(query)
    assert (refusal.rcode(), refusal.opcode(), refusal.id) == (Rcode.NOTIMP, dns.opcode.STATUS, query.id)


def test_another_class_and_what_cannot_be_read_are_format_errors() -> None:
    query = dns.message.make_query("example.com", "MX", rdclass=dns.rdataclass.CH)
    assert _slowly(query).rcode() == Rcode.FORMERR
    cut = query.to_wire()[:-3]
    assert dns.message.from_wire(answer_slowly(ZONE, cut, tcp=False).message).rcode() == Rcode.FORMERR
