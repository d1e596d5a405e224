from __future__ import annotations

import sys
from datetime import UTC, datetime

import pytest

from mailsift.pipeline.outcomes.times import day_first_in, epoch


def utc(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (1_793_000_000, 1_793_000_000.0),
        ("1793000000.5", 1_793_000_000.5),
        (1_793_000_000_000, 1_793_000_000.0),
        ("1793000000000000", 1_793_000_000.0),
        ("46320.5", utc(2026, 10, 25, 12)),
        ("20261026", utc(2026, 10, 26)),
        ("20261026013320", utc(2026, 10, 26, 1, 33, 20)),
        ("2026-10-26T01:33:20Z", utc(2026, 10, 26, 1, 33, 20)),
        ("2026-10-26 01:33:20", utc(2026, 10, 26, 1, 33, 20)),
        ("2026-10-26 01:33:20 UTC", utc(2026, 10, 26, 1, 33, 20)),
        ("2026-10-26 1:33 PM", utc(2026, 10, 26, 13, 33)),
        ("2026/05/06 13:33", utc(2026, 5, 6, 13, 33)),
        ("Mon, 26 Oct 2026 02:33:20 +0100", utc(2026, 10, 26, 1, 33, 20)),
        ("Mon Oct 26 01:33:20 2026", utc(2026, 10, 26, 1, 33, 20)),
        ("Mon Oct 26 2026 02:33:20 GMT+0100 (Central European Time)", utc(2026, 10, 26, 1, 33, 20)),
        ("Oct 26, 2026 1:33 PM", utc(2026, 10, 26, 13, 33)),
        ("Oct 26, 2026 1:33 PM PDT", utc(2026, 10, 26, 20, 33)),
        ("26 Oct 2026 01:33 am", utc(2026, 10, 26, 1, 33)),
        ("26.10.2026 13:33", utc(2026, 10, 26, 13, 33)),
        ("26/10/2026 13:33", utc(2026, 10, 26, 13, 33)),
        ("26.10.2026 13.33", utc(2026, 10, 26, 13, 33)),
        ("Mon, 26 Oct 2026 02.33.20 +0100", utc(2026, 10, 26, 1, 33, 20)),
        ("10/26/2026 1:33:20 PM", utc(2026, 10, 26, 13, 33, 20)),
        ("5.6.2026", utc(2026, 6, 5)),
        ("5/6/2026", utc(2026, 5, 6)),  # the earlier one
        ("26. Oktober 2026 um 13:33 Uhr", utc(2026, 10, 26, 13, 33)),
        ("26 octobre 2026 à 13:33", utc(2026, 10, 26, 13, 33)),
        ("26 de octubre de 2026", utc(2026, 10, 26)),
        ("26-Oct-2026", utc(2026, 10, 26)),
        ("14. Okt. 2026 08:00", utc(2026, 10, 14, 8)),
        ("14 Dez 2026", utc(2026, 12, 14)),
        ("14 Mrz 2026", utc(2026, 3, 14)),
        ("14 févr. 2026", utc(2026, 2, 14)),
        ("14 juil. 2026 08:00", utc(2026, 7, 14, 8)),
        ("14 ago 2026", utc(2026, 8, 14)),
        ("14 de set. de 2026", utc(2026, 9, 14)),
        ("14 giu 2026", utc(2026, 6, 14)),
        ("14 mrt. 2026", utc(2026, 3, 14)),
        ("14 paź 2026", utc(2026, 10, 14)),
        ("2026年7月14日 08:00:00", utc(2026, 7, 14, 8)),
        ("2026年7月14日", utc(2026, 7, 14)),
        ("2026-07-14T08:00:00Z[UTC]", utc(2026, 7, 14, 8)),
        ("2026-07-14T08:00:00+02:00[Europe/Paris]", utc(2026, 7, 14, 6)),
        ("Oct 2026", 0.0),
        ("13:33", 0.0),
        ("2026-13-45", 0.0),
        ("1970-01-01", 0.0),
        ("550 5.1.1", 0.0),
        ("yesterday", 0.0),
        (None, 0.0),
        ("nan", 0.0),
        ("1e400", 0.0),
        ("Jan 1 2026 00:" + "9" * 40, 0.0),
    ],
)
def test_a_time_is_read_however_it_is_written(value: object, seconds: float) -> None:
    assert epoch(value) == seconds


@pytest.mark.parametrize(
    ("cells", "day_first"),
    [
        (["5/6/2026", "31/6/2026"], True),
        (["5/6/2026 2:00 PM", "6/30/2026 2:00 PM"], False),
        (["5.6.2026"], True),
        (["5/6/2026", "2026-06-30"], None),
    ],
)
def test_a_column_shows_whether_its_days_stand_before_its_months(
    cells: list[str], day_first: bool | None
) -> None:
    assert day_first_in(cells) is day_first
    assert epoch("5/6/2026", day_first=day_first) == (utc(2026, 6, 5) if day_first else utc(2026, 5, 6))


def test_a_text_that_is_too_long_for_a_time_is_not_remembered() -> None:
    text = "2026-01-31 " + "x" * 1_000_000
    before = sys.getrefcount(text)
    assert epoch(text) == 0.0
    assert sys.getrefcount(text) == before
