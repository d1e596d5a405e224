"""Canaries: a resolver is believed while it knows what everybody knows, and denies what nobody has."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from mailsift.pipeline.dns.client import DnsClient
from mailsift.pipeline.dns.denials import has_zone
from mailsift.pipeline.dns.nameserver import Nameserver
from mailsift.pipeline.dns.rules import DnsAnswer, DnsOutcome, RecordType, is_null_mx, usable_exchangers
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.metrics import RESOLVERS
from mailsift.pipeline.providers import public_suffixes

LOOK_AGAIN_S: Final = 5.0
"""Seconds between two looks at a resolver that is not trusted."""

_AT_FIRST: Final = 2  # good looks in a row before a resolver is believed
_AFTER_A_LIE: Final = 3
_SUFFIXES: Final = 3  # under which random names are tried
_CONTRADICTIONS: Final = 3  # denials others did not confirm, between two looks, that are too many
_AGAIN: Final = (
    2  # looks that must show the same canary broken, and no other, before it is the canary's fault
)

_log = structlog.get_logger()


@dataclass(slots=True)
class Examination:
    """What one round of canaries showed.

    Attributes:
        faults: what the resolver said that cannot be, in words.
        broken: what it said about a single canary domain that should not be, in words by domain.
        known: canary domains whose mail servers it knows.
        denied: random names it denies.
        has_ipv6: some mail server of a canary has an IPv6 address.
    """

    faults: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    known: int = 0
    denied: int = 0
    has_ipv6: bool = False


@dataclass(slots=True)
class _Standing:
    """How a resolver stands: good looks in a row, how many it needs, and denials that were not confirmed.

    Also the canary domains it has denied look after look while it knew the others: they are at fault.
    """

    good: int = 0
    needed: int = _AT_FIRST
    contradictions: int = 0
    reported: bool = False
    broken: frozenset[str] = frozenset()


class ResolverTrust:
    """Looks at resolvers with canaries and marks those that can be trusted; the client asks no others.

    What resolvers say is provisional until `confirm`, which looks again after it was said.

    Args:
        client: its resolvers are looked at.
        domains: canary domains, known to take mail, of independent operators; () = everybody is trusted.
        guard: decides which addresses are public.
    """

    def __init__(self, client: DnsClient, domains: Sequence[str], *, guard: AddressGuard) -> None:
        self._client = client
        self._domains = tuple(domains)
        self._suffixes = tuple(dict.fromkeys(public_suffixes().publicsuffix(name) or "" for name in domains))
        self._guard = guard
        self._standings: defaultdict[str, _Standing] = defaultdict(_Standing)
        self._first_checks: set[asyncio.Task[None]] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._closed = False
        for server in client.nameservers:
            server.trusted = not domains
        _set_gauges(client.nameservers)

    @property
    def is_active(self) -> bool:
        """Whether there are canaries."""
        return bool(self._domains)

    @property
    def holds(self) -> bool:
        """Whether there is a resolver that can be trusted."""
        return not self._closed and any(server.trusted for server in self._client.nameservers)

    @property
    def distrusted(self) -> int:
        """How many resolvers were looked at and are not believed."""
        servers = self._client.nameservers
        return sum(self._standings[one.label].reported and not one.trusted for one in servers)

    async def ready(self) -> bool:
        """Wait until a resolver can be trusted, or all have been looked at; returns which it is."""
        if not self._domains:
            return True
        if self._first_checks is None:
            servers = self._client.nameservers
            self._first_checks = {asyncio.create_task(self._check_first(server)) for server in servers}
        while not self.holds and (open_checks := [task for task in self._first_checks if not task.done()]):
            await asyncio.wait(open_checks, return_when=asyncio.FIRST_COMPLETED)
        return self.holds

    async def confirm(self) -> bool:
        """Look again at the resolvers that have answered since their last look.

        Returns:
            Whether all of them can still be trusted: if not, nothing that was said since may be believed.
        """
        if not self._domains:
            return True
        used = [server for server in self._client.nameservers if server.answered]
        trusted = await asyncio.gather(*(self._check(server) for server in used))
        return self.holds and all(trusted)

    def contradicted(self, label: str) -> None:
        """Take note that a resolver denied something which a second question did not confirm."""
        self._standings[label].contradictions += 1

    def close(self) -> None:
        """Trust nobody any more; looks that have begun end with the client."""
        self._closed = True
        if self._watching is not None:
            self._watching.cancel()

    async def aclose(self) -> None:
        """Wait for the last look; the client has to be closed before."""
        self.close()
        tasks = [*(self._first_checks or ()), *([self._watching] if self._watching else [])]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _check_first(self, server: Nameserver) -> None:
        standing = self._standings[server.label]
        await self._check(server)
        while standing.good and not server.trusted:
            await self._check(server)

    async def _check(self, server: Nameserver) -> bool:
        """Look at a resolver and decide; returns whether it can be trusted."""
        server.answered = False
        standing = self._standings[server.label]
        seen = await self._examine_until_sure(server, standing)
        if standing.contradictions >= _CONTRADICTIONS:
            seen.faults.append("its denials are not confirmed")
        standing.contradictions = 0
        if self._closed:
            return False
        server.has_ipv6 = seen.has_ipv6
        server.answered = False
        if seen.faults or seen.known * 2 < len(self._domains) or not seen.denied:
            self._distrust(server, standing, seen)
        else:
            self._trust(server, standing)
        return server.trusted

    def _trust(self, server: Nameserver, standing: _Standing) -> None:
        standing.good += 1
        if standing.good < standing.needed or server.trusted:
            return
        server.trusted = True
        _set_gauges(self._client.nameservers)
        if standing.reported:
            standing.reported = False
            _log.warning("dns.resolver_trusted_again", resolver=server.label)

    def _distrust(self, server: Nameserver, standing: _Standing, seen: Examination) -> None:
        standing.good = 0
        standing.needed = _AFTER_A_LIE if seen.faults else _AT_FIRST
        server.trusted = False
        self._client.forget(server)
        _set_gauges(self._client.nameservers)
        if not standing.reported:
            standing.reported = True
            why = "; ".join(seen.faults[:3]) or "it does not answer"
            _log.error("dns.resolver_distrusted", resolver=server.label, why=why, then="it is not asked")
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Look at distrusted resolvers until there is none, and at those a new network brings."""
        while not all(server.trusted for server in self._client.nameservers):
            await asyncio.sleep(LOOK_AGAIN_S)
            for server in self._client.refresh():
                server.trusted = False
            distrusted = [server for server in self._client.nameservers if not server.trusted]
            await asyncio.gather(*(self._check(server) for server in distrusted))

    async def _examine_until_sure(self, server: Nameserver, standing: _Standing) -> Examination:
        """Look, and look again where few canaries seem broken: is it always they, or the resolver?"""
        seen = await self._examine(server)
        broken = frozenset(seen.broken)
        if broken <= standing.broken:
            standing.broken = broken
            return seen
        again = _AGAIN if not seen.faults and self._may_be_broken(broken) else 0
        looks = [seen, *[await self._examine(server) for _ in range(again)]]
        if again and all(broken == frozenset(one.broken) and not one.faults for one in looks):
            standing.broken = broken
            _log.warning("dns.canary_broken", resolver=server.label, why="; ".join(seen.broken.values()))
            return looks[-1]
        seen.faults += [fault for one in looks for fault in (*one.broken.values(), *one.faults)]
        return seen

    def _may_be_broken(self, domains: Collection[str]) -> bool:
        """Tell whether less than a third of the canaries are denied, so that they may be at fault."""
        return len(domains) * 3 < len(self._domains)

    async def _examine(self, server: Nameserver) -> Examination:
        """Ask the canary questions, all side by side, then for the addresses of the mail servers."""
        suffixes = self._suffixes[:_SUFFIXES]
        names = [(f"{secrets.token_hex(10)}.{suffix}", kind) for suffix in suffixes for kind in _KINDS]
        questions = [(domain, RecordType.MX) for domain in self._domains] + names
        answers = await self._ask_all(server, questions)
        exchangers = answers[: len(self._domains)]
        seen = Examination()
        for (name, _), answer in zip(names, answers[len(self._domains) :], strict=True):
            _judge_random(name, answer, seen)
        hosts = {}
        for domain, answer in zip(self._domains, exchangers, strict=True):
            if host := _judge_exchangers(domain, answer, seen):
                hosts[domain] = host
        await self._examine_hosts(server, hosts, seen)
        return seen

    async def _examine_hosts(self, server: Nameserver, hosts: Mapping[str, str], seen: Examination) -> None:
        """Ask for the addresses of the canaries' mail servers, by canary."""
        kinds = (RecordType.A, RecordType.AAAA)
        a = await self._ask_all(server, [(host, kind) for kind in kinds for host in hosts.values()])
        addresses: Counter[str] = Counter()
        for (domain, host), answer in zip(hosts.items(), a[: len(hosts)], strict=True):
            _judge_addresses(domain, host, answer, self._guard, seen)
            addresses.update(set(answer.addresses))
        owners = {public_suffixes().privatesuffix(host) for host in hosts.values()}
        if len(owners) > 1 and any(times == len(hosts) for times in addresses.values()):
            seen.faults.append("one address for everybody")
        seen.has_ipv6 = any(answer.addresses for answer in a[len(hosts) :])

    async def _ask_all(
        self, server: Nameserver, questions: Sequence[tuple[str, RecordType]]
    ) -> list[DnsAnswer]:
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[DnsAnswer]] = []
        for name, kind in questions:
            answer: asyncio.Future[DnsAnswer] = loop.create_future()
            self._client.ask_server(server, name, kind, _setter(answer))
            answers.append(answer)
        return list(await asyncio.gather(*answers))


