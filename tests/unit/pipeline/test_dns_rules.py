"""What answers mean: every rule without a network."""

from __future__ import annotations

import random

import pytest

from mailsift.pipeline.dns.rules import (
    DnsAnswer,
    DnsOutcome,
    DomainResolution,
    HostAddresses,
    interpret_addresses,
    interpret_exchangers,
    interpret_implicit_mx,
    interpret_mx,
    interpret_name,
    is_host_name,
    is_null_mx,
)
from mailsift.pipeline.facts import DomainState, MxHost
from mailsift.pipeline.guard import AddressGuard

GUARD = AddressGuard()
NO_DATA = DnsAnswer(DnsOutcome.NO_DATA, detail="NODATA")
NO_NAME = DnsAnswer(DnsOutcome.NO_NAME, detail="NXDOMAIN")
FAILED = DnsAnswer(DnsOutcome.FAILED, detail="SERVFAIL")

PUBLIC = HostAddresses(DnsOutcome.FOUND, ("8.8.8.8",), ttl=500)
PRIVATE = HostAddresses(DnsOutcome.FOUND, ttl=500)
ABSENT = HostAddresses(DnsOutcome.NO_NAME, detail="NXDOMAIN")
BROKEN = HostAddresses(DnsOutcome.FAILED, detail="timeout")


def mx(*records: tuple[int, str], ttl: float = 600) -> DnsAnswer:
    return DnsAnswer(DnsOutcome.FOUND, exchangers=records, ttl=ttl)


def a(*addresses: str, ttl: float = 60) -> DnsAnswer:
    return DnsAnswer(DnsOutcome.FOUND, addresses=addresses, ttl=ttl)


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (NO_NAME, DomainState.NOT_FOUND),
        (FAILED, DomainState.UNAVAILABLE),
        (mx((0, "")), DomainState.NULL_MX),
        (mx((10, "")), DomainState.NULL_MX),
        (mx((10, "192.0.2.1")), DomainState.UNROUTABLE),
        (mx((10, "8.8.8.8")), DomainState.UNROUTABLE),
        (mx((10, "2001:db8::1")), DomainState.UNROUTABLE),
        (mx((10, "[8.8.8.8]")), DomainState.UNROUTABLE),
        (mx((10, "0x7f000001")), DomainState.UNROUTABLE),
        (mx((10, "2130706433")), DomainState.UNROUTABLE),
        (mx((10, "mx\\010.a.test")), DomainState.UNROUTABLE),
        (mx((10, "mx\r\nRCPT.a.test")), DomainState.UNROUTABLE),
        (mx((10, "m\x00x.a.test")), DomainState.UNROUTABLE),
        (mx((10, "m x.a.test")), DomainState.UNROUTABLE),
        (mx((10, "mx.é.test")), DomainState.UNROUTABLE),
    ],
)
def test_an_mx_answer_that_decides_alone(answer: DnsAnswer, state: DomainState) -> None:
    resolution = interpret_mx(answer)
    assert isinstance(resolution, DomainResolution)
    assert resolution.state is state
    assert resolution.detail
    assert not resolution.hosts


def test_only_exchangers_that_are_all_the_root_decline_mail() -> None:
    assert is_null_mx(mx((0, "")))
    assert not any(
        is_null_mx(answer) for answer in (mx((10, "mx.a.test")), mx((0, ""), (10, "b.test")), NO_DATA)
    )


def test_no_mx_leaves_the_decision_to_the_domains_own_address() -> None:
    assert interpret_mx(NO_DATA) == ()


def test_exchangers_are_tried_by_preference_and_ties_keep_the_servers_order() -> None:
    answer = mx((20, "c.test"), (10, "b.test"), (20, "a.test"), (5, "z.test"))
    assert interpret_mx(answer) == ((5, "z.test"), (10, "b.test"), (20, "c.test"), (20, "a.test"))


def test_bad_names_the_root_and_repetitions_are_dropped_beside_good_ones() -> None:
    answer = mx((0, ""), (1, "10.0.0.1"), (2, "MX.test"), (3, "mx.test"), (4, "a b.test"), (5, "_mx-1.test"))
    assert interpret_mx(answer) == ((2, "mx.test"), (5, "_mx-1.test"))


def test_of_a_thousand_exchangers_the_ten_best_are_used() -> None:
    records = [(i, f"mx{i}.test") for i in range(1000)]
    random.Random(7).shuffle(records)
    assert interpret_mx(mx(*records)) == tuple((i, f"mx{i}.test") for i in range(10))


CHOSEN = ((10, "a.test"), (20, "b.test"))


@pytest.mark.parametrize(
    ("first", "second", "state"),
    [
        (PUBLIC, PUBLIC, DomainState.ROUTED),
        (PUBLIC, BROKEN, DomainState.ROUTED),
        (ABSENT, PUBLIC, DomainState.ROUTED),
        (PRIVATE, PUBLIC, DomainState.ROUTED),
        (PRIVATE, PRIVATE, DomainState.UNROUTABLE),
        (PRIVATE, ABSENT, DomainState.UNROUTABLE),
        (PRIVATE, BROKEN, DomainState.UNAVAILABLE),
        (ABSENT, BROKEN, DomainState.UNAVAILABLE),
        (BROKEN, BROKEN, DomainState.UNAVAILABLE),
        (ABSENT, ABSENT, DomainState.NO_MAIL_SERVER),
    ],
)
def test_the_addresses_of_the_exchangers_decide(
    first: HostAddresses, second: HostAddresses, state: DomainState
) -> None:
    for pair in ((first, second), (second, first)):
        resolution = interpret_exchangers(CHOSEN, 600, dict(zip(("a.test", "b.test"), pair, strict=True)))
        assert resolution.state is state
        assert bool(resolution.hosts) == (state is DomainState.ROUTED)


