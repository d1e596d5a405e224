"""Moments as the clocks of a place show them, and when its days begin."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mailsift.pipeline.zones import is_zone, local_text, midnight, zone_named, zone_names

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", "1 Jul 2026, 12:00 UTC"),
        ("Europe/Berlin", "1 Jul 2026, 14:00 CEST"),
        ("America/New_York", "1 Jul 2026, 08:00 EDT"),
        ("America/Sao_Paulo", "1 Jul 2026, 09:00 UTC−3"),
        ("Asia/Kathmandu", "1 Jul 2026, 17:45 UTC+5:45"),
        ("Pacific/Marquesas", "1 Jul 2026, 02:30 UTC−9:30"),
        ("Pacific/Kiritimati", "2 Jul 2026, 02:00 UTC+14"),
    ],
)
def test_a_moment_is_told_as_clocks_there_show_it(zone: str, expected: str) -> None:
    assert local_text(NOON, zone) == expected


def test_a_moment_at_the_end_of_all_years_is_told_in_utc_where_it_lies_in_the_next() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert local_text(last, "Asia/Tokyo") == "31 Dec 9999, 23:59 UTC"
    assert local_text(last, "America/New_York") == "31 Dec 9999, 18:59 EST"


@pytest.mark.parametrize(
    ("zone", "at", "began"),
    [
        ("Pacific/Auckland", "2026-07-01T12:00", "2026-07-01T12:00"),
        ("America/Los_Angeles", "2026-07-01T06:59", "2026-06-30T07:00"),
        ("America/Santiago", "2026-09-06T12:00", "2026-09-06T04:00"),  # a day without a midnight
    ],
)
def test_a_day_begins_at_its_own_midnight(zone: str, at: str, began: str) -> None:
    given, expected = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (at, began))
    assert midnight(given, zone) == expected


@pytest.mark.parametrize("folder", ["right", "posix"])
def test_a_machine_s_second_copy_of_a_zone_is_none(folder: str) -> None:
    assert not is_zone(f"{folder}/Europe/Berlin")
    assert zone_named(f"{folder}/Europe/Berlin") is UTC


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "../etc/passwd", "/etc/localtime", "localtime", "\0", "x" * 300]
)
def test_what_is_no_zone_is_none_and_shows_utc(name: str) -> None:
    assert not is_zone(name)
    assert zone_named(name) is UTC


def test_zones_to_choose_from_are_zones() -> None:
    assert {"UTC", "Europe/Berlin", "Asia/Kolkata"} <= set(zone_names())
    assert all(map(is_zone, zone_names()[::50]))
