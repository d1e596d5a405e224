"""Who is asked next: lanes by route and source, behind gates by provider and source; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from pipeline.facts import CatchAllFact, DomainFact
from pipeline.ports import Ask
from pipeline.probe_config import Source
from pipeline.probe_limits import Learned
from pipeline.provider_table import Provider
from pipeline.smtp_session import Group, Peer

MAX_HOSTS = 10
MAX_ADDRESSES = 3
"""Exchangers tried for a domain and addresses tried for an exchanger."""


@dataclass(frozen=True, slots=True)
class Target:
    """One mailbox to ask about.

    Attributes:
        address, local, domain: canonical.
        fact: what DNS said; its state is ROUTED.
    """

    address: str
    local: str
    domain: str
    fact: DomainFact


def peers_of(fact: DomainFact, source: Source, allows: Callable[[str], bool]) -> list[Peer]:
    """Return where to dial, best first: addresses that are allowed and of the source's family."""
    return [
        Peer(host.name, address)
        for host in fact.hosts[:MAX_HOSTS]
        for address in host.addresses[:MAX_ADDRESSES]
        if allows(address) and source.reaches(address)
    ]


def random_local(token: str) -> str:
    """Return a local part nobody has, 12 to 20 of [a-z0-9] from a letter on, made of an unguessable token."""
    digest = blake2b(token.encode(), digest_size=32).digest()
    letters = "abcdefghijklmnopqrstuvwxyz"
    rest = (letters + "0123456789")[:36]
    length = 12 + digest[0] % 9
    return letters[digest[1] % 26] + "".join(rest[byte % 36] for byte in digest[2 : length + 1])


@dataclass(slots=True)
class Book:
    """What this call knows about the domains' random recipients.

    Attributes:
        token: makes unguessable text.
        settled: domains that need no random recipient (any more).
        scouting: domains whose random recipient is being asked right now.
        probes: the random recipient of a domain; a later try asks for the same, or greylisting never ends.
    """

    token: Callable[[], str]
    settled: dict[str, CatchAllFact] = field(default_factory=dict)
    scouting: set[str] = field(default_factory=set)
    probes: dict[str, str] = field(default_factory=dict)

    def probe_of(self, domain: str) -> str:
        """Return the random recipient to ask for, "" when the domain is settled."""
        if domain in self.settled:
            return ""
        if domain not in self.probes:
            self.probes[domain] = f"{random_local(self.token())}@{domain}"
        return self.probes[domain]


class Lane:
    """The targets of one route and one source that have not been asked.

    Attributes:
        source: our address.
        peers: where to dial; the first is the one in use, failed ones are taken away.
        lost: seconds spent on peers that failed.
        drops: sessions the server broke off although it had answered.
        running: sessions under way.
        listed: stands in its gate's line.
        proven: a server of this route has answered.
    """

    def __init__(self, gate: Gate, source: Source, peers: Sequence[Peer]) -> None:
        self.gate = gate
        self.source = source
        self.peers = deque(peers)
        self.lost = 0.0
        self.drops = 0
        self.running = 0
        self.listed = False
        self.proven = False
        self._todo: dict[str, deque[str]] = {}

    def add(self, domain: str, addresses: Iterable[str]) -> None:
        """Put addresses in line."""
        queue = self._todo.setdefault(domain, deque())
        queue.extend(addresses)

    def take(self, room: int, book: Book) -> list[Group]:
        """Take what one session of so many recipients can ask; domains being scouted wait for the scout."""
        groups: list[Group] = []
        for domain, queue in self._todo.items():
            if room < 1:
                break
            if domain in book.scouting:
                continue
            probe = book.probe_of(domain)
            count = min(len(queue), room - bool(probe))
            group = Group(domain, probe, tuple(queue.popleft() for _ in range(count)))
            groups.append(group)
            room -= group.size
            if probe:
                book.scouting.add(domain)
        self._forget_empty(group.domain for group in groups)
        return groups

    def drop_domain(self, domain: str) -> list[str]:
        """Take the domain's addresses out of line."""
        return list(self._todo.pop(domain, ()))

    def drain(self) -> Iterator[str]:
        """Take everything out of line."""
        while self._todo:
            yield from self._todo.popitem()[1]

    def __bool__(self) -> bool:
        return bool(self._todo)

    def _forget_empty(self, domains: Iterable[str]) -> None:
        for domain in domains:
            if not self._todo[domain]:
                del self._todo[domain]


class Gate:
    """The lanes of one provider and one source, who share its limits.

    Attributes:
        row: the provider.
        running: sessions under way.
        resting_until: loop time before which asking the throttle is no use.
        denied_since: loop time of the first denial since the last grant; None when there was none.
        queued: stands in the board's line.
    """

    def __init__(self, row: Provider) -> None:
        self.row = row
        self.running = 0
        self.resting_until = 0.0
        self.denied_since: float | None = None
        self.queued = False
        self._lanes: deque[Lane] = deque()

    def enter(self, lane: Lane) -> None:
        """Let the lane have its turns."""
        if not lane.listed:
            lane.listed = True
            self._lanes.append(lane)

    def turns(self) -> Iterator[Lane]:
        """Yield every lane that has something in line once; who had its turn goes to the end."""
        for _ in range(len(self._lanes)):
            lane = self._lanes.popleft()
            lane.listed = bool(lane)
            if lane:
                self._lanes.append(lane)
                yield lane


