"""What deliveries count: attempts by how they went, and endpoints that were given up."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Histogram

from mailsift.events.retry import AttemptOutcome, DisabledReason, ErrorClass
from mailsift.pipeline import metrics
from mailsift.pipeline.metrics import declare

_ARRIVED: Final = "delivered"

ATTEMPTS: Final = declare(
    Counter,
    "mailsift_webhook_attempts_total",
    "Attempts to deliver an event, by how they went",
    {"outcome": [_ARRIVED, *(error for error in ErrorClass if error)]},
)
SECONDS: Final = declare(
    Histogram,
    "mailsift_webhook_attempt_seconds",
    "How long an attempt to deliver took",
    buckets=metrics.SECONDS,
)
DISABLED: Final = declare(
    Counter,
    "mailsift_webhook_disabled_total",
    "Endpoints that were disabled because of how they answered",
    {"reason": [DisabledReason.BY_RECEIVER, DisabledReason.GONE, DisabledReason.FAILING]},
)

METRICS: Final = (ATTEMPTS, SECONDS, DISABLED)


def count_attempt(outcome: AttemptOutcome) -> None:
    """Count one attempt."""
    ATTEMPTS.labels(outcome.error or _ARRIVED).inc()
    SECONDS.observe(outcome.ms / 1000)
