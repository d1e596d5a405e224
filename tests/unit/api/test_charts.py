"""Charts are well-formed SVG that says in words what it shows, and nothing in them is code."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from mailsift.api.pages.charts import cells, columns, diagram, nice_top, over_time, stack
from mailsift.pipeline.outcomes.chances import Bin, Calibration, MeasuredShare


def drawn(markup: str) -> ET.Element:
    return ET.fromstring(markup)  # noqa: S314 - our own


def test_columns_are_as_high_as_their_values() -> None:
    chart = drawn(columns([0, 5, 10], label="three minutes", titles=["a", "b", "c"], top=10))
    bars = [rect for rect in chart.iter("rect") if rect.get("class") == "c-accent"]
    assert [float(bar.get("height", "")) for bar in bars] == [0.0, 60.0, 120.0]
    assert [title.text for title in chart.iter("title")] == ["a", "b", "c"]
    assert (chart.get("role"), chart.get("aria-label")) == ("img", "three minutes")


def test_a_small_value_can_still_be_seen_and_a_large_one_stays_inside() -> None:
    chart = drawn(columns([0.0001, 99], label="", top=10))
    bars = [rect for rect in chart.iter("rect") if rect.get("class") in {"c-accent", "c-cut"}]
    assert [float(bar.get("height", "")) for bar in bars] == [1.0, 120.0]
    assert bars[-1].get("class") == "c-cut"


@pytest.mark.parametrize("values", [[], [0.0], [0, 0]])
def test_nothing_is_drawn_of_nothing(values: list[float]) -> None:
    assert all(rect.get("height") != "nan" for rect in drawn(columns(values, label="")).iter("rect"))


def test_a_stack_fills_its_bar() -> None:
    rects = [*drawn(stack({"a": 1, "b": 0, "c": 3}, label="x")).iter("rect")][1:]
    assert [(rect.get("class"), rect.get("x"), rect.get("width")) for rect in rects] == [
        ("a", "0.00", "25.00"),
        ("c", "25.00", "75.00"),
    ]
    assert len([*drawn(stack({"a": 0}, label="x")).iter("rect")]) == 1


def test_words_are_words_and_no_markup() -> None:
    hostile = '"><script>alert(1)</script>'
    for chart in (
        columns([1], label=hostile, titles=[hostile]),
        stack({"a": 1}, label=hostile),
        cells(["a"], label=hostile, titles=[hostile]),
    ):
        assert "<script" not in chart
        assert drawn(chart).get("aria-label") == hostile


@pytest.mark.parametrize(("value", "top"), [(0, 1), (0.3, 0.5), (1, 1), (101, 200), (240, 250), (2600, 5000)])
def test_the_upper_edge_is_a_round_number(value: float, top: float) -> None:
    assert nice_top(value) == pytest.approx(top)


def test_what_is_nearly_all_is_not_told_as_all() -> None:
    days = drawn(over_time([("2026-11-25", MeasuredShare(0.9999, 0.99, 1.0, 10_000))]))
    assert [title.text for title in days.iter("title")] == ["2026-11-25: > 99.9 % of 10,000 arrived"]
    chart = drawn(diagram(Calibration(0.0, 10_000, (Bin(0.9996, 0.0004, 10_000),))))
    legend = "said > 99.9 %, arrived < 0.1 %, n 10,000"
    assert ([title.text for title in chart.iter("title")], chart.get("aria-label")) == ([legend], legend)
