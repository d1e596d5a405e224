"""What DNS says about the mail of domains, learned once per domain and remembered in the fact cache."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import chain, repeat
from typing import Generic, TypeVar

from typing_extensions import override

from mailsift.pipeline.background import guarded, record_failure
from mailsift.pipeline.clock import Clock
from mailsift.pipeline.dns.client import NO_TRUSTED_RESOLVER, DnsClient
from mailsift.pipeline.dns.rules import (
    DENIALS,
    FAILED,
    FOUND,
    MX,
    ROUTED,
    DnsAnswer,
    DnsOutcome,
    DomainResolution,
    Exchangers,
    HostAddresses,
    RecordType,
    interpret_addresses,
    interpret_exchangers,
    interpret_implicit_mx,
    interpret_mx,
    interpret_name,
)
from mailsift.pipeline.dns.trust import DenialChecker, ResolverTrust
from mailsift.pipeline.facts import (
    TAKES_NO_MAIL,
    CacheEntry,
    DomainFact,
    DomainState,
    FactCache,
    FactKind,
    decode_domain,
    encode_domain,
)
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.providers import Providers, public_suffixes


@dataclass(frozen=True, slots=True)
class DnsConfig:
    """How to ask and how long to believe.

    Attributes:
        servers: "host:port" or "[v6]:port"; () = the resolvers of the system.
        timeout: seconds before a question is sent again.
        tries: how often a question is sent; it fails for good after timeout * tries seconds.
        concurrency: questions in flight per process.
        canaries: domains everybody knows, of independent operators, by which resolvers are measured before
            anything they say is believed; () = resolvers are believed.
        names_a_zone: names in flight per process below one registrable domain, against floods of random ones.
        hosts: mail exchangers whose addresses are remembered.
        min_ttl, max_ttl: bounds in seconds for the TTL of positive answers.
        negative_ttl: seconds to believe that a domain takes no mail.
        failure_ttl: seconds to remember that DNS did not answer.
    """

    servers: tuple[str, ...] = ()
    canaries: tuple[str, ...] = ()
    timeout: float = 1.0
    tries: int = 5
    concurrency: int = 200
    names_a_zone: int = 20
    hosts: int = 32_768
    min_ttl: float = 300.0
    max_ttl: float = 86_400.0
    negative_ttl: float = 900.0
    failure_ttl: float = 5.0

    def lifetime(self, outcome: DnsOutcome, ttl: float) -> float:
        """Return the seconds an answer may be reused."""
        if outcome is FOUND:
            return min(max(ttl, self.min_ttl), self.max_ttl)
        return self.failure_ttl if outcome is FAILED else self.negative_ttl


_REMEMBER_SECONDS = 0.25  # how often facts are remembered while others of the same lookup are still open
_PUBLISH_SECONDS = 0.05  # at least, between two looks at the canaries before facts are handed out
_PUBLISH_BUSY_SECONDS = 0.25  # the same, while questions wait for their turn: facts come in crowds then
_OTHERS_SECONDS = 1.9  # without news, after which the process that looks them up is taken for dead
_OTHERS_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.6)  # seconds between looks for what others look up


class DomainFacts:
    """Looks up domains: the fact cache first, then DNS, each domain once however many ask for it at a time.

    That holds across processes: who misses a fact first claims it, the others wait for it until two seconds
    have brought no news of theirs, and then look for themselves.

    A lookup is a chain of callbacks, not a task per domain: the MX answer, the addresses of its hosts, the
    fact. Trouble with DNS never raises, nor does a step that fails of itself; it is a fact with the state
    UNAVAILABLE.

    Args:
        config: see DnsConfig.
        cache: remembers facts between processes.
        providers: names the provider of a route.
        guard: decides which addresses are public.
        clock: epoch seconds.

    Attributes:
        trust: knows which resolvers can be believed.

    Raises:
        MailsiftError: dns_servers_invalid.
        RuntimeError: outside a running event loop.
    """

    def __init__(
        self,
        *,
        config: DnsConfig,
        cache: FactCache,
        providers: Providers,
        guard: AddressGuard,
        clock: Clock,
    ) -> None:
        self._config = config
        self._cache = cache
        self._clock = clock
        self._key_of = lru_cache(maxsize=8192)(providers.key_of)
        self._client = DnsClient(
            servers=config.servers,
            timeout=config.timeout,
            tries=config.tries,
            concurrency=config.concurrency,
        )
        self.trust = ResolverTrust(self._client, config.canaries, guard=guard)
        self._checker = DenialChecker(
            self._client, guard=guard, on_contradiction=self.trust.record_contradiction
        )
        self._hosts = _HostCache(self._checker, guard, config, clock)
        self._wildcards = _SuffixWildcards(self._client, config, clock)
        self._waiting: dict[str, list[_Batch]] = {}
        self._late_tasks: set[asyncio.Task[None]] = set()
        self._unpublished: list[tuple[str, DomainResolution]] = []
        self._publisher: asyncio.Task[None] | None = None
        self._zones = _ZoneLimiter(
            checker=self._checker,
            limit=config.names_a_zone,
            start=self._ask,
            fail=self._fail,
        )

    @property
    def resolver_counts(self) -> tuple[int, int]:
        """How many resolvers there are, and how many of them were looked at and are not believed."""
        return len(self._client.nameservers), self.trust.distrusted

    @property
    def in_flight(self) -> int:
        """How much is kept of lookups: domains asked about, their zones, facts to publish; 0 at rest."""
        return len(self._waiting) + len(self._zones) + len(self._unpublished)

    async def addresses_of(self, name: str) -> DnsAnswer:
        """Ask for the IPv4 addresses of a name, and of nothing that is remembered here."""
        return await self._client.answer(name, RecordType.A, soon=True)

    @property
    def has_trusted_resolver(self) -> bool:
        """Whether there is a resolver whose canaries hold."""
        return self.trust.has_trusted_resolver

    async def lookup(
        self, domains: Sequence[str], *, patience_s: float | None = None, final: bool = True
    ) -> dict[str, DomainFact]:
        """Return one fact for every distinct domain, in the order of the names.

        Args:
            domains: ASCII (IDNA 2008) lower-case names; repetitions cost nothing.
            patience_s: seconds without any news after which domains without an answer are left out, not
                counting those in which our own loop got no turn or had questions yet to send. Their questions
                go on, and the facts are remembered for the next time; None = until DNS has answered or failed
                for all.
            final: domains about which no trusted resolver says anything are UNAVAILABLE; else they are left
                out.
        """
        wanted = tuple(dict.fromkeys(domains))
        known = await self._cache.get_or_claim(FactKind.DOMAIN, wanted)
        facts = self._decode(known.found)
        elsewhere = [domain for domain in known.elsewhere if domain not in self._waiting]
        others = facts.keys() | set(elsewhere)
        missing = [domain for domain in wanted if domain not in others]
        if missing:
            facts.update(await self._resolve(missing, patience_s))
        if elsewhere:
            facts.update(await self._await_others(elsewhere, patience_s))
        if not final:
            facts = {domain: fact for domain, fact in facts.items() if fact.detail != NO_TRUSTED_RESOLVER}
        return {domain: facts[domain] for domain in wanted if domain in facts}

    async def aclose(self) -> None:
        """Release sockets and timers; open lookups end with UNAVAILABLE."""
        self.trust.close()
        await self._client.aclose()
        await self.trust.aclose()
        if self._publisher is not None:
            await self._publisher
        await asyncio.gather(*self._late_tasks, return_exceptions=True)

    def _decode(self, found: Mapping[str, bytes]) -> dict[str, DomainFact]:
        """Return the facts that still hold."""
        now = self._clock()
        facts = ((domain, decode_domain(domain, data)) for domain, data in found.items())
        return {domain: fact for domain, fact in facts if fact is not None and fact.expires_at > now}

    async def _await_others(self, domains: Sequence[str], patience_s: float | None) -> dict[str, DomainFact]:
        """Wait for what others are looking up; look up here what does not come in time."""
        facts: dict[str, DomainFact] = {}
        left, quiet_s = list(domains), 0.0
        for pause in chain(_OTHERS_PAUSES, repeat(_OTHERS_PAUSES[-1])):
            if quiet_s >= _OTHERS_SECONDS:
                break
            await asyncio.sleep(pause)
            found = self._decode(await self._cache.get(FactKind.DOMAIN, left))
            quiet_s = 0.0 if found else quiet_s + pause
            facts.update(found)
            left = [domain for domain in left if domain not in facts]
            if not left:
                return facts
        return facts | await self._resolve(left, patience_s)

    async def _resolve(self, missing: Sequence[str], patience_s: float | None) -> dict[str, DomainFact]:
        """Ask DNS for what is not asked for yet, wait for all of it and remember what was asked for here."""
        if not await self.trust.ready():
            return {domain: self._fact(domain, _UNTRUSTED) for domain in missing}
        batch = _Batch(missing)
        fresh = [domain for domain in missing if domain not in self._waiting]
        for domain in missing:
            self._waiting.setdefault(domain, []).append(batch)
        for domain in fresh:
            self._step(domain, self._start, domain)
        unstored = set(fresh)
        await self._collect(batch, unstored, patience_s)
        in_time = dict(batch.facts)
        if unstored:
            task = asyncio.create_task(guarded(self._collect(batch, unstored, None), "dns"))
            self._late_tasks.add(task)
            task.add_done_callback(self._late_tasks.discard)
        return in_time

    async def _collect(self, batch: _Batch, unstored: set[str], quiet_s: float | None) -> None:
        """Remember facts as they come, until all are there or none has come for `quiet_s` seconds.

        Nobody who waits for one of them has to wait for the slowest. Seconds in which our own loop got no
        turn do not count, nor those in which questions of ours had not even been sent, as long as those are
        answered that go before them.
        """
        patience = float("inf") if quiet_s is None else quiet_s
        clock = self._client.clock
        news, news_at, complete = (0, 0), clock.now(), False
        while not complete and (left := news_at + patience - clock.now()) > 0:
            complete = await batch.wait(min(_REMEMBER_SECONDS, left))
            known = news
            news = (len(batch.facts), self._zones.answered_before(batch.open))
            if news != known or self._client.is_backed_up:
                news_at = clock.now()
            await self._remember(batch.pop_known(unstored))

    async def _remember(self, facts: Sequence[DomainFact]) -> None:
        facts = [fact for fact in facts if fact.expires_at > fact.learned_at]
        if facts:
            await self._cache.put(
                FactKind.DOMAIN,
                [
                    CacheEntry(fact.domain, encode_domain(fact), fact.expires_at - fact.learned_at)
                    for fact in facts
                ],
            )

    def _step(self, domain: str, step: Callable[..., None], *found: object) -> None:
        """Take one step towards a domain's fact; whoever waits gets one also where the step fails."""
        try:
            step(*found)
        except Exception as error:  # noqa: BLE001 - see above
            record_failure("dns", error)
            self._complete(domain, _BROKEN_OFF)

    def _start(self, domain: str) -> None:
        resolution = interpret_name(domain)
        if resolution is None:
            self._zones.enter(domain)
        else:
            self._complete(domain, resolution)

    def _ask(self, domain: str) -> None:
        self._checker.ask(domain, MX, partial(self._on_mx, domain))

    def _on_mx(self, domain: str, answer: DnsAnswer) -> None:
        chosen = interpret_mx(answer)
        if isinstance(chosen, DomainResolution):
            self._complete(domain, chosen)
        elif chosen:
            self._find_hosts(domain, chosen, answer.ttl)
        elif addresses := self._hosts.known(domain):
            self._on_own_addresses(domain, addresses)
        else:
            self._hosts.ask(domain, partial(self._step, domain, self._on_own_addresses, domain))

    def _on_own_addresses(self, domain: str, addresses: HostAddresses) -> None:
        """Complete a domain without MX; where it has an address, see first whether any name there has it."""
        if not addresses.public:
            self._complete(domain, interpret_implicit_mx(domain, addresses))
            return
        kind = RecordType.AAAA if ":" in addresses.public[0] else RecordType.A
        beside = _suffix(domain), kind
        wildcard = self._wildcards.known(beside)
        if wildcard is None:
            self._wildcards.ask(beside, partial(self._step, domain, self._on_wildcard, domain, addresses))
        else:
            self._on_wildcard(domain, addresses, wildcard)

    def _on_wildcard(self, domain: str, own: HostAddresses, wildcard: frozenset[str]) -> None:
        self._complete(domain, interpret_implicit_mx(domain, own, wildcard))

    def _find_hosts(self, domain: str, chosen: Exchangers, ttl: float) -> None:
        """Complete a domain by the addresses of its exchangers, once all of them are known."""
        beside = _suffix(domain), MX
        wildcard = self._wildcards.known(beside) if self.trust.is_active else frozenset()
        pending = _PendingHosts(domain, chosen, ttl, wildcard)
        if wildcard is None:
            self._wildcards.ask(beside, partial(self._step, domain, self._on_suffix_wildcard, pending))
        for _, host in chosen:
            addresses = self._hosts.known(host)
            if addresses is None:
                self._hosts.ask(host, partial(self._step, domain, self._on_host, pending, host))
            else:
                pending.found[host] = addresses
        self._complete_if_ready(pending)

    def _on_suffix_wildcard(self, pending: _PendingHosts, wildcard: frozenset[str]) -> None:
        pending.wildcard = wildcard
        self._complete_if_ready(pending)

    def _on_host(self, pending: _PendingHosts, host: str, addresses: HostAddresses) -> None:
        pending.found[host] = addresses
        self._complete_if_ready(pending)

    def _complete_if_ready(self, pending: _PendingHosts) -> None:
        if len(pending.found) < len(pending.chosen) or pending.wildcard is None:
            return
        if pending.wildcard and _relative_names(pending.domain, pending.found) <= pending.wildcard:
            self._complete(pending.domain, _WILDCARD)
        else:
            self._complete(pending.domain, interpret_exchangers(pending.chosen, pending.ttl, pending.found))

    def _fail(self, domain: str, answer: DnsAnswer) -> None:
        self._complete(domain, DomainResolution(DomainState.NOT_FOUND, detail=answer.detail))

    def _complete(self, domain: str, resolution: DomainResolution) -> None:
        """Publish the resolution at once, or after one more check of the canaries where there are any."""
        self._zones.leave(domain, exists=resolution.state not in _MAY_NOT_EXIST)
        if resolution.state is not ROUTED and domain in self._config.canaries:
            resolution = DomainResolution(
                DomainState.UNAVAILABLE, detail="everybody knows that it takes mail"
            )
        if not self.trust.is_active:
            self._publish(domain, resolution)
            return
        self._unpublished.append((domain, resolution))
        if self._publisher is None:
            self._publisher = asyncio.create_task(self._publish_confirmed())

    async def _publish_confirmed(self) -> None:
        """Hand out what has been learned, as soon as the canaries have held since it was learned."""
        while self._unpublished:
            unpublished, self._unpublished = self._unpublished, []
            try:
                await self._confirm_and_publish(unpublished)
            except Exception as error:  # noqa: BLE001 - whoever waits is told, or waits for ever
                record_failure("dns", error)
                for domain, _ in unpublished:
                    self._publish(domain, _BROKEN_OFF)
        self._publisher = None

    async def _confirm_and_publish(self, unpublished: Sequence[tuple[str, DomainResolution]]) -> None:
        states = {resolution.state for _, resolution in unpublished}
        failures = DomainState.UNAVAILABLE in states
        if await self.trust.confirm(denials=bool(states & _OUTCOMES.keys()), failures=failures):
            for domain, resolution in unpublished:
                self._step(domain, self._publish, domain, resolution)
            await asyncio.sleep(_PUBLISH_BUSY_SECONDS if self._client.is_backed_up else _PUBLISH_SECONDS)
        else:
            self._forget(unpublished)

    def _forget(self, unpublished: Sequence[tuple[str, DomainResolution]]) -> None:
        """Drop what a resolver said that cannot be trusted; ask another one where there is one."""
        self._hosts.clear()
        self._wildcards.clear()
        for domain, _ in unpublished:
            if self.trust.has_trusted_resolver:
                self._step(domain, self._start, domain)
            else:
                self._publish(domain, _UNTRUSTED)

    def _publish(self, domain: str, resolution: DomainResolution) -> None:
        """Turn the resolution into a fact and hand it to every lookup that waits for it.

        Nothing is invalid because a doubtful resolver denied it.
        """
        if resolution.state in TAKES_NO_MAIL and not self.trust.denials_believed:
            resolution = _DOUBTFUL
        fact = self._fact(domain, resolution)
        if resolution.state is ROUTED and not resolution.implicit:
            self.trust.record_mail_domain(domain)
        for batch in self._waiting.pop(domain, ()):
            batch.add(fact)

    def _fact(self, domain: str, resolution: DomainResolution) -> DomainFact:
        now = self._clock()
        outcome = _OUTCOMES.get(resolution.state, FOUND)
        lifetime = (
            0.0
            if resolution.detail == NO_TRUSTED_RESOLVER
            else self._config.lifetime(outcome, resolution.ttl)
        )
        return DomainFact(
            domain,
            resolution.state,
            resolution.hosts,
            self._key_of((resolution.hosts[0].name,)) if resolution.hosts else "",  # the best one decides
            resolution.implicit,
            resolution.detail,
            learned_at=now,
            expires_at=now + lifetime,
        )


