"""What the outcomes of one address decide: a fact about its mailbox, and what became of forecasts.

The fact is from a witness that really sent; the forecasts are the verdicts given before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Final

from mailsift.pipeline.facts import GONE, NOT_NOW, Answer, MailboxFact
from mailsift.pipeline.outcomes.outcome import WISHES, Diagnosis, Outcome, OutcomeKind

STAGE: Final = "outcome"
"""The stage of a fact that a real message brought."""

DAY: Final = 86_400.0
_CLOCKS_DIFFER: Final = 600.0
"""So many seconds a mail server's clock may be behind."""
_ARRIVED: Final = WISHES | {OutcomeKind.DELIVERED}
MOST_DAYS: Final = 3_650
"""No outcome is kept or believed for longer."""


@dataclass(frozen=True, slots=True)
class OutcomePolicy:
    """How long an account believes what happened.

    Attributes:
        delivered_days: a delivery shows for so many days that the mailbox is there; 0 = never.
        bounced_days: a bounce shows for so many days that it is gone; 0 = never.
    """

    delivered_days: float = 90.0
    bounced_days: float = 365.0

    def __post_init__(self) -> None:
        """Refuse days that are none.

        Raises:
            ValueError: less than none, or more than outcomes are ever kept.
        """
        if not all(0 <= days <= MOST_DAYS for days in (self.delivered_days, self.bounced_days)):
            raise ValueError(f"an outcome is believed for 0 to {MOST_DAYS} days")

    @classmethod
    def read(cls, stored: Mapping[str, float]) -> OutcomePolicy:
        """Return what was stored; what it does not say is the default."""
        names = {field.name for field in fields(cls)}
        return cls(**{name: float(value) for name, value in stored.items() if name in names})

    def seconds(self, outcome: Outcome) -> float:
        """Return for how long an outcome is believed."""
        days = self.bounced_days if outcome.kind is OutcomeKind.BOUNCED else self.delivered_days
        return days * DAY


@dataclass(frozen=True, slots=True)
class SentFact(MailboxFact):
    """What a message that was really sent shows about a mailbox.

    Attributes:
        policy: by which it counts, and for how long.
    """

    stage: str = STAGE
    cached: bool = True
    policy: OutcomePolicy = field(default_factory=OutcomePolicy)


def mailbox_fact(
    outcomes: Iterable[Outcome], policy: OutcomePolicy, now: float, *, within: float | None = None
) -> SentFact | None:
    """Return what the outcomes of one address show about its mailbox; None where they show nothing.

    The newest that decides does. A message that arrived (and one that was complained about or unsubscribed
    from did) shows that the mailbox is there, unless a later one was given up without a reason that speaks of
    something else; a bounce shows that it is gone only where the server's words say so, and goes on showing
    it when the sender keeps the next messages back itself. What is put off shows nothing: of mail that fails
    at first a third arrives later. Nor does what `_in_known_order` leaves out.

    Args:
        outcomes: of one address, in any order.
        policy: how long they are believed.
        now: epoch seconds.
        within: seconds; what is older shows nothing, whatever the policy says; None = the policy decides.
    """
    youngest = 0.0 if within is None else now - within
    taken_back = False
    for outcome in sorted(_in_known_order(outcomes), key=_counts_from, reverse=True):
        answer = _answer_of(outcome)
        taken_back |= answer is Answer.UNCLEAR
        if answer is None or answer is Answer.UNCLEAR:
            continue
        expires = outcome.happened_at + policy.seconds(outcome)
        is_doubtful = taken_back and answer is Answer.ACCEPTED
        if is_doubtful or expires <= now or outcome.happened_at <= youngest:
            return None
        diagnosis = outcome.diagnosis
        return SentFact(
            answer=answer,
            smtp_code=diagnosis.smtp_code,
            enhanced=diagnosis.enhanced,
            text=diagnosis.text,
            rule=diagnosis.rule or outcome.kind.value,
            host=outcome.origin,
            asked_at=outcome.happened_at,
            expires_at=expires,
            policy=policy,
        )
    return None


def kind_as_answered(kind: OutcomeKind, diagnosis: Diagnosis) -> OutcomeKind:
    """Return what happened by the server's answer: what senders call a soft bounce may be one for good."""
    is_for_good = diagnosis.smtp_code >= _PERMANENT_CODE and diagnosis.answer in GONE
    return OutcomeKind.BOUNCED if is_for_good else kind


