"""One address alone gets the very verdict it gets in a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from zlib import crc32

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailsift.pipeline.facts import DomainFact, DomainState, Mode
from mailsift.pipeline.frames import VERDICTS
from mailsift.pipeline.lists import Lists
from mailsift.pipeline.outcomes.outcome import OutcomeFacts
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
    "gmxx.de",
    "gmail.de",
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


class SomeDomains:
    """Says of each domain what a number makes of its name."""

    has_trusted_resolver = True

    def __init__(self, number: int) -> None:
        self._number = number

    async def lookup(
        self, domains: Sequence[str], *, patience_s: float | None, final: bool
    ) -> Mapping[str, DomainFact]:
        del patience_s, final  # it answers at once
        states = [state for state in DomainState if state is not DomainState.NOT_ASKED or len(domains) < 3]
        providers = ["", "acme.example", "google", "yahoo", "mimecast"]
        return {
            name: DomainFact(name, states[place % len(states)], provider=providers[place % len(providers)])
            for name in domains
            for place in (crc32(f"{self._number} {name}".encode()),)
        }


@examples(30)
@given(st.lists(texts, min_size=1, max_size=30), st.integers(0, 3), st.integers(0, 99))
async def test_few_addresses_get_the_very_verdicts_that_many_get(
    validator: Validator, given: list[str], unwanted: int, number: int
) -> None:
    asking = replace(validator, domains=SomeDomains(number))
    parsed = parse_column(pl.Series("raw", given, pl.String)).unique("address", maintain_order=True)
    frame = parsed.with_row_index("n").with_columns(pl.lit(2, pl.UInt32).alias("rows"))
    outcomes = OutcomeFacts(unwanted=dict.fromkeys(frame["address"].head(unwanted), "bounced"))
    found = []
    for few in (0, 30):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("mailsift.pipeline.validator._FEW", few)
            found.append(await asking.validate(frame, ValidationRequest(Mode.MEDIUM, outcomes=outcomes)))
    many, few_ones = found
    assert few_ones.finished.equals(many.finished.sort("n"))
    assert few_ones.finished.schema == many.finished.schema
    assert few_ones.waiting.drop("delay").equals(many.waiting.drop("delay"))
    assert few_ones.waiting.schema == many.waiting.schema
