"""What the pipeline counts: how mail servers answer, and what the throttle allows."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterable, Sequence
from typing import Final

from pipeline.facts import Answer
from pipeline.meter import OTHER, PROVIDER, Counter, Label, Meter, provider_label
from pipeline.ports import Grant, Outcome, Report

SMTP_REPLIES: Final = Counter(
    "mailsift_smtp_reply_total",
    "What mail servers said about mailboxes, or their silence",
    PROVIDER,
    Label("class", tuple(Answer)),
    starts=[(OTHER, answer.value) for answer in Answer],
)
GRANTED: Final = Counter(
    "mailsift_throttle_granted_total", "SMTP sessions the throttle allowed", PROVIDER, starts=[(OTHER,)]
)
RECIPIENTS: Final = Counter(
    "mailsift_throttle_recipients_total",
    "Recipients the throttle allowed in these sessions",
    PROVIDER,
    starts=[(OTHER,)],
)
DENIED: Final = Counter(
    "mailsift_throttle_denied_total",
    "SMTP sessions the throttle did not allow now: for its limits, or as the provider refuses us",
    PROVIDER,
    Label("reason", ("limit", "held")),
    starts=[(OTHER, "limit"), (OTHER, "held")],
)
SESSIONS: Final = Counter(
    "mailsift_smtp_sessions_total",
    "SMTP sessions that are over, by what the throttle learned from them",
    PROVIDER,
    Label("outcome", tuple(Outcome)),
    starts=[(OTHER, outcome.value) for outcome in Outcome],
)

METERS: Final[tuple[Meter, ...]] = (SMTP_REPLIES, GRANTED, RECIPIENTS, DENIED, SESSIONS)


def count_replies(heard: Iterable[tuple[str, Answer]]) -> None:
    """Count what was heard: throttle key and class of every mailbox that was asked about."""
    for (provider, answer), times in Tally(heard).items():
        SMTP_REPLIES.add(provider_label(provider), answer, amount=times)


def count_grants(providers: Sequence[str], grants: Sequence[Grant]) -> None:
    """Count the throttle's answers, in the order of the throttle keys that were asked for."""
    for provider, grant in zip(providers, grants, strict=True):
        label = provider_label(provider)
        if grant.recipients:
            GRANTED.add(label)
            RECIPIENTS.add(label, amount=grant.recipients)
        else:
            DENIED.add(label, "held" if grant.blocked else "limit")


def count_sessions(reports: Iterable[Report]) -> None:
    """Count the sessions that are reported."""
    for report in reports:
        SESSIONS.add(provider_label(report.ask.provider), report.outcome)
