"""One address alone gets the very verdict it gets in a list."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailsift.pipeline.facts import Mode
from mailsift.pipeline.frames import VERDICTS
from mailsift.pipeline.lists import Lists
from mailsift.pipeline.providers import Providers
from mailsift.pipeline.single import validate_fast
from mailsift.pipeline.syntax.column import parse_column
from mailsift.pipeline.validator import ValidationRequest, Validator
from mailsift.pipeline.verdict import VerdictPolicy
from tests.support.fuzzing import examples

PARTS = (
    "jane",
    "info+x",
    "Ä",
    "a..b",
    '"q q"',
    "",
    "user",
    " ",
    "<a",
    "mailto:x",
    "no-reply",
    "a\tb",
    "j\u0430ne",
    "'jane",
    "Ann <ann",
    "a@b.com,c",
)
DOMAINS = (
    "gmail.com",
    "gmial.com",
    "gmailcom",
    "mailinator.com",
    "gm\u0430il.com",
    "acme.coml",
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
def validator(lists: Lists) -> Validator:
    absent: dict[str, object] = dict.fromkeys(("domains", "prober", "port25"))  # fast asks nobody
    providers = Providers.load()
    return Validator(lists=lists, providers=providers, policy=VerdictPolicy(), **absent)  # type: ignore[arg-type]  # see above


@examples(15)
@given(st.lists(texts, min_size=1, max_size=30))
async def test_alone_and_in_a_list_the_verdict_is_the_same(
    validator: Validator, lists: Lists, given: list[str]
) -> None:
    parsed = parse_column(pl.Series("raw", given, pl.String))
    frame = parsed.with_row_index("n").with_columns(pl.lit(1, pl.UInt32).alias("rows"))
    listed = (
        (await validator.validate(frame, ValidationRequest(Mode.FAST)))
        .finished.sort("n")
        .select(list(VERDICTS))
    )
    alone = [validate_fast(text, lists, VerdictPolicy()) for text in given]
    assert alone == listed.to_dicts()
