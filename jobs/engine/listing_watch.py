"""Looks our sources up in block lists: at start and hourly; a listed one is held until it is off the list.

Of DNS block lists (RFC 5782) a zone is checked before it is believed.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

import structlog

from mailsift.pipeline.dns.rules import DENIALS, DnsAnswer, DnsOutcome
from mailsift.pipeline.guard import read_address
from mailsift.storage.database import Database
from mailsift.storage.sql import throttles
from mailsift.storage.sql.throttles import ListingState

CHECK_SECONDS: Final = 3_600.0
_RECHECK_SECONDS: Final = 300.0  # until the next check, where another process made one or nothing was learned

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

_log = structlog.get_logger()


def may_be_listed(identity: str) -> bool:
    """Tell whether an identity is an address that the world sees: proxies and private ones are in no list."""
    address = read_address(identity)
    if address is None:
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


@dataclass(slots=True, kw_only=True)
class ListingWatch:
    """Watches the sources of one process; any number of them may watch the same ones.

    Attributes:
        zones: the block lists; where there are none, what one of them held is let go of.
        trusted: whether a resolver can be believed now.
        wake: wakes workers, once a source may be asked from again.
        steady: seconds that never jump.
    """

    database: Database
    zones: Sequence[str]
    sources: Collection[str]
    ask: Lookup
    trusted: Callable[[], Awaitable[bool]]
    wake: Callable[[int], Awaitable[None]]
    steady: Callable[[], float] = time.monotonic
    _next_check: float = field(default=float("-inf"), init=False)

    async def sweep(self) -> None:
        """Check when it is time; a check that fails is made up for by the next sweep."""
        sources = sorted(filter(may_be_listed, self.sources))
        if not sources or self.steady() < self._next_check:
            return
        if self.zones and not await self.trusted():
            return
        states = []
        for source in sources:
            states += [await self._check(source, zone) for zone in self.zones]
            await self._hold_while_listed(source)
        pause = _RECHECK_SECONDS if ListingState.UNKNOWN in states else CHECK_SECONDS
        self._next_check = self.steady() + pause

    async def _check(self, source: str, zone: str) -> ListingState:
        """Check, unless another process just did: then nothing is known here yet."""
        due = await self.database.run(throttles.is_listing_due, source, zone, seconds=_RECHECK_SECONDS)
        if not due:
            return ListingState.UNKNOWN
        state = await check_listing(source, zone, self.ask)
        await self.database.run(throttles.record_listing, source, zone, state)
        return state

    async def _hold_while_listed(self, source: str) -> None:
        done = await self.database.run(throttles.hold_while_listed, source, self.zones)
        if done:
            _log.warning("source.listing", source=source, then=done)
        if done == "let go":
            await self.wake(1)
