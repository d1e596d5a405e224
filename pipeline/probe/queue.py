"""Who is asked next: mailboxes queue by route and source, routes by provider and source; pure."""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Final, NamedTuple

from mailsift.pipeline.dns.rules import MAX_ADDRESSES, MAX_EXCHANGERS
from mailsift.pipeline.facts import CatchAllFact, DomainFact, Known, MailboxFact, Wait
from mailsift.pipeline.probe.config import Source
from mailsift.pipeline.probe.session import DomainRecipients, Peer
from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import MANY_ADDRESSES, MANY_DOMAINS, Ask

MIN_REFUSED: Final = 3
"""Refused mailboxes, random ones among them, from which on refusals are checked by asking a witness."""

MAX_UNTIED: Final = 2
"""Sessions in a row whose replies could not be tied to their commands before a route is only asked singly."""


@dataclass(frozen=True, slots=True)
class ProbeTarget:
    """One mailbox to ask about.

    Attributes:
        address: canonical.
        fact: the domain's DNS fact; its state is ROUTED.
        last_try: it is not tried again later.
        known_by: the identity of the source a greylisting server knows us by, "" when none does.
    """

    address: str
    fact: DomainFact
    last_try: bool = False
    known_by: str = ""

    @property
    def domain(self) -> str:
        """Whose mailbox it is."""
        return self.fact.domain


def peers_of(fact: DomainFact, source: Source, allows: Callable[[str], bool]) -> list[Peer]:
    """Return where to dial, best first: addresses that are allowed and of the source's family."""
    return [
        Peer(host.name, address, host.preference)
        for host in fact.hosts[:MAX_EXCHANGERS]
        for address in host.addresses[:MAX_ADDRESSES]
        if allows(address) and source.reaches(address)
    ]


def random_local(token: str) -> str:
    """Return a local part that does not exist, 12 to 20 of [a-z0-9] from a letter on, from a secret token."""
    digest = blake2b(token.encode(), digest_size=32).digest()
    letters = "abcdefghijklmnopqrstuvwxyz"
    rest = (letters + "0123456789")[:36]
    length = 12 + digest[0] % 9
    return letters[digest[1] % 26] + "".join(rest[byte % 36] for byte in digest[2 : length + 1])


@dataclass(slots=True)
class CatchAllState:
    """What one call knows about the domains' random recipients.

    Attributes:
        token: makes unguessable text.
        known: what random recipients have shown of domains.
        known_at: the preferences of the servers that have shown it: a backup may take anybody.
        being_asked: domains whose random recipient is being asked right now.
        randoms: the random recipient of a domain; a later try asks for the same, or greylisting never ends.
        unconfirmed: domains known from an earlier call to refuse random recipients.
        last_tries: domains with mailboxes that are not tried again later.
    """

    token: Callable[[], str]
    known: dict[str, CatchAllFact] = field(default_factory=dict)
    known_at: dict[str, set[int]] = field(default_factory=dict)
    being_asked: set[str] = field(default_factory=set)
    randoms: dict[str, str] = field(default_factory=dict)
    unconfirmed: set[str] = field(default_factory=set)
    last_tries: set[str] = field(default_factory=set)

    def learn(self, fact: CatchAllFact, preference: int) -> None:
        """Remember what a server of this preference showed of a domain."""
        self.known[fact.domain] = fact
        self.known_at.setdefault(fact.domain, set()).add(preference)

    def forget(self, domain: str) -> None:
        """Drop what is known of a domain."""
        self.known.pop(domain, None)
        self.known_at.pop(domain, None)
        self.unconfirmed.discard(domain)

    def accepts_all(self, domain: str) -> bool:
        """Tell whether the domain is known to accept any recipient."""
        fact = self.known.get(domain)
        return fact is not None and fact.catch_all is Known.YES

    def random_recipient(self, domain: str, preference: int) -> str:
        """Return the random recipient to ask a server of this preference for, "" when none is needed."""
        is_known = self.accepts_all(domain) or preference in self.known_at.get(domain, ())
        return "" if is_known else self._random(domain)

    def confirming_recipient(self, domain: str) -> str:
        """Return the random recipient to ask for when all others were accepted, "" when that is known."""
        if domain not in self.unconfirmed:
            return ""
        self.unconfirmed.discard(domain)
        return self._random(domain)

    def _random(self, domain: str) -> str:
        if domain not in self.randoms:
            self.randoms[domain] = f"{random_local(self.token())}@{domain}"
        return self.randoms[domain]


