"""What the prober remembers between calls: catch-all facts, definite answers and random recipients."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from itertools import chain
from typing import Any, Final, NamedTuple

from pydantic_core import from_json, to_json

from mailsift.pipeline.clock import Clock
from mailsift.pipeline.facts import (
    DEFINITE,
    Answer,
    CacheEntry,
    CatchAllFact,
    FactCache,
    FactKind,
    Known,
    MailboxFact,
)
from mailsift.pipeline.probe import wire
from mailsift.pipeline.probe.config import ProbeConfig
from mailsift.pipeline.probe.queue import (
    MIN_REFUSED,
    CatchAllState,
    ProbeQueue,
    ProbeTarget,
    RouteKey,
    RouteQueue,
)

_RANDOM_SECONDS: Final = 6 * 3600.0
"""How long the random recipient of a domain is asked again: greylisting wants to see the same one."""

_MOST_WITNESSES: Final = 10_000

_MAILBOX_FIELDS: Final = tuple(field.name for field in fields(MailboxFact))
_CATCH_ALL_FIELDS: Final = tuple(field.name for field in fields(CatchAllFact))
_BESIDE: Final = ("random", "provider", "preferences")


def mailbox_key(address: str, owner: str) -> str:
    """Return the key of a mailbox; the address cannot be read from it.

    Args:
        address: the canonical address.
        owner: the account that may reuse the fact: no account learns what another one has asked.
            Once the owner's random id is deleted, the mailbox can no longer be traced to an account.
    """
    key = blake2b(owner.encode(), digest_size=32).digest()
    return blake2b(address.encode(), digest_size=20, key=key).hexdigest()


def pack_mailbox(fact: MailboxFact) -> bytes:
    """Return the bytes to remember."""
    return to_json(fact)


def unpack_mailbox(value: bytes) -> MailboxFact | None:
    """Return the remembered fact, marked as cached; None for bytes that are none."""
    with suppress(ValueError):
        values = _unpack(value, _MAILBOX_FIELDS)
        return MailboxFact(**values | {"answer": Answer(values["answer"]), "cached": True})
    return None


class RememberedCatchAll(NamedTuple):
    """What is remembered of a domain's random recipient.

    Attributes:
        random: the recipient, to be asked again.
        provider: whose servers were asked: those of another one may do otherwise.
        preferences: of the servers that were asked.
    """

    fact: CatchAllFact
    random: str
    provider: str
    preferences: Collection[int]


def pack_catch_all(known: RememberedCatchAll) -> bytes:
    """Return the bytes to remember."""
    values = {name: getattr(known.fact, name) for name in _CATCH_ALL_FIELDS}
    beside = (known.random, known.provider, sorted(known.preferences))
    return to_json(values | dict(zip(_BESIDE, beside, strict=True)))


def unpack_catch_all(value: bytes) -> RememberedCatchAll | None:
    """Return what is remembered; None for bytes that are nothing of the kind."""
    with suppress(ValueError):
        values = _unpack(value, (*_CATCH_ALL_FIELDS, *_BESIDE))
        beside = [values.pop(name) for name in _BESIDE]
        fact = CatchAllFact(**values | {"catch_all": Known(values["catch_all"])})
        return RememberedCatchAll(fact, *beside)
    return None


def _unpack(value: bytes, names: tuple[str, ...]) -> dict[str, Any]:
    """Read bytes another version may have written; raises ValueError for anything but the expected fields."""
    values = from_json(value)
    if not isinstance(values, dict) or set(values) != set(names):
        raise ValueError("another layout")
    return values


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was known before.

    Attributes:
        mailboxes: facts that may be used again.
        catch_alls: facts by domain.
        accepted: the mailboxes that were accepted not long ago, whether or not that may be used again.
    """

    mailboxes: dict[str, MailboxFact] = field(default_factory=dict)
    catch_alls: dict[str, CatchAllFact] = field(default_factory=dict)
    accepted: list[str] = field(default_factory=list)


class Witnesses:
    """Whom a process has heard servers accept: addresses, so they are kept in its memory alone.

    Args:
        seconds: how long somebody counts.
    """

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._accepted: OrderedDict[tuple[str, RouteKey], tuple[str, float]] = OrderedDict()

    def recall(self, routes: Mapping[RouteKey, RouteQueue], owner: str, *, asked: Collection[str]) -> None:
        """Give routes that have none a witness of the same owner, never one whom another owner asked for.

        Nobody knows how many its servers have refused before, so already their first refusal is checked, if
        not the witness itself is `asked` for now: it may be gone.
        """
        oldest = self._clock() - self._seconds
        for key, route in routes.items():
            servers = (_server(route.source.label, peer.address) for peer in route.peers)
            for address, at in (self._accepted.get((owner, one), ("", oldest)) for one in (key, *servers)):
                if at > oldest and not route.witness:
                    route.witness = address
            if route.witness and route.witness not in asked:
                route.refused = MIN_REFUSED - 1

    def remember(self, queue: ProbeQueue, mailboxes: Mapping[str, MailboxFact], owner: str) -> None:
        """Keep the witnesses that were accepted just now; a random one is better than none."""
        accepted = frozenset(queue.accepted_at.values())
        of_routes = ((key, route.witness) for key, route in queue.routes.items())
        of_servers = ((_server(*server), witness) for server, witness in queue.accepted_at.items())
        for key, witness in chain(of_routes, of_servers):
            fact = mailboxes.get(witness)
            if witness in accepted and (fact is None or fact.answer in (Answer.ACCEPTED, Answer.NOT_ASKED)):
                self._accepted[owner, key] = witness, self._clock()
                self._accepted.move_to_end((owner, key))
        while len(self._accepted) > _MOST_WITNESSES:
            self._accepted.popitem(last=False)