def _suffix(domain: str) -> str:
    return public_suffixes().suffix_of(domain)


_OUTCOMES = {
    DomainState.NOT_FOUND: DnsOutcome.NO_NAME,
    DomainState.NO_MAIL_SERVER: DnsOutcome.NO_DATA,
    DomainState.NULL_MX: DnsOutcome.NO_DATA,
    DomainState.UNROUTABLE: DnsOutcome.NO_DATA,
    DomainState.UNAVAILABLE: FAILED,
}
"""The outcome that decides how long a state is believed; the others were FOUND."""

_WILDCARD = DomainResolution(DomainState.UNAVAILABLE, detail="its mail server is what any name there gets")
_DOUBTFUL = DomainResolution(
    DomainState.UNAVAILABLE, detail="denied by a resolver that denies what everybody knows"
)
_BROKEN_OFF = DomainResolution(DomainState.UNAVAILABLE, detail="the lookup broke off")
_UNTRUSTED = DomainResolution(DomainState.UNAVAILABLE, detail=NO_TRUSTED_RESOLVER)
_MAY_NOT_EXIST = frozenset({DomainState.NOT_FOUND, DomainState.UNAVAILABLE})


class _Batch:
    """The facts one lookup waits for.

    Attributes:
        facts: those that are there.
        open: the domains whose facts are not.
    """

    def __init__(self, domains: Iterable[str]) -> None:
        self.facts: dict[str, DomainFact] = {}
        self.open = set(domains)
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add(self, fact: DomainFact) -> None:
        self.facts[fact.domain] = fact
        self.open.discard(fact.domain)
        if not self.open and not self._done.done():
            self._done.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Wait so long at most; returns whether all facts are there."""
        if self.open:
            await asyncio.wait([self._done], timeout=seconds)
        return not self.open

    def pop_known(self, wanted: set[str]) -> list[DomainFact]:
        """Return the facts that are there of the wanted ones, which are wanted no longer."""
        there = [self.facts[domain] for domain in self.facts if domain in wanted]
        wanted.difference_update(self.facts)
        return there


@dataclass(slots=True, eq=False)
class _PendingHosts:
    """One domain on its way from the MX answer to the addresses of its exchangers."""

    domain: str
    chosen: Exchangers
    ttl: float
    wildcard: frozenset[str] | None  # what any name beside it gets; None = not known yet
    found: dict[str, HostAddresses] = field(default_factory=dict)


# What many domains share: the addresses of hosts, and what any name below a suffix gets.

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class _SharedAnswers(Generic[_Key, _Value]):
    """What many domains share: asked for once, however many wait for it, and remembered.

    Args:
        clock: epoch seconds.
        size: answers to remember, the least used forgotten first.
    """

    def __init__(self, *, clock: Clock, size: int) -> None:
        self._clock = clock
        self._size = size
        self._known: OrderedDict[_Key, tuple[float, _Value]] = OrderedDict()
        self._callbacks: dict[_Key, list[Callable[[_Value], None]]] = {}

    def known(self, key: _Key) -> _Value | None:
        """Return what is remembered, if it still holds."""
        known = self._known.get(key)
        if known is None or known[0] <= self._clock():
            return None
        self._known.move_to_end(key)
        return known[1]

    def ask(self, key: _Key, callback: Callable[[_Value], None]) -> None:
        """Call `callback` with what `known` does not know when DNS has answered."""
        if key in self._callbacks:
            self._callbacks[key].append(callback)
        else:
            self._callbacks[key] = [callback]
            self._send(key)

    def clear(self) -> None:
        """Forget all answers; who waits for some goes on waiting."""
        self._known.clear()

    def _send(self, key: _Key) -> None:
        """Ask DNS; `_settle` is called later, or at once."""
        raise NotImplementedError

    def _settle(self, key: _Key, value: _Value, seconds: float) -> None:
        """Remember an answer for so long, and tell who waits for it."""
        self._known[key] = self._clock() + seconds, value
        if len(self._known) > self._size:
            self._known.popitem(last=False)
        for callback in self._callbacks.pop(key):
            callback(value)


class _HostCache(_SharedAnswers[str, HostAddresses]):
    """The addresses of mail exchangers by name: thousands of domains share a host."""

    def __init__(self, checker: DenialChecker, guard: AddressGuard, config: DnsConfig, clock: Clock) -> None:
        super().__init__(clock=clock, size=config.hosts)
        self._checker = checker
        self._guard = guard
        self._lifetime = config.lifetime

    @override
    def _send(self, key: str) -> None:
        self._checker.ask(key, RecordType.A, partial(self._on_answer, key, None))

    def _on_answer(self, host: str, before: DnsAnswer | None, answer: DnsAnswer) -> None:
        """Settle the host by its A answer, or ask for AAAA and settle by both."""
        a, aaaa = (answer, None) if before is None else (before, answer)
        addresses = interpret_addresses(a, aaaa, self._guard)
        if addresses is None:
            self._checker.ask(host, RecordType.AAAA, partial(self._on_answer, host, a))
        else:
            self._settle(host, addresses, self._lifetime(addresses.outcome, addresses.ttl))


_NO_WILDCARD_SECONDS = 300.0  # to believe that a name which does not exist gets nothing
_WILDCARD_SECONDS = 30.0  # ... or something, or that nobody knows: a resolver's fault may pass


class _SuffixWildcards(_SharedAnswers[tuple[str, RecordType], frozenset[str]]):
    """What any name under a public suffix gets: no route of a domain there (parking, portals, DNS for sale).

    Told by a name that does not exist: the names of the servers or the addresses it gets, none as a rule, nor
    where DNS fails.
    """

    def __init__(self, client: DnsClient, config: DnsConfig, clock: Clock) -> None:
        super().__init__(clock=clock, size=config.hosts)
        self._client = client
        self._absent_label = secrets.token_hex(10)

    @override
    def _send(self, key: tuple[str, RecordType]) -> None:
        suffix, record_type = key
        name = f"{self._absent_label}.{suffix}".rstrip(".")
        self._client.ask(name, record_type, partial(self._on_answer, key, name), soon=True)

    def _on_answer(self, key: tuple[str, RecordType], name: str, answer: DnsAnswer) -> None:
        hosts = _relative_names(name, (host for _, host in answer.exchangers))
        seconds = _NO_WILDCARD_SECONDS if answer.outcome in DENIALS else _WILDCARD_SECONDS
        self._settle(key, hosts | frozenset(answer.addresses), seconds)


_OWN_NAME = "@"  # stands for the name itself in the names of its servers


def _relative_names(domain: str, hosts: Iterable[str]) -> frozenset[str]:
    """Return the names of servers, with what a domain of its own would have in place of its name."""
    return frozenset(
        host.lower().removesuffix(domain) + _OWN_NAME if host.lower().endswith(domain) else host.lower()
        for host in hosts
    )


# A brake on floods of random names below one domain (random.example.com, a million times).


@dataclass(slots=True, eq=False)
class _Zone:
    """The names below one registrable domain that are being asked for, and those that wait for their turn."""

    name: str
    running: int = 0
    answered: int = 0
    waiting: deque[str] = field(default_factory=deque)
    asked: bool = False  # the registrable domain itself has been asked for
    denied: DnsAnswer | None = None  # ... and does not exist
    has_names: bool = False  # a name below it exists, so that it cannot be gone


class _ZoneLimiter:
    """Lets at most `limit` names below one registrable domain be asked for at a time.

    When more come, the registrable domain itself is asked for: if it does not exist, nothing below it does
    (RFC 8020), and the names that wait need no question of their own. That is an inference: it waits until
    the names in flight have been answered, and one that exists outweighs it for good.

    Args:
        checker: asks for registrable domains.
        limit: names in flight below one registrable domain.
        start: is told a name whose turn has come.
        fail: is told a name that cannot exist, and the answer that says so.
    """

    def __init__(
        self,
        *,
        checker: DenialChecker,
        limit: int,
        start: Callable[[str], None],
        fail: Callable[[str, DnsAnswer], None],
    ) -> None:
        self._checker = checker
        self._limit = limit
        self._start = start
        self._fail = fail
        self._zones: dict[str, _Zone] = {}
        self._in_flight: dict[str, _Zone] = {}
        self._waiting: dict[str, _Zone] = {}

    def __len__(self) -> int:
        return len(self._zones)

    def enter(self, domain: str) -> None:
        """Start a name now, when its turn comes, or never."""
        above = _registrable_above(domain)
        if not above:
            self._start(domain)
            return
        zone = self._zones.setdefault(above, _Zone(above))
        if zone.running < self._limit and zone.denied is None:
            self._start_name(zone, domain)
            return
        zone.waiting.append(domain)
        self._waiting[domain] = zone
        if not zone.asked:
            zone.asked = True
            self._checker.ask(zone.name, RecordType.MX, partial(self._on_answer, zone))

    def leave(self, domain: str, *, exists: bool) -> None:
        """Take note that a name has been answered, and whether it exists."""
        zone = self._in_flight.pop(domain, None)
        if zone is None:
            return
        zone.running -= 1
        zone.answered += 1
        if exists:
            zone.has_names, zone.denied = True, None
        self._start_waiting(zone)

    def answered_before(self, domains: Iterable[str]) -> int:
        """Return how many names have been answered where some of these still wait for their turn.

        As long as that changes, their turn comes nearer.
        """
        zones = {self._waiting[domain] for domain in domains if domain in self._waiting}
        return sum(zone.answered for zone in zones)

    def _start_name(self, zone: _Zone, domain: str) -> None:
        self._waiting.pop(domain, None)
        zone.running += 1
        self._in_flight[domain] = zone
        self._start(domain)

    def _on_answer(self, zone: _Zone, answer: DnsAnswer) -> None:
        # What an alias leads to may be gone while names below the alias are there.
        if answer.outcome is DnsOutcome.NO_NAME and answer.name == zone.name and not zone.has_names:
            zone.denied = answer
            self._start_waiting(zone)

    def _start_waiting(self, zone: _Zone) -> None:
        """Start what may be started, or fail it all."""
        if zone.denied is None:
            while zone.waiting and zone.running < self._limit:
                self._start_name(zone, zone.waiting.popleft())
        elif not zone.running:
            while zone.waiting:
                domain = zone.waiting.popleft()
                del self._waiting[domain]
                self._fail(domain, zone.denied)
        if not zone.running and not zone.waiting:
            self._zones.pop(zone.name, None)


def _registrable_above(domain: str) -> str:
    """Return the registrable domain a name lies below, "" for a name that is one (or a public suffix)."""
    if domain.count(".") < 2:
        return ""
    registrable = public_suffixes().registrable_of(domain)
    return registrable if registrable != domain else ""
