"""The throttle of one process alone: its limits, and the stand-in while Redis is gone.

What limits, gateways' counts of unknown recipients and lists' tallies mean is said here; lua/*.lua does the
same for all processes together.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from ipaddress import ip_network
from math import inf
from random import Random
from typing import Final, NamedTuple, TypeVar

import structlog
from typing_extensions import override

from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import (
    MANY_DOMAINS,
    NOBODY_ASKED,
    Allowance,
    Ask,
    AskedCounts,
    Grant,
    LedgerKind,
    ListTally,
    Report,
    SessionOutcome,
    Throttle,
)
from mailsift.storage.sql.throttles import HELD_SECONDS, EditBook, LedgerBook

_K = TypeVar("_K")

PENALTY_SECONDS = 30.0  # doubles with every rate reply in a row
LONGEST_PENALTY = 900.0
MOST_BLOCKS = 5  # sessions in a row in which a provider may refuse us
HOLD_SECONDS = 900.0  # it is left alone after that
JITTER = 0.1  # share of a penalty that is left to chance, so processes do not come back together
SLOWEST_RATE = 1 / 60  # recipients a second that any number of rate replies leaves

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleConfig:
    """What holds beside the providers' own limits.

    Attributes:
        lease_seconds: a session is over when its process has not renewed it for so long.
        session_seconds: no session may last longer: one that is not reported by then is over.
        stall_seconds: so much longer than it takes while we run a session's room is booked where unknown
            recipients count, and in its list's tally: in a process that gets no turn it may be late.
        busy_seconds: when to ask again if all sessions are taken (they end when they end).
        address_sessions: sessions at one destination IP, whoever's it is, from all our sources together:
            they take its processes. A provider's own limit counts where it is higher.
        address_rate, address_burst: the rate there, from one source: that is whom it counts.
        processes: worker processes that share a limit while Redis is gone.
        edits: what operators changed, and what our names have earned.
        ledger: counts what is asked.
    """

    lease_seconds: float = 60.0
    session_seconds: float = 120.0
    stall_seconds: float = 15.0
    busy_seconds: float = 0.5
    address_sessions: int = 20
    address_rate: float = 20.0
    address_burst: int = 100
    processes: int = 1
    edits: EditBook = field(default_factory=EditBook)
    ledger: LedgerBook = field(default_factory=LedgerBook)

    def booked_seconds(self, ask: Ask) -> float:
        """Return for how long a session's room is booked where unknown recipients count, and in a tally."""
        most = ask.seconds + self.stall_seconds if ask.seconds else self.session_seconds
        return min(most, self.session_seconds)


