from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobs.cron import CatchUp, Due, check_cron, due, fires
from pipeline.errors import MailsiftError


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


def test_a_leap_day_fires() -> None:
    check_cron("0 0 29 2 *", "UTC")
    assert fires("0 0 29 2 *", "UTC", after=NOON, count=1) == [at("2028-02-29 00:00")]


def test_a_slot_the_clocks_skip_fires_after_the_gap_and_one_they_repeat_fires_once() -> None:
    spring = fires("30 2 * * *", "America/New_York", after=at("2026-03-08 00:00"), count=2)
    assert spring == [at("2026-03-08 07:00"), at("2026-03-09 06:30")]
    autumn = fires("30 1 * * *", "America/New_York", after=at("2026-11-01 00:00"), count=2)
    assert autumn[1] - autumn[0] > timedelta(hours=24)
    hourly = fires("0 * * * *", "America/New_York", after=at("2026-11-01 04:30"), count=3)
    assert hourly == [at("2026-11-01 05:00"), at("2026-11-01 06:00"), at("2026-11-01 07:00")]


@pytest.mark.parametrize(
    ("catch_up", "late", "expected"),
    [
        # hourly, first slot not looked at: noon
        (CatchUp.NONE, timedelta(minutes=1), Due(NOON, NOON + timedelta(hours=1))),
        (CatchUp.LATEST, timedelta(minutes=1), Due(NOON, NOON + timedelta(hours=1))),
        (CatchUp.ALL, timedelta(minutes=1), Due(NOON, NOON + timedelta(hours=1))),
        (CatchUp.NONE, timedelta(minutes=6), Due(None, NOON + timedelta(hours=1))),
        (CatchUp.LATEST, timedelta(minutes=6), Due(NOON, NOON + timedelta(hours=1))),
        (
            CatchUp.NONE,
            timedelta(hours=3, minutes=1),
            Due(NOON + timedelta(hours=3), NOON + timedelta(hours=4)),
        ),
        (
            CatchUp.LATEST,
            timedelta(hours=3, minutes=9),
            Due(NOON + timedelta(hours=3), NOON + timedelta(hours=4)),
        ),
        (CatchUp.ALL, timedelta(hours=3, minutes=9), Due(NOON, NOON + timedelta(hours=1))),
        # three days: no further back than one
        (CatchUp.ALL, timedelta(days=3), Due(NOON + timedelta(days=2), NOON + timedelta(days=2, hours=1))),
        (CatchUp.LATEST, timedelta(days=3), Due(NOON + timedelta(days=3), NOON + timedelta(days=3, hours=1))),
    ],
)
def test_missed_slots(catch_up: CatchUp, late: timedelta, expected: Due) -> None:
    assert due("0 * * * *", "UTC", catch_up, slot=NOON, now=NOON + late) == expected


def test_a_slot_missed_more_than_a_day_ago_is_not_caught_up() -> None:
    found = due("0 0 1 * *", "UTC", CatchUp.ALL, slot=at("2026-05-01 00:00"), now=at("2026-05-04 00:00"))
    assert found == Due(None, at("2026-06-01 00:00"))
