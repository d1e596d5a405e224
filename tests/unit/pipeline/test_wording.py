"""Names that people type."""

from __future__ import annotations

import pytest

from mailsift.pipeline.wording import visible_name


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        (" Newsletter server ", "Newsletter server"),
        ("", ""),
        (" \u00a0\u2003", ""),
        ("\u200b\ufeff\u2060", ""),
        ("\u202e\u2066", ""),
        ("\u3164\u115f\u2800", ""),
        ("\ufe0f\u0301", ""),
        ("\u200bx", "\u200bx"),
        ("\u2764\ufe0f", "\u2764\ufe0f"),
        ("\u0645\u06cc\u200c", "\u0645\u06cc\u200c"),
    ],
)
def test_a_name_that_shows_nothing_is_none(typed: str, name: str) -> None:
    assert visible_name(typed) == name
