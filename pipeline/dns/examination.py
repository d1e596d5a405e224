"""One check of a resolver: its answers about well-known names, and about names that do not exist."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mailsift.pipeline.dns.client import DnsClient, setter_of
from mailsift.pipeline.dns.denials import has_zone
from mailsift.pipeline.dns.nameserver import Nameserver
from mailsift.pipeline.dns.rules import (
    DENIALS,
    DnsAnswer,
    DnsOutcome,
    RecordType,
    is_null_mx,
    usable_exchangers,
)
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.providers import public_suffixes

_RANDOM_TYPES: Final = (RecordType.A, RecordType.MX, RecordType.AAAA)  # asked for of random names


@dataclass(slots=True)
class Examination:
    """What one round of canaries showed.

    Attributes:
        faults: answers that cannot be true, in words.
        broken: answers about a single canary domain that should not be, in words by domain.
        known: canary domains whose mail servers it knows.
        denied: random names it denies.
        has_ipv6: some mail server of a canary has an IPv6 address.
        claimed: an answer about a canary came with the claim to be its authority.
    """

    faults: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    denied: int = 0
    has_ipv6: bool = False
    claimed: bool = False


class Examiner:
    """Asks resolvers, trusted or not, about domains.

    Args:
        client: asks.
        guard: decides which addresses are public.
    """

    def __init__(self, client: DnsClient, guard: AddressGuard) -> None:
        self._client = client
        self._guard = guard

    async def examine(
        self, server: Nameserver, domains: Sequence[str], suffixes: Iterable[str] = ()
    ) -> Examination:
        """Ask about well-known domains and random names, all side by side, then for their servers.

        Args:
            server: whom to ask.
            domains: that take mail.
            suffixes: under which random names are tried.
        """
        names = [
            (f"{secrets.token_hex(10)}.{suffix}", record_type)
            for suffix in suffixes
            for record_type in _RANDOM_TYPES
        ]
        questions = [(domain, RecordType.MX) for domain in domains] + names
        answers = await self._ask_all(server, questions)
        examination = Examination()
        for (name, record_type), answer in zip(names, answers[len(domains) :], strict=True):
            _check_random(name, record_type, answer, examination)
        examination.claimed = any(answer.authoritative for answer in answers[: len(domains)])
        hosts = {}
        for domain, answer in zip(domains, answers[: len(domains)], strict=True):
            if host := _check_exchangers(domain, answer, examination):
                hosts[domain] = host
        await self._examine_hosts(server, hosts, examination)
        return examination

    async def _examine_hosts(
        self, server: Nameserver, hosts: Mapping[str, str], examination: Examination
    ) -> None:
        """Ask for the addresses of the canaries' mail servers, by canary."""
        kinds = (RecordType.A, RecordType.AAAA)
        answers = await self._ask_all(
            server, [(host, record_type) for record_type in kinds for host in hosts.values()]
        )
        addresses: Counter[str] = Counter()
        for (domain, host), answer in zip(hosts.items(), answers[: len(hosts)], strict=True):
            _check_addresses(domain, host, answer, self._guard, examination)
            addresses.update(set(answer.addresses))
        owners = {public_suffixes().privatesuffix(host) for host in hosts.values()}
        if len(owners) > 1 and any(count == len(hosts) for count in addresses.values()):
            examination.faults.append("one address for everybody")
        examination.has_ipv6 = any(answer.addresses for answer in answers[len(hosts) :])
        examination.claimed |= any(answer.authoritative for answer in answers)

    async def count_denied(self, server: Nameserver, domains: Sequence[str]) -> int:
        """Return how many of some domains that took mail the resolver denies a mail server now."""
        answers = await self._ask_all(server, [(domain, RecordType.MX) for domain in domains])
        return sum(1 for answer in answers if answer.outcome in DENIALS or is_null_mx(answer))

    async def _ask_all(
        self, server: Nameserver, questions: Sequence[tuple[str, RecordType]]
    ) -> list[DnsAnswer]:
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[DnsAnswer]] = []
        for name, record_type in questions:
            answer: asyncio.Future[DnsAnswer] = loop.create_future()
            self._client.ask_server(server, name, record_type, setter_of(answer))
            answers.append(answer)
        return list(await asyncio.gather(*answers))


def _check_random(name: str, record_type: RecordType, answer: DnsAnswer, examination: Examination) -> None:
    """A name that does not exist must be denied, by the zone above it; some resolvers have no IPv6 at all."""
    if answer.outcome is DnsOutcome.NO_NAME and has_zone(answer):
        examination.denied += 1
    elif answer.outcome is DnsOutcome.FOUND or (
        answer.outcome is not DnsOutcome.FAILED and record_type is not RecordType.AAAA
    ):
        is_denied = answer.outcome is DnsOutcome.NO_NAME
        fault = "is denied without the SOA of its zone" if is_denied else "should not exist"
        examination.faults.append(f"{name} {fault}")


def _check_exchangers(domain: str, answer: DnsAnswer, examination: Examination) -> str:
    """A well-known domain must have mail servers; returns the first one."""
    hosts = usable_exchangers(answer.exchangers)
    if hosts:
        return hosts[0][1]
    if answer.outcome is not DnsOutcome.FAILED or is_null_mx(answer):
        examination.broken[domain] = f"{domain} should take mail"
    return ""


def _check_addresses(
    domain: str, host: str, answer: DnsAnswer, guard: AddressGuard, examination: Examination
) -> None:
    """A well-known mail server must have a public address."""
    if answer.addresses and all(guard.allows(address) for address in answer.addresses):
        examination.known.add(domain)
    elif answer.outcome is not DnsOutcome.FAILED:
        examination.broken[domain] = f"{host} should have a public address"
