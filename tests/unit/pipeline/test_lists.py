"""What the lists say about an address, and how an operator changes them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.lists import ALIASES, Lists
from mailsift.pipeline.syntax.column import parse_column


@pytest.fixture(scope="module")
def lists() -> Lists:
    return Lists.load()


def _described(lists: Lists, *cells: str) -> pl.DataFrame:
    return lists.describe(parse_column(pl.Series("raw", cells, pl.String)))


def _load(folder: Path, text: str) -> Lists:
    path = folder / "overrides.toml"
    path.write_text(text, encoding="utf-8")
    return Lists.load(path)


def test_describe_adds_its_columns_and_keeps_rows_and_their_order(lists: Lists) -> None:
    cells = ("info@gmail.com", "x@y.test", "", "a@sub.mailinator.com", "x@y.test", "b@hotnail.com")
    before = parse_column(pl.Series("raw", cells, pl.String))
    frame = lists.describe(before)
    added = ("role", "free", "disposable", "suggested_domain", "unknown_suffix", "look_alike", "meant")
    assert frame.drop(added).equals(before)
    assert frame.select("role", "free", "disposable", "suggested_domain").rows() == [
        (True, True, False, ""),
        (False, False, False, ""),
        (False, False, False, ""),
        (False, False, True, ""),
        (False, False, False, ""),
        (False, False, False, "hotmail.com"),
    ]


def test_an_empty_frame_stays_empty_and_gets_its_columns(lists: Lists) -> None:
    frame = _described(lists)
    assert frame.height == 0
    assert frame.schema["role"] == frame.schema["free"] == frame.schema["disposable"] == pl.Boolean()
    assert frame.schema["suggested_domain"] == pl.String()


@pytest.mark.parametrize(
    "local",
    [
        "info",
        "Sales",
        "support+de",
        "postmaster",
        "abuse",
        "hostmaster",
        "noreply",
        "no-reply",
        "kontakt",
        "biuro",
        "post",
        "hr",
        "sprzedaz",
        "vendite",
        "karriere",
        "hilfe",
    ],
)
def test_names_of_functions_are_roles_with_or_without_a_tag(lists: Lists, local: str) -> None:
    assert _described(lists, f"{local}@acme.test")["role"].item()


@pytest.mark.parametrize(
    "local", ["test", "123", "4711", "jane", "infos.jane", "jane+info", "salesman", "me", '"info x"']
)
def test_people_numbers_and_tests_are_not_roles(lists: Lists, local: str) -> None:
    assert not _described(lists, f"{local}@acme.test")["role"].item()


@pytest.mark.parametrize(
    "domain", ["mailinator.com", "sub.mailinator.com", "a.b.c.yopmail.com", "guerrillamail.com"]
)
def test_throw_away_domains_are_found_at_any_depth(lists: Lists, domain: str) -> None:
    assert lists.is_disposable(domain)


@pytest.mark.parametrize(
    "domain",
    [
        *sorted(ALIASES),
        *("jane.anonaddy.com", "gmail.com", "sify.com", "21cn.com", "mailinator.com.acme.test", "com", ""),
    ],
)
def test_alias_services_and_real_domains_are_not_throw_away(lists: Lists, domain: str) -> None:
    assert not lists.is_disposable(domain)


def test_a_listed_public_suffix_says_nothing_about_the_domains_below_it(tmp_path: Path) -> None:
    lists = _load(tmp_path, '[disposable]\nadd = ["github.io", "bad.github.io"]')
    assert lists.is_disposable("github.io")
    assert lists.is_disposable("mail.bad.github.io")
    assert not lists.is_disposable("jane.github.io")


def test_free_mail_is_the_domain_itself_and_not_what_lies_below_it(lists: Lists) -> None:
    frame = _described(lists, "a@gmail.com", "a@gmx.de", "a@corp.gmail.com", "a@acme.test")
    assert frame["free"].to_list() == [True, True, False, False]


_FREE_EVERYWHERE = """
tuta.com tutanota.com tutamail.com keemail.me daum.net nate.com kakao.com sfr.fr neuf.fr tlen.pl azet.sk
zoznam.sk inbox.lv meta.ua walla.co.il docomo.ne.jp gmx.fr gmx.es hotmail.be hotmail.com.mx hotmail.com.tw
yahoo.cl yahoo.com.pe yandex.kz outlook.com.ar live.hk t-online.hu indamail.hu dir.bg online.no hinet.net
pchome.com.tw sina.com.cn
"""
_OF_A_COMPANY = """
cox.com nus.edu.sg pec.it aruba.it verizon.com comcast.com att.com vodafone.com orange.com charter.com
laposte.fr
"""


@pytest.mark.parametrize(("domains", "free"), [(_FREE_EVERYWHERE, True), (_OF_A_COMPANY, False)])
def test_free_mail_of_every_country_is_known_and_is_no_mail_of_a_company(
    lists: Lists, domains: str, free: bool
) -> None:
    frame = _described(lists, *(f"jane@{domain}" for domain in domains.split()))
    assert frame.filter(pl.col("free") != free)["domain"].to_list() == []


@pytest.mark.parametrize("cell", ["a@gmailcom", "a@gmail", "a@gmail..com", "a@gmail,com", "a@gmail.com."])
def test_a_domain_that_breaks_the_syntax_gets_its_suggestion_and_nothing_else(
    lists: Lists, cell: str
) -> None:
    row = _described(lists, cell).row(0, named=True)
    assert row["suggested_domain"] == "gmail.com"
    assert not row["free"]
    assert row["rule"].startswith("domain_")


def test_a_free_domain_is_never_corrected_unless_it_is_a_known_trap(lists: Lists) -> None:
    assert lists.suggested("eastmail.com") == ""  # a real service beside fastmail.com
    assert lists.suggested("yaho.com") == "yahoo.com"


@pytest.mark.parametrize(
    ("cell", "alike", "suggested", "meant"),
    [
        ("ann@gm\u0430il.com", True, "gmail.com", ""),  # Cyrillic a
        ("ann@gma\u0131l.com", True, "gmail.com", ""),  # dotless i
        ("ann@\u0433\u043e\u0441\u0442.com", False, "", ""),  # a Russian name
        ("ann@ac\u043ce.com", True, "acme.com", ""),  # nobody we know, but no language mixes its scripts so
        ("ann@\u0585utlook.com", True, "outlook.com", ""),  # an Armenian letter
        ("ann@yah\u03bfo.com", True, "yahoo.com", ""),  # a Greek one
        ("ann@\u65e5\u672c\u30e1\u30fc\u30eba.jp", False, "", ""),  # Japanese is written with Latin letters
        ("ann@b\u00fccher.de", False, "", ""),
        ("ann@argent\u00edna.com", False, "", ""),  # argentina.com hands out mailboxes, and is another name
        ("ann@argentin\u0430.com", True, "argentina.com", ""),
        ("ann@gm\u00e4il.com", True, "gmail.com", ""),  # nobody's word
        ("j\u0430ne@acme.com", True, "", "jane@acme.com"),
        ("j\u0430ne@gmail.con", True, "gmail.com", "jane@gmail.com"),
        ("j\u0430ne\uff0e@acme.com", True, "", "jane@acme.com"),  # jane.@ would be no address
        ("`\u0430\u0440\u0440\u04cfe\uff1a@acme.com", False, "", ""),
        ("j\u0430ne\uff20@acme.com", True, "", "jane@acme.com"),
        ("j\u00f6rg@acme.com", False, "", ""),
        ("'jane@acme.com", False, "", "jane@acme.com"),  # as spreadsheets mark a text
        ("*jane@acme.com", False, "", "jane@acme.com"),  # a point of a list
        ("\u90ae\u7bb1\uff1ajane@acme.com", False, "", "jane@acme.com"),  # "mailbox:" with a wide colon
        ("\u90ae\u7bb1:jane@acme.com", False, "", "jane@acme.com"),
        ("o'neil@acme.com", False, "", ""),
        ("'@acme.com", False, "", ""),
        ("\u0430\u043d\u043d\u0430@acme.com", False, "", ""),
    ],
)
def test_an_address_that_looks_like_another_one_is_named(
    lists: Lists, cell: str, alike: bool, suggested: str, meant: str
) -> None:
    row = _described(lists, cell).row(0, named=True)
    assert (row["look_alike"], row["suggested_domain"], row["meant"]) == (alike, suggested, meant)


def test_a_domain_below_a_top_level_domain_that_does_not_exist_is_marked(lists: Lists) -> None:
    cells = (
        "a@acme.coml",
        "a@acme.com",
        "a@acme.test",
        "a@acme.co.za",
        "a@b..coml",
        "",
        "a@xn--bcher-kva.de",
    )
    assert _described(lists, *cells)["unknown_suffix"].to_list() == [True, *[False] * 6]


def test_an_operator_changes_every_list(tmp_path: Path) -> None:
    lists = _load(
        tmp_path,
        """
        [disposable]
        add = ["Burner.test", "duck.com"]
        remove = ["yopmail.com"]
        [free]
        add = ["freemail.test"]
        remove = ["gmx.de"]
        [role]
        add = ["captain"]
        remove = ["info"]
        [alias]
        add = ["mailinator.com"]
        """,
    )
    cells = (
        "captain@mx.burner.test",
        "info@yopmail.com",
        "a@freemail.test",
        "a@gmx.de",
        "a@mailinator.com",
        "a@duck.com",
    )
    frame = _described(lists, *cells)
    assert frame["role"].to_list() == [True, False, False, False, False, False]
    assert frame["disposable"].to_list() == [True, False, False, False, False, True]
    assert frame["free"].to_list()[2:4] == [True, False]


def test_an_entry_of_the_operator_may_be_spelt_as_people_spell_it(tmp_path: Path) -> None:
    lists = _load(
        tmp_path,
        """
        [disposable]
        add = ["Müll.test", "@burner.test", "trash.test.", " bin.test"]
        [free]
        add = ["bu\u0308cher.test"]
        [role]
        add = ["Bu\u0308ro"]
        """,
    )
    cells = ("büro@müll.test", "a@burner.test", "a@trash.test", "a@bin.test", "a@BÜCHER.test")
    frame = _described(lists, *cells)
    assert frame["disposable"].to_list() == [True, True, True, True, False]
    assert frame["free"].to_list() == [False, False, False, False, True]
    assert frame["role"].to_list() == [True, False, False, False, False]


def test_a_service_of_its_own_below_a_throw_away_domain_can_be_let_through(tmp_path: Path) -> None:
    lists = _load(tmp_path, '[alias]\nadd = ["corp.mailinator.com"]')
    assert not lists.is_disposable("mx.corp.mailinator.com")
    assert lists.is_disposable("other.mailinator.com")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[disposable", "cannot be read"),
        ("[disposible]\nadd = []", "[disposible]"),
        ("[free]\nadds = []", "`adds`"),
        ('[free]\nadd = "gmx.de"', "`add` must be a list"),
        ("[role]\nremove = [1]", "`remove` must be a list"),
        ("alias = 1", "[alias] must be a table"),
        ("provider = 1", "[[provider]]"),
        ("[provider]\nkey = 'x'", "[[provider]]"),
    ],
)
def test_a_mistake_in_the_overrides_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(MailsiftError) as caught:
        _load(tmp_path, text)
    assert caught.value.code == "bad_overrides"
    assert words in caught.value.message


def test_a_missing_overrides_file_is_an_error_and_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(MailsiftError, match="bad_overrides"):
        Lists.load(tmp_path / "none.toml")
