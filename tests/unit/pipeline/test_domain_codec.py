"""Cached facts come back as they went in; anything else is a miss."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailsift.pipeline.facts import DomainFact, DomainState, MxHost, decode_domain, encode_domain

hosts = st.builds(MxHost, st.text(), st.integers(0, 65_535), st.lists(st.text(), max_size=3).map(tuple))
facts = st.builds(
    DomainFact,
    domain=st.text(),
    state=st.sampled_from(DomainState),
    hosts=st.lists(hosts, max_size=3).map(tuple),
    provider=st.text(),
    implicit=st.booleans(),
    detail=st.text(),
    learned_at=st.floats(allow_nan=False, allow_infinity=False),
    expires_at=st.floats(allow_nan=False, allow_infinity=False),
)


@given(facts)
def test_a_fact_comes_back_as_it_went_in(fact: DomainFact) -> None:
    assert decode_domain(fact.domain, encode_domain(fact)) == fact


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\xff",
        b"null",
        b"[]",
        b"{}",
        b'"12345678"',
        b'[2, "routed", [], "p", false, "", 1.0, 2.0]',
        b'[1, "routed", [], "p", false, "", 1.0]',
        b'[1, "no such state", [], "p", false, "", 1.0, 2.0]',
        b'[1, "routed", [["mx", 10]], "p", false, "", 1.0, 2.0]',
        b'[1, "routed", 5, "p", false, "", 1.0, 2.0]',
    ],
)
def test_bytes_that_are_no_fact_are_a_miss(data: bytes) -> None:
    assert decode_domain("a.test", data) is None
