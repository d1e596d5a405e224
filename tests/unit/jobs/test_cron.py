from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from mailsift.jobs.schedules import check_cron, check_jitter, fires, in_words
from mailsift.pipeline.errors import MailsiftError


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


NOON = at("2026-05-04 12:00")


@pytest.mark.parametrize(
    ("cron", "code"),
    [
        ("", "schedule_cron_invalid"),
        ("* * * *", "schedule_cron_invalid"),
        ("* * * * * *", "schedule_cron_invalid"),  # seconds
        ("61 * * * *", "schedule_cron_invalid"),
        ("0 0 31 2 *", "schedule_cron_invalid"),
        ("0 0 30 2 *", "schedule_cron_invalid"),
        ("@daily", "schedule_cron_invalid"),
        ("0 " * 300, "schedule_cron_invalid"),
    ],
)
def test_a_cron_line_that_never_fires_is_refused(cron: str, code: str) -> None:
    with pytest.raises(MailsiftError) as refused:
        check_cron(cron, "UTC")
    assert refused.value.code == code


@pytest.mark.parametrize(
    "zone", ["", "Mars/Olympus", "../../etc/passwd", "/etc/passwd", "a\x00b", "x" * 5_000]
)
def test_a_zone_that_is_not_there_is_refused(zone: str) -> None:
    with pytest.raises(MailsiftError, match="schedule_zone_invalid"):
        check_cron("0 0 * * *", zone)


@pytest.mark.parametrize(
    ("cron", "gap"),
    [
        ("* * * * *", 60),
        ("*/15 * * * *", 900),
        ("0 * * * *", 3_600),
        ("0,10 6 * * *", 600),
        ("30 23 * * 1", 604_800),
        ("55 23,0 * * 1-5", 3_600),
        ("*/10 * 1,15,16 * *", 600),
        ("0 0 29 2 *", 1_461 * 86_400),
    ],
)
def test_a_delay_is_shorter_than_what_lies_between_two_slots(cron: str, gap: int) -> None:
    check_jitter(cron, min(gap - 1, 86_400))
    if gap <= 86_400:
        with pytest.raises(MailsiftError, match="schedule_jitter_too_long"):
            check_jitter(cron, gap)


def test_a_leap_day_fires() -> None:
    check_cron("0 0 29 2 *", "UTC")
    assert next(fires("0 0 29 2 *", "UTC", after=NOON)) == at("2028-02-29 00:00")


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        # the clocks skip 02:30: right after the gap, and only there
        (
            "30 2 * * *",
            "America/New_York",
            "2026-03-08 00:00",
            ["2026-03-08 07:00", "2026-03-09 06:30"],
        ),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", ["2026-03-29 01:00", "2026-03-30 00:30"]),
        # half an hour is skipped
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2026-10-03 00:00",
            ["2026-10-03 15:30", "2026-10-04 15:15"],
        ),
        # the clocks repeat 01:30: once, in its first pass
        (
            "30 1 * * *",
            "America/New_York",
            "2026-11-01 00:00",
            ["2026-11-01 05:30", "2026-11-02 06:30"],
        ),
        # asked within the second pass: it has fired
        ("30 1 * * *", "America/New_York", "2026-11-01 06:10", ["2026-11-02 06:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", ["2026-10-25 00:30", "2026-10-26 01:30"]),
        # every hour is every hour of the clock on the wall and of the world
        (
            "0 * * * *",
            "America/New_York",
            "2026-11-01 04:30",
            ["2026-11-01 05:00", "2026-11-01 06:00", "2026-11-01 07:00"],
        ),
        (
            "0 * * * *",
            "America/New_York",
            "2026-03-08 05:30",
            ["2026-03-08 06:00", "2026-03-08 07:00", "2026-03-08 08:00"],
        ),
        # a zone that gave summer time up keeps its offset
        ("0 6 * * *", "America/Sao_Paulo", "2026-10-31 00:00", ["2026-10-31 09:00", "2026-11-01 09:00"]),
    ],
)
def test_slots_where_the_clocks_change(cron: str, zone: str, after: str, expected: list[str]) -> None:
    found = list(islice(fires(cron, zone, after=at(after)), len(expected)))
    assert found == [at(text) for text in expected]


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "UTC"])
def test_slots_come_in_order_and_after_the_time_wherever_one_asks(zone: str) -> None:
    for cron in ("30 1 * * *", "*/20 * * * *", "15 2 * * 0"):
        for start in ("2026-03-08 04:00", "2026-03-28 22:00", "2026-10-24 22:00", "2026-11-01 03:00"):
            time = at(start)
            for _ in range(33):  # seven hours; after 20 steps every minute of `*/20` has been met
                slots = list(islice(fires(cron, zone, after=time), 3))
                assert time < slots[0] < slots[1] < slots[2]
                time += timedelta(minutes=13)


TABLE = {
    "* * * * *": "Every minute",
    "*/2 * * * *": "Every 2 minutes",
    "*/15 * * * *": "Every 15 minutes",
    "*/7 * * * *": "Every seventh minute of every hour",
    "0 * * * *": "Every hour, on the hour",
    "30 * * * *": "At minute 30 of every hour",
    "0 */2 * * *": "Every 2 hours, on the hour",
    "0 */5 * * *": "At minute 0 past every fifth hour",
    "0 6 * * *": "Every day at 06:00",
    "0 6,18 * * *": "Every day at 06:00 and 18:00",
    "0 6 * * 1": "Every Monday at 06:00",
    "0 6 * * 7": "Every Sunday at 06:00",
    "0 6 * * 1-5": "Monday to Friday at 06:00",
    "0 6 * * 6,0": "At 06:00 on Saturday and Sunday",
    "0 6 1 * *": "At 06:00 on the first day of every month",
    "0 6 31 * *": "At 06:00 on the 31st day of every month",
    "0 6 11,12,13 * *": "At 06:00 on the 11th, the 12th, and the 13th day of the month",
    "0 6 21,22,23 * *": "At 06:00 on the 21st, the 22nd, and the 23rd day of the month",
    "0 0 L * *": "At 00:00 on the last day of every month",
    "0 9 * * 1#1": "At 09:00 on the first Monday of the month",
    "0 6 13 * 5": "At 06:00 on the 13th day of the month and on Friday",
    "0 6 * 1,7 *": "At 06:00 every day in January and July",
    "*/10 9-17 * * mon-fri": "Every 10th minute from 09:00 to 17:59 on Monday to Friday",
}


@pytest.mark.parametrize(("cron", "words"), TABLE.items())
def test_a_cron_line_is_said_as_people_say_it(cron: str, words: str) -> None:
    assert in_words(cron) == words
