from __future__ import annotations

import random
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from typing_extensions import override

from mailsift.events.retry import (
    RETRY_S,
    AttemptOutcome,
    DeliveryState,
    DeliveryStep,
    DisabledReason,
    ErrorClass,
    ReceiverDirective,
    disabled_after,
    error_class,
    health_after,
    next_step,
    not_sent_until,
    printable_text,
    read_directive,
    retry_after_s,
)
from mailsift.pipeline.clock import utc_datetime
from mailsift.storage.sql.deliveries import EndpointHealth

NOW = 1_800_000_000.0
DAY = 86_400.0
OK = AttemptOutcome(ErrorClass.NONE, 204)
FAILED = AttemptOutcome(ErrorClass.HTTP_5XX, 500)
TIMEOUT = AttemptOutcome(ErrorClass.TIMEOUT)
GONE = AttemptOutcome(ErrorClass.HTTP_4XX, 410)
ABORT = AttemptOutcome(ErrorClass.HTTP_5XX, 503, retry_after="60", directive=ReceiverDirective.ABORT)
DISABLE = AttemptOutcome(ErrorClass.NONE, 200, directive=ReceiverDirective.DISABLE)


def busy(status: int, retry_after: str = "") -> AttemptOutcome:
    return AttemptOutcome(error_class(status), status, retry_after=retry_after)


def at(later: float) -> str:
    return format_datetime(datetime.fromtimestamp(NOW + later, UTC), usegmt=True)


class Middle(random.Random):
    """Chance that always falls in the middle."""

    @override
    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


@pytest.mark.parametrize(
    ("attempt", "outcome", "wait"),
    [
        (1, FAILED, 5),
        (2, TIMEOUT, 30),
        (3, TIMEOUT, 300),
        (4, FAILED, 1_800),
        (5, FAILED, 7_200),
        (6, FAILED, 18_000),
        (7, FAILED, 36_000),
        (8, FAILED, 50_400),
        (9, FAILED, 72_000),
        (10, FAILED, 86_400),
        (1, busy(429), 60),
        (1, busy(503), 60),
        (1, busy(502), 5),
        (1, busy(429, "7200"), 7_200),
        (1, busy(500, "3"), 5),  # never sooner than our own table
        (1, busy(500, "999999999"), 86_400),  # never later than a day
        (4, busy(503, "soon"), 1_800),
    ],
)
def test_a_failed_attempt_is_repeated_after(attempt: int, outcome: AttemptOutcome, wait: float) -> None:
    assert next_step(attempt, outcome, NOW, Middle()) == DeliveryStep(DeliveryState.PENDING, NOW + wait)


@pytest.mark.parametrize(
    ("attempt", "outcome", "state"),
    [
        (1, OK, DeliveryState.SUCCEEDED),
        (11, OK, DeliveryState.SUCCEEDED),
        (11, FAILED, DeliveryState.EXHAUSTED),
        (1, GONE, DeliveryState.EXHAUSTED),
        (1, ABORT, DeliveryState.EXHAUSTED),
        (1, DISABLE, DeliveryState.SUCCEEDED),
        (
            1,
            AttemptOutcome(ErrorClass.HTTP_4XX, 400, directive=ReceiverDirective.DISABLE),
            DeliveryState.EXHAUSTED,
        ),
    ],
)
def test_a_delivery_ends(attempt: int, outcome: AttemptOutcome, state: DeliveryState) -> None:
    assert next_step(attempt, outcome, NOW, Middle()) == DeliveryStep(state)


def test_eleven_attempts_span_three_days() -> None:
    assert len(RETRY_S) == 11
    assert sum(RETRY_S) / 3600 == pytest.approx(75.6, abs=0.05)


def test_retries_are_spread_by_a_fifth_to_both_sides() -> None:
    dice = random.Random(1)
    waits = [(next_step(5, FAILED, NOW, dice).at or 0.0) - NOW for _ in range(1_000)]
    assert 0.8 * 7_200 <= min(waits) < 0.82 * 7_200
    assert 1.18 * 7_200 < max(waits) <= 1.2 * 7_200


