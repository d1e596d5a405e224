"""What deliveries count: attempts by how they went, and endpoints that were given up."""

from __future__ import annotations

from typing import Final

from events.outcome import ErrorClass, Outcome
from events.retry import Disabled
from pipeline.meter import Counter, Histogram, Label, Meter

_ARRIVED: Final = "delivered"

ATTEMPTS: Final = Counter(
    "mailsift_webhook_attempts_total",
    "Attempts to deliver an event, by how they went",
    Label("outcome", (_ARRIVED, *(error for error in ErrorClass if error))),
)
SECONDS: Final = Histogram("mailsift_webhook_attempt_seconds", "How long an attempt to deliver took")
DISABLED: Final = Counter(
    "mailsift_webhook_disabled_total",
    "Endpoints that were disabled because of how they answered",
    Label("reason", (Disabled.BY_RECEIVER, Disabled.GONE, Disabled.FAILING)),
)

METERS: Final[tuple[Meter, ...]] = (ATTEMPTS, SECONDS, DISABLED)


def count_attempt(outcome: Outcome) -> None:
    """Count one attempt."""
    ATTEMPTS.add(outcome.error or _ARRIVED)
    SECONDS.observe(outcome.ms / 1000)
