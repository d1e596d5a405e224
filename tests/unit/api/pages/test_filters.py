"""Figures and times as pages write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from jinja2 import Environment

from mailsift.api.pages.words import FILTERS, breakable, date_time, duration, number, percent, size

NOW = datetime(2026, 11, 21, 4, 31, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0"), (999, "999"), (1_234_567, "1,234,567"), (12.0, "12"), (12.34, "12.3"), (None, "–")],
)
def test_numbers_have_their_thousands_apart(value: float | None, expected: str) -> None:
    assert number(value) == expected


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [
        (0, 10, "0 %"),
        (10, 10, "100 %"),
        (1, 3, "33.3 %"),
        (1, 1_000_000, "< 0.1 %"),
        (999_999, 1_000_000, "> 99.9 %"),
        (0, 0, "–"),
        (0.5, 1.0, "50.0 %"),
    ],
)
def test_a_share_is_never_rounded_to_nothing_or_to_all(part: float, whole: float, expected: str) -> None:
    assert percent(part, whole) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0 s"),
        (-0.2, "0 s"),
        (0.04, "40 ms"),
        (0.9999, "1 s"),
        (45, "45 s"),
        (90, "1 min 30 s"),
        (3_600, "1 h"),
        (8_000, "2 h 13 min"),
        (200_000, "2 d 7 h"),
        (None, "–"),
    ],
)
def test_spans_have_two_units_at_most(seconds: float | None, expected: str) -> None:
    assert duration(seconds) == expected


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1_000, "1.0 kB"),
        (1_240_000, "1.2 MB"),
        (250_000_000, "250 MB"),
        (999_999, "1.0 MB"),
        (None, "–"),
    ],
)
def test_sizes_are_short(count: int | None, expected: str) -> None:
    assert size(count) == expected


def test_a_moment_is_in_utc_and_readable_by_machines() -> None:
    there = datetime(2026, 11, 21, 6, 31, 5, tzinfo=timezone(timedelta(hours=2)))
    expected = 'datetime="2026-11-21T04:31:05+00:00" title="2026-11-21 04:31:05 UTC">21 Nov 2026, 04:31 UTC'
    assert date_time(there) == f"<time {expected}</time>"
    assert date_time(None, "never") == "never"


def test_a_moment_can_be_told_by_other_clocks() -> None:
    assert ">21 Nov 2026, 05:31 CET</time>" in date_time(NOW, "", "Europe/Berlin")
    assert 'datetime="2026-11-21T04:31:05+00:00"' in date_time(NOW, "", "Asia/Tokyo")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "just now"),
        (-4, "just now"),
        (60, "1 minute ago"),
        (7_300, "2 hours ago"),
        (-90_000, "in 1 day"),
        (-86_397, "in 1 day"),
        (-59, "in 59 seconds"),
    ],
)
def test_how_long_ago_is_told_from_the_pages_own_now(seconds: int, expected: str) -> None:
    environment = Environment(autoescape=True)
    environment.filters.update(FILTERS)
    rendered = environment.from_string("{{ at|ago }}").render(at=NOW - timedelta(seconds=seconds), now=NOW)
    assert rendered.endswith(f">{expected}</time>")


def test_what_stands_for_no_time_is_escaped() -> None:
    environment = Environment(autoescape=True)
    environment.filters.update(FILTERS)
    rendered = environment.from_string("{{ none|ago('<never>') }}{{ none|date_time('<b>') }}").render(now=NOW)
    assert rendered == "&lt;never&gt;&lt;b&gt;"


def test_an_address_breaks_before_its_at_sign_only() -> None:
    assert breakable("a.b@x.test") == 'a.b<wbr><span class="domain">@x.test</span>'
    assert breakable("<b>") == "&lt;b&gt;"
    assert breakable("<b>@<i>") == '&lt;b&gt;<wbr><span class="domain">@&lt;i&gt;</span>'