@dataclass(frozen=True, slots=True)
class Limit:
    """Sessions at a time; recipients a second, and how many at once after a pause."""

    sessions: int
    rate: float
    burst: int

    def share(self, processes: int) -> Limit:
        """Return one process's part; never nothing."""
        return Limit(
            max(1, self.sessions // processes), self.rate / processes, max(1, self.burst // processes)
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """What applies to one ask."""

    recipients: int
    provider: Limit
    address: Limit
    refill_s: float  # in which the provider's rate allows a full session again
    harvest: int = 0  # unknown recipients of a minute for which the provider blocks us; 0 = it does not
    careful: int = 0  # the same of one that may


def limits_of(ask: Ask, row: Provider, config: ThrottleConfig) -> Limits:
    """Combine the provider's row, what operators made of it, and the limits of a destination."""
    row = config.edits.row(row, ask)
    return Limits(
        recipients=min(ask.recipients, row.recipients),
        provider=Limit(row.sessions, row.rate, row.burst),
        address=Limit(
            max(config.address_sessions, row.sessions),
            max(config.address_rate, row.rate),
            max(config.address_burst, row.burst),
        ),
        refill_s=row.recipients / row.rate,
        harvest=row.harvest,
        careful=0 if row.harvest else row.careful,
    )


def destination(ask: Ask) -> str:
    """Return whose limits apply: the IPv4 address, or the IPv6 /64, at all of which one host may answer."""
    return str(ip_network(f"{ask.address}/64", strict=False)) if ":" in ask.address else ask.address


@dataclass(slots=True)
class _LimitState:
    """One limit in use: GCRA for the rate, leases with an end for the sessions."""

    paid_until: float = 0.0
    blocked_until: float = 0.0
    strikes: int = 0
    blocks: int = 0
    leases: dict[str, float] = field(default_factory=dict)

    def idle(self, now: float) -> bool:
        """Tell whether forgetting this gate changes nothing."""
        if self.strikes or self.blocks or self.paid_until > now:
            return False
        return all(end <= now for end in self.leases.values())

    @property
    def held(self) -> bool:
        """Whether the provider has refused us too often in a row."""
        return self.blocks >= MOST_BLOCKS

    def full(self, limit: Limit, now: float) -> bool:
        self.leases = {lease: end for lease, end in self.leases.items() if end > now}
        return len(self.leases) >= (1 if self.strikes or self.held else limit.sessions)

    def available(self, limit: Limit, now: float) -> int:
        """Recipients that may be asked now; a microsecond is forgiven to rounding.

        Nobody owes more than a burst: what was sold at a lower rate is not paid for at that one.
        """
        self.paid_until = min(self.paid_until, now + limit.burst / limit.rate)
        debt = max(self.paid_until, now) - now - 1e-6
        return min(limit.burst, math.floor(limit.burst - debt * limit.rate))

    def wait(self, limit: Limit, wanted: int, now: float) -> float:
        """Seconds until `wanted` recipients, or a full burst, are available."""
        return max(0.0, self.paid_until - now - (limit.burst - min(wanted, limit.burst)) / limit.rate)

    def take(self, limit: Limit, count: int, now: float) -> None:
        self.paid_until = max(self.paid_until, now) + count / limit.rate

    def penalize(self, now: float, chance: float) -> None:
        self.strikes += 1
        penalty = PENALTY_SECONDS * 2.0 ** min(self.strikes - 1, 10) * (1 + JITTER * chance)
        self.blocked_until = now + min(LONGEST_PENALTY, penalty)

    def block(self, now: float) -> bool:
        """Count a session in which we were refused; returns whether the provider is now left alone."""
        self.blocks += 1
        if self.held:
            self.blocked_until = now + HOLD_SECONDS
        return self.held


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


_NETWORKS: Final = {4: 24, 6: 48}
_SERVERS: Final = {4: 32, 6: 64}


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
class _Headroom:
    """How many recipients fit, in how many seconds more will, or whether a session must end first.

    allowance: what makes that number up.
    """

    recipients: int
    opens_in: float = 0.0
    running: bool = False
    allowance: Allowance | None = None


UNKNOWN_SECONDS: Final = 65.0
"""How long an unknown recipient counts: a minute, and what their clock and the way there may differ by."""
KNOWN_SECONDS: Final = 30.0
"""How long a known one does, from the begin of its session: never longer than it does for them."""
_KEPT_SERVERS: Final = 10_000


@dataclass(slots=True)
class _HarvestGuard:
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

    def headroom(self, ask: Ask, *, most: int, now: float, known: bool = True) -> _Headroom:
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

    def _headroom_at(self, key: str, most: int, now: float) -> _Headroom:
        sessions = {
            name: session
            for name, session in self._sessions_by_key.pop(key, {}).items()
            if session.until > now
        }
        if not sessions:
            return _Headroom(most - 1, allowance=Allowance(most - 1, -1))
        self._sessions_by_key[key] = sessions
        known = sum(session.known for session in sessions.values() if session.begun + KNOWN_SECONDS > now)
        unknown = sum(session.unknown for session in sessions.values())
        ends = [session.until for session in sessions.values()]
        allowance = Allowance(most - 1 - unknown, known - unknown - 1)
        running = max(ends) - UNKNOWN_SECONDS > now
        return _Headroom(max(0, *allowance), min(ends) - now, running=running, allowance=allowance)


class _MayAsk(Enum):
    """Whether a list may have another session."""

    YES = auto()
    WAITS = auto()  # those under way may stop it
    STOPS = auto()


def tally_key(ask: Ask) -> str:
    """Name what is counted: a stretch of a list, at a provider, from a source."""
    return f"{ask.tally.name if ask.tally else ''}:{ask.provider}:{ask.source}"


@dataclass(slots=True)
class _Tally:
    counts: AskedCounts = NOBODY_ASKED
    in_flight: dict[str, int] = field(default_factory=dict)
    until: float = 0.0


TALLY_SECONDS: Final = 300.0
"""How long a tally outlives its last session: by then who held one has committed, and the database knows."""


@dataclass(slots=True)
class _ListTallies:
    """What the lists of one process ask; lua/grant.lua does the same for all together."""

    _tallies: dict[str, _Tally] = field(default_factory=dict)

    def may_ask(self, ask: Ask, now: float) -> _MayAsk:
        """Decide; `now` is of a clock that never jumps."""
        if ask.tally is None:
            return _MayAsk.YES
        state = self._state_of(ask, ask.tally, now)
        if ask.tally.rule.stops(state.counts):
            return _MayAsk.STOPS
        waits = ask.tally.rule.waits(state.counts, sum(state.in_flight.values()))
        return _MayAsk.WAITS if waits else _MayAsk.YES

    def begin(self, ask: Ask, lease: str, recipients: int, now: float) -> None:
        """Count a session that begins."""
        if ask.tally is not None:
            self._state_of(ask, ask.tally, now).in_flight[lease] = recipients

    def end(self, report: Report, now: float) -> None:
        """Count what became of it."""
        if report.ask.tally is not None:
            state = self._state_of(report.ask, report.ask.tally, now)
            state.in_flight.pop(report.lease, None)
            asked, missing = report.asked
            state.counts = AskedCounts(state.counts.asked + asked, state.counts.missing + missing)
            state.until = now + TALLY_SECONDS

    def _state_of(self, ask: Ask, tally: ListTally, now: float) -> _Tally:
        state = self._tallies.get(tally_key(ask))
        if state is None or state.until <= now:
            self._tallies = {name: one for name, one in self._tallies.items() if one.until > now}
            state = self._tallies[tally_key(ask)] = _Tally(until=now + TALLY_SECONDS)
        state.counts = max(state.counts, tally.before, key=lambda counts: counts.asked)
        return state


LEASE_PREFIX = "local."
HELD = Grant(0, retry_after=HELD_SECONDS)
"""The answer while an operator holds a provider: its addresses wait, and nobody has refused us."""


class LocalThrottle(Throttle):
    """Keeps to this process's share of every limit. Its leases start with `LEASE_PREFIX`."""

    def __init__(
        self,
        row: Callable[[str], Provider],
        config: ThrottleConfig,
        *,
        clock: Callable[[], float],
        random: Random,
        stands_in: str = "",
    ) -> None:
        """Take the provider table's look-up, the limits, a clock in seconds and randomness for penalties.

        stands_in: others ask, too, and what they asked is not known: a provider that counts unknown
        recipients is not asked at all. The text sets this process's leases apart from theirs.
        """
        self._row = row
        self._config = config
        self._clock = clock
        self._random = random
        self._numbers = itertools.count(1)
        self._providers: dict[tuple[str, str], _LimitState] = {}
        self._addresses: dict[str, _LimitState] = {}
        self._rate_states: dict[tuple[str, str], _LimitState] = {}
        self._stands_in = stands_in
        self._harvest = _HarvestGuard()
        self._lists = _ListTallies()

    @override
    async def grant(self, asks: Sequence[Ask]) -> Sequence[Grant]:
        now = self._clock()
        _forget_idle(self._providers, now)
        _forget_idle(self._addresses, now)
        _forget_idle(self._rate_states, now)
        return [HELD if self._config.edits.holds(ask) else self._answer(ask, now) for ask in asks]

    @override
    async def report(self, reports: Sequence[Report]) -> None:
        self._config.ledger.count(reports)
        self.end(reports)
        self.learn(reports)

    def begin(self, ask: Ask, lease: str, until: float) -> None:
        """Count a session that was granted by somebody else, until its end is reported or `until`."""
        self._providers.setdefault((ask.provider, ask.source), _LimitState()).leases[lease] = until
        self._addresses.setdefault(destination(ask), _LimitState()).leases[lease] = until

    def end(self, reports: Sequence[Report]) -> None:
        """Free the leases of sessions."""
        for report in reports:
            for state in (
                self._addresses.get(destination(report.ask)),
                self._providers.get((report.ask.provider, report.ask.source)),
            ):
                if state is not None:
                    state.leases.pop(report.lease, None)

    def learn(self, reports: Sequence[Report]) -> None:
        """Learn from the outcomes; what was asked has been counted, and the leases are free."""
        now = self._clock()
        for report in reports:
            self._harvest.end(report, now)
            self._lists.end(report, now)
            state = self._providers.get((report.ask.provider, report.ask.source))
            if state is not None:
                self._learn_from(report, state, now)

    def _learn_from(self, report: Report, state: _LimitState, now: float) -> None:
        limit = limits_of(report.ask, self._row(report.ask.provider), self._config).provider
        state.take(limit.share(self._config.processes), report.beyond, now)
        if now < state.blocked_until:
            return  # sessions of the same time as the rate reply tell nothing new
        if report.outcome is SessionOutcome.RATE:
            state.penalize(now, self._random.random())
        elif report.outcome is SessionOutcome.CLEAN:
            state.strikes = state.blocks = 0
        elif report.outcome is SessionOutcome.BLOCKED and state.block(now):
            log_hold(report.ask)

    @override
    def is_held(self, provider: str, source: str) -> bool:
        return self._config.edits.holds(Ask(provider, source, "", 1))

    def _answer(self, ask: Ask, now: float) -> Grant:
        limits = limits_of(ask, self._row(ask.provider), self._config)
        provider = self._providers.setdefault((ask.provider, ask.source), _LimitState())
        address = self._addresses.setdefault(destination(ask), _LimitState())
        if provider.blocked_until > now:
            return Grant(0, retry_after=provider.blocked_until - now, blocked=provider.held)
        may = self._lists.may_ask(ask, now)
        if ask.tally is not None and may is _MayAsk.STOPS:
            return Grant(0, retry_after=ask.tally.rule.again, stopped=True)
        rate_state = self._rate_states.setdefault((destination(ask), ask.source), _LimitState())
        own_limit, address_limit = (
            one.share(self._config.processes) for one in (limits.provider, limits.address)
        )
        if may is _MayAsk.WAITS or provider.full(own_limit, now) or address.full(address_limit, now):
            return Grant(0, retry_after=self._config.busy_seconds, busy=True)
        limits = self._without_needless_care(ask, limits, provider)
        headroom = self._harvest_headroom(ask, limits, now)
        if headroom.recipients < min(ask.least, limits.recipients):
            wait = self._config.busy_seconds if headroom.running else headroom.opens_in
            return Grant(0, retry_after=wait, busy=headroom.running)
        wanted = min(limits.recipients, limits.recipients if limits.careful else headroom.recipients)
        limited = ((provider, own_limit), (rate_state, address_limit))
        count = min(wanted, *(state.available(limit, now) for state, limit in limited))
        wait = max(state.wait(limit, wanted, now) for state, limit in limited)
        if count < 1 or (count < wanted and 0 < wait <= ask.patience):
            return Grant(0, retry_after=wait)
        for state, limit in limited:
            state.take(limit, count, now)
        lease = self._begin_session(ask, limits, count, now)
        allowance = headroom.allowance if limits.careful and headroom.recipients < limits.recipients else None
        busy = count == wanted < limits.recipients
        seconds = self._config.booked_seconds(ask) if limits.harvest or limits.careful else inf
        return Grant(count, lease, refill_s=limits.refill_s, busy=busy, allowance=allowance, seconds=seconds)

    def _without_needless_care(self, ask: Ask, limits: Limits, state: _LimitState) -> Limits:
        """Return the limits without care where few addresses wait or a hoster does, who never refused us."""
        needless = not ask.domains or self._harvest.is_hoster(ask)
        if limits.careful and needless and not (state.strikes or state.blocks):
            return replace(limits, careful=0)
        return limits

    def _begin_session(self, ask: Ask, limits: Limits, count: int, now: float) -> str:
        """Count a session that begins; returns its lease."""
        lease = f"{LEASE_PREFIX}{self._stands_in}{next(self._numbers)}"
        if limits.harvest or limits.careful:
            until = now + self._config.booked_seconds(ask)
            self._harvest.begin(ask, lease, count, now, until=until, known=limits.harvest > 0)
        self._lists.begin(ask, lease, count, now)
        for state in (self._providers[ask.provider, ask.source], self._addresses[destination(ask)]):
            state.leases[lease] = now + self._config.session_seconds
        return lease

    def _harvest_headroom(self, ask: Ask, limits: Limits, now: float) -> _Headroom:
        if limits.careful:
            most = 1 + max(1, (limits.careful - 1) // self._config.processes)
            return self._harvest.headroom(ask, most=most, now=now, known=False)
        if not limits.harvest:
            return _Headroom(limits.recipients)
        if self._stands_in:
            return _Headroom(0, opens_in=UNKNOWN_SECONDS)
        return self._harvest.headroom(ask, most=limits.harvest, now=now)


def log_hold(ask: Ask) -> None:
    """Tell the operator that a provider refuses us and is left alone for a while."""
    _log.warning("provider.refuses_us", provider=ask.provider, source=ask.source, held_s=HOLD_SECONDS)


_KEPT_STATES = 10_000


def _forget_idle(states: dict[_K, _LimitState], now: float) -> None:
    if len(states) > _KEPT_STATES:
        for key in [key for key, state in states.items() if state.idle(now)]:
            del states[key]
