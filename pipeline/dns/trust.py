"""What resolvers say is believed while they find well-known domains, and denials when they are confirmed.

A resolver is trusted while it finds well-known domains, its canaries, and denies names that do not exist. A
denial holds with the SOA of an enclosing zone, and when a second answer agrees (RFC 2308, RFC 8020).
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import structlog

from mailsift.pipeline.background import guarded, record_failure
from mailsift.pipeline.dns.client import DnsClient, Nameserver, setter_of
from mailsift.pipeline.dns.rules import (
    DENIALS,
    FAILED,
    DnsAnswer,
    DnsOutcome,
    RecordType,
    is_blocked,
    is_host_name,
    is_null_mx,
    usable_exchangers,
)
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.metrics import RESOLVERS
from mailsift.pipeline.providers import public_suffixes, top_level_domains

RECHECK_S: Final = 5.0
"""Seconds between two checks of a resolver that is not trusted."""

SECONDS_FOR_OTHERS: Final = 2.0
"""Seconds from the first check on for which others are waited for once one resolver can be trusted."""

_PASSES_AT_FIRST: Final = 2  # looks without a fault in a row before a resolver is believed
_PASSES_AFTER_FAULTS: Final = 3
_MAX_SUFFIXES: Final = 3  # under which random names are tried
_MAX_CONTRADICTIONS: Final = 3  # denials others did not confirm, between two looks, that are too many
_REPEATS_BEFORE_BROKEN: Final = 2
"""Looks that must show the same canary broken, and no other, before it is the canary's fault."""

_RESERVE_CANARIES: Final = (
    "hotmail.com", "googlemail.com", "live.com", "msn.com", "aol.com", "ymail.com", "me.com", "gmx.de",
)  # fmt: skip
"""More well-known domains, asked about when a canary seems broken: a resolver that finds all of these and
denies that one is right, one that denies one here and one there chooses what to deny."""

_MIN_RESERVES: Final = 3  # that must be known
_WITNESSES_ASKED: Final = 3  # domains that took mail, asked about again before denials count
_MIN_WITNESSES: Final = 2  # one alone may be gone
_WITNESS_SECONDS: Final = 900.0
_MAX_REMEMBERED: Final = 32

_log = structlog.get_logger()


@dataclass(slots=True)
class _ResolverState:
    """What is known of a resolver.

    Attributes:
        passes: checks passed in a row.
        passes_needed: how many it needs.
        contradictions: who contradicted it how often.
        why: it is not believed, as it was reported; "" = it was not.
        broken: the canary domains it denied check after check while it found the others.
        known: the canary domains it found last.
    """

    passes: int = 0
    passes_needed: int = _PASSES_AT_FIRST
    contradictions: Counter[str] = field(default_factory=Counter)
    why: str = ""
    broken: frozenset[str] = frozenset()
    known: frozenset[str] = frozenset()

    def pop_contradictions(self) -> Counter[str]:
        """Return who contradicted it how often, and forget it; what comes then waits for the next look."""
        popped, self.contradictions = self.contradictions, Counter()
        return popped


