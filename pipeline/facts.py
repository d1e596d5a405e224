"""What the stages learn about an address: facts, when they were learned and go stale, and their cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from pydantic_core import from_json, to_json

# What is asked, and what is heard.


class Mode(StrEnum):
    """How far to look: syntax and lists; plus DNS; plus SMTP."""

    FAST = "fast"
    MEDIUM = "medium"
    DEEP = "deep"


class Known(StrEnum):
    """A three-valued answer."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class DomainState(StrEnum):
    """What DNS says about a domain's mail."""

    NOT_ASKED = "not_asked"
    ROUTED = "routed"  # at least one MX (or the implicit one) has a public address
    NOT_FOUND = "not_found"  # NXDOMAIN, RFC 8020
    NO_MAIL_SERVER = "no_mail_server"  # no MX and no address
    NULL_MX = "null_mx"  # RFC 7505
    UNROUTABLE = "unroutable"  # MX only at non-public addresses or IP literals
    UNAVAILABLE = "unavailable"  # SERVFAIL, REFUSED, timeout: says nothing about the domain


TAKES_NO_MAIL: Final = frozenset(
    {DomainState.NOT_FOUND, DomainState.NO_MAIL_SERVER, DomainState.NULL_MX, DomainState.UNROUTABLE}
)
"""The states that make an address invalid."""


class Answer(StrEnum):
    """What the mail server's reply to RCPT (or its silence) means for one mailbox."""

    NOT_ASKED = "not_asked"
    ACCEPTED = "accepted"
    NOT_FOUND = "not_found"
    DISABLED = "disabled"
    FULL = "full"
    GREYLISTED = "greylisted"  # come back later, from the same source
    RATE_LIMITED = "rate_limited"  # slow down
    TEMPORARY = "temporary"  # another 4xx, a 421, a dropped session
    REFUSED_US = "refused_us"  # block list, reverse DNS, sender, policy: about the prober
    UNCLEAR = "unclear"  # a permanent refusal that speaks of nothing we know
    DOUBTED = "doubted"  # a refusal in the midst of too many: not believed (mailsift.pipeline.probe.breaker)
    UNREACHABLE = "unreachable"  # no MX answered in time
    NOT_ALLOWED = "not_allowed"  # no MX has an address that may be dialled from here: none was asked
    NOT_ASKABLE = "not_askable"  # e.g. a non-ASCII local part at a server without SMTPUTF8
    OPTED_OUT = "opted_out"  # the domain does not want to be asked
    TOO_MANY_MISSING = "too_many_missing"  # the list stopped at this provider: too few of it were known
    PROBE_UNAVAILABLE = "probe_unavailable"  # this machine cannot reach port 25
    GIVEN_UP = "given_up"  # the work on the address broke every time, so nothing is known of it


GONE: Final = frozenset({Answer.NOT_FOUND, Answer.DISABLED})
"""The answers that make an address invalid."""

MAILBOX_REFUSALS: Final = GONE | {Answer.FULL}
"""The refusals that speak of the mailbox."""

DEFINITE: Final = MAILBOX_REFUSALS | {Answer.ACCEPTED}
"""The answers that speak of the mailbox; anything else is asked anew."""

NOT_NOW: Final = frozenset({Answer.GREYLISTED, Answer.RATE_LIMITED, Answer.TEMPORARY})
"""The answers that say "later"."""


# Facts.


@dataclass(slots=True, unsafe_hash=True)  # not frozen, see DomainFact
class MxHost:
    """One mail exchanger: its name, preference (lower first) and public addresses, IPv4 first."""

    name: str
    preference: int
    addresses: tuple[str, ...]


@dataclass(slots=True, unsafe_hash=True)  # not frozen, which takes a microsecond a domain; nobody changes one
class DomainFact:
    """What DNS said about one domain.

    Attributes:
        domain: ASCII (IDNA 2008) lower-case domain.
        hosts: reachable exchangers in order of preference; empty unless state is ROUTED.
        provider: throttle key of the exchangers; "" unless state is ROUTED.
        implicit: the route is the domain's own address (RFC 5321 section 5.1).
        detail: the DNS answer behind the state, e.g. "SERVFAIL"; for people.
        learned_at, expires_at: epoch seconds.
    """

    domain: str
    state: DomainState
    hosts: tuple[MxHost, ...] = ()
    provider: str = ""
    implicit: bool = False
    detail: str = ""
    learned_at: float = 0.0
    expires_at: float = 0.0


