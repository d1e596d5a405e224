"""dnspython judges the messages the sandbox builds by hand."""

from __future__ import annotations

import dns.flags
import dns.message
import dns.rcode
import pytest

from sandbox import wire
from sandbox.wire import Rcode


def _ask(
    name: str, rtype: str, reply: wire.Reply, *, edns: int | None = None, tcp: bool = False
) -> dns.message.Message:
    query = dns.message.make_query(name, rtype, use_edns=edns is not None, payload=edns or 1232)
    data = query.to_wire()
    answer = dns.message.from_wire(wire.respond(data, wire.read_question(data), reply, tcp=tcp))
    assert query.is_response(answer)
    return answer


def test_an_answer_carries_the_id_the_question_in_its_case_and_the_records() -> None:
    reply = wire.build(Rcode.NOERROR, [wire.mx(wire.ASKED, 300, 10, "mx.example.net")])
    answer = _ask("ExAmPlE.com", "MX", reply)
    assert [rrset.to_text() for rrset in answer.answer] == ["ExAmPlE.com. 300 IN MX 10 mx.example.net."]
    assert answer.flags & dns.flags.AA
    assert answer.flags & dns.flags.RD
    assert answer.edns == -1


def test_a_query_with_edns_gets_edns_back() -> None:
    assert _ask("example.com", "MX", wire.build(Rcode.NXDOMAIN), edns=1232).edns == 0


def test_addresses_of_both_families_aliases_and_the_root_soa_are_well_formed() -> None:
    records = [
        wire.alias(wire.ASKED, 300, "b.example"),
        wire.address("b.example", 60, "192.0.2.1"),
        wire.address("b.example", 60, "2001:db8::1"),
    ]
    answer = _ask("a.example", "A", wire.build(Rcode.NOERROR, records, [wire.soa(60)]))
    assert [rrset.to_text() for rrset in answer.answer] == [
        "a.example. 300 IN CNAME b.example.",
        "b.example. 60 IN A 192.0.2.1",
        "b.example. 60 IN AAAA 2001:db8::1",
    ]
    assert answer.authority[0].to_text().startswith(". 60 IN SOA ns.sandbox.example.")


def test_a_null_mx_names_the_root() -> None:
    answer = _ask("example.com", "MX", wire.build(Rcode.NOERROR, [wire.mx(wire.ASKED, 300, 0, "")]))
    assert answer.answer[0].to_text() == "example.com. 300 IN MX 0 ."


@pytest.mark.parametrize(("edns", "fits"), [(None, False), (1232, True), (600, False)])
def test_what_does_not_fit_is_truncated_over_udp_and_whole_over_tcp(edns: int | None, *, fits: bool) -> None:
    records = [wire.mx(wire.ASKED, 300, n, f"mx{n:02}.example.net") for n in range(25)]
    reply = wire.build(Rcode.NOERROR, records)
    answer = _ask("example.com", "MX", reply, edns=edns)
    assert bool(answer.flags & dns.flags.TC) is not fits
    assert len(answer.answer) == fits
    assert len(_ask("example.com", "MX", reply, edns=edns, tcp=True).answer[0]) == 25


def test_names_come_back_from_their_wire_form() -> None:
    assert wire.decode_name(wire.encode_name("a.bc.example")[:-1]) == "a.bc.example"


@pytest.mark.parametrize("data", [b"\x05abc", b"\xc0\x0c", b"\x02\xff\xff"])
def test_a_malformed_name_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"bad label|ascii"):
        wire.decode_name(data)


def test_what_is_no_standard_query_is_refused() -> None:
    query = bytearray(dns.message.make_query("example.com", "MX").to_wire())
    query[2] |= 0x10  # opcode STATUS
    with pytest.raises(ValueError, match="standard query"):
        wire.read_question(bytes(query))
    failure = dns.message.from_wire(wire.failure(bytes(query), Rcode.NOTIMP))
    assert failure.rcode() == dns.rcode.NOTIMP
