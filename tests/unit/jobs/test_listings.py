"""A block list is checked with its own test entries before it is believed (RFC 5782)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from ipaddress import ip_address

import pytest

from mailsift.jobs.engine.heartbeat import (
    check_listing,
    listing_name,
    may_be_listed,
    read_listing,
)
from mailsift.pipeline.dns.rules import DnsAnswer, DnsOutcome
from mailsift.storage.sql.throttles import ListingState

ZONE = "bl.example"
US = "203.0.113.7"
SOUND = {"2.0.0.127": "127.0.0.2"}
V6_TEST = "2.0.0.0.0.0.f.7.f.f.f.f" + ".0" * 20
NOT_THERE = DnsAnswer(DnsOutcome.NO_NAME)


def found(*addresses: str) -> DnsAnswer:
    return DnsAnswer(DnsOutcome.FOUND, addresses=addresses)


def zone(entries: Mapping[str, str], *, otherwise: DnsAnswer = NOT_THERE) -> object:
    async def ask(name: str) -> DnsAnswer:
        entry = entries.get(name.removesuffix(f".{ZONE}"))
        return found(entry) if entry else otherwise

    return ask


@pytest.mark.parametrize(
    ("entries", "otherwise", "seen"),
    [
        (SOUND, NOT_THERE, ListingState.CLEAR),
        (SOUND | {"7.113.0.203": "127.0.0.4"}, NOT_THERE, ListingState.LISTED),
        ({}, NOT_THERE, ListingState.UNKNOWN),  # an empty zone: gone
        ({}, found("127.0.0.2"), ListingState.UNKNOWN),  # lists everybody
        ({}, found("192.0.2.80"), ListingState.UNKNOWN),  # sold
        ({}, found("127.255.255.254"), ListingState.UNKNOWN),  # does not talk to us
        (SOUND | {"7.113.0.203": "127.255.255.254"}, NOT_THERE, ListingState.UNKNOWN),
        (SOUND | {"7.113.0.203": "127.0.0.2", "1.0.0.127": "127.0.0.2"}, NOT_THERE, ListingState.UNKNOWN),
        (SOUND, DnsAnswer(DnsOutcome.FAILED), ListingState.UNKNOWN),
    ],
)
def test_what_a_zone_is_believed(
    entries: Mapping[str, str], otherwise: DnsAnswer, seen: ListingState
) -> None:
    assert asyncio.run(check_listing(US, ZONE, zone(entries, otherwise=otherwise))) is seen  # type: ignore[arg-type]


def test_addresses_are_asked_for_in_reverse() -> None:
    assert listing_name(ip_address(US), ZONE) == "7.113.0.203.bl.example"
    assert listing_name(ip_address("2001:db8::1"), ZONE) == "1" + ".0" * 23 + ".8.b.d.0.1.0.0.2.bl.example"
    entries = {V6_TEST: "127.0.0.2", "1" + ".0" * 23 + ".8.b.d.0.1.0.0.2": "127.0.0.3"}
    assert asyncio.run(check_listing("2001:db8::1", ZONE, zone(entries))) is ListingState.LISTED  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        (US, True),
        ("2001:db8::1", True),
        ("", False),
        ("default", False),
        ("socks5://10.0.0.9:1080", False),
        ("10.0.0.5", False),
        ("192.168.1.1", False),
        ("100.64.3.2", False),
        ("127.0.0.1", False),
        ("::1", False),
        ("fd00::1", False),
    ],
)
def test_only_what_the_world_sees_is_looked_for(identity: str, expected: bool) -> None:
    assert may_be_listed(identity) is expected


def test_one_error_among_answers_is_no_listing() -> None:
    assert read_listing(found("127.0.0.2", "127.0.0.9")) is ListingState.LISTED
    assert read_listing(found("127.0.0.2", "127.255.255.252")) is ListingState.UNKNOWN
    assert read_listing(DnsAnswer(DnsOutcome.NO_DATA)) is ListingState.CLEAR
