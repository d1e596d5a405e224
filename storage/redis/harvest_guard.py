"""Keeps a source below what gateways take for harvesting: unknown recipients of a minute, half of all."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Final, NamedTuple

from mailsift.pipeline.ports import Ask, Report
from mailsift.pipeline.standing import LedgerKind

UNKNOWN_SECONDS: Final = 65.0
"""How long an unknown recipient counts: a minute, and what their clock and the way there may differ by."""
KNOWN_SECONDS: Final = 30.0
"""How long a known one does, from the begin of its session: never longer than it does for them."""

_NETWORKS: Final = {4: 24, 6: 48}


class Counted(NamedTuple):
    """What a session that is over counts for."""

    known: int
    unknown: int


def counted(report: Report, granted: int) -> Counted:
    """Return what a session with so many granted recipients counts for; who got no answer is unknown."""
    heard, sent = report.heard, granted - report.unused
    unanswered = max(0, sent - heard.of(LedgerKind.PROBES))
    unknown = heard.of(LedgerKind.UNKNOWN, LedgerKind.RANDOM) + unanswered
    return Counted(max(0, sent - unknown), unknown)


def places_of(ask: Ask) -> tuple[str, str]:
    """Name whom a gateway's count may be of: the provider, and the network its address is in, at a source.

    A gateway with a name of its own in every customer's domain is one gateway still.
    """
    version = 6 if ":" in ask.address else 4
    network = ip_network(f"{ask.address}/{_NETWORKS[version]}", strict=False)
    return f"{ask.provider}:{ask.source}", f"{network}:{ask.source}"


@dataclass(slots=True)
class _GatewaySession:
    begun: float
    until: float
    known: int
    unknown: int


@dataclass(slots=True)
class AskingRoom:
    """How many recipients fit, in how many seconds more will, or whether a session must end first."""

    recipients: int
    opens_in: float = 0.0
    running: bool = False


@dataclass(slots=True)
class HarvestGuard:
    """What one process asked of gateways that block harvesters; lua/grant.lua does the same for all together.

    A gateway blocks a source for hours when so many recipients of a minute are unknown and are half of all it
    asked for. So a session is only as large as it may be if every single one of its recipients is unknown.

    Attributes:
        longest: seconds no session outlasts.
    """

    longest: float
    _places: dict[str, dict[str, _GatewaySession]] = field(default_factory=dict)

    def room(self, ask: Ask, *, most: int, now: float) -> AskingRoom:
        """Return how many recipients may be asked for now.

        Args:
            ask: whom, and from where.
            most: unknown recipients at which the provider blocks us.
            now: seconds of a clock that never jumps.
        """
        return min(
            (self._room(place, most, now) for place in places_of(ask)), key=lambda room: room.recipients
        )

    def begin(self, ask: Ask, lease: str, recipients: int, now: float) -> None:
        """Count a session that begins: each of its recipients may be unknown."""
        for place in places_of(ask):
            until = now + self.longest + UNKNOWN_SECONDS
            self._places.setdefault(place, {})[lease] = _GatewaySession(now, until, 0, recipients)

    def end(self, report: Report, now: float) -> None:
        """Count what became of it, where it was counted when it began."""
        for sessions in (self._places.get(place, {}) for place in places_of(report.ask)):
            if session := sessions.pop(report.lease, None):
                known, unknown = counted(report, session.unknown)
                if known + unknown:
                    until = now + UNKNOWN_SECONDS
                    sessions[report.lease] = _GatewaySession(session.begun, until, known, unknown)

    def _room(self, place: str, most: int, now: float) -> AskingRoom:
        sessions = {name: one for name, one in self._places.pop(place, {}).items() if one.until > now}
        if not sessions:
            return AskingRoom(most - 1)
        self._places[place] = sessions
        known = sum(one.known for one in sessions.values() if one.begun + KNOWN_SECONDS > now)
        unknown = sum(one.unknown for one in sessions.values())
        ends = [one.until for one in sessions.values()]
        return AskingRoom(
            max(0, most - 1 - unknown, known - unknown - 1),
            min(ends) - now,
            running=max(ends) - UNKNOWN_SECONDS > now,
        )
