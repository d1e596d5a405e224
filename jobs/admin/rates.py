"""What operators see of paces: lanes with how long they take, providers x sources with what limits them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mailsift.jobs.admin.models import Lane, ThrottleRow
from mailsift.jobs.eta import Batch, JobLoad, ProviderBacklog, time_left
from mailsift.jobs.rates import ProviderRates
from mailsift.pipeline.ports import Ask
from mailsift.pipeline.providers import Providers
from mailsift.storage.redis.throttle_view import LearnedPace
from mailsift.storage.sql.chunks import MIXED_KEY, SLOW_KEY, TRIAGE_KEY
from mailsift.storage.sql.stats import LaneRow
from mailsift.storage.sql.throttle_edits import ANY_SOURCE, EditBook, ThrottleEdit

LANE_TITLES: Final[Mapping[str, str]] = {
    TRIAGE_KEY: "not looked at yet",
    MIXED_KEY: "many small providers",
    SLOW_KEY: "slow hosts",
}


def lane_of(row: LaneRow, rates: ProviderRates) -> Lane:
    """Return the lane with its pace; only a provider's lane has one."""
    if row.lane in LANE_TITLES:
        return Lane(row, LANE_TITLES[row.lane], None, None, held=False)
    paces = rates.paces(row.lane)
    queue = ProviderBacklog(row.lane, paces, (Batch(row.remaining),))
    rate = sum(pace.rate for pace in paces if not pace.held)
    seconds = time_left(JobLoad((queue,))).seconds
    return Lane(row, row.lane, rate, seconds, held=all(pace.held for pace in paces))


def throttle_rows(
    learned: Sequence[LearnedPace],
    edits: Sequence[ThrottleEdit],
    waiting: Mapping[str, int],
    providers: Providers,
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
