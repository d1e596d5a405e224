"""What DNS answers mean for a domain's mail: pure decisions, no network."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple

from mailsift.pipeline.facts import DomainState, MxHost
from mailsift.pipeline.guard import AddressGuard

MAX_EXCHANGERS = 10
MAX_ADDRESSES = 3
"""Exchangers tried for a domain and addresses tried for an exchanger: no more are kept."""

Exchangers = tuple[tuple[int, str], ...]
"""(preference, name) of mail exchangers; "" is the root."""


class RecordType(StrEnum):
    """The record types that are asked for."""

    MX = "MX"
    A = "A"
    AAAA = "AAAA"
    NS = "NS"


class DnsOutcome(StrEnum):
    """How a question ended."""

    FOUND = "found"
    NO_DATA = "no_data"  # the name exists without such a record, RFC 2308
    NO_NAME = "no_name"  # NXDOMAIN: nothing exists at or below the name, RFC 8020
    FAILED = "failed"  # SERVFAIL, REFUSED, timeout: says nothing


FOUND: Final = DnsOutcome.FOUND
FAILED: Final = DnsOutcome.FAILED
MX: Final = RecordType.MX
ROUTED: Final = DomainState.ROUTED
"""Named by what every domain passes: to look one up in its class takes 0.1 us, a dozen times a domain."""

DENIALS: Final = frozenset({DnsOutcome.NO_NAME, DnsOutcome.NO_DATA})


class DnsAnswer(NamedTuple):
    """The answer to one question.

    Attributes:
        outcome: how it ended; FOUND exactly when there are exchangers, addresses or name servers.
        exchangers: of an MX answer, in the server's order.
        addresses: of an A or AAAA answer, in the server's order.
        ttl: seconds the records may be reused; 0 when nothing was found.
        detail: the answer in words for people, "" when something was found.
        name: of a denial: the name that is denied, at the end of all aliases, in lower case.
        zone: of a denial: the owner of the SOA that came with it, "" for the root; None without one.
        server: of a denial, and of any answer where there are several: the resolver that said so, as
            "host:port".
        authoritative: it came with the claim to be the authority for the name (RFC 1035 section 4.1.1).
        name_servers: of an NS answer, in the server's order.
    """

    outcome: DnsOutcome
    exchangers: Exchangers = ()
    addresses: tuple[str, ...] = ()
    ttl: float = 0.0
    detail: str = ""
    name: str = ""
    zone: str | None = None
    server: str = ""
    authoritative: bool = False
    name_servers: tuple[str, ...] = ()


class HostAddresses(NamedTuple):
    """What is known about one exchanger's addresses.

    Attributes:
        outcome: FOUND when the host has addresses, public or not.
        public: at most three that may be dialled, IPv4 first.
        ttl: seconds it may be reused; 0 unless FOUND.
        detail: as in DnsAnswer.
    """

    outcome: DnsOutcome
    public: tuple[str, ...] = ()
    ttl: float = 0.0
    detail: str = ""


class DomainResolution(NamedTuple):
    """What DNS says about a domain, before it becomes a fact with a time.

    Attributes:
        state: never NOT_ASKED.
        hosts: reachable exchangers by preference; empty unless ROUTED.
        implicit: the domain's own address is the route.
        ttl: seconds the answers behind it may be reused; 0 when they named none.
        detail: for people.
    """

    state: DomainState
    hosts: tuple[MxHost, ...] = ()
    implicit: bool = False
    ttl: float = 0.0
    detail: str = ""


_HOST_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*")
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*")
_preference = itemgetter(0)
_exchanger_name = itemgetter(1)
_UNSPECIFIED: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - nothing is bound to them
_WITHIN_DNS_LIMITS = re.compile(r"(?s:(?=.{1,253}\Z)[^.]{1,63}(?:\.[^.]{1,63})*)")


def is_null_mx(answer: DnsAnswer) -> bool:
    """Tell whether a domain declares that it takes no mail (RFC 7505)."""
    exchangers = answer.exchangers
    # Nearly every first one has a name: to look at it alone spares every answer 0.2 us.
    return bool(exchangers) and not exchangers[0][1] and not any(map(_exchanger_name, exchangers))


def is_blocked(answer: DnsAnswer) -> bool:
    """Tell whether an answer is what resolvers that filter give in place of addresses: 0.0.0.0 or ::."""
    return bool(answer.addresses) and set(answer.addresses) <= _UNSPECIFIED


def is_host_name(name: str) -> bool:
    """Tell whether a name may be looked up: letters, digits, hyphens and the underscore some hosts carry."""
    return len(name) <= 253 and _HOST_NAME.fullmatch(name) is not None


def interpret_name(domain: str) -> DomainResolution | None:
    """Judge a domain by its spelling alone; None when DNS has to be asked.

    A name beyond the limits of RFC 1035 section 2.3.4 cannot exist. Any other oddity (control bytes, say) is
    not asked for, and what was not asked is not known.
    """
    if is_host_name(domain):
        return None
    if _WITHIN_DNS_LIMITS.fullmatch(domain):
        return DomainResolution(DomainState.UNAVAILABLE, detail="not a host name")
    return DomainResolution(DomainState.NOT_FOUND, detail="not a possible domain name")


def interpret_mx(answer: DnsAnswer) -> DomainResolution | Exchangers:
    """Judge the answer to the MX question: a resolution, or the exchangers whose addresses decide.

    No exchangers at all means that the domain's own addresses decide.
    """
    chosen = usable_exchangers(answer.exchangers)
    if chosen:
        return chosen
    if answer.outcome is FAILED:
        return DomainResolution(DomainState.UNAVAILABLE, detail=answer.detail)
    if answer.outcome is DnsOutcome.NO_NAME:
        return DomainResolution(DomainState.NOT_FOUND, detail=answer.detail)
    if answer.outcome is DnsOutcome.NO_DATA:
        return ()
    if any(name for _, name in answer.exchangers):
        return DomainResolution(DomainState.UNROUTABLE, ttl=answer.ttl, detail="MX is not a host name")
    return DomainResolution(DomainState.NULL_MX, ttl=answer.ttl, detail="MX 0 .")


@lru_cache(maxsize=8192)
def usable_exchangers(records: Exchangers) -> Exchangers:
    """Keep host names only, at most ten, by preference (RFC 5321 section 5.1), ties in the server's order.

    A name that is an IP address in disguise is dropped, and so is the root beside real exchangers (RFC 7505
    section 3).
    """
    chosen: dict[str, tuple[int, str]] = {}
    for preference, name in sorted(records, key=_preference):
        if host := _exchanger(name):
            chosen.setdefault(host, (preference, host))
        if len(chosen) == MAX_EXCHANGERS:
            break
    return tuple(chosen.values())


@lru_cache(maxsize=8192)
def _exchanger(name: str) -> str:
    """Return a host name in lower case, "" for anything else; remembered, as many domains share a host."""
    host = name.lower()
    return host if is_host_name(host) and not _NUMERIC.fullmatch(host.rpartition(".")[2]) else ""


def interpret_implicit_mx(
    domain: str, found: HostAddresses, wildcard: Collection[str] = ()
) -> DomainResolution:
    """Judge a domain without MX by its own addresses (RFC 5321 section 5.1).

    Args:
        domain: its name.
        found: its addresses.
        wildcard: the addresses of a name that does not exist under the same suffix, where there are any: they
            are no route, as the suffix gives them to every name.
    """
    if wildcard and found.public and set(found.public) <= set(wildcard):
        return DomainResolution(DomainState.UNAVAILABLE, detail="its address is what any name there gets")
    if found.public:
        return DomainResolution(ROUTED, (MxHost(domain, 0, found.public),), implicit=True, ttl=found.ttl)
    if found.outcome is FOUND:
        return DomainResolution(
            DomainState.UNROUTABLE, ttl=found.ttl, detail="no MX and only non-public addresses"
        )
    if found.outcome is FAILED:
        return DomainResolution(DomainState.UNAVAILABLE, detail=found.detail)
    return DomainResolution(DomainState.NO_MAIL_SERVER, detail="no MX and no address")


def interpret_exchangers(
    chosen: Exchangers, ttl: float, found: Mapping[str, HostAddresses]
) -> DomainResolution:
    """Judge the addresses of a domain's exchangers.

    One public address is enough for a route. Without any, a host whose own lookup failed leaves the domain
    unknown, and so do exchangers beyond those that are looked up; else a host with addresses makes it
    unroutable; and when DNS denies every exchanger an address, there is no mail server.

    Args:
        chosen: as `interpret_mx` returned it, at least one.
        ttl: seconds the MX answer may be reused.
        found: the addresses by name, one entry for each chosen name.
    """
    answers = tuple([found[name] for _, name in chosen])
    hosts, shortest = _route(chosen, answers)
    if hosts:
        return DomainResolution(ROUTED, hosts, ttl=min(ttl, shortest))
    failed = next((answer for answer in answers if answer.outcome is FAILED), None)
    if failed:
        return DomainResolution(DomainState.UNAVAILABLE, detail=f"address of the MX: {failed.detail}")
    if len(chosen) == MAX_EXCHANGERS:  # there may be more
        return DomainResolution(DomainState.UNAVAILABLE, detail="more mail servers than are looked up")
    if any(answer.outcome is FOUND for answer in answers):
        return DomainResolution(DomainState.UNROUTABLE, ttl=ttl, detail="MX only at non-public addresses")
    return DomainResolution(DomainState.NO_MAIL_SERVER, detail="no MX host has an address")


@lru_cache(maxsize=8192)
def _route(chosen: Exchangers, answers: tuple[HostAddresses, ...]) -> tuple[tuple[MxHost, ...], float]:
    """Return the exchangers that can be reached, and for how many seconds; many domains share them.

    A route with a hole is worth asking about again soon.
    """
    pairs = zip(chosen, answers, strict=True)
    hosts = tuple([MxHost(name, rank, answer.public) for (rank, name), answer in pairs if answer.public])
    known = [answer for answer in answers if answer.outcome is not FAILED]
    ttls = [answer.ttl for answer in known if answer.outcome is FOUND]
    return hosts, min(ttls, default=0.0) if len(known) == len(answers) else 0.0


def interpret_addresses(a: DnsAnswer, aaaa: DnsAnswer | None, guard: AddressGuard) -> HostAddresses | None:
    """Judge a host's addresses; None when the AAAA question has to be asked as well.

    IPv4 alone is enough when one of its addresses is public: that saves every second question, and a mail
    server without IPv4 is found all the same.
    """
    public = _allowed(a, guard)
    if public or a.outcome in {DnsOutcome.NO_NAME, FAILED}:
        return HostAddresses(a.outcome, public, a.ttl, a.detail)
    if aaaa is None:
        return None
    public = _allowed(aaaa, guard)
    if a.outcome is FOUND and aaaa.outcome in {DnsOutcome.NO_DATA, DnsOutcome.NO_NAME}:
        return HostAddresses(FOUND, ttl=a.ttl)
    return HostAddresses(aaaa.outcome, public, aaaa.ttl, aaaa.detail)


def _allowed(answer: DnsAnswer, guard: AddressGuard) -> tuple[str, ...]:
    return tuple([address for address in answer.addresses if guard.allows(address)][:MAX_ADDRESSES])
