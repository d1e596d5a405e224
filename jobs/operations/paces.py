"""How fast providers may be asked now: the table, what operators changed and what was learned, together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from jobs.operations.looks import Lane, ThrottleRow
from pipeline.ports import Ask
from pipeline.providers import Providers
from storage.backlog_rows import LaneRow
from storage.chunk_rows import MIXED_LANE, SLOW_LANE, SURVEY_LANE
from storage.throttle_edits import ANY_SOURCE, Edit, EditBook
from storage.throttle_view import Learned

LANE_TITLES: Final[Mapping[str, str]] = {
    SURVEY_LANE: "not looked at yet",
    MIXED_LANE: "many small providers",
    SLOW_LANE: "slow hosts",
}


class Paces:
    """What providers allow from all our sources together.

    Args:
        providers: the table with the overrides file.
        sources: the labels of our own addresses.
        edits: what operators changed.
        learned: what the throttle knows.
    """

    def __init__(
        self, providers: Providers, sources: Sequence[str], edits: Sequence[Edit], learned: Sequence[Learned]
    ) -> None:
        self._providers = providers
        self._sources = sources
        self._book = EditBook(edits)
        self._learned = {(one.provider, one.source): one for one in learned}

    def lane(self, row: LaneRow) -> Lane:
        """Return the lane with its pace; only a provider's lane has one."""
        if row.lane in LANE_TITLES:
            return Lane(row, LANE_TITLES[row.lane], None, None, held=False)
        asks = [_ask(row.lane, source) for source in self._sources]
        free = [ask for ask in asks if not self._book.holds(ask)]
        rate = sum(self._rate(ask) for ask in free)
        return Lane(row, row.lane, rate, row.remaining / rate if rate else None, held=not free)

    def _rate(self, ask: Ask) -> float:
        row = self._book.row(self._providers.row(ask.provider), ask)
        known = self._learned.get((ask.provider, ask.source))
        return row.rate * (known.share if known else 1.0)


def throttle_rows(
    learned: Sequence[Learned], edits: Sequence[Edit], waiting: Mapping[str, int], providers: Providers
) -> list[ThrottleRow]:
    """Put together what is known of every provider x source: held and closed ones first, then the busiest."""
    book, edited = EditBook(edits), {(edit.provider, edit.source): edit for edit in edits}
    rows = []
    for one in learned:
        ask, base = _ask(one.provider, one.source), providers.row(one.provider)
        rows.append(
            ThrottleRow(
                learned=one,
                base=base,
                now=book.row(base, ask),
                held=book.holds(ask),
                edit=edited.get((one.provider, one.source)) or edited.get((one.provider, ANY_SOURCE)),
                waiting=waiting.get(one.provider, 0),
            )
        )
    return sorted(rows, key=_place)


def _place(row: ThrottleRow) -> tuple[bool, bool, int, int, str, str]:
    one = row.learned
    return not row.held, one.closed_s <= 0, -row.waiting, -one.sessions, one.provider, one.source


def _ask(provider: str, source: str) -> Ask:
    return Ask(provider, source, "", 1)
