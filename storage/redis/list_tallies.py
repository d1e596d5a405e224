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


def place_of(ask: Ask) -> str:
    """Name what is counted: a stretch of a list, at a provider, from a source."""
    return f"{ask.tally.name if ask.tally else ''}:{ask.provider}:{ask.source}"


@dataclass(slots=True)
class _Tally:
    counts: AskedCounts = NOBODY_ASKED
    under_way: dict[str, int] = field(default_factory=dict)
    until: float = 0.0


@dataclass(slots=True)
class ListTallies:
    """What the lists of one process ask; lua/grant.lua does the same for all together."""

    _tallies: dict[str, _Tally] = field(default_factory=dict)

    def may_ask(self, ask: Ask, now: float) -> MayAsk:
        """Decide; `now` is of a clock that never jumps."""
        if ask.tally is None:
            return MayAsk.YES
        known = self._at(ask, ask.tally, now)
        if ask.tally.rule.stops(known.counts):
            return MayAsk.STOPS
        waits = ask.tally.rule.waits(known.counts, sum(known.under_way.values()))
        return MayAsk.WAITS if waits else MayAsk.YES

    def begin(self, ask: Ask, lease: str, recipients: int, now: float) -> None:
        """Count a session that begins."""
        if ask.tally is not None:
            self._at(ask, ask.tally, now).under_way[lease] = recipients

    def end(self, report: Report, now: float) -> None:
        """Count what became of it."""
        if report.ask.tally is not None:
            known = self._at(report.ask, report.ask.tally, now)
            known.under_way.pop(report.lease, None)
            asked, missing = report.asked
            known.counts = AskedCounts(known.counts.asked + asked, known.counts.missing + missing)
            known.until = now + KEPT_SECONDS

    def _at(self, ask: Ask, tally: ListTally, now: float) -> _Tally:
        known = self._tallies.get(place_of(ask))
        if known is None or known.until <= now:
            self._tallies = {name: one for name, one in self._tallies.items() if one.until > now}
            known = self._tallies[place_of(ask)] = _Tally(until=now + KEPT_SECONDS)
        known.counts = max(known.counts, tally.before, key=lambda counts: counts.asked)
        return known
