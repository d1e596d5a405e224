"""What became of a forecast: the outcomes of one address, held against the verdicts given before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from mailsift.pipeline.facts import Answer
from mailsift.pipeline.outcomes.history import ARRIVED, DAY, GONE, told_at
from mailsift.pipeline.outcomes.outcome import Outcome, OutcomeKind

WINDOW_DAYS: Final = 90
"""A verdict answers for messages of so many days after it."""
_LATE_SECONDS: Final = (
    5 * DAY
)  # a server that took a message may try to pass it on for so long (RFC 5321 4.5.4.1)
_LATER: Final = frozenset({Answer.TEMPORARY, Answer.GREYLISTED, Answer.RATE_LIMITED})


class Fate(StrEnum):
    """What became of the first message after a verdict."""

    DELIVERED = "delivered"
    GONE = "gone"  # it came back, and the server says that there is no such mailbox or that it is closed
    REFUSED = "refused"  # it came back for another reason


def fates(judged_at: Sequence[float], outcomes: Iterable[Outcome]) -> list[Fate | None]:
    """Return what became of each verdict on one address; None where nobody knows.

    An outcome counts for the newest verdict before it, for at most WINDOW_DAYS. The first one that decides
    begins; what is told of the next five days takes it back: a bounce after a delivery is a bounce that came
    late, a delivery after a bounce one that was tried again. What is put off decides nothing.

    Args:
        judged_at: epoch seconds of the verdicts, rising.
        outcomes: of the address, in any order.
    """
    told = [(told_at(one), fate) for one in sorted(outcomes, key=told_at) if (fate := _fate(one))]
    found: list[Fate | None] = []
    for place, begin in enumerate(judged_at):
        end = judged_at[place + 1] if place + 1 < len(judged_at) else float("inf")
        end = min(end, begin + WINDOW_DAYS * DAY)
        first = next((at for at, _ in told if begin <= at < end), None)
        if first is None:
            found.append(None)
            continue
        spoken = [one for one in told if first <= one[0] <= first + _LATE_SECONDS]
        found.append(spoken[-1][1])
        told = [one for one in told if one[0] > spoken[-1][0]]
    return found


def _fate(outcome: Outcome) -> Fate | None:
    if outcome.kind in ARRIVED:
        return Fate.DELIVERED
    said = outcome.diagnosis
    if outcome.kind is not OutcomeKind.BOUNCED or said.answer in _LATER or said.was_never_sent:
        return None
    return Fate.GONE if said.answer in GONE else Fate.REFUSED
