"""What became of a forecast: the outcomes of one address, held against the verdicts given before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from mailsift.pipeline.facts import GONE, NOT_NOW
from mailsift.pipeline.outcomes.history import ARRIVED, DAY, counts_from, in_known_order
from mailsift.pipeline.outcomes.outcome import Outcome, OutcomeKind

WINDOW_DAYS: Final = 90
"""A verdict answers for messages of so many days after it."""
_LATE_SECONDS: Final = (
    5 * DAY
)  # a server that took a message may try to pass it on for so long (RFC 5321 4.5.4.1)


class Fate(StrEnum):
    """What became of the first message after a verdict."""

    DELIVERED = "delivered"
    GONE = "gone"  # it came back, and the server says that there is no such mailbox or that it is closed
    REFUSED = "refused"  # it came back for another reason


def fates(judged_at: Sequence[float], outcomes: Iterable[Outcome]) -> list[Fate | None]:
    """Return what became of each verdict on one address; None where nobody knows.

    An outcome counts for the newest verdict before it, for at most WINDOW_DAYS. The first one that decides
    begins; what is told of the next five days takes it back: a bounce after a delivery is a bounce that came
    late, a delivery after a bounce one that was tried again. What is put off decides nothing, nor does what
    has no time where others without one say the contrary.

    Args:
        judged_at: epoch seconds of the verdicts, rising.
        outcomes: of the address, in any order.
    """
    ordered = sorted(in_known_order(outcomes), key=counts_from)
    timed = [(counts_from(entry), fate) for entry in ordered if (fate := _fate(entry))]
    result: list[Fate | None] = []
    for index, begin in enumerate(judged_at):
        end = judged_at[index + 1] if index + 1 < len(judged_at) else float("inf")
        end = min(end, begin + WINDOW_DAYS * DAY)
        first = next((at for at, _ in timed if begin <= at < end), None)
        if first is None:
            result.append(None)
            continue
        deciding = [entry for entry in timed if first <= entry[0] <= first + _LATE_SECONDS]
        result.append(deciding[-1][1])
        timed = [entry for entry in timed if entry[0] > deciding[-1][0]]
    return result


def _fate(outcome: Outcome) -> Fate | None:
    if outcome.kind in ARRIVED:
        return Fate.DELIVERED
    diagnosis = outcome.diagnosis
    if outcome.kind is not OutcomeKind.BOUNCED or diagnosis.answer in NOT_NOW or diagnosis.was_never_sent:
        return None
    return Fate.GONE if diagnosis.answer in GONE else Fate.REFUSED