@dataclass(slots=True)
class LearnedLimits:
    """Limits the providers have shown to this process, by throttle key; they only ever get tighter.

    Attributes:
        recipients: how many a session takes.
        one_domain: providers at which every domain needs a transaction of its own.
        one_transaction: those at which a session takes no second MAIL.
    """

    recipients: dict[str, int] = field(default_factory=dict)
    one_domain: set[str] = field(default_factory=lambda: {"google"})
    one_transaction: set[str] = field(default_factory=set)

    def learn_recipients(self, provider: str, taken: int) -> None:
        """Remember that a session was full after so many recipients."""
        self.recipients[provider] = min(taken, self.recipients.get(provider, taken))


class SessionPlace(NamedTuple):
    """How many recipients, and how many refusals, came before one in its session."""

    recipients: int
    refusals: int


RouteKey = tuple[str, tuple[str, ...]]
"""The label of a source, and the names of the exchangers it asks."""

_ByDomain = dict[str, deque[str]]


class RouteQueue:
    """The mailboxes behind one list of exchangers, asked from one source, that have not been asked yet.

    Attributes:
        provider: whose limits count.
        peers: where to dial; the first is the one in use, failed ones are taken away.
        seconds_lost: spent on peers that failed.
        drops: sessions with a single recipient that got no answer of their own.
        untied: sessions in a row whose replies could not be tied to their commands.
        refused: how many were refused so far, random recipients among them.
        unconfirmed_refusals: who was refused since the servers last accepted anybody.
        refused_behind: who was refused behind the last place in a session at which somebody was accepted, and
            at which place.
        accepted_behind: that place.
        witness: a recipient the servers have accepted, "" when there is none yet.
        disbelieved: who was accepted in sessions whose answers did not count.
        running: sessions under way.
        max_sessions, max_recipients: what the servers turned out to take.
        refusal: the latest refusal of a whole session.
        closed: the fact for every recipient since the route was given up.
        has_answered: a server of this route has answered.
    """

    def __init__(self, provider: ProviderQueue, source: Source, peers: Sequence[Peer]) -> None:
        self.provider = provider
        self.source = source
        self.peers = deque(peers)
        self.seconds_lost = 0.0
        self.drops = 0
        self.untied = 0
        self.refused = 0
        self.unconfirmed_refusals: list[str] = []
        self.refused_behind: dict[str, SessionPlace] = {}
        self.accepted_behind = SessionPlace(0, 0)
        self.witness = ""
        self.disbelieved: dict[str, MailboxFact] = {}
        self.running = 0
        self.max_sessions = sys.maxsize
        self.max_recipients = sys.maxsize
        self.refusal: MailboxFact | None = None
        self.closed: tuple[MailboxFact, Wait | None] | None = None
        self.has_answered = False
        self._together: _ByDomain = {}
        self._singly: _ByDomain = {}

    def add(self, domain: str, addresses: Iterable[str], *, singly: bool = False) -> None:
        """Queue addresses; singly: each gets a session of its own."""
        queue = self._singly if singly or self.untied >= MAX_UNTIED else self._together
        queue.setdefault(domain, deque()).extend(addresses)

    def dequeue(self, max_recipients: int, catch_alls: CatchAllState) -> tuple[list[DomainRecipients], bool]:
        """Take what one session of so many recipients can ask, and whether it is asked singly.

        A domain whose random recipient is being asked in another session waits for its answer.
        """
        if self.untied >= MAX_UNTIED:
            for domain in list(self._together):
                self.add(domain, self._together.pop(domain))
        groups = self._dequeue_from(self._together, max_recipients, catch_alls)
        return (groups, False) if groups else (self._dequeue_from(self._singly, 1, catch_alls), True)

    def _dequeue_from(
        self, queue: _ByDomain, recipients_left: int, catch_alls: CatchAllState
    ) -> list[DomainRecipients]:
        groups: list[DomainRecipients] = []
        for domain, addresses in queue.items():
            if recipients_left < 1:
                break
            if domain in catch_alls.being_asked:
                continue
            random = catch_alls.random_recipient(domain, self.peers[0].preference)
            confirm = catch_alls.confirming_recipient(domain) if recipients_left > 1 and not random else ""
            count = min(len(addresses), recipients_left - bool(random or confirm))
            asked = tuple(addresses.popleft() for _ in range(count))
            group = DomainRecipients(domain, random, asked, confirm)
            groups.append(group)
            recipients_left -= group.size
            if random:
                catch_alls.being_asked.add(domain)
        for group in groups:
            if not queue[group.domain]:
                del queue[group.domain]
        return groups

    def drop_domain(self, domain: str) -> list[str]:
        """Take the domain's addresses out."""
        return [*self._together.pop(domain, ()), *self._singly.pop(domain, ())]

    def domains(self) -> Iterator[str]:
        """Yield the domains that wait, some of them twice."""
        yield from self._together
        yield from self._singly

    def drain(self) -> Iterator[str]:
        """Take everything out."""
        for queue in (self._together, self._singly):
            while queue:
                yield from queue.popitem()[1]

    def __len__(self) -> int:
        return sum(map(len, self._together.values())) + sum(map(len, self._singly.values()))

    def __bool__(self) -> bool:
        return bool(self._together or self._singly)