@dataclass(slots=True)
class Visit:
    """One session to be held.

    Attributes:
        lane, peer: whom to ask.
        groups: what to ask.
        lease: the throttle's name for it.
        granted: RCPT commands the throttle allows.
        started: loop time.
    """

    lane: Lane
    peer: Peer
    groups: list[Group]
    lease: str = ""
    granted: int = 0
    started: float = 0.0

    @property
    def ask(self) -> Ask:
        """The wish for this session, as the throttle knows it."""
        wanted = sum(group.size for group in self.groups)
        return Ask(self.lane.gate.row.key, self.lane.source.label, self.peer.address, wanted)


class Board:
    """Everything that is still to be asked in one call.

    Args:
        book: the domains' random recipients.
        learned: limits the providers have shown.
    """

    def __init__(self, book: Book, learned: Learned) -> None:
        self._book = book
        self._learned = learned
        self._line: deque[Gate] = deque()
        self._gates: dict[tuple[str, str], Gate] = {}
        self._lanes: dict[tuple[str, tuple[str, ...]], Lane] = {}
        self._by_domain: dict[str, dict[Lane, None]] = {}

    def lane(self, target: Target, source: Source, row: Provider, allows: Callable[[str], bool]) -> Lane:
        """Return the lane of the target's route and source."""
        route = tuple(host.name for host in target.fact.hosts[:MAX_HOSTS])
        lane = self._lanes.get((source.label, route))
        if lane is None:
            gate = self._gates.setdefault((row.key, source.label), Gate(row))
            lane = Lane(gate, source, peers_of(target.fact, source, allows))
            self._lanes[source.label, route] = lane
        return lane

    def put(self, lane: Lane, domain: str, addresses: Sequence[str]) -> None:
        """Put addresses in line."""
        if addresses:
            self._by_domain.setdefault(domain, {})[lane] = None
            lane.add(domain, addresses)
            lane.gate.enter(lane)
            self.wake(lane.gate)

    def wanted(self, room: int, now: float) -> list[Visit]:
        """Return the sessions to open now, at most `room`; they count as running from here on."""
        visits: list[Visit] = []
        resting: list[Gate] = []
        while self._line and len(visits) < room:
            gate = self._line.popleft()
            visit = self._next(gate) if gate.resting_until <= now else None
            gate.queued = visit is not None or gate.resting_until > now
            if visit is not None:
                visits.append(visit)
                self._line.append(gate)
            elif gate.queued:
                resting.append(gate)
        self._line.extend(resting)
        return visits

    def finish(self, visit: Visit) -> None:
        """Count a session as over; who waited for its outcome gets back in line."""
        visit.lane.running -= 1
        visit.lane.gate.running -= 1
        self.wake(visit.lane.gate)
        for group in visit.groups:
            if group.probe:
                self._book.scouting.discard(group.domain)
                for lane in self._by_domain[group.domain]:
                    self.wake(lane.gate)

    def give_back(self, visit: Visit, granted: int) -> None:
        """Put back what goes beyond the granted recipients; at 0 the session does not take place."""
        kept: list[Group] = []
        for group in visit.groups:
            fits = min(group.size, granted)
            granted -= fits
            real = max(0, fits - bool(group.probe))
            self.put(visit.lane, group.domain, group.addresses[real:])
            if fits:
                kept.append(Group(group.domain, group.probe, group.addresses[:real]))
            elif group.probe:
                self._book.scouting.discard(group.domain)
        visit.groups = kept

    def wake(self, gate: Gate) -> None:
        """Let the gate be looked at again."""
        if not gate.queued:
            gate.queued = True
            self._line.append(gate)

    def next_wish(self) -> float:
        """Return the loop time from which the throttle can be asked again; infinity when nothing rests."""
        return min((gate.resting_until for gate in self._line), default=float("inf"))

    def drop_domain(self, domain: str) -> list[str]:
        """Take a domain's addresses out of every lane."""
        return [address for lane in self._by_domain.get(domain, ()) for address in lane.drop_domain(domain)]

    def drain(self, gate: Gate | None = None) -> Iterator[str]:
        """Take everything, or everything behind one gate, out of line."""
        for lane in self._lanes.values():
            if gate is None or lane.gate is gate:
                yield from lane.drain()

    def _next(self, gate: Gate) -> Visit | None:
        row = gate.row
        if gate.running >= self._learned.sessions(row.key, row.sessions):
            return None
        room = self._learned.recipients(row.key, row.recipients)
        for lane in gate.turns():
            groups = lane.take(room, self._book) if lane.peers else []
            if groups:
                lane.running += 1
                gate.running += 1
                return Visit(lane, lane.peers[0], groups)
        return None
