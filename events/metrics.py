"""What deliveries count: attempts by how they went, and endpoints that were given up."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Histogram

from mailsift.events.retry import AttemptOutcome, DisabledReason, ErrorClass
from mailsift.pipeline import metrics
from mailsift.pipeline.metrics import from_zero

_ARRIVED: Final = "delivered"

ATTEMPTS: Final = from_zero(
    Counter(
        "mailsift_webhook_attempts_total",
        "Attempts to deliver an event, by how they went",
        ["outcome"],
        registry=None,
    ),
    [_ARRIVED, *(error for error in ErrorClass if error)],
)
SECONDS: Final = Histogram(
    "mailsift_webhook_attempt_seconds",
    "How long an attempt to deliver took",
    registry=None,
    buckets=metrics.SECONDS,
)
DISABLED: Final = from_zero(
    Counter(
        "mailsift_webhook_disabled_total",
        "Endpoints that were disabled because of how they answered",
        ["reason"],
        registry=None,
    ),
    [DisabledReason.BY_RECEIVER, DisabledReason.GONE, DisabledReason.FAILING],
)

METRICS: Final = (ATTEMPTS, SECONDS, DISABLED)


def count_attempt(outcome: AttemptOutcome) -> None:
    """Count one attempt."""
    ATTEMPTS.labels(outcome.error or _ARRIVED).inc()
    SECONDS.observe(outcome.ms / 1000)
