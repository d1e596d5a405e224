"""Charts say what the numbers say: lengths add up, nothing is drawn of nothing, no style stands in them."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from mailsift.api.pages.charts import bar, gauge, interval
from mailsift.pipeline.verdict import SCORE_BANDS, Status

counts = st.integers(0, 10**7)


def drawn(chart: Markup) -> ET.Element:
    """Parse a chart; no part of it may carry a style, and screen readers pass it by."""
    svg = ET.fromstring(chart)  # noqa: S314 - drawn here
    assert svg.get("aria-hidden") == "true"
    assert all(element.get("style") is None for element in svg.iter())
    return svg


def widths(chart: Markup) -> dict[str, tuple[float, float]]:
    """Return start and width of each bar by its class."""
    return {
        str(rect.get("class")): (float(str(rect.get("x"))), float(str(rect.get("width"))))
        for rect in drawn(chart).iter("rect")
    }


@given(counts, counts, counts)
def test_a_bar_is_filled_by_its_parts_in_order(valid: int, risky: int, invalid: int) -> None:
    found = widths(bar(valid, invalid, risky))
    assert found.pop("c-none") == (0, 1_000)
    total = valid + risky + invalid
    expected = {"c-valid": valid, "c-risky": risky, "c-invalid": invalid}
    assert set(found) == {name for name, count in expected.items() if count}
    at = 0.0
    for name, (x, width) in found.items():
        assert x == pytest.approx(at, abs=0.02)
        assert width == pytest.approx(1_000 * expected[name] / total, abs=0.02)
        at += width


@pytest.mark.parametrize("status", list(Status))
def test_a_gauge_shows_its_score_above_the_bands(status: Status) -> None:
    low, high = SCORE_BANDS[status]
    for score in (low, high):
        svg = drawn(gauge(score, status))
        assert [text.text for text in svg.iter("text")] == [str(score)]
        kinds = [path.get("class") for path in svg.iter("path")]
        assert kinds.count(f"gauge-value s-{status.value}") == 1
        assert len([kind for kind in kinds if kind and kind.startswith("gauge-band")]) == len(Status)
    ends = [
        re.findall(r"[-\d.]+", str(path.get("d")))[-2] for path in drawn(gauge(high, status)).iter("path")
    ]
    assert all(0 <= float(x) <= 140 for x in ends)


def test_intervals_keep_inside_their_line() -> None:
    found = widths(interval(0.75, 0.7, 0.8, "risky"))
    assert list(found["c-risky faint"]) == pytest.approx([700, 100])
    assert list(found["c-risky"]) == pytest.approx([747, 6])
    assert widths(interval(0.0, 0.0, 0.1, "valid"))["c-valid"][0] == 0