class ResolverTrust:
    """Looks at resolvers with canaries and marks those that can be trusted; the client asks no others.

    What resolvers say is provisional until `confirm`, which looks again after it was said.

    Args:
        client: its resolvers are looked at.
        domains: canary domains, known to take mail, of independent operators; () = everybody is trusted.
        guard: decides which addresses are public.

    Attributes:
        is_active: whether there are canaries.
    """

    def __init__(self, client: DnsClient, domains: Sequence[str], *, guard: AddressGuard) -> None:
        self._client = client
        self._now = asyncio.get_running_loop().time
        self._examiner = Examiner(client, guard)
        self._domains = tuple(domains)
        self.is_active = bool(domains)
        suffixes = dict.fromkeys(public_suffixes().publicsuffix(name) or "" for name in domains)
        self._suffixes = tuple(suffixes)[:_MAX_SUFFIXES]
        self._witnesses: deque[tuple[float, str]] = deque(maxlen=_MAX_REMEMBERED)
        self._states: defaultdict[str, _ResolverState] = defaultdict(_ResolverState)
        self._first_checks: set[asyncio.Task[None]] | None = None
        self._waits_until = 0.0
        self._recheck_task: asyncio.Task[None] | None = None
        self._closed = False
        for server in client.nameservers:
            server.trusted = not domains
        _set_gauges(client.nameservers)

    @property
    def has_trusted_resolver(self) -> bool:
        """Whether there is a resolver that can be trusted."""
        return not self._closed and any(server.trusted for server in self._client.nameservers)

    @property
    def denials_believed(self) -> bool:
        """Whether denials may make an address invalid: no trusted resolver denies a well-known domain."""
        return all(server.denials_believed for server in self._client.nameservers if server.trusted)

    @property
    def distrusted(self) -> int:
        """How many resolvers were looked at and are not believed."""
        servers = self._client.nameservers
        return sum(bool(self._states[one.label].why) and not one.trusted for one in servers)

    async def ready(self) -> bool:
        """Wait until a resolver can be trusted, or all have been looked at; returns which it is.

        The others are waited for a little: the first one needs somebody who may contradict it.
        """
        if not self._domains:
            return True
        if self._first_checks is None:
            servers = self._client.nameservers
            self._first_checks = {asyncio.create_task(self._check_first(server)) for server in servers}
            self._waits_until = self._now() + SECONDS_FOR_OTHERS
        while open_checks := [task for task in self._first_checks if not task.done()]:
            left = self._waits_until - self._now() if self.has_trusted_resolver else None
            if left is not None and left <= 0:
                break
            await asyncio.wait(open_checks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return self.has_trusted_resolver

    async def examine_all(self) -> dict[str, str]:
        """Look at every resolver, once more when others are known that can contradict it.

        Returns:
            Of each, by its label, why it is not believed; "" for those that are.
        """
        await self.ready()
        await asyncio.gather(*(self._first_checks or ()))
        await self.confirm(denials=True, failures=True)
        return {server.label: self._states[server.label].why for server in self._client.nameservers}

    def record_mail_domain(self, domain: str) -> None:
        """Record a domain that takes mail: it is a witness against a resolver that denies it later."""
        self._witnesses.append((self._now(), domain))

    async def confirm(self, *, denials: bool, failures: bool) -> bool:
        """Check again the resolvers that have answered since their last check.

        Args:
            denials: they have denied something, so that they are asked about domains they found, too.
            failures: they have left something unanswered, so that the silent ones are checked as well: is it
                the domain, or the resolver?

        A resolver whose denials others contradict is not trusted any more either: others that are trusted now
        that they have been looked at since.

        Returns:
            Whether all of them can still be trusted: if not, no answer since then may be believed.
        """
        if not self._domains:
            return True
        servers = self._client.nameservers
        used = [server for server in servers if server.answered or (failures and server.trusted)]
        contradictions = [self._states[server.label].pop_contradictions() for server in used]
        await asyncio.gather(*(self._check(server, witnesses=denials) for server in used))
        still = [server.label for server in servers if server.trusted]
        for server, by in zip(used, contradictions, strict=True):
            if server.trusted and sum(by[label] for label in still) >= _MAX_CONTRADICTIONS:
                self._distrust(server, _Examination(faults=["its denials are not confirmed"]))
        return self.has_trusted_resolver and all(server.trusted for server in used)

    def record_contradiction(self, label: str, by: str) -> None:
        """Take note that a resolver denied something which another one, or itself, then did not confirm."""
        self._states[label].contradictions[by] += 1

    def close(self) -> None:
        """Trust no resolver any more; checks that have begun end with the client."""
        self._closed = True
        if self._recheck_task is not None:
            self._recheck_task.cancel()

    async def aclose(self) -> None:
        """Wait for the last look; the client has to be closed before."""
        self.close()
        tasks = [*(self._first_checks or ()), *([self._recheck_task] if self._recheck_task else [])]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _check_first(self, server: Nameserver) -> None:
        state = self._states[server.label]
        await self._check(server)
        while state.passes and not server.trusted and not self._closed:
            await self._check(server)

    async def _check(self, server: Nameserver, *, witnesses: bool = True) -> bool:
        """Look at a resolver and decide; returns whether it can be trusted."""
        server.answered = False
        state = self._states[server.label]
        examination = await self._look_at(server, state, witnesses=witnesses)
        if self._closed:
            return False
        server.has_ipv6 = examination.has_ipv6
        if examination.known:
            server.claims_all = bool(server.claims_all) or examination.claimed
        state.known = frozenset(examination.known)
        if examination.faults or len(examination.known) * 2 < len(self._domains) or not examination.denied:
            self._distrust(server, examination)
        else:
            self._trust(server, state)
        return server.trusted

    async def _look_at(self, server: Nameserver, state: _ResolverState, *, witnesses: bool) -> _Examination:
        """Examine a resolver; one whose examination breaks off is not believed until the next one."""
        try:
            examination = await self._examine_until_sure(server, state)
            if witnesses and await self._denies_witnesses(server):
                examination.faults.append("it denies what it has known")
        except Exception as error:  # noqa: BLE001 - whoever waits is told, or waits for ever
            record_failure("dns", error)
            return _Examination(faults=["the look at it broke off"])
        return examination

    def _trust(self, server: Nameserver, state: _ResolverState) -> None:
        state.passes += 1
        if state.passes < state.passes_needed or server.trusted:
            return
        server.trusted = True
        _set_gauges(self._client.nameservers)
        if state.why:
            state.why = ""
            _log.warning("dns.resolver_trusted_again", resolver=server.label)

    def _distrust(self, server: Nameserver, examination: _Examination) -> None:
        state = self._states[server.label]
        state.passes = 0
        state.contradictions.clear()
        state.passes_needed = _PASSES_AFTER_FAULTS if examination.faults else _PASSES_AT_FIRST
        server.trusted = False
        self._client.forget(server)
        _set_gauges(self._client.nameservers)
        if not state.why:
            state.why = "; ".join(examination.faults[:3]) or "it does not answer"
            _log.error(
                "dns.resolver_distrusted", resolver=server.label, why=state.why, then="it is not asked"
            )
        if self._recheck_task is None or self._recheck_task.done():
            self._recheck_task = asyncio.create_task(self._recheck_distrusted())

    async def _recheck_distrusted(self) -> None:
        """Look at distrusted resolvers until there is none, and at those a new network brings."""
        while not all(server.trusted for server in self._client.nameservers):
            await asyncio.sleep(RECHECK_S)
            await guarded(self._check_distrusted(), "dns")

    async def _check_distrusted(self) -> None:
        for server in self._client.refresh():
            server.trusted = False
        distrusted = [server for server in self._client.nameservers if not server.trusted]
        await asyncio.gather(*(self._check(server) for server in distrusted))

    async def _examine_until_sure(self, server: Nameserver, state: _ResolverState) -> _Examination:
        """Look, and look again where few canaries seem broken: is it always they, or the resolver?"""
        examination = await self._examine(server)
        broken = frozenset(examination.broken)
        if not broken <= state.broken:
            repeats = _REPEATS_BEFORE_BROKEN if not examination.faults and self._may_be_broken(broken) else 0
            examinations = [examination, *[await self._examine(server) for _ in range(repeats)]]
            if not repeats or any(broken != frozenset(one.broken) or one.faults for one in examinations):
                examination.faults = [
                    fault for one in examinations for fault in (*one.broken.values(), *one.faults)
                ]
                return examination
            examination = examinations[-1]
            _log.warning(
                "dns.canary_broken", resolver=server.label, why="; ".join(examination.broken.values())
            )
        examination.faults += [
            examination.broken[domain] for domain in broken if self._others_know(server, domain)
        ]
        is_known_broken = broken == state.broken and server.denials_believed
        state.broken = broken
        server.denials_believed = not broken or is_known_broken or await self._knows_reserves(server)
        return examination

    async def _examine(self, server: Nameserver) -> _Examination:
        return await self._examiner.examine(server, self._domains, self._suffixes)

    def _may_be_broken(self, domains: Collection[str]) -> bool:
        """Tell whether less than a third of the canaries are denied, so that they may be at fault."""
        return len(domains) * 3 < len(self._domains)

    def _others_know(self, server: Nameserver, domain: str) -> bool:
        """Tell whether another resolver that can be trusted knows a domain: then it is not at fault."""
        others = (one for one in self._client.nameservers if one is not server and one.trusted)
        return any(domain in self._states[one.label].known for one in others)

    async def _knows_reserves(self, server: Nameserver) -> bool:
        """Tell whether a resolver that denies a canary finds the other well-known domains."""
        examination = await self._examiner.examine(server, _RESERVE_CANARIES)
        return len(examination.known) >= _MIN_RESERVES and not examination.broken

    async def _denies_witnesses(self, server: Nameserver) -> bool:
        """Tell whether a resolver denies all of some domains that took mail not long ago."""
        since = self._now() - _WITNESS_SECONDS
        recent = list({domain for seen_at, domain in self._witnesses if seen_at > since})
        if len(recent) < _MIN_WITNESSES:
            return False
        asked = random.sample(recent, min(len(recent), _WITNESSES_ASKED))
        return await self._examiner.count_denied(server, asked) == len(asked)


def _set_gauges(servers: Sequence[Nameserver]) -> None:
    RESOLVERS.labels("trusted").set(sum(server.trusted for server in servers))
    RESOLVERS.labels("distrusted").set(sum(not server.trusted for server in servers))


# One check of a resolver: its answers about well-known names, and about names that do not exist.


@dataclass(slots=True)
class _Examination:
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


_RANDOM_TYPES: Final = (RecordType.A, RecordType.MX, RecordType.AAAA)  # asked for of random names


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
    ) -> _Examination:
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
        examination = _Examination()
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
        self, server: Nameserver, hosts: Mapping[str, str], examination: _Examination
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


