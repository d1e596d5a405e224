"""Keeps a source below what gateways take for harvesting: unknown recipients of a minute, half of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from typing import Final, NamedTuple

from mailsift.pipeline.throttle import MANY_DOMAINS, Allowance, Ask, LedgerKind, Report

UNKNOWN_SECONDS: Final = 65.0
"""How long an unknown recipient counts: a minute, and what their clock and the way there may differ by."""
KNOWN_SECONDS: Final = 30.0
"""How long a known one does, from the begin of its session: never longer than it does for them."""

_NETWORKS: Final = {4: 24, 6: 48}
_SERVERS: Final = {4: 32, 6: 64}
_KEPT_SERVERS: Final = 10_000


class SessionCounts(NamedTuple):
    """What a session that is over counts for."""

    known: int
    unknown: int


def count_session(report: Report, granted: int) -> SessionCounts:
    """Return what a session with so many granted recipients counts for; who got no answer is unknown."""
    counts, sent = report.ledger, granted - report.unused
    unanswered = max(0, sent - counts.of(LedgerKind.PROBES))
    unknown = counts.of(LedgerKind.UNKNOWN, LedgerKind.RANDOM) + unanswered
    return SessionCounts(max(0, sent - unknown), unknown)


def gateway_keys(ask: Ask, *, known: bool) -> tuple[str, str]:
    """Name whom a gateway's count may be of, at a source: the provider, and where its address is.

    A gateway with a name of its own in every customer's domain is one gateway still, so for one that is known
    to count the network stands. Who nobody knows may be a hoster's neighbour: there it is the server alone.
    """
    network = _network(ask, _NETWORKS) if known else _network(ask, _SERVERS)
    return f"{ask.provider}:{ask.source}", f"{network}:{ask.source}"


def server_keys(ask: Ask) -> tuple[str, str]:
    """Name who may serve many domains: the provider, and the server."""
    return ask.provider, _network(ask, _SERVERS)


def _network(ask: Ask, sizes: Mapping[int, int]) -> str:
    if ":" not in ask.address and sizes[4] == 32:
        return ask.address
    return str(ip_network(f"{ask.address}/{sizes[6 if ':' in ask.address else 4]}", strict=False))


@dataclass(slots=True)
class _GatewaySession:
    begun: float
    until: float
    known: int
    unknown: int


@dataclass(slots=True)
class Headroom:
    """How many recipients fit, in how many seconds more will, or whether a session must end first.

    allowance: what makes that number up.
    """

    recipients: int
    opens_in: float = 0.0
    running: bool = False
    allowance: Allowance | None = None


@dataclass(slots=True)
class HarvestGuard:
    """What one process asked of gateways that block harvesters; lua/grant.lua does the same for all together.

    A gateway blocks a source for hours when so many recipients of a minute are unknown and are half of all it
    asked for. So a session is only as large as it may be if every single one of its recipients is unknown.
    """

    _sessions_by_key: dict[str, dict[str, _GatewaySession]] = field(default_factory=dict)
    _domains: dict[str, set[str]] = field(default_factory=dict)

    def is_hoster(self, ask: Ask) -> bool:
        """Tell whether so many domains have been waiting for the server that it is no company's own."""
        if len(self._domains) > _KEPT_SERVERS:
            self._domains.clear()
        known = [self._domains.setdefault(server, set()) for server in server_keys(ask)]
        for domains in known:
            if len(domains) < MANY_DOMAINS:
                domains.update(ask.domains)
        return any(len(domains) >= MANY_DOMAINS for domains in known)

    def headroom(self, ask: Ask, *, most: int, now: float, known: bool = True) -> Headroom:
        """Return how many recipients may be asked for now, at a provider that blocks us after `most` unknown.

        `known`: it is known to block.
        """
        headrooms = [self._headroom_at(key, most, now) for key in gateway_keys(ask, known=known)]
        least = min(headrooms, key=lambda headroom: headroom.recipients)
        both = [one.allowance for one in headrooms if one.allowance is not None]
        least.allowance = Allowance(min(one.unknown for one in both), min(one.surplus for one in both))
        return least

    def begin(
        self, ask: Ask, lease: str, recipients: int, now: float, *, until: float, known: bool = True
    ) -> None:
        """Count a session that begins and asks until then: each of its recipients may be unknown."""
        session = _GatewaySession(now, until + UNKNOWN_SECONDS, 0, recipients)
        for key in gateway_keys(ask, known=known):
            self._sessions_by_key.setdefault(key, {})[lease] = replace(session)

    def end(self, report: Report, now: float) -> None:
        """Count what became of it, where it was counted when it began."""
        keys = dict.fromkeys((*gateway_keys(report.ask, known=True), *gateway_keys(report.ask, known=False)))
        for sessions in (self._sessions_by_key.get(key, {}) for key in keys):
            if session := sessions.pop(report.lease, None):
                known, unknown = count_session(report, session.unknown)
                if known + unknown:
                    until = now + UNKNOWN_SECONDS
                    sessions[report.lease] = _GatewaySession(session.begun, until, known, unknown)

    def _headroom_at(self, key: str, most: int, now: float) -> Headroom:
        sessions = {
            name: session
            for name, session in self._sessions_by_key.pop(key, {}).items()
            if session.until > now
        }
        if not sessions:
            return Headroom(most - 1, allowance=Allowance(most - 1, -1))
        self._sessions_by_key[key] = sessions
        known = sum(session.known for session in sessions.values() if session.begun + KNOWN_SECONDS > now)
        unknown = sum(session.unknown for session in sessions.values())
        ends = [session.until for session in sessions.values()]
        allowance = Allowance(most - 1 - unknown, known - unknown - 1)
        running = max(ends) - UNKNOWN_SECONDS > now
        return Headroom(max(0, *allowance), min(ends) - now, running=running, allowance=allowance)
