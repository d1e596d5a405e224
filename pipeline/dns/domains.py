"""What DNS says about the mail of domains, learned once per domain and remembered in the fact cache."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

from pipeline.clock import Clock
from pipeline.dns.client import DnsClient
from pipeline.dns.codec import decode_domain, encode_domain
from pipeline.dns.crowds import Crowds
from pipeline.dns.hosts import HostBook
from pipeline.dns.rules import (
    DnsAnswer,
    Exchangers,
    HostAddresses,
    Outcome,
    Question,
    Ruling,
    rule_on_hosts,
    rule_on_implicit,
    rule_on_mx,
    rule_out,
)
from pipeline.facts import DomainFact, DomainState
from pipeline.guard import AddressGuard
from pipeline.ports import CacheEntry, FactCache, FactKind
from pipeline.providers import Providers

_OUTCOMES = {
    DomainState.NOT_FOUND: Outcome.NO_NAME,
    DomainState.NO_MAIL_SERVER: Outcome.NO_DATA,
    DomainState.UNAVAILABLE: Outcome.FAILED,
}
"""The outcome that decides how long a state is believed; the others were FOUND."""

_REMEMBER_SECONDS = 0.25  # how often facts are remembered while others of the same lookup are still open
_BORROW_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.6)  # seconds between looks for what others look up


@dataclass(frozen=True, slots=True)
class DnsConfig:
    """How to ask and how long to believe.

    Attributes:
        servers: "host:port" or "[v6]:port"; () = the resolvers of the system.
        timeout: seconds before a question is sent again.
        tries: how often a question is sent; it fails for good after timeout * tries seconds.
        concurrency: questions in flight per process.
        crowd: names below one registrable domain in flight per process, against floods of random names.
        min_ttl, max_ttl: bounds in seconds for the TTL of positive answers.
        negative_ttl: seconds to believe that there is no such name or record. (The TTL that RFC 2308 gives to
            such answers does not come through the resolver library.)
        failure_ttl: seconds to remember that DNS did not answer.
    """

    servers: tuple[str, ...] = ()
    timeout: float = 1.0
    tries: int = 5
    concurrency: int = 200
    crowd: int = 20
    min_ttl: float = 300.0
    max_ttl: float = 86_400.0
    negative_ttl: float = 900.0
    failure_ttl: float = 30.0

    def lifetime(self, outcome: Outcome, ttl: float) -> float:
        """Return the seconds an answer may be reused."""
        if outcome is Outcome.FOUND:
            return min(max(ttl, self.min_ttl), self.max_ttl)
        return self.failure_ttl if outcome is Outcome.FAILED else self.negative_ttl


class _Batch:
    """The facts one lookup waits for."""

    def __init__(self, domains: Iterable[str]) -> None:
        self.facts: dict[str, DomainFact] = {}
        self._open = set(domains)
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add(self, fact: DomainFact) -> None:
        self.facts[fact.domain] = fact
        self._open.discard(fact.domain)
        if not self._open and not self._done.done():
            self._done.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Wait so long at most; returns whether all facts are there."""
        if self._open:
            await asyncio.wait([self._done], timeout=seconds)
        return not self._open

    def take(self, wanted: set[str]) -> list[DomainFact]:
        """Return the facts that are there of the wanted ones, which are wanted no longer."""
        there = [self.facts[domain] for domain in self.facts if domain in wanted]
        wanted.difference_update(self.facts)
        return there


@dataclass(slots=True, eq=False)
class _Walk:
    """One domain on its way from the MX answer to the addresses of its exchangers."""

    domain: str
    chosen: Exchangers
    ttl: float
    found: dict[str, HostAddresses] = field(default_factory=dict)


