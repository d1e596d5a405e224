"""A slip of a well-known domain is recognised; a real domain is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailsift.pipeline.lists import TYPO_TRAPS, suffix_exists, suggest_domain


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("gmial.com", "gmail.com"),
        ("gamil.com", "gmail.com"),
        ("gnail.com", "gmail.com"),
        ("gmai.com", "gmail.com"),
        ("gmaill.com", "gmail.com"),
        ("gmails.com", "gmail.com"),
        ("gmail.con", "gmail.com"),
        ("gmail.co", "gmail.com"),
        ("gmail.cm", "gmail.com"),
        ("gmail.comm", "gmail.com"),
        ("gmail.ocm", "gmail.com"),
        ("gmial.con", "gmail.com"),
        ("gmailcom", "gmail.com"),
        ("gmailcon", "gmail.com"),
        ("gmail", "gmail.com"),
        ("g.mail.com", "gmail.com"),
        ("gmail..com", "gmail.com"),
        ("gmail,com", "gmail.com"),
        ("www.gmail.com", "gmail.com"),
        ("googlemial.com", "googlemail.com"),
        ("yahoo.co.k", "yahoo.co.uk"),
        ("yahoo.couk", "yahoo.co.uk"),
        ("yaho.co.uk", "yahoo.co.uk"),
        ("yahooo.com.br", "yahoo.com.br"),
        ("yahho.com", "yahoo.com"),
        ("hotnail.com", "hotmail.com"),
        ("hotmai.fr", "hotmail.fr"),
        ("jotmail.com", "hotmail.com"),
        ("outlok.com", "outlook.com"),
        ("outloook.com", "outlook.com"),
        ("iclould.com", "icloud.com"),
        ("live.con", "live.com"),
        ("gmx.dee", "gmx.de"),
        ("gmxde", "gmx.de"),
        ("tonline.de", "t-online.de"),
        ("wanado.fr", "wanadoo.fr"),
        ("comcast.ent", "comcast.net"),
        ("163.con", "163.com"),
    ],
)
def test_a_slip_is_recognised(typed: str, meant: str) -> None:
    assert suggest_domain(typed) == meant


@pytest.mark.parametrize(
    "domain",
    [
        *(
            "gmail.com",
            "yahoo.co.uk",
            "yahoo.fr",
            "yahoo.se",
            "yahoo.co.jp",
            "hotmail.fr",
            "hotmail.co",
            "gmx.de",
        ),
        *("mail.com", "email.com", "ymail.com", "mail.ru", "me.com", "mac.com", "qq.com", "126.com"),
        *(
            "mailw.com",
            "comcast.com",
            "verizon.com",
            "att.com",
            "gail.com",
            "emial.com",
            "notmail.com",
            "love.com",
        ),
        *(
            "gmail.de",
            "hotmail.net",
            "outlook.org",
            "live.net",
            "gmx.dk",
            "web.com",
            "orange.com",
            "free.com",
        ),
        *(
            "cloud.com",
            "oranges.fr",
            "charters.net",
            "rodgers.com",
            "in.box.com",
            "mail.acme.com",
            "never.com",
        ),
        *("acme.test", "a.b", "com", "", "xn--gmal-nza.com", "google.com", "apple.com", "yahoo-inc.com"),
    ],
)
def test_a_real_domain_is_left_alone(domain: str) -> None:
    assert suggest_domain(domain) == ""


def test_every_typo_trap_has_a_suggestion() -> None:
    assert [trap for trap in TYPO_TRAPS if not suggest_domain(trap)] == []


def _cases(name: str) -> list[tuple[str, str]]:
    lines = (Path(__file__).parent / f"typed_domains_{name}.tsv").read_text().splitlines()
    return [tuple(line.split("\t")) for line in lines if not line.startswith("#")]  # type: ignore[misc]  # pairs


@pytest.mark.parametrize("name", ["seen", "heldout"])
def test_typed_domains_are_read_right_and_real_ones_let_alone(name: str) -> None:
    """The second table was put aside before the rules were made, and no rule was made for it."""
    slips = [(typed, meant) for typed, meant in _cases(name) if meant]
    real = [typed for typed, meant in _cases(name) if not meant]
    assert min(len(slips), len(real)) > 100
    assert sum(suggest_domain(typed) == meant for typed, meant in slips) >= 0.95 * len(slips)
    assert [(typed, suggest_domain(typed)) for typed in real if suggest_domain(typed)] == []


def test_what_dns_denies_is_read_right() -> None:
    slips = _cases("denied")
    right = sum(suggest_domain(typed, takes_no_mail=True) == meant for typed, meant in slips)
    assert right >= 0.95 * len(slips)


def test_where_dns_denies_the_typed_domain_the_guess_is_bolder() -> None:
    for typed, meant in (("gmail.org", "gmail.com"), ("gamial.com", "gmail.com"), ("lve.com", "live.com")):
        assert suggest_domain(typed) == ""
        assert suggest_domain(typed, takes_no_mail=True) == meant
    assert suggest_domain("acme.com", takes_no_mail=True) == ""


@pytest.mark.parametrize(
    ("domain", "exists"),
    [
        *(("a.com", True), ("a.co.uk", True), ("a.b.co.za", True), ("a.xn--p1ai", True), ("a.museum", True)),
        *(("a.test", True), ("a.example", True), ("a.coml", False), ("a.con", False), ("a.za", True)),
        *(("com", False), ("", False), ("a.", False)),
    ],
)
def test_which_suffixes_exist(domain: str, exists: bool) -> None:
    assert suffix_exists(domain) is exists


@given(st.text(alphabet="gmailyhotukcnrd.-,", max_size=24))
def test_a_suggestion_is_a_known_domain_and_needs_no_further_one(typed: str) -> None:
    meant = suggest_domain(typed)
    assert meant != typed or not meant
    assert suggest_domain(meant) == ""
    assert meant == "" or "." in meant
