"""Which objects of a store a pattern means."""

from __future__ import annotations

import pytest

from mailsift.storage.foreign import is_object_like


@pytest.mark.parametrize(
    ("pattern", "key", "fits"),
    [
        ("lists/*.csv", "lists/a.csv", True),
        ("lists/*.csv", "lists/.csv", True),
        ("lists/*.csv", "lists/old/a.csv", False),
        ("lists/*.csv", "lists/a.csv.gz", False),
        ("lists/*", "lists/a [b]?.csv", True),
        ("*/a.csv", "lists/a.csv", True),
        ("**/a.csv", "a.csv", True),
        ("**/a.csv", "lists/old/a.csv", True),
        ("**/a.csv", "lists/aa.csv", False),
        ("a**b", "a/b/b", True),
        ("*a**/b", "aab", True),
        ("*a*b", "aaab", True),
        ("*ab*b", "ab", False),
        ("lists/*.csv", "lists/two\nlines.csv", True),
        ("**/lines.csv", "two\nfolders/lines.csv", True),
    ],
)
def test_a_star_stays_in_its_folder_and_two_go_through_all(pattern: str, key: str, fits: bool) -> None:
    assert is_object_like(pattern, key) is fits


def test_many_stars_take_no_longer_with_each() -> None:
    assert not is_object_like("*a" * 40 + "b", "a" * 1_000)
    assert is_object_like("**a" * 40 + "*", "a" * 1_000)