_PERMANENT_CODE: Final = 500  # replies with such codes (RFC 5321 section 4.2.1)


def _in_known_order(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Return outcomes of one address without those of which nobody knows what came first.

    Where of reports without a time some say that it arrived and others that the mailbox is gone, as a table
    without dates may, either may be how things are now.
    """
    found = list(outcomes)
    undated = [entry for entry in found if entry.undated]
    arrived = any(entry.kind in _ARRIVED for entry in undated)
    return (
        [entry for entry in found if not entry.undated] if arrived and any(map(_is_gone, undated)) else found
    )


def _is_gone(outcome: Outcome) -> bool:
    return outcome.kind is OutcomeKind.BOUNCED and outcome.diagnosis.answer in GONE


def _counts_from(outcome: Outcome) -> float:
    """Return when an outcome counts, in epoch seconds.

    The report that a mailbox is not there comes from a clock of its own, often in whole seconds: it counts as
    later than the delivery of the same message, which its sender's clock has put down.
    """
    return outcome.happened_at + (_CLOCKS_DIFFER if _is_gone(outcome) else 0.0)


def _answer_of(outcome: Outcome) -> Answer | None:
    """Return what an outcome shows; UNCLEAR where it takes an earlier arrival back, None for nothing."""
    if outcome.kind in _ARRIVED:
        return Answer.ACCEPTED
    if outcome.kind is not OutcomeKind.BOUNCED:
        return None
    answer = outcome.diagnosis.answer
    return answer if answer in GONE or answer is Answer.UNCLEAR else None


WINDOW_DAYS: Final = 90
"""A verdict answers for messages of so many days after it."""
_LATE_SECONDS: Final = 5 * DAY
"""For so long a server that took a message may try to pass it on (RFC 5321 section 4.5.4.1)."""


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
    ordered = sorted(_in_known_order(outcomes), key=_counts_from)
    told = [(entry.happened_at, _counts_from(entry), fate) for entry in ordered if (fate := _fate(entry))]
    result: list[Fate | None] = []
    for index, begin in enumerate(judged_at):
        end = judged_at[index + 1] if index + 1 < len(judged_at) else float("inf")
        end = min(end, begin + WINDOW_DAYS * DAY)
        told = [one for one in told if one[0] >= begin]
        first = next((counts for at, counts, _ in told if at < end), None)
        if first is None:
            result.append(None)
            continue
        last = first + _LATE_SECONDS
        result.append([fate for _, counts, fate in told if first <= counts <= last][-1])
        told = [one for one in told if not first <= one[1] <= last]
    return result


def _fate(outcome: Outcome) -> Fate | None:
    if outcome.kind in _ARRIVED:
        return Fate.DELIVERED
    diagnosis = outcome.diagnosis
    if outcome.kind is not OutcomeKind.BOUNCED or diagnosis.answer in NOT_NOW or diagnosis.was_never_sent:
        return None
    return Fate.GONE if diagnosis.answer in GONE else Fate.REFUSED


@dataclass(frozen=True, slots=True)
class OutcomeFacts:
    """What an account knows of addresses from its own messages, by canonical address; of most nothing.

    Attributes:
        sent: what messages that were really sent showed about mailboxes.
        unwanted: why it may not send there (mailsift.pipeline.judge.tiers.Unwanted).
        looked_up: False where nobody could say: then both are empty, and mean nothing.
    """

    sent: Mapping[str, MailboxFact] = field(default_factory=dict)
    unwanted: Mapping[str, str] = field(default_factory=dict)
    looked_up: bool = True

    def only(self, addresses: Iterable[str]) -> OutcomeFacts:
        """Return what is known of these addresses."""
        if not self.sent and not self.unwanted:
            return self
        asked = frozenset(addresses)
        return OutcomeFacts(
            {address: fact for address, fact in self.sent.items() if address in asked},
            {address: reason for address, reason in self.unwanted.items() if address in asked},
            self.looked_up,
        )


NO_OUTCOMES: Final = OutcomeFacts()
NOT_LOOKED_UP: Final = OutcomeFacts(looked_up=False)
