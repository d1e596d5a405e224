"""Figures as the terminal shows them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mailsift.cli.ops import span, spark
from mailsift.storage.sql.stats import Interval


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0 s"), (61, "61 s"), (121, "2 min"), (7000, "117 min"), (7300, "2.0 h"), (200_000, "2.3 d")],
)
def test_a_span_is_short_and_has_its_unit(seconds: float, expected: str) -> None:
    assert span(seconds) == expected


def minutes(*addresses: int) -> list[Interval]:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    return [Interval(at, 1, count, 0, 0, 0, 0) for count in addresses]


def test_the_line_of_throughput_reaches_from_ground_to_top() -> None:
    assert spark(minutes(0, 400, 800)) == "▁▄█"
    assert spark(minutes(0, 0)) == "▁▁"
    assert spark([]) == ""
