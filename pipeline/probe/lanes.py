"""Targets in line: lanes by route and source, behind gates by provider and source, and their visits."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from pipeline.facts import CatchAllFact, MailboxFact
from pipeline.ports import Ask
from pipeline.probe.words import Wait
from pipeline.provider_table import Provider
from pipeline.smtp.config import Source
from pipeline.smtp.session import Group, Peer


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
        most_sessions, most_recipients: what the servers turned out to take.
        refusal: the latest refusal of a whole session.
        closed: what everybody gets since the lane was given up.
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
        self.most_sessions = sys.maxsize
        self.most_recipients = sys.maxsize
        self.refusal: MailboxFact | None = None
        self.closed: tuple[MailboxFact, Wait | None] | None = None
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
        crowded: the denial was for want of a session: when one of ours ends, asking is of use again.
        denied_since: loop time of the first denial since the last grant; None when there was none.
        queued: stands in the board's line.
    """

    def __init__(self, row: Provider) -> None:
        self.row = row
        self.running = 0
        self.resting_until = 0.0
        self.crowded = False
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
    """

    lane: Lane
    peer: Peer
    groups: list[Group]

    @property
    def is_current(self) -> bool:
        """Whether the server is still the one to ask."""
        return self.lane.closed is None and self.lane.peers[0] is self.peer

    @property
    def ask(self) -> Ask:
        """The wish for this session, as the throttle knows it."""
        wanted = sum(group.size for group in self.groups)
        return Ask(self.lane.gate.row.key, self.lane.source.label, self.peer.address, wanted)