def test_a_route_holds_the_reachable_hosts_by_preference_and_the_shortest_ttl() -> None:
    long = HostAddresses(DnsOutcome.FOUND, ("1.1.1.1", "2606:4700::1"), ttl=9000)
    resolution = interpret_exchangers(CHOSEN, 600, {"a.test": PUBLIC, "b.test": long})
    assert resolution.hosts == (
        MxHost("a.test", 10, ("8.8.8.8",)),
        MxHost("b.test", 20, ("1.1.1.1", "2606:4700::1")),
    )
    assert resolution.ttl == 500


def test_a_route_with_a_hole_is_believed_as_briefly_as_possible() -> None:
    assert interpret_exchangers(CHOSEN, 600, {"a.test": PUBLIC, "b.test": BROKEN}).ttl == 0


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (PUBLIC, DomainState.ROUTED),
        (PRIVATE, DomainState.UNROUTABLE),
        (BROKEN, DomainState.UNAVAILABLE),
        (ABSENT, DomainState.NO_MAIL_SERVER),
    ],
)
def test_the_domains_own_address_is_the_route_without_mx(found: HostAddresses, state: DomainState) -> None:
    resolution = interpret_implicit_mx("a.test", found)
    assert resolution.state is state
    assert resolution.implicit == (state is DomainState.ROUTED)
    assert resolution.hosts == ((MxHost("a.test", 0, ("8.8.8.8",)),) if resolution.implicit else ())


def test_an_address_that_every_name_there_gets_is_no_route() -> None:
    both = HostAddresses(DnsOutcome.FOUND, ("8.8.8.8", "1.1.1.1"), ttl=9000)
    for found, wildcard, state in (
        (PUBLIC, PUBLIC, DomainState.UNAVAILABLE),
        (PUBLIC, both, DomainState.UNAVAILABLE),
        (both, PUBLIC, DomainState.ROUTED),  # one of its own
        (PUBLIC, ABSENT, DomainState.ROUTED),
        (ABSENT, PUBLIC, DomainState.NO_MAIL_SERVER),
    ):
        assert interpret_implicit_mx("a.test", found, wildcard.public).state is state


@pytest.mark.parametrize(
    ("ipv4", "ipv6", "outcome", "public"),
    [
        (a("8.8.8.8"), None, DnsOutcome.FOUND, ("8.8.8.8",)),
        (a("10.0.0.1", "8.8.8.8"), None, DnsOutcome.FOUND, ("8.8.8.8",)),
        (
            a("1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4"),
            None,
            DnsOutcome.FOUND,
            ("1.0.0.1", "1.0.0.2", "1.0.0.3"),
        ),
        (NO_NAME, None, DnsOutcome.NO_NAME, ()),
        (FAILED, None, DnsOutcome.FAILED, ()),
        (NO_DATA, a("2606:4700::1"), DnsOutcome.FOUND, ("2606:4700::1",)),
        (NO_DATA, a("fe80::1", "64:ff9b::7f00:1"), DnsOutcome.FOUND, ()),
        (NO_DATA, NO_DATA, DnsOutcome.NO_DATA, ()),
        (NO_DATA, FAILED, DnsOutcome.FAILED, ()),
        (a("10.0.0.1"), a("2606:4700::1"), DnsOutcome.FOUND, ("2606:4700::1",)),
        (a("10.0.0.1"), NO_DATA, DnsOutcome.FOUND, ()),
        (a("10.0.0.1"), a("::1"), DnsOutcome.FOUND, ()),
        (a("10.0.0.1"), FAILED, DnsOutcome.FAILED, ()),  # there may be a public one
    ],
)
def test_ipv4_alone_is_enough_and_ipv6_is_asked_when_it_is_not(
    ipv4: DnsAnswer, ipv6: DnsAnswer | None, outcome: DnsOutcome, public: tuple[str, ...]
) -> None:
    if ipv6 is not None:
        assert interpret_addresses(ipv4, None, GUARD) is None
    addresses = interpret_addresses(ipv4, ipv6, GUARD)
    assert addresses is not None
    assert (addresses.outcome, addresses.public) == (outcome, public)


@pytest.mark.parametrize(
    ("domain", "state"),
    [
        ("a" * 64 + ".test", DomainState.NOT_FOUND),
        (".".join(["a" * 60] * 5), DomainState.NOT_FOUND),
        ("a..test", DomainState.NOT_FOUND),
        (".test", DomainState.NOT_FOUND),
        ("test.", DomainState.NOT_FOUND),
        ("", DomainState.NOT_FOUND),
        ("gmail.com\x00.evil.test", DomainState.UNAVAILABLE),
        ("a\r\n.test", DomainState.UNAVAILABLE),
        ("a\\.b.test", DomainState.UNAVAILABLE),
        ("a b.test", DomainState.UNAVAILABLE),
        ("é.test", DomainState.UNAVAILABLE),
    ],
)
def test_a_name_that_cannot_be_asked_for_is_not_found_only_when_it_cannot_exist(
    domain: str, state: DomainState
) -> None:
    resolution = interpret_name(domain)
    assert resolution is not None
    assert resolution.state is state


@pytest.mark.parametrize(
    "domain", ["a.test", "A.TEST", "xn--e1afmkfd.test", "_x.a-b.test", "a" * 63 + ".t", "test", "1.2"]
)
def test_host_names_are_left_to_dns(domain: str) -> None:
    assert is_host_name(domain)
    assert interpret_name(domain) is None


def test_a_host_name_has_253_letters_at_most() -> None:
    longest = ".".join(["a" * 61] * 4) + ".test"
    assert len(longest) == 252
    assert [is_host_name(letters + longest) for letters in ("a", "aa")] == [True, False]
