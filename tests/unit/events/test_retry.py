from __future__ import annotations

import random
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from typing_extensions import override

from events.outcome import ErrorClass, Outcome, Wish, error_of, shown, wish_of
from events.retry import (
    RETRY_S,
    DeliveryState,
    Disabled,
    Health,
    Next,
    after,
    disabled_after,
    health_after,
    not_sent_until,
    retry_after_s,
)

NOW = 1_800_000_000.0
DAY = 86_400.0
OK = Outcome(ErrorClass.NONE, 204)
FAILED = Outcome(ErrorClass.HTTP_5XX, 500)
TIMEOUT = Outcome(ErrorClass.TIMEOUT)
GONE = Outcome(ErrorClass.HTTP_4XX, 410)
ABORT = Outcome(ErrorClass.HTTP_5XX, 503, retry_after="60", wish=Wish.ABORT)
DISABLE = Outcome(ErrorClass.NONE, 200, wish=Wish.DISABLE)


def busy(status: int, retry_after: str = "") -> Outcome:
    return Outcome(error_of(status), status, retry_after=retry_after)


class Middle(random.Random):
    """Chance that always falls in the middle."""

    @override
    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


@pytest.mark.parametrize(
    ("attempt", "outcome", "wait"),
    [
        (1, FAILED, 5),
        (2, TIMEOUT, 300),
        (3, FAILED, 1_800),
        (4, FAILED, 7_200),
        (5, FAILED, 18_000),
        (6, FAILED, 36_000),
        (7, FAILED, 50_400),
        (8, FAILED, 72_000),
        (9, FAILED, 86_400),
        (1, busy(429), 60),
        (1, busy(503), 60),
        (1, busy(502), 5),
        (1, busy(429, "7200"), 7_200),
        (1, busy(500, "3"), 5),  # never sooner than our own table
        (1, busy(500, "999999999"), 86_400),  # never later than a day
        (3, busy(503, "soon"), 1_800),
    ],
)
def test_a_failed_attempt_is_repeated_after(attempt: int, outcome: Outcome, wait: float) -> None:
    assert after(attempt, outcome, NOW, Middle()) == Next(DeliveryState.PENDING, NOW + wait)


@pytest.mark.parametrize(
    ("attempt", "outcome", "state"),
    [
        (1, OK, DeliveryState.SUCCEEDED),
        (10, OK, DeliveryState.SUCCEEDED),
        (10, FAILED, DeliveryState.EXHAUSTED),
        (1, GONE, DeliveryState.EXHAUSTED),
        (1, ABORT, DeliveryState.EXHAUSTED),
        (1, DISABLE, DeliveryState.SUCCEEDED),
        (1, Outcome(ErrorClass.HTTP_4XX, 400, wish=Wish.DISABLE), DeliveryState.EXHAUSTED),
    ],
)
def test_a_delivery_ends(attempt: int, outcome: Outcome, state: DeliveryState) -> None:
    assert after(attempt, outcome, NOW, Middle()) == Next(state)


def test_ten_attempts_span_three_days() -> None:
    assert len(RETRY_S) == 10
    assert sum(RETRY_S) / 3600 == pytest.approx(75.6, abs=0.05)


def test_retries_are_spread_by_a_fifth_to_both_sides() -> None:
    dice = random.Random(1)
    waits = [(after(4, FAILED, NOW, dice).at or 0.0) - NOW for _ in range(1_000)]
    assert 0.8 * 7_200 <= min(waits) < 0.82 * 7_200
    assert 1.18 * 7_200 < max(waits) <= 1.2 * 7_200


def test_retry_after_may_be_a_date() -> None:
    later = format_datetime(datetime.fromtimestamp(NOW + 90, UTC), usegmt=True)
    assert retry_after_s(later, NOW) == 90
    assert retry_after_s("Mon, 01 Jan 2001 00:00:00 GMT", NOW) == 0


@pytest.mark.parametrize("header", ["", "soon", "-5", "1e9", "\u0663", "Fri, 99 Foo 99999 99:99:99"])
def test_a_retry_after_that_says_nothing_is_ignored(header: str) -> None:
    assert retry_after_s(header, NOW) is None


def test_five_failures_in_a_row_open_the_breaker_for_ever_longer_until_one_arrives() -> None:
    health, opened = Health(), []
    for _ in range(11):
        health = health_after(health, FAILED, DeliveryState.PENDING, NOW)
        opened.append(None if health.probe_at is None else health.probe_at - NOW)
    assert opened == [None] * 4 + [60, 120, 240, 480, 900, 900, 900]
    assert health_after(health, OK, DeliveryState.SUCCEEDED, NOW) == Health()


def test_a_busy_receiver_is_left_alone_at_once() -> None:
    health = health_after(Health(), busy(429, "120"), DeliveryState.PENDING, NOW)
    assert health.probe_at == NOW + 120


def test_an_endpoint_is_disabled_after_five_days_and_ten_deliveries_given_up() -> None:
    def rules(days: float, exhausted: int) -> Disabled:
        return disabled_after(Health(50, NOW - days * DAY, exhausted), FAILED, NOW)

    assert rules(5, 10) is Disabled.FAILING
    assert rules(4.99, 10) is Disabled.NO
    assert rules(5, 9) is Disabled.NO
    assert disabled_after(Health(), GONE, NOW) is Disabled.GONE
    assert disabled_after(Health(), DISABLE, NOW) is Disabled.BY_RECEIVER
    assert disabled_after(Health(), ABORT, NOW) is Disabled.NO


def test_a_receiver_that_drops_an_event_is_well() -> None:
    failing = Health(9, NOW - DAY, 3, NOW + 60)
    assert health_after(failing, ABORT, DeliveryState.EXHAUSTED, NOW) == Health()


def test_what_could_not_be_sent_waits_about_a_minute() -> None:
    dice = random.Random(1)
    waits = [not_sent_until(NOW, dice) - NOW for _ in range(1_000)]
    assert 48 <= min(waits) < 49
    assert 71 < max(waits) <= 72


@pytest.mark.parametrize(
    ("header", "wish"),
    [
        ("disable", Wish.DISABLE),
        (" Abort-Message ", Wish.ABORT),
        ("", Wish.NONE),
        ("disable, abort-message", Wish.NONE),
        ("none", Wish.NONE),
    ],
)
def test_a_wish_is_one_word(header: str, wish: Wish) -> None:
    assert wish_of(header) is wish


def test_given_up_deliveries_are_counted_until_one_arrives() -> None:
    health = health_after(Health(), FAILED, DeliveryState.EXHAUSTED, NOW)
    health = health_after(health, FAILED, DeliveryState.EXHAUSTED, NOW + 5)
    assert (health.exhausted, health.failing_since) == (2, NOW)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (200, ""),
        (204, ""),
        (299, ""),
        (301, "redirect"),
        (304, "redirect"),
        (404, "http_4xx"),
        (500, "http_5xx"),
    ],
)
def test_only_2xx_is_success(status: int, error: str) -> None:
    assert error_of(status).value == error


def test_a_response_is_shown_as_harmless_text_of_at_most_4_kib() -> None:
    assert shown(b"a\x00\x1b[2J\nb\xff\xe2\x80\xae") == "a\ufffd\ufffd[2J\nb\ufffd\ufffd"
    assert len(shown(b"\x00" * 20_000).encode()) <= 4_096
    assert len(shown("é".encode() * 20_000).encode()) <= 4_096
