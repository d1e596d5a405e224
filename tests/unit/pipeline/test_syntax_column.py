"""Cells become canonical addresses, whatever a customer's file holds."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mailsift.pipeline.frames import PARSED
from mailsift.pipeline.syntax.address import SyntaxRule, parse_cell, parse_exact, tidy
from mailsift.pipeline.syntax.column import is_plain, parse_cells, parse_column
from tests.support.envelope import email_validator_takes
from tests.support.fuzzing import examples

_ODD = st.sampled_from(
    [*"aZ09.-_+@\"'\\<> ,;:[]()\t\n\x00", "..", "--", "xn--", "é", "e\u0301", "İ", "ß", "\u200b", "。"]
)
_TLDS = st.sampled_from(
    ["com", "test", "local", "localhost", "arpa", "onion", "invalid", "c0m", "museum", "x", "1"]
)
_PIECE = st.lists(_ODD, max_size=8).map("".join)
_LONG = st.integers(55, 70).map(lambda size: "a" * size)
_LOCAL = st.one_of(
    _PIECE, _LONG, st.lists(st.sampled_from("abc!#$%&'*+/=?^_`{|}~-."), max_size=12).map("".join)
)
_DOMAIN = st.lists(st.one_of(_PIECE, _LONG, st.sampled_from(["mail", "a-b"])), min_size=1, max_size=5)
_GOOD = st.sampled_from(
    ["jane.doe@mail.example.com", "J+t@a-b.test", '"a b"@c.de', "jörg@bücher.de", "x@xn--bcher-kva.de"]
)


def _slipped(good: str, odd: str, at: int) -> str:
    """A good address with something put into it."""
    return good[:at] + odd + good[at:]


_ADDRESS = st.one_of(
    st.text(max_size=40),
    st.builds(lambda local, labels, tld: f"{local}@{'.'.join([*labels, tld])}", _LOCAL, _DOMAIN, _TLDS),
    st.builds(_slipped, _GOOD, st.one_of(_ODD, st.characters(exclude_categories=["Cs"])), st.integers(0, 25)),
)


def _texts(*values: str | None) -> pl.Series:
    return pl.Series("raw", values, pl.String)


def _one(value: str | None) -> tuple[str, ...]:
    return parse_column(_texts(value)).row(0)


@examples(40)
@given(st.lists(_ADDRESS, min_size=1, max_size=25))
@example(["a" * 64 + "@b.com", "a" * 65 + "@b.com", "a@" + "b" * 59 + ".com", "a@" + "b" * 64 + ".com"])
@example(["a@b.local", "a@b.LOCAL", "a@b.test", "a@b.c-d", "a@-b.com", "a@b--c.com", "a@b.com\n", "é@b.com"])
def test_the_fast_path_takes_only_what_the_exact_parser_takes_and_agrees_on_the_canonical_form(
    texts: list[str],
) -> None:
    frame = _texts(*texts).to_frame().filter(is_plain(pl.col("raw")))
    for text, parsed in zip(frame["raw"], parse_column(frame["raw"]).rows(), strict=True):
        assert email_validator_takes(text)
        assert parsed == parse_exact(text)


@examples(30)
@given(st.lists(_ADDRESS, min_size=1, max_size=25))
def test_a_canonical_address_is_its_own_canonical_form(texts: list[str]) -> None:
    good = parse_column(_texts(*texts)).filter(pl.col("rule") == "")
    assert parse_column(good["address"]).rows() == good.rows()
    for address, local, domain, _ in good.rows():
        assert address == f"{local}@{domain}"
        assert domain.isascii()
        assert domain == domain.lower()


_AROUND = st.sampled_from(
    [
        "",
        " ",
        "\u200b",
        "\u00a0\t",
        "mailto:",
        "MAILTO: ",
        "<",
        ">",
        "< mailto:",
        ".",
        "\x00",
        "mailto:?to=",
        "?cc=b@c.de",
    ]
)
_DECORATION = st.sampled_from(["", "", "Â ", "\N{ENVELOPE} ", "\N{RIGHTWARDS ARROW}\t", "メール： "])
_CELL = st.builds("{}{}{}{}".format, _AROUND, _DECORATION, _ADDRESS, _AROUND)


@examples(50)
@given(st.lists(st.one_of(st.none(), _ADDRESS, _CELL), max_size=25))
@example(["x@ΕΛΛΑΣ.gr ", "X@ΕΛΛΑΣ.gr", "x@ΕΛΛΑΣ..gr", "a" * 64 + "@bücher.de", "a" * 65 + "@bücher.de"])
@example(["\t\N{ENVELOPE} jane@example.com", "\u200b\N{ENVELOPE} <jané@example.com>"])
@example(["\N{ENVELOPE} ", "メール： "])
def test_a_column_is_parsed_as_the_exact_parser_does_its_tidied_cells(texts: list[str | None]) -> None:
    expected = [parse_exact(tidy(text or "")) for text in texts]
    assert parse_column(_texts(*texts)).rows() == expected
    assert [parse_cell(text or "") for text in texts] == expected
    few = parse_cells(_texts(*texts))
    assert (few.schema, few.rows()) == (pl.Schema(PARSED), expected)


def test_the_fast_path_covers_the_plain_addresses_of_a_real_list() -> None:
    texts = _texts(
        "jane.doe@gmail.com", "J_D+tag@Mail.Example.CO.UK", "o'neil@a-b.org", "1@2.test", "x@a.photography"
    )
    assert texts.to_frame().select(is_plain(pl.col("raw"))).to_series().all()


@pytest.mark.parametrize(
    "raw",
    [
        "a.b@c.de",
        " \t\u00a0a.b@c.de\r\n",
        "\ufeffa.b@c.de\u200b",
        "\u202aa.b@c.de\u202c",
        "\u00ada.b@c.de\u2060",
        "Â\u00a0a.b@c.deÂ\u00a0",
        "Â <a.b@c.de>",
        "<a.b@c.de>",
        "mailto:A.B@C.DE",
        "MailTo: <a.b@c.de> ",
        "< mailto:a.b@c.de >",
        "A.B@c.De",
        '"a.b"@c.de',
    ],
)
def test_what_a_cell_carries_around_the_address_is_cut_off(raw: str) -> None:
    assert _one(raw) == ("a.b@c.de", "a.b", "c.de", "")


@pytest.mark.parametrize(
    ("raw", "address", "local", "domain"),
    [
        ("âme@c.de", "âme@c.de", "âme", "c.de"),
        ("Jörg@Bücher.de", "jörg@xn--bcher-kva.de", "jörg", "xn--bcher-kva.de"),
        ("Jo\u0308rg@Bu\u0308cher.de", "jörg@xn--bcher-kva.de", "jörg", "xn--bcher-kva.de"),
        ("x@XN--BCHER-KVA.de", "x@xn--bcher-kva.de", "x", "xn--bcher-kva.de"),
        ("x@ΕΛΛΑΣ.gr", "x@xn--mxahsa5b.gr", "x", "xn--mxahsa5b.gr"),
        ("x@例え。テスト", "x@xn--r8jz45g.xn--zckzah", "x", "xn--r8jz45g.xn--zckzah"),
        ('"A B"@c.de', '"a b"@c.de', '"a b"', "c.de"),
        ('"a@b"@c.de', '"a@b"@c.de', '"a@b"', "c.de"),
        ("a+b@c.de", "a+b@c.de", "a+b", "c.de"),
        # given out by carriers before they kept to RFC 5321
        ("ann..b-@Docomo.ne.jp", '"ann..b-"@docomo.ne.jp', '"ann..b-"', "docomo.ne.jp"),
        ("ann.@ezweb.ne.jp", '"ann."@ezweb.ne.jp', '"ann."', "ezweb.ne.jp"),
        ("用户@例子.广告", "用户@xn--fsqu00a.xn--4rr70v", "用户", "xn--fsqu00a.xn--4rr70v"),
        ("a@b.test", "a@b.test", "a", "b.test"),
    ],
)
def test_one_mailbox_has_one_canonical_form(raw: str, address: str, local: str, domain: str) -> None:
    assert _one(raw) == (address, local, domain, "")


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (None, SyntaxRule.EMPTY),
        ("", SyntaxRule.EMPTY),
        (" \u200b<> ", SyntaxRule.EMPTY),
        ("mailto:", SyntaxRule.EMPTY),
        ("jane.doe", SyntaxRule.NO_AT),
        ("jane＠c.de", SyntaxRule.NO_AT),
        ("a@" + "b." * 600 + "de", SyntaxRule.TOO_LONG),
        ("a" * 1_024, SyntaxRule.NO_AT),
        ("a" * 1_025, SyntaxRule.TOO_LONG),
        ("a" * 60 + "@" + "b." * 96 + "de", SyntaxRule.TOO_LONG),
        ("ü" * 60 + "@" + "b." * 70 + "de", SyntaxRule.TOO_LONG),
        ("@c.de", SyntaxRule.LOCAL_EMPTY),
        ('""@c.de', SyntaxRule.LOCAL_EMPTY),
        ("a" * 65 + "@c.de", SyntaxRule.LOCAL_TOO_LONG),
        (f'"{"a b" * 30}"@c.de', SyntaxRule.LOCAL_TOO_LONG),
        (".a@c.de", SyntaxRule.LOCAL_DOT),
        ("a.@c.de", SyntaxRule.LOCAL_DOT),
        ("a..b@c.de", SyntaxRule.LOCAL_DOT),
        (".a@docomo.ne.jp", SyntaxRule.LOCAL_DOT),
        ("a..b@docomo.com", SyntaxRule.LOCAL_DOT),
        ("a..b c@docomo.ne.jp", SyntaxRule.LOCAL_DOT),
        ("a b@c.de", SyntaxRule.LOCAL_CHARACTER),
        ("a,b@c.de", SyntaxRule.LOCAL_CHARACTER),
        ("a(b)@c.de", SyntaxRule.LOCAL_CHARACTER),
        ('"a"b@c.de', SyntaxRule.LOCAL_CHARACTER),
        ('a"b"@c.de', SyntaxRule.LOCAL_CHARACTER),
        ('"a@c.de', SyntaxRule.QUOTED_UNTERMINATED),
        ('"a\\"@c.de', SyntaxRule.QUOTED_UNTERMINATED),
        ("a@", SyntaxRule.DOMAIN_EMPTY),
        ("a@" + "b." * 127 + "de", SyntaxRule.DOMAIN_TOO_LONG),
        ("a@-c.de", SyntaxRule.DOMAIN_LABEL),
        ("a@c-.de", SyntaxRule.DOMAIN_LABEL),
        ("a@c..de", SyntaxRule.DOMAIN_LABEL),
        ("a@c.de.", SyntaxRule.DOMAIN_LABEL),
        ("a@.c.de", SyntaxRule.DOMAIN_LABEL),
        ("a@" + "b" * 64 + ".de", SyntaxRule.DOMAIN_LABEL),
        ("a@192.0.2.1", SyntaxRule.DOMAIN_LABEL),
        ('"a b"@c..de', SyntaxRule.DOMAIN_LABEL),
        ("a@" + "ü" * 62 + ".de", SyntaxRule.DOMAIN_LABEL),
        ("a@c d.de", SyntaxRule.DOMAIN_CHARACTER),
        ("a@c,de", SyntaxRule.DOMAIN_CHARACTER),
        ("a@c_d.de", SyntaxRule.DOMAIN_CHARACTER),
        ("a@b@c.de", SyntaxRule.DOMAIN_CHARACTER),
        ("a@gmailcom", SyntaxRule.DOMAIN_NO_DOT),
        ("a@test", SyntaxRule.DOMAIN_NO_DOT),
        ("a@bücher", SyntaxRule.DOMAIN_NO_DOT),
        ("a@localhost", SyntaxRule.DOMAIN_SPECIAL_USE),
        ("a@printer.LOCAL", SyntaxRule.DOMAIN_SPECIAL_USE),
        ("a@x.onion", SyntaxRule.DOMAIN_SPECIAL_USE),
        ("a@[192.0.2.1]", SyntaxRule.DOMAIN_LITERAL),
        ('"a b"@[IPv6:2001:db8::1]', SyntaxRule.DOMAIN_LITERAL),
        ("Jane Doe <a@c.de>", SyntaxRule.DISPLAY_NAME),
        ('"Doe, Jane" <a@c.de>', SyntaxRule.DISPLAY_NAME),
        ("a@c.de, b@c.de", SyntaxRule.SEVERAL_ADDRESSES),
        ("a@c.de;b@c.de", SyntaxRule.SEVERAL_ADDRESSES),
        ("a@;b@c.de", SyntaxRule.SEVERAL_ADDRESSES),
        ("a@c.de\nb@c.de", SyntaxRule.SEVERAL_ADDRESSES),
        ("<a@c.de>, <b@c.de>", SyntaxRule.SEVERAL_ADDRESSES),
        ('"Doe, Jane" <a@c.de>; "Roe, R." <b@c.de>', SyntaxRule.SEVERAL_ADDRESSES),
        ('["a@c.de","b@c.de"]', SyntaxRule.SEVERAL_ADDRESSES),
        ("a@c.de(b@c.de)", SyntaxRule.SEVERAL_ADDRESSES),
        ("a@c.de、b@c.de", SyntaxRule.SEVERAL_ADDRESSES),
        ("somebody@example.com; " * 60, SyntaxRule.SEVERAL_ADDRESSES),
        ('"a@c.de" <a@c.de>', SyntaxRule.DISPLAY_NAME),
        ('"a\\" b@c.de; @"@c..de', SyntaxRule.DOMAIN_LABEL),
        ("@jane, @john", SyntaxRule.LOCAL_EMPTY),
        ("a@c@d e", SyntaxRule.DOMAIN_CHARACTER),
        ("a\x00@c.de", SyntaxRule.CONTROL_CHARACTER),
        ("a@c.de\r\nRCPT TO:<b>", SyntaxRule.CONTROL_CHARACTER),
        ("a\u202eb@c.de", SyntaxRule.UNICODE_INVALID),
        ("jos\ufffd@c.de", SyntaxRule.UNICODE_INVALID),
        ('"jos\ufffd"@c.de', SyntaxRule.UNICODE_INVALID),
        ("a@c•.de", SyntaxRule.DOMAIN_CHARACTER),
        ("a@c\u200d.de", SyntaxRule.UNICODE_INVALID),
    ],
)
def test_a_bad_cell_names_the_rule_it_breaks(raw: str | None, rule: SyntaxRule) -> None:
    assert _one(raw)[1:] == ("", "", rule.value)


@pytest.mark.parametrize(
    ("raw", "address"),
    [
        ("mailto:gorby%25kremvax@c.de", "gorby%kremvax@c.de"),
        ("mailto:unlikely%3Faddress@c.de?blat=foop", "unlikely?address@c.de"),
        ("mailto:%22not%40me%22@c.de", '"not@me"@c.de'),
        ("mailto:user@b%C3%BCcher.de?subject=Test&cc=x@y.de", "user@xn--bcher-kva.de"),
        ("<mailto:jane%2Btag@c.de>", "jane+tag@c.de"),
        ("mailto:?subject=x&To=jane%40c.de&cc=x@y.de", "jane@c.de"),
        ("mailto:a?b&c@d.de", "a?b&c@d.de"),  # written by hand: an escape would be right
        ("<a%2bb@c.de>", "a%2bb@c.de"),  # no URI
    ],
)
def test_a_mailto_uri_is_read_as_one(raw: str, address: str) -> None:
    """RFC 6068: its escapes stand for other signs, and its header fields are no part of the address."""
    assert _one(raw) == tuple(parse_cell(raw)) == (address, *address.rsplit("@", 1), "")


def test_a_mailto_uri_to_nobody_holds_no_address() -> None:
    assert _one("mailto:?subject=x&body=a@b.de")[3] == SyntaxRule.EMPTY


def test_a_bad_cell_keeps_its_trimmed_text_as_address() -> None:
    assert _one("  Not An Address\u200b ")[0] == "Not An Address"


@pytest.mark.parametrize(
    "hostile", ["@", "a@", '"', "\\", "<", "a@b.", "a@b,", "\u0300", "١", "xn--", "\x00", "“"]
)
def test_a_megabyte_in_a_cell_is_only_too_long(hostile: str) -> None:
    cell = "x" + hostile * (1_000_000 // len(hostile)) + "x"
    assert _one(cell) == (cell, "", "", "too_long")


@pytest.mark.parametrize("hostile", ["@", '"', "<", "@,", "\\", "\u0300", "xn--", "١", "a@b "])
def test_the_longest_texts_the_exact_parser_sees_are_refused(hostile: str) -> None:
    assert _one(f"a@{hostile * (1_000 // len(hostile))}x")[3] != ""


def test_an_empty_column_gives_an_empty_frame_and_a_column_of_nulls_gives_empty_cells() -> None:
    assert parse_column(pl.Series("raw", [], pl.String)).schema == pl.Schema(PARSED)
    nulls = parse_column(pl.Series("raw", [None, None]))
    assert nulls.schema == pl.Schema(PARSED)
    assert nulls["rule"].to_list() == ["empty", "empty"]
    assert parse_cells(pl.Series("raw", [None, None])).equals(nulls)


def test_rows_keep_their_order_when_fast_tidied_and_exact_ones_mix() -> None:
    texts = ["b@c.de", "", " A@c.de", "jörg@c.de", "x", "c@c.de", "<d@c.de>", "", "jörg@c.de"]
    frame = parse_column(_texts(*texts))
    assert frame["address"].to_list() == [
        *("b@c.de", "", "a@c.de", "jörg@c.de", "x", "c@c.de", "d@c.de", "", "jörg@c.de"),
    ]
    assert frame.schema == pl.Schema(PARSED)
