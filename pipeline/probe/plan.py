"""Who is asked next: lanes by route and source, behind gates by provider and source; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pipeline.facts import DomainFact
from pipeline.probe.lanes import Book, Gate, Lane, Visit
from pipeline.probe.words import Target
from pipeline.provider_table import Provider
from pipeline.smtp.config import Source
from pipeline.smtp.limits import Learned
from pipeline.smtp.session import Group, Peer

MAX_HOSTS: Final = 10
MAX_ADDRESSES: Final = 3
"""Exchangers tried for a domain and addresses tried for an exchanger."""


def peers_of(fact: DomainFact, source: Source, allows: Callable[[str], bool]) -> list[Peer]:
    """Return where to dial, best first: addresses that are allowed and of the source's family."""
    return [
        Peer(host.name, address)
        for host in fact.hosts[:MAX_HOSTS]
        for address in host.addresses[:MAX_ADDRESSES]
        if allows(address) and source.reaches(address)
    ]


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
        gate = visit.lane.gate
        gate.running -= 1
        if gate.crowded:
            gate.crowded, gate.resting_until = False, 0.0
        self.wake(gate)
        for group in visit.groups:
            if group.probe:
                self._book.scouting.discard(group.domain)
                for lane in self._by_domain[group.domain]:
                    self.wake(lane.gate)

    def trim(self, visit: Visit, granted: int) -> dict[str, tuple[str, ...]]:
        """Cut a session down to the granted recipients; at 0 it does not take place.

        Returns:
            The addresses that no longer fit, by domain; they are in no line now.
        """
        kept: list[Group] = []
        left: dict[str, tuple[str, ...]] = {}
        for group in visit.groups:
            fits = min(group.size, granted)
            granted -= fits
            real = max(0, fits - bool(group.probe))
            left[group.domain] = group.addresses[real:]
            if fits:
                kept.append(Group(group.domain, group.probe, group.addresses[:real]))
            elif group.probe:
                self._book.scouting.discard(group.domain)
        visit.groups = kept
        return left

    def wake(self, gate: Gate) -> None:
        """Let the gate be looked at again."""
        if not gate.queued:
            gate.queued = True
            self._line.append(gate)

    def has_wishes(self, room: int) -> bool:
        """Tell whether anything may still be wanted later although nothing is now and no session runs."""
        return any(self._lanes.values()) if room == 0 else bool(self._line)

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
        if gate.running >= row.sessions:
            return None
        room = self._learned.recipients(row.key, row.recipients)
        for lane in gate.turns():
            if lane.running >= lane.most_sessions:
                continue
            groups = lane.take(min(room, lane.most_recipients), self._book)
            if groups:
                lane.running += 1
                gate.running += 1
                return Visit(lane, lane.peers[0], groups)
        return None
