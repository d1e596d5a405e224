"""What DNS says about each kind of domain, read by dnspython."""

from __future__ import annotations

from dataclasses import replace

import dns.message
import dns.rcode
import pytest
from dns.rdatatype import RdataType

from mailsift.sandbox import dns_server
from mailsift.sandbox.dns_server import PROMPT, AnswerManner, SandboxZone, answer_slowly
from mailsift.sandbox.world import SandboxWorld

WORLD = SandboxWorld(domains=50)
ZONE = SandboxZone(WORLD, slow=0.25)
PREBUILT = dns_server.PrebuiltReplies(ZONE)


def _ask(name: str, rtype: str = "MX") -> dns.message.Message:
    """Return what dnspython makes of the answer; the fast path must say the same."""
    data = dns.message.make_query(name, rtype, use_edns=0, payload=65_535).to_wire()
    slow = dns.message.from_wire(answer_slowly(ZONE, data, tcp=True).message)
    question = dns_server.read_question(data)
    reply = replace(PREBUILT.find(question), manner=PROMPT)
    fast = dns.message.from_wire(dns_server.respond(data, question, reply, tcp=True) or b"")
    assert fast == slow
    assert (fast.flags, fast.edns, fast.payload) == (slow.flags, slow.edns, slow.payload)
    return fast


def _texts(message: dns.message.Message) -> list[str]:
    return [f"{rrset.rdtype.name} {item.to_text()}" for rrset in message.answer for item in rrset]


@pytest.mark.parametrize(
    ("scenario", "texts"),
    [
        ("ordinary", ["MX 10 mx.ordinary-host.test."]),
        ("null-mx", ["MX 0 ."]),
        ("implicit-mx", []),
        ("no-mail", []),
        ("mx-private", ["MX 10 private.mx-stage.test."]),
        ("mx-special", ["MX 10 special.mx-stage.test."]),
        ("mx-literal", ["MX 10 192.0.2.25."]),
        ("mx-dangling", ["MX 10 gone.mx-stage.test."]),
        ("mx-mixed", ["MX 5 private.mx-stage.test.", "MX 10 mx.mx-mixed-host.test."]),
        ("mx-cname", ["MX 10 alias.mx-cname-host.test."]),
        ("cname", ["CNAME route.cname.sandbox.test.", "MX 10 mx.cname-host.test."]),
        ("next-mx-reset", ["MX 5 mx0.next-mx-reset-host.test.", "MX 10 mx.next-mx-reset-host.test."]),
    ],
)
def test_the_mx_of_a_scenario(scenario: str, texts: list[str]) -> None:
    answer = _ask(f"{scenario}.sandbox.test")
    assert answer.rcode() == dns.rcode.NOERROR
    assert _texts(answer) == texts
    assert bool(answer.authority) is (not texts)  # an SOA says how long "nothing" may be kept


@pytest.mark.parametrize(
    ("name", "rcode"),
    [
        ("nxdomain.sandbox.test", dns.rcode.NXDOMAIN),
        ("never-heard-of-it.com", dns.rcode.NXDOMAIN),
        ("gone.mx-stage.test", dns.rcode.NXDOMAIN),
        ("gmail.con", dns.rcode.NXDOMAIN),
        ("servfail.sandbox.test", dns.rcode.SERVFAIL),
        ("dns-refused.sandbox.test", dns.rcode.REFUSED),
        ("sandbox.test", dns.rcode.NOERROR),  # names exist below it (RFC 8020)
        ("l.google.com", dns.rcode.NOERROR),
    ],
)
def test_the_response_code_of_a_name(name: str, rcode: dns.rcode.Rcode) -> None:
    answer = _ask(name)
    assert answer.rcode() == rcode
    assert not answer.answer


def test_an_exchanger_has_an_ipv4_address_of_its_own_on_loopback() -> None:
    first = _texts(_ask("mx.ordinary-host.test", "A"))
    assert first[0].startswith("A 127.16.0.")
    assert first != _texts(_ask("mx.exim-host.test", "A"))
    assert _texts(_ask("mx.ordinary-host.test", "AAAA")) == []


def test_a_domain_without_mx_is_its_own_exchanger() -> None:
    assert _texts(_ask("implicit-mx.sandbox.test", "A"))[0].startswith("A 127.16.")


def test_a_server_that_refuses_connections_is_where_nobody_listens() -> None:
    assert _texts(_ask("mx.refused-host.test", "AAAA")) == ["AAAA ::1"]
    assert _texts(_ask("mx.refused-host.test", "A")) == []


def test_the_addresses_nobody_may_dial_are_served() -> None:
    assert _texts(_ask("private.mx-stage.test", "A")) == ["A 10.11.12.13"]
    assert "A 169.254.169.254" in _texts(_ask("special.mx-stage.test", "A"))
    assert "AAAA 64:ff9b::a0b:c0d" in _texts(_ask("special.mx-stage.test", "AAAA"))


def test_a_thousand_exchangers_come_with_the_best_one_reachable() -> None:
    texts = _texts(_ask("many-mx.sandbox.test"))
    assert len(texts) == 1000
    assert min(texts, key=lambda text: int(text.split()[1])) == "MX 10 mx.many-mx-host.test."


@pytest.mark.parametrize(
    ("scenario", "manner"),
    [
        ("dns-slow", AnswerManner(delay=0.25)),
        ("dns-silent", AnswerManner(silent=True)),
        ("truncated", AnswerManner(tcp_only=True)),
        ("dns-flaky", AnswerManner(once_lost=True)),
    ],
)
def test_the_manner_of_a_scenario(scenario: str, manner: AnswerManner) -> None:
    assert ZONE.answer(f"{scenario}.sandbox.test", RdataType.MX).manner == manner


@pytest.mark.parametrize("name", ["x1.flood.sandbox.test", "victim-77.test"])
def test_names_that_follow_a_pattern_exist_without_being_listed(name: str) -> None:
    host = "flood" if "flood" in name else "victim"
    assert _texts(_ask(name)) == [f"MX 10 mx.{host}-host.test."]


def test_the_probers_own_name_is_confirmed_both_ways() -> None:
    assert _texts(_ask("1.0.0.127.in-addr.arpa", "PTR")) == ["PTR probe.sandbox.test."]
    assert _texts(_ask("probe.sandbox.test", "A")) == ["A 127.0.0.1"]


def test_random_names_do_not_fill_the_memory() -> None:
    replies = dns_server.PrebuiltReplies(ZONE)
    built = len(replies)
    assert built == len(WORLD.domains) + len(WORLD.hosts)
    for number in range(100):
        for name in (f"x{number}.flood.sandbox.test", f"x{number}.nowhere.example"):
            replies.find(dns_server.read_question(dns.message.make_query(name, "MX").to_wire()))
    assert len(replies) == built
