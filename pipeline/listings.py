"""Whether one of our sources is in a DNS block list (RFC 5782); a zone is checked before it is believed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from mailsift.pipeline.dns.rules import DENIALS, DnsAnswer, DnsOutcome

Lookup = Callable[[str], Awaitable[DnsAnswer]]
"""Asks for the A records of a name."""

_LISTED, _NOT_LISTED = ip_address("127.0.0.2"), ip_address("127.0.0.1")
"""Test entries of every zone, RFC 5782 section 5: this one is in it, that one never is."""
_LISTED_V6, _NOT_LISTED_V6 = ip_address("::ffff:7f00:2"), ip_address("::ffff:7f00:1")
_ANSWERS: Final = ip_network("127.0.0.0/8")
_ERRORS: Final = ip_network("127.255.255.0/24")  # "you may not ask", as several operators say it
_PRIVATE: Final = tuple(
    map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"))
)


class ListingState(StrEnum):
    """What a zone says of a source."""

    LISTED = "listed"
    CLEAR = "clear"
    UNKNOWN = "unknown"  # no answer, or a zone that is not believed


def may_be_listed(identity: str) -> bool:
    """Tell whether an identity is an address that the world sees: proxies and private ones are in no list."""
    try:
        address = ip_address(identity)
    except ValueError:
        return False
    private = any(address in network for network in _PRIVATE if network.version == address.version)
    return not (address.is_loopback or address.is_link_local or address.is_unspecified or private)


def listing_name(address: IPv4Address | IPv6Address, zone: str) -> str:
    """Return the name to ask for: the octets, or nibbles, of the address in reverse, below the zone."""
    labels = address.reverse_pointer.removesuffix(".in-addr.arpa").removesuffix(".ip6.arpa")
    return f"{labels}.{zone}"


def read_listing(answer: DnsAnswer) -> ListingState:
    """Return what an answer says: only addresses in 127.0.0.0/8 that are no error list anybody."""
    if answer.outcome in DENIALS:
        return ListingState.CLEAR
    if answer.outcome is not DnsOutcome.FOUND:
        return ListingState.UNKNOWN
    found = [ip_address(address) for address in answer.addresses]
    if any(address not in _ANSWERS or address in _ERRORS or address == _NOT_LISTED for address in found):
        return ListingState.UNKNOWN
    return ListingState.LISTED


async def check_listing(identity: str, zone: str, ask: Lookup) -> ListingState:
    """Ask a zone about a source, and its test entries before and after.

    A zone that does not list what every zone lists, or lists what none does, is gone, sold or does not talk
    to us: it is not believed, whatever it says.
    """
    address = ip_address(identity)
    listed, clear = (_LISTED, _NOT_LISTED) if address.version == 4 else (_LISTED_V6, _NOT_LISTED_V6)
    if read_listing(await ask(listing_name(listed, zone))) is not ListingState.LISTED:
        return ListingState.UNKNOWN
    found = read_listing(await ask(listing_name(address, zone)))
    if read_listing(await ask(listing_name(clear, zone))) is not ListingState.CLEAR:
        return ListingState.UNKNOWN
    return found
