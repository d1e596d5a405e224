"""The names of broken rules never refuse anything by themselves."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from email_validator import SPECIAL_USE_DOMAIN_NAMES
from hypothesis import assume, given
from hypothesis import strategies as st

from mailsift.pipeline.syntax.address import (
    LONGEST_PLAIN_DOMAIN,
    REFUSED_TLDS,
    UNSEEN,
    SyntaxRule,
    obvious_rule,
    parse_address,
    parse_cell,
    parse_exact,
    parse_plain,
    read_domain,
)
from tests.support.envelope import email_validator_takes
from tests.support.fuzzing import examples

_ODD = st.sampled_from(
    [
        *"aZ09.-_+@\"'\\<> ,;:[]()\t\n\x00",
        "..",
        "--",
        "xn--",
        "é",
        "e\u0301",
        "\u0338",
        "İ",
        "\u200b",
        "。",
        "．",
        "＠",
    ]
)
_ENDS = st.sampled_from(
    ["", "@a.de", "@a.local", "@é.de", "@x.c0m", "@[1.2.3.4]", ">", "\u0338@a.de", "@" + "b" * 64]
)


@examples(200)
@given(st.lists(_ODD, max_size=10).map("".join), _ENDS)
def test_what_is_called_obviously_bad_is_refused_by_email_validator_too(start: str, end: str) -> None:
    text = start + end
    assume(not text.lower().endswith("@test"))  # a bare `test` is our own refusal: it has no dot
    if obvious_rule(text) is None:
        return
    assert not email_validator_takes(text), f"{text!a} is good, yet it is called {obvious_rule(text)}"


def test_every_letter_that_has_another_case_or_composition_has_one_canonical_form() -> None:
    letters = [
        letter
        for letter in map(chr, range(0x80, sys.maxunicode + 1))
        if letter.lower() != letter or unicodedata.normalize("NFC", letter) != letter
    ]
    assert len(letters) > 1_000
    for letter in letters:
        first = parse_exact(f"x{letter}y@a.de")
        if not first.rule:
            assert parse_exact(first.address) == first, f"U+{ord(letter):04X}"


def test_a_local_part_that_grows_beyond_the_limit_when_lower_cased_is_refused() -> None:
    assert parse_exact("İ" * 22 + "@a.de").rule == "local_too_long"
    assert not parse_exact("Ä" * 32 + "@a.de").rule


def test_a_local_part_is_counted_in_octets() -> None:
    assert parse_exact("ä" * 33 + "@a.de").rule == "local_too_long"
    assert not parse_exact("a" * 64 + "@a.de").rule


def test_only_test_is_let_through_of_the_special_use_names() -> None:
    assert set(SPECIAL_USE_DOMAIN_NAMES) - set(REFUSED_TLDS) == {"test"}
    assert {parse_exact(f"a@b.{tld}").rule for tld in REFUSED_TLDS} == {"domain_special_use"}
    assert not parse_exact("a@b.test").rule


def test_what_nobody_sees_is_cut_and_nothing_else() -> None:
    spaces = {chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()}
    marks = "\u00ad\u034f\u061c\u180e\u200b\u200d\u200f\u202a\u202e\u2060\u2066\u2069\u206f\ufeff\ufff9\ufffb"
    assert spaces - set("\x1c\x1d\x1e\x1f") <= set(UNSEEN)
    assert set(marks) <= set(UNSEEN)
    assert {one for one in UNSEEN if unicodedata.category(one) == "Cc"} == set("\t\n\v\f\r\x85")
    assert {unicodedata.category(one)[0] for one in set(UNSEEN) - {"\u034f"}} == {"C", "Z"}


@pytest.mark.parametrize("text", ["→ ann@b.test", "• ann@b.test", "電郵： ann@b.test", "Mail → ann@b.test"])
def test_what_decorates_an_address_is_no_part_of_it(text: str) -> None:
    assert parse_cell(text).address == "ann@b.test"


def test_the_fast_ways_end_at_their_lengths_and_the_exact_one_goes_on() -> None:
    local = "a" * 64
    longest = f"{'b' * 59}.com"
    assert len(longest) == LONGEST_PLAIN_DOMAIN
    assert parse_plain(f"{local}@{longest}") is not None
    assert parse_plain(f"{local}a@{longest}") is None
    assert parse_plain(f"{local}@b{longest}") is None
    assert parse_address(f"{local}a@{longest}").rule == SyntaxRule.LOCAL_TOO_LONG


def test_an_address_has_254_octets_at_most() -> None:
    domain = f"{'b' * 62}.{'c' * 62}.{'d' * 62}.de"
    longest = f"{'a' * (254 - 1 - len(domain))}@{domain}"
    assert not parse_address(longest).rule
    assert parse_address(f"a{longest}").rule == parse_address(f"ä{longest[1:]}").rule == SyntaxRule.TOO_LONG


@pytest.mark.parametrize(
    ("typed", "domain"),
    [
        # what IDNA 2008 itself gives as an example: a joiner where its script wants one (RFC 5892 A.1, A.2)
        ("نامه\u200cای.com", "xn--mgba3gch31f060k.com"),
        ("xn--mgba3gch31f060k.com", "xn--mgba3gch31f060k.com"),
        ("क्\u200dष.com", "xn--11b2ezcw70k.com"),
        # labels IDNA reserves (RFC 5890 section 2.3.1) and what Punycode writes of names it forbids
        ("r4---sn.Example.com", "r4---sn.example.com"),
        ("xn--e28h.kz", "xn--e28h.kz"),
        ("\U0001f600.kz", "xn--e28h.kz"),
        ("I\u2764\ufe0f.ws", "xn--i-7iq.ws"),
        # what UTS 46 drops and maps
        ("exam\u00adple.com", "example.com"),
        ("ｅｘａｍｐｌｅ｡com", "example.com"),
    ],
)
def test_a_name_that_dns_can_have_is_left_to_dns(typed: str, domain: str) -> None:
    assert parse_address(f"jane@{typed}") == (f"jane@{domain}", "jane", domain, "")


@pytest.mark.parametrize("local", ["می\u200cخواهم", "क्\u200dष.१", "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}"])
def test_a_joiner_within_a_word_is_a_letter_of_it(local: str) -> None:
    assert parse_cell(f"{local}@c.de") == (f"{local}@c.de", local, "c.de", "")


@pytest.mark.parametrize("local", ["ja\u200cne", "\u200dé.x", "é\u200c.é", "é\u200c\u200cé", "é\u200bé"])
def test_a_joiner_elsewhere_is_a_mark_nobody_sees(local: str) -> None:
    assert parse_address(f"{local}@c.de").rule == SyntaxRule.UNICODE_INVALID


@pytest.mark.parametrize(
    ("typed", "rule"),
    [
        ("ab\u200ccd.com", SyntaxRule.UNICODE_INVALID),
        ("a.com\U0001f600", SyntaxRule.DOMAIN_CHARACTER),
        ("a\u2022b.com", SyntaxRule.DOMAIN_CHARACTER),
        ("a\ufffdb.com", SyntaxRule.UNICODE_INVALID),
        ("a\u202eb.com", SyntaxRule.DOMAIN_CHARACTER),
        ("\U0001f600", SyntaxRule.DOMAIN_NO_DOT),
        ("\U0001f600.onion", SyntaxRule.DOMAIN_SPECIAL_USE),
        ("xn--a-.com", SyntaxRule.DOMAIN_LABEL),
        ("\U0001f600" * 60 + ".com", SyntaxRule.DOMAIN_LABEL),
    ],
)
def test_a_name_that_dns_cannot_have_breaks_a_rule(typed: str, rule: SyntaxRule) -> None:
    assert parse_address(f"jane@{typed}").rule == rule


@pytest.mark.parametrize(
    ("text", "domain"),
    [
        ("Example.COM", "example.com"),
        ("@example.com", "example.com"),
        ("Ann <ann@example.com.>", ""),
        ("ann@Bücher.de. ", "xn--bcher-kva.de"),
        ("\ufeffexample.com\u00a0", "example.com"),
        ("example.com..", ""),
        ("com", ""),
        ("@", ""),
        ("", ""),
    ],
)
def test_a_domain_is_read_as_people_write_it_down(text: str, domain: str) -> None:
    assert read_domain(text) == domain
