"""What lists ask at each throttle key, counted while they ask: so that one stops within a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from mailsift.pipeline.ports import Ask, Report
from mailsift.pipeline.stop import NOBODY_ASKED, AskedCounts, ListTally

KEPT_SECONDS: Final = 300.0
"""How long a tally outlives its last session: by then who held one has committed, and the database knows."""


class MayAsk(Enum):
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


@dataclass(slots=True)
class ListTallies:
    """What the lists of one process ask; lua/grant.lua does the same for all together."""

    _tallies: dict[str, _Tally] = field(default_factory=dict)

    def may_ask(self, ask: Ask, now: float) -> MayAsk:
        """Decide; `now` is of a clock that never jumps."""
        if ask.tally is None:
            return MayAsk.YES
        state = self._state_of(ask, ask.tally, now)
        if ask.tally.rule.stops(state.counts):
            return MayAsk.STOPS
        waits = ask.tally.rule.waits(state.counts, sum(state.in_flight.values()))
        return MayAsk.WAITS if waits else MayAsk.YES

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
            state.until = now + KEPT_SECONDS

    def _state_of(self, ask: Ask, tally: ListTally, now: float) -> _Tally:
        state = self._tallies.get(tally_key(ask))
        if state is None or state.until <= now:
            self._tallies = {name: one for name, one in self._tallies.items() if one.until > now}
            state = self._tallies[tally_key(ask)] = _Tally(until=now + KEPT_SECONDS)
        state.counts = max(state.counts, tally.before, key=lambda counts: counts.asked)
        return state