def test_retry_after_may_be_a_date() -> None:
    assert retry_after_s(at(90), NOW) == 90
    assert retry_after_s("Mon, 01 Jan 2001 00:00:00 GMT", NOW) == 0


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        *(("60, 300", 300), ("300,60", 300), ("soon, 300", 300), ("300, -5", 300), (", 60", 60)),
        (f"{at(300)}, {at(90)}", 300),
        (f"60, {at(90)}", 90),
        (f"{at(90)}, 600", 600),
        (f"Friday, 15-Jan-27 08:01:30 GMT, {at(10)}", 90),
        (f"Fri Jan 15 08:01:30 2027, {at(10)}", 90),
    ],
)
def test_of_several_waits_the_longest_that_can_be_read_is_kept(header: str, wait: float) -> None:
    assert retry_after_s(header, NOW) == wait


@pytest.mark.parametrize(
    "header",
    [
        *("", ",", "soon, later", "soon", "-5", "1e9", "\u0663", "Fri, 99 Foo 99999 99:99:99"),
        *("1 Jan 99999999999999 1:1:1 +0", "Mon, 01 Jan 2024 00:00:00 +99999999999999999999"),
    ],
)
def test_a_retry_after_that_says_nothing_is_ignored(header: str) -> None:
    assert retry_after_s(header, NOW) is None


def test_five_failures_in_a_row_open_the_breaker_for_ever_longer_until_one_arrives() -> None:
    health, opened = EndpointHealth(), []
    for _ in range(11):
        health = health_after(health, FAILED, DeliveryState.PENDING, NOW)
        opened.append(None if health.probe_at is None else health.probe_at.timestamp() - NOW)
    assert opened == [None] * 4 + [60, 120, 240, 480, 900, 900, 900]
    assert health_after(health, OK, DeliveryState.SUCCEEDED, NOW) == EndpointHealth()


def test_a_busy_receiver_is_left_alone_at_once() -> None:
    health = health_after(EndpointHealth(), busy(429, "120"), DeliveryState.PENDING, NOW)
    assert health.probe_at == utc_datetime(NOW + 120)


def test_an_endpoint_is_disabled_after_five_days_and_ten_deliveries_given_up() -> None:
    def rules(days: float, exhausted: int) -> DisabledReason:
        return disabled_after(EndpointHealth(50, utc_datetime(NOW - days * DAY), exhausted), FAILED, NOW)

    assert rules(5, 10) is DisabledReason.FAILING
    assert rules(4.99, 10) is DisabledReason.NO
    assert rules(5, 9) is DisabledReason.NO
    assert disabled_after(EndpointHealth(), GONE, NOW) is DisabledReason.GONE
    assert disabled_after(EndpointHealth(), DISABLE, NOW) is DisabledReason.BY_RECEIVER
    assert disabled_after(EndpointHealth(), ABORT, NOW) is DisabledReason.NO


def test_a_receiver_that_drops_an_event_is_well() -> None:
    failing = EndpointHealth(9, utc_datetime(NOW - DAY), 3, utc_datetime(NOW + 60))
    assert health_after(failing, ABORT, DeliveryState.EXHAUSTED, NOW) == EndpointHealth()


def test_what_could_not_be_sent_waits_about_a_minute() -> None:
    dice = random.Random(1)
    waits = [not_sent_until(NOW, dice) - NOW for _ in range(1_000)]
    assert 48 <= min(waits) < 49
    assert 71 < max(waits) <= 72


@pytest.mark.parametrize(
    ("header", "directive"),
    [
        ("disable", ReceiverDirective.DISABLE),
        (" Abort-Message ", ReceiverDirective.ABORT),
        ("", ReceiverDirective.NONE),
        ("disable, abort-message", ReceiverDirective.NONE),
        ("none", ReceiverDirective.NONE),
    ],
)
def test_a_directive_is_one_word(header: str, directive: ReceiverDirective) -> None:
    assert read_directive(header) is directive


def test_given_up_deliveries_are_counted_until_one_arrives() -> None:
    health = health_after(EndpointHealth(), FAILED, DeliveryState.EXHAUSTED, NOW)
    health = health_after(health, FAILED, DeliveryState.EXHAUSTED, NOW + 5)
    assert (health.exhausted, health.failing_since) == (2, utc_datetime(NOW))


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
    assert error_class(status).value == error


def test_a_response_is_shown_as_harmless_text_of_at_most_4_kib() -> None:
    assert printable_text(b"a\x00\x1b[2J\nb\xff\xe2\x80\xae") == "a\ufffd\ufffd[2J\nb\ufffd\ufffd"
    assert len(printable_text(b"\x00" * 20_000).encode()) <= 4_096
    assert len(printable_text("é".encode() * 20_000).encode()) <= 4_096