class ProviderQueue:
    """The routes of one provider and one source, who share its limits and take turns.

    Attributes:
        source: the identity of our source.
        running: sessions under way.
        resting_until: loop time before which asking the throttle is no use.
        busy: the denial was for want of a session: when one of ours ends, asking is of use again.
        denied_since: loop time of the first denial since the last grant; None when there was none.
        is_crowded: so many addresses have waited here at a time that an unknown server needs care.
    """

    def __init__(self, row: Provider, source: str) -> None:
        self.row = row
        self.source = source
        self.running = 0
        self.resting_until = 0.0
        self.busy = False
        self.denied_since: float | None = None
        self.is_crowded = False
        self._routes: OrderedDict[RouteQueue, None] = OrderedDict()

    def reopen(self) -> bool:
        """Let the throttle be asked again where one was busy; returns whether it was."""
        was_busy, self.busy = self.busy, False
        if was_busy:
            self.resting_until = 0.0
        return was_busy

    def add_route(self, route: RouteQueue) -> None:
        """Let the route have its turns."""
        self._routes.setdefault(route)
        if not self.is_crowded:
            self.is_crowded = len(self) >= MANY_ADDRESSES

    def __len__(self) -> int:
        return sum(map(len, self._routes))

    def waiting_domains(self) -> Iterator[str]:
        """Yield some domains that wait here, as many as it takes to recognise a hoster."""
        return islice((name for route in self._routes for name in route.domains()), MANY_DOMAINS)

    def take_turns(self) -> Iterator[RouteQueue]:
        """Yield every route that has addresses once; who had its turn goes to the end."""
        for _ in range(len(self._routes)):
            route, _ = self._routes.popitem(last=False)
            if route:
                self._routes[route] = None
                yield route