def _server(source: str, address: str) -> RouteKey:
    """Return what stands for a server itself, of whatever name: domains with a name of their own share it."""
    return source, (address,)


class ProbeCache:
    """Keeps facts in the cache and takes out those that still hold."""

    def __init__(self, cache: FactCache, config: ProbeConfig, clock: Clock) -> None:
        self._cache = cache
        self._config = config
        self._clock = clock

    async def recall(
        self, targets: Mapping[str, ProbeTarget], state: CatchAllState, *, max_age: float, owner: str
    ) -> Recalled:
        """Fetch what is known: the domains go into the state, the rest into the result.

        Args:
            targets: targets by address.
            state: gets the domains that need no random recipient, and the random recipients to ask for again.
            max_age: seconds within which a definite answer, or what is known of random recipients, is used
                again; 0 = never.
            owner: whose mailbox facts.
        """
        if not targets:
            return Recalled()
        providers = {target.domain: target.fact.provider for target in targets.values()}
        await self._recall_domains(providers, state, max_age)
        known = await self._recall_mailboxes(targets, owner)
        oldest_usable = self._clock() - max_age
        mailboxes = {
            address: fact
            for address, fact in known.items()
            if fact.expires_at > fact.asked_at > oldest_usable
            and _is_lasting(fact, state.known.get(targets[address].domain))
        }
        accepted = [address for address, fact in known.items() if fact.answer is Answer.ACCEPTED]
        return Recalled(mailboxes if max_age > 0 else {}, dict(state.known), accepted)

    async def remember(
        self,
        mailboxes: Mapping[str, MailboxFact],
        targets: Mapping[str, ProbeTarget],
        state: CatchAllState,
        recalled: Recalled,
        *,
        owner: str,
    ) -> None:
        """Put what is new into the cache: domain facts for all, mailbox facts for their owner."""
        providers = {target.domain: target.fact.provider for target in targets.values()}
        domains = [
            self._catch_all_entry(
                RememberedCatchAll(
                    fact, state.randoms.get(domain, ""), providers[domain], state.known_at[domain]
                )
            )
            for domain, fact in state.known.items()
            if recalled.catch_alls.get(domain) is not fact
        ]
        entries = [
            CacheEntry(mailbox_key(address, owner), pack_mailbox(kept), self._config.mailbox_seconds)
            for address, fact in mailboxes.items()
            if not fact.cached and (kept := _worth_keeping(fact, state.known.get(targets[address].domain)))
        ]
        if domains:
            await self._cache.put(FactKind.CATCH_ALL, domains)
        if entries:
            await self._cache.put(FactKind.MAILBOX, entries)

    async def _recall_domains(
        self, providers: Mapping[str, str], state: CatchAllState, max_age: float
    ) -> None:
        now = self._clock()
        for domain, value in (await self._cache.get(FactKind.CATCH_ALL, list(providers))).items():
            known = unpack_catch_all(value)
            if known is None or known.fact.domain != domain or known.provider != providers[domain]:
                continue
            fact, random = known.fact, known.random
            if fact.catch_all is not Known.UNKNOWN and min(fact.expires_at, fact.learned_at + max_age) > now:
                state.known[domain] = fact
                state.known_at[domain] = set(known.preferences)
                if fact.catch_all is Known.NO:
                    state.unconfirmed.add(domain)
            if wire.is_safe(random) and fact.learned_at + _RANDOM_SECONDS > now:
                state.randoms[domain] = random

    async def _recall_mailboxes(
        self, targets: Mapping[str, ProbeTarget], owner: str
    ) -> dict[str, MailboxFact]:
        addresses = {mailbox_key(address, owner): address for address in targets}
        facts: dict[str, MailboxFact] = {}
        for key, value in (await self._cache.get(FactKind.MAILBOX, list(addresses))).items():
            fact, address = unpack_mailbox(value), addresses[key]
            if fact is not None and fact.host in {host.name for host in targets[address].fact.hosts}:
                facts[address] = fact
        return facts

    def _catch_all_entry(self, known: RememberedCatchAll) -> CacheEntry:
        fact = known.fact
        lifetime = _RANDOM_SECONDS if fact.catch_all is Known.UNKNOWN else fact.expires_at - self._clock()
        return CacheEntry(fact.domain, pack_catch_all(known), lifetime)


def _worth_keeping(fact: MailboxFact, known: CatchAllFact | None) -> MailboxFact | None:
    """Return what to remember: the answer as it is, or an acceptance that makes a witness and no verdict."""
    if _is_lasting(fact, known):
        return fact
    is_unproven = fact.answer is Answer.ACCEPTED and (known is None or known.catch_all is Known.UNKNOWN)
    return replace(fact, expires_at=fact.asked_at) if is_unproven else None


def _is_lasting(fact: MailboxFact, known: CatchAllFact | None) -> bool:
    """Tell whether an answer may be used again: definite, and an acceptance only where not all are."""
    if fact.answer not in DEFINITE or fact.blanket:
        return False
    catch_all = known.catch_all if known else Known.UNKNOWN
    return catch_all is Known.NO or (catch_all is Known.UNKNOWN and fact.answer is not Answer.ACCEPTED)