class DomainFacts:
    """Looks up domains: the fact cache first, then DNS, each domain once however many ask for it at a time.

    That holds across processes: who misses a fact first claims it, the others wait for it for at most two
    seconds and then look for themselves.

    A lookup is a chain of callbacks, not a task per domain: the MX answer, the addresses of its hosts, the
    fact. Trouble with DNS never raises; it is a fact with the state UNAVAILABLE.

    Args:
        config: see DnsConfig.
        cache: remembers facts between processes.
        providers: names the provider of a route.
        guard: decides which addresses are public.
        clock: epoch seconds.

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
        self._hosts = HostBook(client=self._client, guard=guard, clock=clock, lifetime=config.lifetime)
        self._asked: dict[str, list[_Batch]] = {}
        self._late: set[asyncio.Task[None]] = set()
        self._crowds = Crowds(client=self._client, limit=config.crowd, start=self._ask, bury=self._bury)

    async def lookup(
        self, domains: Sequence[str], *, patience_s: float | None = None
    ) -> dict[str, DomainFact]:
        """Return one fact for every distinct domain, in the order of the names.

        Args:
            domains: ASCII (IDNA 2008) lower-case names; repetitions cost nothing.
            patience_s: seconds without any news after which domains without an answer are left out. Their
                questions go on, and the facts are remembered for the next time; None = until DNS has
                answered or failed for all.
        """
        wanted = tuple(dict.fromkeys(domains))
        known = await self._cache.get_or_claim(FactKind.DOMAIN, wanted)
        facts = self._decode(known.found)
        elsewhere = [domain for domain in known.elsewhere if domain not in self._asked]
        others = facts.keys() | set(elsewhere)
        missing = [domain for domain in wanted if domain not in others]
        if missing:
            facts.update(await self._resolve(missing, patience_s))
        if elsewhere:
            facts.update(await self._borrow(elsewhere, patience_s))
        return {domain: facts[domain] for domain in wanted if domain in facts}

    async def aclose(self) -> None:
        """Release sockets and timers; open lookups end with UNAVAILABLE."""
        await self._client.aclose()
        await asyncio.gather(*self._late, return_exceptions=True)

    def _decode(self, found: Mapping[str, bytes]) -> dict[str, DomainFact]:
        """Return the facts that still hold."""
        now = self._clock()
        facts = ((domain, decode_domain(domain, data)) for domain, data in found.items())
        return {domain: fact for domain, fact in facts if fact is not None and fact.expires_at > now}

    async def _borrow(self, domains: Sequence[str], patience_s: float | None) -> dict[str, DomainFact]:
        """Wait for what others are looking up; look up here what does not come in time."""
        facts: dict[str, DomainFact] = {}
        left = list(domains)
        for pause in _BORROW_PAUSES:
            await asyncio.sleep(pause)
            facts.update(self._decode(await self._cache.get(FactKind.DOMAIN, left)))
            left = [domain for domain in left if domain not in facts]
            if not left:
                return facts
        return facts | await self._resolve(left, patience_s)

    async def _resolve(self, missing: Sequence[str], patience_s: float | None) -> dict[str, DomainFact]:
        """Ask DNS for what nobody asks for yet, wait for all of it and remember what was asked for here."""
        batch = _Batch(missing)
        fresh = [domain for domain in missing if domain not in self._asked]
        for domain in missing:
            self._asked.setdefault(domain, []).append(batch)
        for domain in fresh:
            self._begin(domain)
        untold = set(fresh)
        await self._collect(batch, untold, patience_s)
        in_time = dict(batch.facts)
        if untold:
            task = asyncio.create_task(self._collect(batch, untold, None))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
        return in_time

    async def _collect(self, batch: _Batch, untold: set[str], quiet_s: float | None) -> None:
        """Remember facts as they come, until all are there or none has come for `quiet_s` seconds.

        Nobody who waits for one of them has to wait for the slowest.
        """
        patience = float("inf") if quiet_s is None else quiet_s
        known, quiet, complete = 0, 0.0, False
        while not complete and quiet < patience:
            seconds = min(_REMEMBER_SECONDS, patience - quiet)
            complete = await batch.wait(seconds)
            quiet = quiet + seconds if len(batch.facts) == known else 0.0
            known = len(batch.facts)
            await self._remember(batch.take(untold))

    async def _remember(self, facts: Sequence[DomainFact]) -> None:
        if facts:
            await self._cache.put(
                FactKind.DOMAIN,
                [
                    CacheEntry(fact.domain, encode_domain(fact), fact.expires_at - fact.learned_at)
                    for fact in facts
                ],
            )

    def _begin(self, domain: str) -> None:
        ruling = rule_out(domain)
        if ruling is None:
            self._crowds.enter(domain)
        else:
            self._settle(domain, ruling)

    def _ask(self, domain: str) -> None:
        self._client.ask(domain, Question.MX, partial(self._hear_mx, domain))

    def _hear_mx(self, domain: str, answer: DnsAnswer) -> None:
        chosen = rule_on_mx(answer)
        if isinstance(chosen, Ruling):
            self._settle(domain, chosen)
        elif not chosen:
            self._hosts.find(domain, self._hear_implicit)
        else:
            walk = _Walk(domain, chosen, answer.ttl)
            for _, host in chosen:
                self._hosts.find(host, partial(self._hear_host, walk))

    def _hear_implicit(self, domain: str, addresses: HostAddresses) -> None:
        self._settle(domain, rule_on_implicit(domain, addresses))

    def _hear_host(self, walk: _Walk, host: str, addresses: HostAddresses) -> None:
        walk.found[host] = addresses
        if len(walk.found) == len(walk.chosen):
            self._settle(walk.domain, rule_on_hosts(walk.chosen, walk.ttl, walk.found))

    def _bury(self, domain: str, answer: DnsAnswer) -> None:
        self._settle(domain, Ruling(DomainState.NOT_FOUND, detail=answer.detail))

    def _settle(self, domain: str, ruling: Ruling) -> None:
        """Turn the ruling into a fact and hand it to everybody who waits for it."""
        now = self._clock()
        fact = DomainFact(
            domain,
            ruling.state,
            ruling.hosts,
            self._key_of(tuple([host.name for host in ruling.hosts])) if ruling.hosts else "",
            ruling.implicit,
            ruling.detail,
            learned_at=now,
            expires_at=now + self._config.lifetime(_OUTCOMES.get(ruling.state, Outcome.FOUND), ruling.ttl),
        )
        for batch in self._asked.pop(domain):
            batch.add(fact)
        self._crowds.leave(domain)
