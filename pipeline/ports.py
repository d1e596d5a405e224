"""What the pipeline needs from outside: a cache for facts and a throttle for probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple, Protocol

from mailsift.pipeline.standing import NO_COUNTS, LedgerCounts
from mailsift.pipeline.stop import NOBODY_ASKED, AskedCounts, ListTally


class FactKind(StrEnum):
    """The families of cached facts; keys are domains, except for mailboxes (opaque digests)."""

    DOMAIN = "domain"
    CATCH_ALL = "catch_all"
    MAILBOX = "mailbox"


class CacheEntry(NamedTuple):
    """One fact to remember: its key, its bytes and how many seconds it may be reused."""

    key: str
    value: bytes
    ttl: float


@dataclass(frozen=True, slots=True)
class Claimed:
    """The answer to "get or claim".

    Attributes:
        found: remembered bytes by key.
        elsewhere: keys that somebody else is looking up right now; all others are the caller's.
    """

    found: Mapping[str, bytes]
    elsewhere: frozenset[str] = frozenset()


class FactCache(Protocol):
    """Remembers facts between chunks, jobs and processes. Losing it costs time, never correctness."""

    async def get(self, kind: FactKind, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return the remembered bytes by key; unknown and stale keys are left out. One round trip."""
        ...

    async def get_or_claim(self, kind: FactKind, keys: Sequence[str]) -> Claimed:
        """Do what `get` does, and share what is unknown out among those who ask. One round trip.

        A claim ends with `put`, or after some seconds by itself. A cache that is not shared claims nothing.
        """
        return Claimed(await self.get(kind, keys))

    async def put(self, kind: FactKind, entries: Sequence[CacheEntry]) -> None:
        """Remember the entries. One round trip."""
        ...


class SessionOutcome(StrEnum):
    """How a probing session went, for the throttle to learn from."""

    CLEAN = "clean"
    RATE = "rate"  # 421/450/451 about rate: halve
    BLOCKED = "blocked"  # refused us
    FAILED = "failed"  # connect failure, timeout, drop


MANY_DOMAINS: Final = 10
"""A server of so many domains is a hoster's, not the gateway of a company."""
MANY_ADDRESSES: Final = 20
"""Fewer that wait for a server nobody knows are asked at once: to come back later costs more than to be
refused there."""


class Allowance(NamedTuple):
    """How many recipients a session may send at a time where unknown ones are counted: the larger number.

    Attributes:
        unknown: so many more may be unknown, whoever else is known.
        surplus: so many more were known than unknown, less one.
    """

    unknown: int
    surplus: int


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to open one session.

    Attributes:
        provider: throttle key (DomainFact.provider).
        source: the identity of our own address (mailsift.pipeline.probe.config.Source).
        address: destination IP.
        recipients: RCPT commands wanted in this session, at least 1.
        least: fewer are of no use where a provider counts unknown recipients (mailsift.pipeline.providers).
        tally: counts what the list asks there; None: nothing stops it.
        domains: some of those that wait for the provider, to tell a company from a hoster; () where
            too few addresses wait for care.
        seconds: how long the session may run, unless we are held up; 0 = not known.
    """

    provider: str
    source: str
    address: str
    recipients: int
    least: int = 1
    tally: ListTally | None = None
    domains: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Grant:
    """The throttle's answer to one Ask.

    Attributes:
        recipients: RCPT commands that may be sent now; 0 means not now.
        lease: names the granted session until it is reported; "" when denied.
        retry_after: seconds until asking again makes sense; 0 when granted.
        blocked: denied because the provider has refused us again and again, not for the sake of its limits.
        busy: denied or cut because of sessions that are open; `retry_after` is a guess, one may end before.
        refill_s: seconds in which the rate allows a full session again; 0 = as the provider's row says.
        stopped: denied because too many of the list's recipients are unknown there.
        allowance: what the session may send at a time; None: all of it.
        seconds: since the grant was asked for, by any clock: where unknown recipients count, the session's
            share is released then, and it may ask for no more recipients.
    """

    recipients: int
    lease: str = ""
    retry_after: float = 0.0
    blocked: bool = False
    busy: bool = False
    refill_s: float = 0.0
    stopped: bool = False
    allowance: Allowance | None = None
    seconds: float = inf


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a granted session; frees its lease.

    Attributes:
        ask, lease: as granted.
        unused: granted RCPT commands that were never sent.
        ledger: what the session's replies amount to.
        asked: what they say of the list.
        beyond: RCPT commands sent beside the granted ones, a witness for one: they are paid for, too.
    """

    ask: Ask
    lease: str
    outcome: SessionOutcome
    unused: int = 0
    ledger: LedgerCounts = NO_COUNTS
    asked: AskedCounts = NOBODY_ASKED
    beyond: int = 0


class Throttle(Protocol):
    """Rate limits shared by all processes: sessions and recipients per provider, source and destination."""

    async def grant(self, asks: Sequence[Ask]) -> Sequence[Grant]:
        """Answer every ask, in order. One round trip however many asks there are."""
        ...

    async def report(self, reports: Sequence[Report]) -> None:
        """Free the leases and learn from the outcomes. One round trip."""
        ...

    def is_held(self, provider: str, source: str) -> bool:
        """Tell whether an operator holds the provider at this source."""
        ...
