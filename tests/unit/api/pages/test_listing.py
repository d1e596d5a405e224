"""Lists of the console: what is asked is done, what nobody can mean is left out."""

from __future__ import annotations

import pytest

from mailsift.api.pages.charts import nice_top, robust_top
from mailsift.api.pages.ops import ListFilter, Listing

NUMBERS: Listing[int] = Listing(
    "/numbers",
    columns={"size": lambda one: one, "digit": lambda one: one % 10},
    filters={"kind": {"even": ListFilter("Even", lambda one: one % 2 == 0)}},
    text=str,
)
ALL = list(range(120))


def test_without_a_question_rows_come_as_they_are_a_page_at_a_time() -> None:
    first = NUMBERS.of(ALL, {})
    assert (first.rows, first.matching, first.pages, first.query) == (ALL[:50], 120, 3, "")
    last = NUMBERS.of(ALL, {"page": "99"})
    assert (last.rows, last.page) == (ALL[100:], 3)


def test_filters_words_and_order_work_together_and_links_keep_them() -> None:
    seen = NUMBERS.of(ALL, {"kind": "even", "text": "1", "sort": "-size", "page": "1"})
    assert seen.rows == [one for one in reversed(ALL) if one % 2 == 0 and "1" in str(one)]
    assert seen.link(page=2) == "/numbers?kind=even&text=1&sort=-size&page=2"
    assert (seen.sorted_by("size"), seen.sort_link("size")) == (
        "descending",
        "/numbers?kind=even&text=1&sort=size",
    )


@pytest.mark.parametrize("asked", [{"kind": "odd"}, {"sort": "smell"}, {"page": "-1"}, {"page": "x"}])
def test_what_nobody_can_mean_is_left_out(asked: dict[str, str]) -> None:
    assert NUMBERS.of(ALL, asked).rows == ALL[:50]


def test_one_spike_does_not_set_the_axis_and_a_steady_rise_does() -> None:
    assert robust_top([10.0] * 59 + [900.0]) == nice_top(12.0)
    assert robust_top([float(n) for n in range(60)]) == nice_top(59.0)
    assert robust_top([0.0] * 59 + [7.0]) == nice_top(7.0)
    assert robust_top([]) == 1.0