@dataclass(frozen=True, slots=True)
class CatchAllFact:
    """Whether a domain accepts any local part, and the reply to the random recipient behind it.

    Attributes:
        blanket: the permanent refusal the random recipient got, normalised, when it may be one the server
            gives to every recipient; "" otherwise.
    """

    domain: str
    catch_all: Known
    smtp_code: int = 0
    text: str = ""
    blanket: str = ""
    learned_at: float = 0.0
    expires_at: float = 0.0


@dataclass(frozen=True, slots=True)
class MailboxFact:
    """What one mail server said about one mailbox.

    Attributes:
        answer: the class of the reply.
        smtp_code: three-digit code, 0 when nobody answered.
        enhanced: RFC 3463 code such as "5.1.1", or "".
        text: the reply's words with addresses and tokens redacted; at most 300 characters.
        stage: where the reply came: connect, banner, ehlo, starttls, mail, rcpt.
        rule: id of the row in the reply table that decided.
        host, address, source: MX name, the IP that was dialled, our own address ("" = the default route).
        blanket: the random recipient got the very same refusal, or may get it, so it says nothing about this
            mailbox.
        retry_after: seconds the server asked to wait, 0 when it did not say.
        took_ms: from sending RCPT to its reply.
        asked_at, expires_at: epoch seconds.
        cached: reused from an earlier probe.
    """

    answer: Answer
    smtp_code: int = 0
    enhanced: str = ""
    text: str = ""
    stage: str = ""
    rule: str = ""
    host: str = ""
    address: str = ""
    source: str = ""
    blanket: bool = False
    retry_after: float = 0.0
    took_ms: int = 0
    asked_at: float = 0.0
    expires_at: float = 0.0
    cached: bool = False


# Why there is no fact yet.


class WaitReason(StrEnum):
    """Why an address has to come back."""

    THROTTLED = "throttled"  # the provider's rate limit
    GREYLISTED = "greylisted"
    DEFERRED = "deferred"  # the server said "later", hung up or could not be found
    BLOCKED = "blocked"  # the provider refuses us again and again, so it is left alone for a while
    TOO_MANY_MISSING = "too_many_missing"  # too few of the list's addresses are known at the provider
    OUR_NETWORK = "our_network"  # nothing can be reached from this machine now
    RESOLVER = "resolver"  # no resolver can be trusted now
    SLOW = "slow"  # the session took longer than it was given
    BUDGET = "budget"  # the call was over before its turn came


TRIAGE = "survey"
"""The reason of addresses that were handed back unasked because there were too many for one sitting."""


@dataclass(frozen=True, slots=True)
class Wait:
    """An address that is not finished.

    Attributes:
        delay: seconds until asking again makes sense, as far as anybody said; else 0.
    """

    reason: WaitReason
    delay: float


# A domain's fact as bytes.

_VERSION = 1
"""Raised when the layout changes: facts of another version are asked for again."""


def encode_domain(fact: DomainFact) -> bytes:
    """Return the fact as bytes; the domain itself is the key and stays out."""
    hosts = [(host.name, host.preference, host.addresses) for host in fact.hosts]
    times = (fact.learned_at, fact.expires_at)
    packed = (_VERSION, str(fact.state), hosts, fact.provider, fact.implicit, fact.detail, *times)
    return to_json(packed)


def decode_domain(domain: str, data: bytes) -> DomainFact | None:
    """Return the fact that `encode_domain` packed; None for anything else, which is then asked for again."""
    try:
        version, state, packed, provider, implicit, detail, learned_at, expires_at = from_json(data)
        if version != _VERSION:
            return None
        hosts = tuple([MxHost(name, preference, tuple(addresses)) for name, preference, addresses in packed])
        return DomainFact(
            domain, DomainState(state), hosts, provider, implicit, detail, learned_at, expires_at
        )
    except (ValueError, TypeError):
        return None


# What remembers them; it is the caller's.


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