@dataclass(slots=True)
class SessionPlan:
    """One session to be held.

    Attributes:
        route, peer: whom to ask.
        singly: one recipient, asked with all care because an earlier session of its could not be believed.
        refused_before: the route's unconfirmed refusals when it was planned: whom it accepts confirms those.
        beside: so many sessions of the route were under way then.
    """

    route: RouteQueue
    peer: Peer
    groups: list[DomainRecipients]
    singly: bool = False
    refused_before: frozenset[str] = frozenset()
    beside: int = 0

    @property
    def is_current(self) -> bool:
        """Whether the server is still the one to ask."""
        return self.route.closed is None and self.route.peers[0] is self.peer

    @property
    def throttle_key(self) -> str:
        """Whose limits the session counts for."""
        return self.route.provider.row.key

    @property
    def size(self) -> int:
        """RCPT commands at most, without a witness."""
        return sum(group.size for group in self.groups)

    @property
    def may_need_witness(self) -> bool:
        """Whether so many may be refused, after one was accepted, that a witness is to be asked."""
        others = self.size if self.route.witness else self.size - 1
        return self.route.refused + others >= MIN_REFUSED

    @property
    def ask(self) -> Ask:
        """What the throttle is asked for."""
        most = max(self.size, self.route.provider.row.recipients)
        wanted = min(self.size + self.may_need_witness, most)
        least = 1 + self.may_need_witness
        provider = self.route.provider
        domains = (*(group.domain for group in self.groups), *provider.waiting_domains())
        watched = provider.row.careful and provider.is_crowded
        return Ask(
            self.throttle_key,
            self.route.source.identity,
            self.peer.address,
            wanted,
            least,
            domains=tuple(dict.fromkeys(domains))[:MANY_DOMAINS] if watched else (),
        )


