"""Denials that hold: with the SOA of an enclosing zone, and confirmed (RFC 2308, RFC 8020)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from mailsift.pipeline.dns.client import DnsClient
from mailsift.pipeline.dns.rules import (
    DENIALS,
    DnsAnswer,
    DnsOutcome,
    RecordType,
    is_blocked,
    usable_exchangers,
)
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.providers import top_level_domains

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
    (split horizon): what is not there, the world may have.

    A name that does not exist does not exist for any type: NXDOMAIN for MX is held against A, and for A
    against AAAA, so that a resolver which denies one type denies nothing.

    Args:
        client: asks.
        guard: decides which addresses are public.
        on_contradiction: called with "host:port" of a resolver whose denial another question did not confirm.
    """

    def __init__(
        self, client: DnsClient, *, guard: AddressGuard, on_contradiction: Callable[[str], None]
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
            done(DnsAnswer(DnsOutcome.FAILED, detail=_BLOCKED))
        elif self._is_of_own_zone(answer):
            done(DnsAnswer(DnsOutcome.FAILED, detail=_OWN_ZONE))
        elif answer.outcome in DENIALS and not has_zone(answer):
            done(DnsAnswer(DnsOutcome.FAILED, detail=_NO_ZONE))
        elif record_type is RecordType.AAAA and not self._has_ipv6(answer):
            done(DnsAnswer(DnsOutcome.FAILED, detail=_NO_IPV6))
        else:
            second_type = (
                self._other_type(record_type, answer) if answer.outcome is DnsOutcome.NO_NAME else record_type
            )
            self._client.ask_again(answer, name, second_type, partial(self._compare, answer, done))

    def _compare(self, first: DnsAnswer, done: Done, second: DnsAnswer) -> None:
        if agree(first, second) or (self._is_unusable(first) and self._is_unusable(second)):
            done(first)
            return
        if second.outcome is DnsOutcome.FAILED:
            done(DnsAnswer(DnsOutcome.FAILED, detail=second.detail))
            return
        self._on_contradiction(first.server)
        done(DnsAnswer(DnsOutcome.FAILED, detail=_CONTRADICTED))

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
