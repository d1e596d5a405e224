"""Denials that hold: with the SOA of an enclosing zone, and confirmed (RFC 2308, RFC 8020)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from mailsift.pipeline.dns.client import DnsClient
from mailsift.pipeline.dns.rules import (
    DENIALS,
    FAILED,
    DnsAnswer,
    DnsOutcome,
    RecordType,
    is_blocked,
    is_host_name,
    usable_exchangers,
)
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.providers import public_suffixes, top_level_domains

Done = Callable[[DnsAnswer], None]

_NO_ZONE: Final = "denied without the SOA of its zone"
_NO_IPV6: Final = "the resolver gives nobody an IPv6 address"
_BLOCKED: Final = "the resolver gives it the address of nothing, as filters do"
_OWN_ZONE: Final = "the resolver has a zone of its own for it, which others may not see"
_CONTRADICTED: Final = "denied, but not by everybody"


class DenialChecker:
    """Asks like the client, but lets a denial through only when it holds; else it is a failure.

    An answer that leads nowhere is a denial too: no exchanger that could be one, no address that is public;
    but not the address of nothing, which says more of the resolver than of the name.

    A resolver that claims to be the authority for a name, but not for the canaries, speaks of its own zone
    (split horizon): what is not there, the world may have. So may it where the name server of the registrable
    domain has no public address: somebody inside was asked, and who passed it on makes no such claim.

    A name that does not exist does not exist for any type: NXDOMAIN for MX is held against A, and for A
    against AAAA, so that a resolver which denies one type denies nothing.

    Args:
        client: asks.
        guard: decides which addresses are public.
        on_contradiction: called with "host:port" of a resolver whose denial another question did not confirm,
            and of the one that was asked it.
    """

    def __init__(
        self, client: DnsClient, *, guard: AddressGuard, on_contradiction: Callable[[str, str], None]
    ) -> None:
        self._client = client
        self._guard = guard
        self._on_contradiction = on_contradiction

    def ask(self, name: str, record_type: RecordType, done: Done) -> None:
        """Ask for a name's records; as DnsClient.ask."""
        self._client.ask(name, record_type, partial(self._on_answer, name, record_type, done))

    def _on_answer(self, name: str, record_type: RecordType, done: Done, answer: DnsAnswer) -> None:
        """Let through what is no denial, ask again about what is one."""
        if answer.outcome not in DENIALS and not self._is_unusable(answer):
            done(answer)
        elif is_blocked(answer):
            done(DnsAnswer(FAILED, detail=_BLOCKED))
        elif self._is_of_own_zone(answer):
            done(DnsAnswer(FAILED, detail=_OWN_ZONE))
        elif answer.outcome in DENIALS and not has_zone(answer):
            done(DnsAnswer(FAILED, detail=_NO_ZONE))
        elif record_type is RecordType.AAAA and not self._has_ipv6(answer):
            done(DnsAnswer(FAILED, detail=_NO_IPV6))
        else:
            second_type = (
                self._other_type(record_type, answer) if answer.outcome is DnsOutcome.NO_NAME else record_type
            )
            # No exchanger or no IPv4 address decides nothing yet: another question follows.
            decides = (
                record_type is RecordType.AAAA or answer.outcome is DnsOutcome.NO_NAME or answer.exchangers
            )
            domain = registrable_below(answer, name) if decides else ""
            self._client.ask_again(answer, name, second_type, partial(self._compare, domain, answer, done))

    def _compare(self, domain: str, first: DnsAnswer, done: Done, second: DnsAnswer) -> None:
        """Let through what the second answer confirms, once the domain's name servers have been looked at."""
        holds = agree(first, second) or (self._is_unusable(first) and self._is_unusable(second))
        if holds and domain:
            self._client.ask(domain, RecordType.NS, partial(self._on_name_servers, first, done))
        elif holds:
            done(first)
        elif second.outcome is FAILED:
            done(DnsAnswer(FAILED, detail=second.detail))
        else:
            self._on_contradiction(first.server, second.server or first.server)
            done(DnsAnswer(FAILED, detail=_CONTRADICTED))

    def _on_name_servers(self, denial: DnsAnswer, done: Done, answer: DnsAnswer) -> None:
        """Look where the first name server is; who has none to show is no inside."""
        server = next(filter(is_host_name, answer.name_servers), "")
        if server:
            self._client.ask(server, RecordType.A, partial(self._on_name_server, denial, done))
        else:
            done(denial)

    def _on_name_server(self, denial: DnsAnswer, done: Done, answer: DnsAnswer) -> None:
        is_inside = self._is_unusable(answer)
        done(DnsAnswer(FAILED, detail=_OWN_ZONE) if is_inside else denial)

    def _other_type(self, record_type: RecordType, answer: DnsAnswer) -> RecordType:
        """Return another type that a name would have if it existed."""
        if record_type is RecordType.A:
            return RecordType.AAAA if self._has_ipv6(answer) else RecordType.MX
        return RecordType.A

    def _is_unusable(self, answer: DnsAnswer) -> bool:
        if answer.exchangers:
            return not usable_exchangers(answer.exchangers)
        return bool(answer.addresses) and not any(map(self._guard.allows, answer.addresses))

    def _has_ipv6(self, answer: DnsAnswer) -> bool:
        servers = (server for server in self._client.nameservers if server.label == answer.server)
        return all(server.has_ipv6 for server in servers)

    def _is_of_own_zone(self, answer: DnsAnswer) -> bool:
        if not answer.authoritative:
            return False
        servers = (one for one in self._client.nameservers if one.claims_all is False)
        return any(answer.server in {"", one.label} for one in servers)  # "" where there is only one


def agree(first: DnsAnswer, second: DnsAnswer) -> bool:
    """Tell whether a second answer confirms a denial: the same name, or the same lack of records."""
    if first.outcome is DnsOutcome.NO_NAME:
        return second.outcome is DnsOutcome.NO_NAME
    return first.outcome is DnsOutcome.NO_DATA and second.outcome in DENIALS


def registrable_below(answer: DnsAnswer, name: str) -> str:
    """Return the registrable domain that a name belongs to; "" where a zone above it denies the name.

    Args:
        answer: a denial, or records that lead nowhere.
        name: what was asked for.
    """
    zone, name = answer.zone, answer.name or name
    if zone is not None and "." not in zone:
        return ""
    domain = public_suffixes().privatesuffix(name) or ""
    return domain if zone is None or f".{zone}".endswith(f".{domain}") else ""


def has_zone(denial: DnsAnswer) -> bool:
    """Tell whether a denial comes with the SOA of a zone that could know (RFC 2308 section 2).

    The root knows which top-level domains exist, and nothing about the names below those that do. A name that
    has an SOA exists: NXDOMAIN with its own is made up, by a filter as a rule.
    """
    zone, name = denial.zone, denial.name
    if zone is None:
        return False
    if zone:
        return name.endswith(f".{zone}") or (name == zone and denial.outcome is DnsOutcome.NO_DATA)
    return "." not in name or name.rpartition(".")[2] not in top_level_domains()
