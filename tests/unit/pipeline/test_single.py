"""One address alone gets the very verdict it gets in a list."""

from __future__ import annotations

from dataclasses import asdict

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import syntax
from pipeline.facts import Mode
from pipeline.frames import VERDICTS
from pipeline.judge.row import Policy
from pipeline.lists import Lists
from pipeline.providers import Providers
from pipeline.sift import Request, Sifter
from pipeline.single import judge_fast

PARTS = ("jane", "info+x", "Ä", "a..b", '"q q"', "", "user", " ", "<a", "mailto:x", "no-reply", "a\tb")
DOMAINS = (
    "gmail.com",
    "gmial.com",
    "gmailcom",
    "mailinator.com",
    "münchen.de",
    "x..y",
    "localhost",
    "",
    "[1.2.3.4]",
)
texts = st.one_of(
    st.builds("{}@{}".format, st.sampled_from(PARTS), st.sampled_from(DOMAINS)),
    st.builds("<{}@{}> ".format, st.sampled_from(PARTS), st.sampled_from(DOMAINS)),
    st.emails(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)


@pytest.fixture(scope="module")
def lists() -> Lists:
    return Lists.load()


@pytest.fixture(scope="module")
def sifter(lists: Lists) -> Sifter:
    absent: dict[str, object] = dict.fromkeys(("domains", "prober", "reach"))  # fast asks nobody
    providers = Providers.load()
    return Sifter(lists=lists, providers=providers, policy=Policy(), **absent)  # type: ignore[arg-type]  # see above


@settings(max_examples=40, deadline=None)
@given(st.lists(texts, min_size=1, max_size=30))
async def test_alone_and_in_a_list_the_verdict_is_the_same(
    sifter: Sifter, lists: Lists, given: list[str]
) -> None:
    parsed = syntax.parse(pl.Series("raw", given, pl.String))
    frame = parsed.with_row_index("n").with_columns(pl.lit(1, pl.UInt32).alias("rows"))
    listed = (await sifter.sift(frame, Request(Mode.FAST))).finished.sort("n").select(list(VERDICTS))
    alone = []
    for text in given:
        verdict, suggestion = judge_fast(text, lists, Policy())
        alone.append({**asdict(verdict), "suggestion": suggestion})
    assert alone == listed.to_dicts()