class ProbeQueue:
    """Everything that is still to be asked in one call.

    Attributes:
        routes: all there were.
        accepted_at: whom a server has accepted, by the label of our source and its address: a witness for
            other routes to it.
        refused_at: how many a server has refused on all routes, in the same terms.
        refused_alone: whom it refused in sessions that accepted nobody and asked no witness, session by
            session: nothing tells whether it knew anybody then.
        silent_domains: the domains of those.
        turned_at: which servers have refused a witness.
    """

    def __init__(self, catch_alls: CatchAllState, learned: LearnedLimits) -> None:
        self._catch_alls = catch_alls
        self._learned = learned
        self._turns: OrderedDict[ProviderQueue, None] = OrderedDict()
        self._providers: dict[tuple[str, str], ProviderQueue] = {}
        self.routes: dict[RouteKey, RouteQueue] = {}
        self.accepted_at: dict[tuple[str, str], str] = {}
        self.refused_at = Counter[tuple[str, str]]()
        self.refused_alone = defaultdict[tuple[str, str], list[tuple[RouteQueue, list[str]]]](list)
        self.silent_domains = defaultdict[tuple[str, str], set[str]](set)
        self.turned_at: set[tuple[str, str]] = set()
        self._by_domain: dict[str, dict[RouteQueue, None]] = {}

    def route(
        self, target: ProbeTarget, source: Source, row: Provider, allows: Callable[[str], bool]
    ) -> RouteQueue:
        """Return the queue of the target's route and source."""
        hosts = tuple(host.name for host in target.fact.hosts[:MAX_EXCHANGERS])
        route = self.routes.get((source.label, hosts))
        if route is None:
            key = row.key, source.identity
            provider = self._providers.setdefault(key, ProviderQueue(row, source.identity))
            route = RouteQueue(provider, source, peers_of(target.fact, source, allows))
            self.routes[source.label, hosts] = route
        return route

    def put(self, route: RouteQueue, domain: str, addresses: Sequence[str], *, singly: bool = False) -> None:
        """Queue addresses of a domain."""
        if addresses:
            self._by_domain.setdefault(domain, {})[route] = None
            route.add(domain, addresses, singly=singly)
            route.provider.add_route(route)
            self._turns.setdefault(route.provider)

    def inherit(self, route: RouteQueue, peer: Peer) -> None:
        """Let a route know whom its server has accepted, and how many it has refused, on other routes."""
        server = route.source.label, peer.address
        route.witness = route.witness or self.accepted_at.get(server, "")
        route.refused = max(route.refused, self.refused_at[server])

    def has_turned(self, route: RouteQueue) -> bool:
        """Tell whether one of the route's servers has refused a witness, or everybody, of whatever route.

        A hoster's server that knows nobody at any of its domains has lost its table, or is tired of us.
        """
        servers = ((route.source.label, peer.address) for peer in route.peers)
        return any(one in self.turned_at or self._knows_nobody(one) for one in servers)

    def _knows_nobody(self, server: tuple[str, str]) -> bool:
        return server not in self.accepted_at and len(self.silent_domains.get(server, ())) >= MANY_DOMAINS

    def next_sessions(self, max_sessions: int, now: float) -> list[SessionPlan]:
        """Return the sessions to open now, at most `max_sessions`; they count as running from here on."""
        plans: list[SessionPlan] = []
        resting: list[ProviderQueue] = []
        while self._turns and len(plans) < max_sessions:
            provider, _ = self._turns.popitem(last=False)
            if provider.resting_until > now:
                resting.append(provider)
            elif (plan := self._next_session(provider)) is not None:
                plans.append(plan)
                self._turns[provider] = None
        self._turns.update(dict.fromkeys(resting))
        return plans

    def finish(self, plan: SessionPlan) -> None:
        """Count a session as over; who waited for its outcome is looked at again."""
        plan.route.running -= 1
        provider = plan.route.provider
        provider.running -= 1
        provider.reopen()
        self._turns.setdefault(provider)
        for group in plan.groups:
            if group.random:
                self._catch_alls.being_asked.discard(group.domain)
                for route in self._by_domain[group.domain]:
                    self._turns.setdefault(route.provider)

    def trim(self, plan: SessionPlan, granted: int) -> dict[str, tuple[str, ...]]:
        """Cut a session down to the granted recipients; at 0 it does not take place.

        Returns:
            The addresses that no longer fit, by domain; they are in no queue now.
        """
        kept: list[DomainRecipients] = []
        left: dict[str, tuple[str, ...]] = {}
        for group in plan.groups:
            fits = min(group.size, granted)
            granted -= fits
            confirm = group.confirm if fits > 1 else ""
            real = max(0, fits - bool(group.random or confirm))
            left[group.domain] = group.addresses[real:]
            if fits:
                kept.append(DomainRecipients(group.domain, group.random, group.addresses[:real], confirm))
            if group.confirm and not confirm:
                self._catch_alls.unconfirmed.add(group.domain)
            elif group.random and not fits:  # who stays is still being asked: the rest waits for the answer
                self._catch_alls.being_asked.discard(group.domain)
        plan.groups = kept
        return left

    def has_waiting(self, max_sessions: int) -> bool:
        """Tell whether a session may be wanted later although none is now and none is open."""
        return any(self.routes.values()) if max_sessions == 0 else bool(self._turns)

    def reopen(self, keys: Collection[tuple[str, str]]) -> bool:
        """Ask again for providers where a session has ended elsewhere; returns whether there were any.

        Args:
            keys: throttle key and identity of the source.
        """
        reopened = [self._providers[key].reopen() for key in keys if key in self._providers]
        return any(reopened)

    def next_ready_at(self) -> float:
        """Return the loop time from which the throttle can be asked again; infinity when nothing rests."""
        return min((provider.resting_until for provider in self._turns), default=float("inf"))

    def drop_domain(self, domain: str) -> list[str]:
        """Take a domain's addresses out of every route."""
        return [address for route in self._by_domain.get(domain, ()) for address in route.drop_domain(domain)]

    def drain(self, provider: ProviderQueue | None = None) -> Iterator[str]:
        """Take everything out, or everything of one provider."""
        for route in self.routes.values():
            if provider is None or route.provider is provider:
                yield from route.drain()

    def _next_session(self, provider: ProviderQueue) -> SessionPlan | None:
        row = provider.row
        if provider.running >= row.sessions:
            return None
        max_recipients = min(row.recipients, self._learned.recipients.get(row.key, row.recipients))
        for route in provider.take_turns():
            if route.running >= route.max_sessions:
                continue
            groups, singly = route.dequeue(min(max_recipients, route.max_recipients), self._catch_alls)
            if groups:
                before, beside = frozenset(route.unconfirmed_refusals), route.running
                route.running += 1
                provider.running += 1
                self.inherit(route, route.peers[0])
                return SessionPlan(route, route.peers[0], groups, singly, before, beside)
        return None