def _check_random(name: str, record_type: RecordType, answer: DnsAnswer, examination: _Examination) -> None:
    """A name that does not exist must be denied, by the zone above it; some resolvers have no IPv6 at all."""
    if answer.outcome is DnsOutcome.NO_NAME and _has_zone(answer):
        examination.denied += 1
    elif answer.outcome is DnsOutcome.FOUND or (
        answer.outcome is not DnsOutcome.FAILED and record_type is not RecordType.AAAA
    ):
        is_denied = answer.outcome is DnsOutcome.NO_NAME
        fault = "is denied without the SOA of its zone" if is_denied else "should not exist"
        examination.faults.append(f"{name} {fault}")


def _check_exchangers(domain: str, answer: DnsAnswer, examination: _Examination) -> str:
    """A well-known domain must have mail servers; returns the first one."""
    hosts = usable_exchangers(answer.exchangers)
    if hosts:
        return hosts[0][1]
    if answer.outcome is not DnsOutcome.FAILED or is_null_mx(answer):
        examination.broken[domain] = f"{domain} should take mail"
    return ""


def _check_addresses(
    domain: str, host: str, answer: DnsAnswer, guard: AddressGuard, examination: _Examination
) -> None:
    """A well-known mail server must have a public address."""
    if answer.addresses and all(guard.allows(address) for address in answer.addresses):
        examination.known.add(domain)
    elif answer.outcome is not DnsOutcome.FAILED:
        examination.broken[domain] = f"{host} should have a public address"


