"""One row of the verdict table, and the conditions it is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipeline.facts import Answer, DomainState, Known
from pipeline.verdict import Evidence, Result, Status


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operator decides.

    Attributes:
        disposable_invalid: throw-away domains are invalid instead of risky.
    """

    disposable_invalid: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One verdict: the first row whose condition holds decides.

    Attributes:
        id: stable name, for the evidence and the tests.
        result, status, score: what is said; the score before adjustments.
        when: the condition.
        reason: one sentence.
        suggestion: advice, or "".
    """

    id: str
    result: Result
    status: Status
    score: int
    when: Callable[[Evidence, Policy], bool]
    reason: str
    suggestion: str = ""


def domain_is(state: DomainState) -> Callable[[Evidence, Policy], bool]:
    """Hold when DNS said this."""
    return lambda evidence, _: evidence.domain is state


def answer_is(answer: Answer) -> Callable[[Evidence, Policy], bool]:
    """Hold when the mail server's answer is of this class."""
    return lambda evidence, _: evidence.answer is answer


def about_this_mailbox(answer: Answer) -> Callable[[Evidence, Policy], bool]:
    """Hold when the answer is not given to everybody, by a provider whose answers mean something."""
    return lambda evidence, _: (
        evidence.answer is answer and not evidence.blanket and not evidence.unverifiable
    )


def accepted_with(catch_all: Known) -> Callable[[Evidence, Policy], bool]:
    """Hold when the mailbox was accepted, and this is known of a random one."""
    return lambda evidence, _: evidence.answer is Answer.ACCEPTED and evidence.catch_all is catch_all