_KINDS: Final = (RecordType.A, RecordType.MX)


def _setter(answer: asyncio.Future[DnsAnswer]) -> Callable[[DnsAnswer], None]:
    def arrived(found: DnsAnswer) -> None:
        if not answer.done():  # nobody waits any more
            answer.set_result(found)

    return arrived


def _judge_random(name: str, answer: DnsAnswer, seen: Examination) -> None:
    """A name nobody has must be denied, by the zone above it."""
    if answer.outcome is DnsOutcome.NO_NAME and has_zone(answer):
        seen.denied += 1
    elif answer.outcome is not DnsOutcome.FAILED:
        seen.faults.append(f"{name} should not exist")


def _judge_exchangers(domain: str, answer: DnsAnswer, seen: Examination) -> str:
    """A domain everybody knows must have mail servers; returns the first one."""
    hosts = usable_exchangers(answer.exchangers)
    if hosts:
        return hosts[0][1]
    if answer.outcome is not DnsOutcome.FAILED or is_null_mx(answer):
        seen.broken[domain] = f"{domain} should take mail"
    return ""


def _judge_addresses(
    domain: str, host: str, answer: DnsAnswer, guard: AddressGuard, seen: Examination
) -> None:
    """A mail server everybody knows must have a public address."""
    if answer.addresses and all(guard.allows(address) for address in answer.addresses):
        seen.known += 1
    elif answer.outcome is not DnsOutcome.FAILED:
        seen.broken[domain] = f"{host} should have a public address"


def _set_gauges(servers: Sequence[Nameserver]) -> None:
    RESOLVERS.labels("trusted").set(sum(server.trusted for server in servers))
    RESOLVERS.labels("distrusted").set(sum(not server.trusted for server in servers))