# Denials, and whether they hold.

_OnAnswer = Callable[[DnsAnswer], None]

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

    def ask(self, name: str, record_type: RecordType, done: _OnAnswer) -> None:
        """Ask for a name's records; as DnsClient.ask."""
        self._client.ask(name, record_type, partial(self._on_answer, name, record_type, done))

    def _on_answer(self, name: str, record_type: RecordType, done: _OnAnswer, answer: DnsAnswer) -> None:
        """Let through what is no denial, ask again about what is one."""
        if answer.outcome not in DENIALS and not self._is_unusable(answer):
            done(answer)
        elif is_blocked(answer):
            done(DnsAnswer(FAILED, detail=_BLOCKED))
        elif self._is_of_own_zone(answer):
            done(DnsAnswer(FAILED, detail=_OWN_ZONE))
        elif answer.outcome in DENIALS and not _has_zone(answer):
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
            domain = _registrable_below(answer, name) if decides else ""
            self._client.ask_again(answer, name, second_type, partial(self._compare, domain, answer, done))

    def _compare(self, domain: str, first: DnsAnswer, done: _OnAnswer, second: DnsAnswer) -> None:
        """Let through what the second answer confirms, once the domain's name servers have been looked at."""
        holds = _confirms(first, second) or (self._is_unusable(first) and self._is_unusable(second))
        if holds and domain:
            self._client.ask(domain, RecordType.NS, partial(self._on_name_servers, first, done))
        elif holds:
            done(first)
        elif second.outcome is FAILED:
            done(DnsAnswer(FAILED, detail=second.detail))
        else:
            self._on_contradiction(first.server, second.server or first.server)
            done(DnsAnswer(FAILED, detail=_CONTRADICTED))

    def _on_name_servers(self, denial: DnsAnswer, done: _OnAnswer, answer: DnsAnswer) -> None:
        """Look where the first name server is; who has none to show is no inside."""
        server = next(filter(is_host_name, answer.name_servers), "")
        if server:
            self._client.ask(server, RecordType.A, partial(self._on_name_server, denial, done))
        else:
            done(denial)

    def _on_name_server(self, denial: DnsAnswer, done: _OnAnswer, answer: DnsAnswer) -> None:
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


def _confirms(first: DnsAnswer, second: DnsAnswer) -> bool:
    """Tell whether a second answer confirms a denial: the same name, or the same lack of records."""
    if first.outcome is DnsOutcome.NO_NAME:
        return second.outcome is DnsOutcome.NO_NAME
    return first.outcome is DnsOutcome.NO_DATA and second.outcome in DENIALS


def _registrable_below(answer: DnsAnswer, name: str) -> str:
    """Return the registrable domain that a name belongs to; "" where a zone above it denies the name.

    Args:
        answer: a denial, or records that lead nowhere.
        name: what was asked for.
    """
    zone, name = answer.zone, answer.name or name
    if zone is not None and "." not in zone:
        return ""
    domain = public_suffixes().registrable_of(name)
    return domain if zone is None or f".{zone}".endswith(f".{domain}") else ""


def _has_zone(denial: DnsAnswer) -> bool:
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
