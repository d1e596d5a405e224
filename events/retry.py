"""When to try again and when to give up: pure decisions, time and chance passed in."""

from __future__ import annotations

import random as random_module
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

from events.outcome import ErrorClass, Outcome, Wish

RETRY_S = (0, 5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
"""Seconds before attempt 1, 2, … 10, each counted from the one before: 75.6 hours in all."""

JITTER = 0.2
LONGEST_S = 86_400.0
BUSY_S = 60.0
"""How long a receiver that says it is busy is left alone at least."""

OPEN_AFTER = 5
"""Failures in a row that open the breaker."""

PROBE_S, LONGEST_PROBE_S = 60.0, 900.0
DISABLE_AFTER_S, DISABLE_AFTER = 5 * 86_400.0, 10

NOT_SENT_S = 60.0
"""How long a delivery and its endpoint wait after a fault of ours."""

_GONE = 410
_BUSY = frozenset({429, 503})


class DeliveryState(StrEnum):
    """Where a delivery stands; the last three are its ends."""

    PENDING = "pending"
    DELIVERING = "delivering"
    SUCCEEDED = "succeeded"
    EXHAUSTED = "exhausted"
    SKIPPED = "skipped"


class Disabled(StrEnum):
    """Why an endpoint gets nothing; NO when it does."""

    NO = ""
    BY_OWNER = "by_owner"
    BY_RECEIVER = "by_receiver"  # it answered with `webhook-delivery: disable`
    GONE = "gone"  # it answered 410
    FAILING = "failing"


@dataclass(frozen=True, slots=True)
class Next:
    """What becomes of a delivery; `at` is when it is tried again, in epoch seconds, None = never."""

    state: DeliveryState
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """How an endpoint fares; times in epoch seconds.

    Attributes:
        failures: attempts that failed in a row.
        failing_since: when the first of them was made.
        exhausted: deliveries given up since then.
        probe_at: the breaker is open until then; None = closed.
    """

    failures: int = 0
    failing_since: float | None = None
    exhausted: int = 0
    probe_at: float | None = None


def after(attempt: int, outcome: Outcome, now: float, random: random_module.Random) -> Next:
    """Decide what becomes of a delivery that was attempted.

    Args:
        attempt: which attempt this was, from 1.
        outcome: how it went.
        now: epoch seconds.
        random: spreads the retries, so that a receiver that comes back is not met by all at once.
    """
    if outcome.error is ErrorClass.NONE:
        return Next(DeliveryState.SUCCEEDED)
    if outcome.status_code == _GONE or outcome.wish is not Wish.NONE or attempt >= len(RETRY_S):
        return Next(DeliveryState.EXHAUSTED)
    base = float(RETRY_S[attempt])
    wait = base * random.uniform(1 - JITTER, 1 + JITTER)
    asked = retry_after_s(outcome.retry_after, now)
    if asked is not None:
        wait = max(wait, min(max(asked, base), LONGEST_S))
    if outcome.status_code in _BUSY:
        wait = max(wait, BUSY_S)
    return Next(DeliveryState.PENDING, now + wait)


def not_sent_until(now: float, random: random_module.Random) -> float:
    """Return when a delivery is tried that could not be attempted because of us, in epoch seconds."""
    return now + NOT_SENT_S * random.uniform(1 - JITTER, 1 + JITTER)


def health_after(before: Health, outcome: Outcome, state: DeliveryState, now: float) -> Health:
    """Return how the endpoint fares after an attempt that left its delivery in `state`.

    A receiver that asks for an event to be dropped works: what it does not want is no failure.
    """
    if outcome.error is ErrorClass.NONE or outcome.wish is Wish.ABORT:
        return Health()
    health = replace(
        before,
        failures=before.failures + 1,
        failing_since=now if before.failing_since is None else before.failing_since,
        exhausted=before.exhausted + (state is DeliveryState.EXHAUSTED),
    )
    holds = [_breaker_s(health.failures)]
    if outcome.status_code in _BUSY:  # its other deliveries would hear the same
        asked = retry_after_s(outcome.retry_after, now) or 0.0
        holds.append(min(max(asked, BUSY_S), LONGEST_PROBE_S))
    hold = max(holds)
    return replace(health, probe_at=now + hold if hold else before.probe_at)


def disabled_after(health: Health, outcome: Outcome, now: float) -> Disabled:
    """Decide whether the endpoint is to be disabled: it says so, or has failed for days and often."""
    if outcome.wish is Wish.DISABLE:
        return Disabled.BY_RECEIVER
    if outcome.status_code == _GONE:
        return Disabled.GONE
    since = now if health.failing_since is None else health.failing_since
    if now - since >= DISABLE_AFTER_S and health.exhausted >= DISABLE_AFTER:
        return Disabled.FAILING
    return Disabled.NO


def retry_after_s(header: str, now: float) -> float | None:
    """Read a Retry-After header, RFC 9110 section 10.2.3: seconds from now, None when it says nothing."""
    text = header.strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.fromtimestamp(now, UTC)).total_seconds())


def _breaker_s(failures: int) -> float:
    """Return how long the breaker opens: a minute at first, then twice as long, up to 15."""
    if failures < OPEN_AFTER:
        return 0.0
    return min(PROBE_S * 2.0 ** min(failures - OPEN_AFTER, 10), LONGEST_PROBE_S)
