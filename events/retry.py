"""How an attempt to deliver went, when it is made again, when to give up: time and chance are passed in."""

from __future__ import annotations

import random as random_module
import re
from dataclasses import dataclass, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum

from mailsift.pipeline.clock import utc_datetime
from mailsift.storage.sql.deliveries import EndpointHealth

RETRY_S = (0, 5, 30, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Seconds before attempt 1, 2, … 11, each counted from the one before: 75.6 hours in all."""

_JITTER = 0.2
_LONGEST_S = 86_400.0
_BUSY_S = 60.0
"""How long a receiver that says it is busy is left alone at least."""

_OPEN_AFTER = 5
"""Failures in a row that open the breaker."""

PROBE_S, LONGEST_PROBE_S = 60.0, 900.0
DISABLE_AFTER_S, DISABLE_AFTER = 5 * 86_400.0, 10

NOT_SENT_S = 60.0
"""How long a delivery and its endpoint wait after a fault of ours."""

_GONE = 410
_BUSY = frozenset({429, 503})

_RESPONSE_TEXT_BYTES = 4 * 1024
"""How much of a response is kept."""

_WAITS = re.compile(r"(?:\s*(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,)?[^,]+", re.IGNORECASE)
"""The values of a Retry-After; the comma after the day of a week divides none."""
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class ErrorClass(StrEnum):
    """Why an attempt failed; NONE when it arrived, NOT_SENT when it was no attempt: the fault was ours."""

    NONE = ""
    DNS = "dns_error"
    REFUSED = "connection_refused"
    RESET = "connection_reset"
    TIMEOUT = "timeout"
    TLS = "tls_error"
    REDIRECT = "redirect"
    BLOCKED = "blocked_address"
    HTTP_4XX = "http_4xx"
    HTTP_5XX = "http_5xx"
    NOT_SENT = "not_sent"


class ReceiverDirective(StrEnum):
    """What a receiver asks for by its header `webhook-delivery`, whatever its status says."""

    NONE = ""
    DISABLE = "disable"  # nothing more to this endpoint
    ABORT = "abort-message"  # never this event again


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """What came of one HTTP request.

    Attributes:
        error: NONE exactly when the receiver answered 2xx.
        status_code: 0 when nobody answered.
        ms: how long it took.
        retry_after: the header as it came, "" when there was none.
        response: the beginning of the body as harmless text.
        directive: what it asked for beside its answer.
    """

    error: ErrorClass
    status_code: int = 0
    ms: int = 0
    retry_after: str = ""
    response: str = ""
    directive: ReceiverDirective = ReceiverDirective.NONE


def error_class(status_code: int) -> ErrorClass:
    """Return what an HTTP status means for a delivery: only 2xx is success, a redirect is not followed."""
    match status_code // 100:
        case 2:
            return ErrorClass.NONE
        case 3:
            return ErrorClass.REDIRECT
        case 4:
            return ErrorClass.HTTP_4XX
        case _:
            return ErrorClass.HTTP_5XX


def read_directive(header: str) -> ReceiverDirective:
    """Read a `webhook-delivery` header; a word nobody knows says nothing."""
    word = header.strip().lower()
    return ReceiverDirective(word) if word in set(ReceiverDirective) else ReceiverDirective.NONE


def printable_text(body: bytes) -> str:
    """Return the beginning of a response as text: at most 4 KiB, no control or direction characters."""
    text = _UNPRINTABLE.sub(
        "\N{REPLACEMENT CHARACTER}", body[:_RESPONSE_TEXT_BYTES].decode("utf-8", "replace")
    )
    return text.encode()[:_RESPONSE_TEXT_BYTES].decode("utf-8", "ignore")


class DeliveryState(StrEnum):
    """Where a delivery stands; the last three are its ends."""

    PENDING = "pending"
    DELIVERING = "delivering"
    SUCCEEDED = "succeeded"
    EXHAUSTED = "exhausted"
    SKIPPED = "skipped"


class DisabledReason(StrEnum):
    """Why an endpoint gets nothing; NO when it does."""

    NO = ""
    BY_OWNER = "by_owner"
    BY_RECEIVER = "by_receiver"  # it answered with `webhook-delivery: disable`
    GONE = "gone"  # it answered 410
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class DeliveryStep:
    """What becomes of a delivery; `at` is when it is tried again, in epoch seconds, None = never."""

    state: DeliveryState
    at: float | None = None


def next_step(
    attempt: int, outcome: AttemptOutcome, now: float, random: random_module.Random
) -> DeliveryStep:
    """Decide what becomes of a delivery that was attempted.

    Args:
        attempt: which attempt this was, from 1.
        outcome: how it went.
        now: epoch seconds.
        random: spreads the retries, so that a receiver that comes back is not met by all at once.
    """
    if outcome.error is ErrorClass.NONE:
        return DeliveryStep(DeliveryState.SUCCEEDED)
    if (
        outcome.status_code == _GONE
        or outcome.directive is not ReceiverDirective.NONE
        or attempt >= len(RETRY_S)
    ):
        return DeliveryStep(DeliveryState.EXHAUSTED)
    base = float(RETRY_S[attempt])
    wait = base * random.uniform(1 - _JITTER, 1 + _JITTER)
    asked = retry_after_s(outcome.retry_after, now)
    if asked is not None:
        wait = max(wait, min(max(asked, base), _LONGEST_S))
    if outcome.status_code in _BUSY:
        wait = max(wait, _BUSY_S)
    return DeliveryStep(DeliveryState.PENDING, now + wait)


def not_sent_until(now: float, random: random_module.Random) -> float:
    """Return when a delivery is tried that could not be attempted because of us, in epoch seconds."""
    return now + NOT_SENT_S * random.uniform(1 - _JITTER, 1 + _JITTER)


def health_after(
    before: EndpointHealth, outcome: AttemptOutcome, state: DeliveryState, now: float
) -> EndpointHealth:
    """Return how the endpoint fares after an attempt that left its delivery in `state`.

    A receiver that asks for an event to be dropped works: what it does not want is no failure.
    """
    if outcome.error is ErrorClass.NONE or outcome.directive is ReceiverDirective.ABORT:
        return EndpointHealth()
    health = replace(
        before,
        failures=before.failures + 1,
        failing_since=before.failing_since or utc_datetime(now),
        exhausted=before.exhausted + (state is DeliveryState.EXHAUSTED),
    )
    holds = [_breaker_s(health.failures)]
    if outcome.status_code in _BUSY:  # its other deliveries would hear the same
        asked = retry_after_s(outcome.retry_after, now) or 0.0
        holds.append(min(max(asked, _BUSY_S), LONGEST_PROBE_S))
    hold = max(holds)
    return replace(health, probe_at=utc_datetime(now + hold) if hold else before.probe_at)


def disabled_after(health: EndpointHealth, outcome: AttemptOutcome, now: float) -> DisabledReason:
    """Decide whether the endpoint is to be disabled: it says so, or has failed for days and often."""
    if outcome.directive is ReceiverDirective.DISABLE:
        return DisabledReason.BY_RECEIVER
    if outcome.status_code == _GONE:
        return DisabledReason.GONE
    if failing_s(health, now) >= DISABLE_AFTER_S and health.exhausted >= DISABLE_AFTER:
        return DisabledReason.FAILING
    return DisabledReason.NO


def failing_s(health: EndpointHealth, now: float) -> float:
    """Return for how many seconds nothing has arrived; 0 when the last attempt did."""
    return now - health.failing_since.timestamp() if health.failing_since else 0.0


def retry_after_s(header: str, now: float) -> float | None:
    """Read a Retry-After header, RFC 9110 section 10.2.3: seconds from now, None when it says nothing.

    Of several, as of a receiver and of the proxy before it, the longest is asked for.
    """
    read = (_wait_s(text.strip(), now) for text in _WAITS.findall(header))
    return max((wait for wait in read if wait is not None), default=None)


def _wait_s(text: str, now: float) -> float | None:
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        asked = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # it says a year or an offset that no computer counts to
        return None
    if asked.tzinfo is None:
        asked = asked.replace(tzinfo=UTC)
    return max(0.0, asked.timestamp() - now)


def _breaker_s(failures: int) -> float:
    """Return how long the breaker opens: a minute at first, then twice as long, up to 15."""
    if failures < _OPEN_AFTER:
        return 0.0
    return min(PROBE_S * 2.0 ** min(failures - _OPEN_AFTER, 10), LONGEST_PROBE_S)
