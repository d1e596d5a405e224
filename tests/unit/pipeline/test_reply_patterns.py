from __future__ import annotations

import re
import string
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailsift.pipeline.replies.classifier import THING, simplify
from mailsift.pipeline.replies.patterns import AnyOf, Patterns
from mailsift.pipeline.replies.table import RULES
from tests.unit.pipeline.test_replies import TABLES

_WRITTEN = list(dict.fromkeys(pattern for rule in RULES for pattern in (rule.text, rule.unless) if pattern))


def test_no_pattern_of_the_table_that_matches_is_left_out() -> None:
    """Every fortieth text; those tests that read the tables read all."""
    patterns = Patterns((THING, *_WRITTEN))
    parts = {part: re.compile(part) for part in patterns.parts}
    texts = {simplify(case.reply.text) for case in chain.from_iterable(TABLES.values())}
    left_out = [
        (part, text)
        for text in sorted(texts)[::40]
        for possible in [patterns.possible(text)]
        for number, part in enumerate(patterns.parts)
        if not possible >> number & 1 and parts[part].search(text)
    ]
    assert left_out == []


def test_a_reply_is_looked_at_with_few_of_the_patterns() -> None:
    patterns = Patterns(_WRITTEN)
    assert len(patterns.parts) > 900
    assert patterns.possible("no such user here").bit_count() < 40
    assert patterns.possible("qwerty asdfgh zxcvbn").bit_count() < 5


_LITERAL = st.text("abc ", min_size=1, max_size=3).map(re.escape)
_ATOM = st.one_of(
    _LITERAL,
    st.sampled_from(
        [r"\b", "^", "$", r"\w+", r"\w*", ".", r"\S+", "[ab]", "[a-c]{1,2}", "[^a]", r"\d", "-?"]
    ),
)


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    group = inner.map("(?:{})".format)
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map("|".join).map("(?:{})".format),
        st.tuples(group, st.sampled_from(["?", "*", "+", "{0,2}", "{2}", "{1,2}?", "??"])).map("".join),
        inner.map("(?={})".format),
        inner.map("(?!{})".format),
        _LITERAL.map("(?<={})".format),
        _LITERAL.map("(?<!{})".format),
    )


@given(
    patterns=st.lists(st.recursive(_ATOM, _grow, max_leaves=8), min_size=1, max_size=3),
    texts=st.lists(st.text("abc ", max_size=9), max_size=40),
)
def test_whatever_matches_is_found(patterns: list[str], texts: list[str]) -> None:
    searched = Patterns([AnyOf(*patterns), *patterns])
    for text in texts:
        search = searched.search(text)
        assert [search.finds(searched.bits(pattern)) for pattern in patterns] == [
            re.search(pattern, text) is not None for pattern in patterns
        ]
        assert search.finds(searched.bits(AnyOf(*patterns))) == (
            re.search(AnyOf(*patterns), text) is not None
        )


@pytest.mark.parametrize(
    ("pattern", "text", "possible"),
    [
        (r"\buser\b", "no such user", True),
        (r"\buser\b", "no such users", False),
        (r"\buser", "no such users", True),
        (r"user\b", "superuser", True),
        (r"\buser", "superuser", False),
        (r"\bno such (?:user|box)\b", "such a user", False),
        (r"\b(?:user|box)\b.{0,9}\b(?:full|gone)\b", "the user is here", False),
        (r"\b(?:user|box)\b.{0,9}\b(?:full|gone)\b", "the box is gone", True),
        (r"(?:user )?gone", "he is gone", True),
        (r"gr[ea]y", "grey", True),
        (r"gr[ea]y", "groy", False),
        (r"(?!user)\w+", "xy", True),
        (r"满", "邮箱已满", True),
        (r"满", "邮箱", False),
    ],
)
def test_words_tell_what_can_match(pattern: str, text: str, *, possible: bool) -> None:
    assert bool(Patterns([pattern]).possible(text)) is possible


def test_nothing_is_searched_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = Patterns(["user", "box|user gone", AnyOf("user", "full")])
    searched: list[int] = []
    matches = patterns.matches

    def count(number: int, text: str) -> bool:
        searched.append(number)
        return matches(number, text)

    monkeypatch.setattr(patterns, "matches", count)
    search = patterns.search("user full box")
    found = [search.finds(patterns.bits(pattern)) for pattern in ("user", "box|user gone", "user")]
    assert found == [True, True, True]
    assert search.finds(patterns.bits(AnyOf("user", "full")))
    assert sorted(searched) == sorted(set(searched))


def test_syntax_that_is_not_understood_is_refused() -> None:
    with pytest.raises(ValueError, match="not understood"):
        Patterns([r"\x41{2}" + string.ascii_letters])
