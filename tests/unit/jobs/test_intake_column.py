from __future__ import annotations

import polars as pl
import pytest

from mailsift.jobs.intake.numbering import number_addresses
from mailsift.jobs.intake.sniff import Dialect, dialect_of, encoding_of, looks_like_json
from mailsift.jobs.intake.table import Choice, choose_column
from mailsift.pipeline.errors import MailsiftError


def choose(rows: list[list[str]], wanted: str = "", names: list[str] | None = None) -> Choice:
    return choose_column(pl.DataFrame(rows, orient="row"), names, wanted)


@pytest.mark.parametrize(
    "name",
    [
        "email",
        "E-Mail",
        " EMAIL ",
        "email_address",
        "E-Mail-Adresse",
        "Correo Electrónico",
        "courriel",
        "이메일",
        "メールアドレス",
        "ｅｍａｉｌ",
        "[Email]",
        "Email Addr.",
        "Adres e-mail",
        "E-POSTA",
        "Sähköposti",
        "E-mailová adresa",
        "Địa chỉ email",
        "Ηλεκτρονικό ταχυδρομείο",
        "Адрес эл. почты",
        "البريد الإلكتروني",
        'דוא"ל',
        "電子郵件",
    ],
)
def test_a_column_is_found_by_its_name_whatever_its_spelling(name: str) -> None:
    choice = choose([["id", name], ["1", ""], ["2", ""]])
    assert choice == Choice(1, ("id", name), header=True)


def test_no_name_of_a_column_has_a_nul_which_neither_a_database_nor_a_text_file_can_hold() -> None:
    rows = [["id", "a@example.com"], ["\0", "b@example.com"]]
    assert choose(rows, names=["\0id", "e\0mail"]) == Choice(1, ("id", "email"), header=False)
    assert choose(rows, "email", names=["\0id", "e\0mail"]).index == 1
    assert choose([["\0", "Email\0"], *rows[1:]]) == Choice(1, ("column_1", "Email"), header=True)


def test_without_a_header_the_column_is_found_by_content_and_names_are_numbers() -> None:
    choice = choose([["1", "a@example.com"], ["2", "bad"], ["3", "c@example.com"]])
    assert choice == Choice(1, ("column_1", "column_2"), header=False)


@pytest.mark.parametrize("name", ["Ann", '"Ann, A."', ""])
def test_cells_that_mean_an_address_make_a_column_one_where_they_are_repaired(name: str) -> None:
    rows = pl.DataFrame([["1", f"{name} <a@example.com>"], ["2", "Bob (b@example.com)"]], orient="row")
    choice = choose_column(rows, None, "", repair=True)
    assert choice == Choice(1, ("column_1", "column_2"), header=False)


@pytest.mark.parametrize("cell", ["- {}", "1. {}", "Ann Miller - {}", "Ann ({})", "Mail: {}"])
def test_cells_with_an_address_behind_a_mark_will_do_where_they_are_repaired_and_no_column_has_others(
    cell: str,
) -> None:
    rows = [["x", cell.format(f"n{n}@example.com")] for n in range(3)]
    assert choose_column(pl.DataFrame(rows, orient="row"), None, "", repair=True).index == 1
    better = [[*row, f"<m{n}@example.com>"] for n, row in enumerate(rows)]
    assert choose_column(pl.DataFrame(better, orient="row"), None, "", repair=True).index == 2
    with pytest.raises(MailsiftError, match="none holds enough"):
        choose(rows)
    unclear = pl.DataFrame([["x", f"Ann n{n}@example.com"] for n in range(3)], orient="row")
    with pytest.raises(MailsiftError, match="none holds enough"):
        choose_column(unclear, None, "", repair=True)


def test_an_unknown_header_is_a_header_when_its_address_cell_is_no_address() -> None:
    choice = choose([["Contact", ""], ["a@example.com", "x"], ["b@example.com", "y"]])
    assert choice == Choice(0, ("Contact", "column_2"), header=True)


@pytest.mark.parametrize(
    "first",
    [
        ["007", "Ann", ""],
        ["", "2024-01-02", " "],
        ["+49 (30) 123", "x", "ann.example.com"],
        ["x", "Ann", "unknown"],
        ["", " ", ""],
        ["rep@example.net", "Ann", ""],
        ["x", "Ann", "-"],
        ["x", "Ann", "n/a"],
        ["x", "", "Email (ann@example.com)"],
    ],
)
def test_a_first_row_that_is_like_those_below_is_no_header_though_it_has_no_address(first: list[str]) -> None:
    below = [
        ["008", "2023-11-30", "a@example.com"],
        ["010", "1.2.2003", "unknown"],
        ["9", "", "c@example.com"],
    ]
    assert choose([first, *below]) == Choice(2, ("column_1", "column_2", "column_3"), header=False)


@pytest.mark.parametrize(
    "first",
    [
        ["T@ag", "x", "Contact"],
        ["2023", "2024", "Contact"],
        ["7", "8", "E-Mail"],
        ["id", "", ""],
        ["Nr. 1", "#", "unknown"],
        ["id", "", "@"],
        ["id", "", "E-Mail (@)"],
        ["id", "", "Email (like ann@example.com)"],
        ["id", "", "メール（例 ann@example.com）"],
    ],
)
def test_names_are_names_though_they_have_figures(first: list[str]) -> None:
    below = [["1", "20", "a@example.com"], ["2", "", "b@example.com"], first, ["3", "2.5", "c@example.com"]]
    assert choose([first, *below]).header


@pytest.mark.parametrize(
    "first", ["bobExample.com", "bob.example.com", "bob#mail.example.com", "@example.com"]
)
def test_a_first_row_that_ends_in_a_domain_of_those_below_is_an_address_with_a_slip(first: str) -> None:
    below = [["Ann", "ann@example.com"], ["Cy", "Cy <cy@mail.example.com>"], ["Di", "di@com"]]
    assert not choose([["Bob", first], *below]).header
    assert choose([["Who", "flipcom"], *below]).header
    assert choose([["Who", "contact.email"], ["Ann", "ann@mail.email"]]).header


def test_a_first_row_with_a_word_that_its_column_has_again_is_no_header() -> None:
    below = [["a@example.com", "DE", "x"], ["b@example.com", "AT", ""], ["c@example.com", "DE", "x"]]
    assert not choose([["by phone", "DE", "y"], *below]).header
    assert choose([["Contact", "AT", "x"], *below]).header  # as the columns of a survey
    assert choose([["Contact", "DE", "x"], *below, ["Contact", "DE", "x"]]).header


def test_a_row_whose_name_was_asked_for_is_a_header() -> None:
    assert choose([["7", "who"], ["8", "a@example.com"], ["9", "who"]], "who").header


def test_a_bad_address_in_the_first_row_does_not_make_it_a_header() -> None:
    assert not choose([["john.doe@"], ["a@example.com"], ["b@example.com"]]).header


def test_of_two_named_columns_the_one_with_addresses_wins() -> None:
    rows = [["Mail", "E-Mail-Adresse"], ["by post", "a@example.com"], ["no", "b@example.com"]]
    assert choose(rows).index == 1
    assert choose([["email", "contact"], ["yes", "a@example.com"], ["no", "b@example.com"]]).index == 1
    assert (
        choose([["email", "contact"], ["", "a@example.com"], ["b@example.com", "c@example.com"]]).index == 0
    )


def test_the_column_with_most_addresses_is_taken_though_a_sparse_one_has_nothing_else_or_a_better_name() -> (
    None
):
    full = [f"n{n}@example.com" for n in range(20)]
    full[3] = "n3 at example.com"
    for held in (1, 9, 12):
        other = [f"m{n}@example.com" if n < held else "" for n in range(20)]
        assert choose([["Other mail", "Person mail"], *map(list, zip(other, full, strict=True))]).index == 1
    few = [f"m{n}@example.com" if n < 9 else "" for n in range(20)]
    for names in (["email", "Person mail"], ["email", "work email"], ["email", "mail"]):
        assert choose([names, *map(list, zip(few, full, strict=True))]).index == 1
    half = [f"m{n}@example.com" if n < 10 else "" for n in range(20)]
    assert choose([["email", "Partner's mail"], *map(list, zip(half, full, strict=True))]).index == 0


def test_a_column_of_cells_with_several_addresses_is_one() -> None:
    owner, both = "rep@example.net", "a@example.com, b@example.com"
    table = [
        ["Who", "E-mail"],
        [owner, both],
        [owner, "c@example.com / d@example.com"],
        [owner, "e@example.com"],
    ]
    assert choose(table).index == 1
    assert choose([[both], ["c@example.com; d@example.com"]]) == Choice(0, ("column_1",), header=False)


def test_the_fullest_column_of_addresses_wins_and_notes_that_mention_one_do_not() -> None:
    rows = [["write to a@example.com please", "", "x@example.com"], ["", "b@example.com", "y"]] * 3
    assert choose(rows).index == 1


def test_of_columns_full_of_addresses_the_one_with_few_of_them_is_of_those_who_keep_the_list() -> None:
    rows = [["Owner mail", "Lead mail", "Second mail"]]
    rows += [[f"seller{n % 3}@example.com", f"n{n}@example.com", f"m{n}@example.com"] for n in range(12)]
    assert choose(rows).index == 1
    twice = [["Person mail", "Second mail"]]
    twice += [[f"n{n - n % 2}@example.com", f"m{n}@example.com"] for n in range(12)]
    assert choose(twice).index == 0
    slips = [["Owner mail", "Lead mail"]]
    slips += [[f"seller{n % 3}@example.com", f"n{n}@example.com"] for n in range(12)]
    slips[5][1] = "n5 at example.com"
    assert choose(slips).index == 1
    few = [["From", "To"], *(["us@example.com", f"n{n}@example.com"] for n in range(3))]
    assert choose(few).index == 1


@pytest.mark.parametrize(("wanted", "index"), [("two", 1), (" TWO", 0), ("3", 2), ("1", 3)])
def test_a_column_is_taken_by_its_exact_name_then_its_spelling_then_its_number(
    wanted: str, index: int
) -> None:
    rows = [["Two", "two", "x", "1"], ["a@example.com", "b", "c@example.com", "d"]]
    assert choose(rows, wanted).index == index
    assert choose(rows[1:], wanted, names=rows[0]).index == index


def test_an_unknown_column_is_refused_with_the_names_there_are() -> None:
    long = "n" * 300 + "\x1b"
    for wanted in ("nope", "4", "0", "9" * 5_000):
        with pytest.raises(MailsiftError, match=r"its 3: id, email, n{40}….$") as caught:
            choose([["id", "email", long], ["1", "a@example.com", ""]], wanted)
        assert caught.value.code == "column_not_found"


def test_the_refusal_shows_no_cells_of_a_list_without_header() -> None:
    with pytest.raises(MailsiftError) as caught:
        choose([["Ann", "a@example.com"], ["Bob", "b@example.com"]], "nope")
    assert "Ann" not in str(caught.value)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("email\na@example.com\n", Dialect("", 1)),
        ("a@example.com;1,5;2,5\nb@example.com;1,5;2,5\n", Dialect(";", 3)),
        ("Email|n\na@example.com|x, y; z\n", Dialect("|", 2)),
        ('email,note\na@example.com,"x;y"\nb@example.com,"x;y"\n', Dialect(",", 2)),
        ("a@example.com\nb@example.com\nMiller, John\n", Dialect("", 1)),
        ("", Dialect("", 1)),
        (
            "Name;E-Mail;Ort\nAnn;a@example.com\nb@example.com\nc@example.com\nd@example.com\n",
            Dialect(";", 3),
        ),
        ("some lists, of March\na@example.com\nb@example.com\n", Dialect("", 1)),
        ('n, email\n"A", "a@example.com"\n"B, C", "b@example.com"\n', Dialect(",", 2, spaced=True)),
        ('n, email\nA, "a@example.com"\nB,"b@example.com"\n', Dialect(",", 2)),
        ('email, note\na@example.com, "x" is\nb@example.com, ""\n', Dialect(",", 2)),
        ("name^id^email\nAnn^1^a@example.com\nMiller, Bob^2^b@example.com\n", Dialect("^", 3)),
        ("E-Mail~Name\na@example.com~Ann\n", Dialect("~", 2)),
        ("1^a@example.com^x\n2^b@example.com^y\n", Dialect("^", 3)),
        ("a@example.com\nb@example.com^\nc@example.com\n", Dialect("", 1)),
        ("Ann^1^a@example.com\nBob^2^b@example.com\n", Dialect("", 1)),
        ("Mail: a@example.com\nb@example.com\nc@example.com\n", Dialect("", 1)),
        ("Mail: a@example.com\nMail: b@example.com\n", Dialect(":", 2)),
        ("email\na~1@example.com\nb~1@example.com\n", Dialect("", 1)),
        ("Name,Email\nx,a@example.com; b@example.com\ny,c@example.com; d@example.com\n", Dialect(",", 2)),
        ("Name;Email\nx;a@example.com, b@example.com\ny;c@example.com\n", Dialect(";", 2)),
    ],
)
def test_the_delimiter_is_the_one_that_cuts_records_alike(head: str, expected: Dialect) -> None:
    assert dialect_of(head) == expected


def test_the_delimiter_that_a_file_names_is_believed_where_it_cuts_anything() -> None:
    head = "email^n\na@example.com^1;2;3\nb@example.com^1;2;3\n"
    assert dialect_of(head, "^") == Dialect("^", 2)
    assert dialect_of(head, "#") == dialect_of(head)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (' \n[{"email"', "json"),
        ("[[", "json"),
        ("[]", "json"),
        ('{"email": 1}', "jsonl"),
        ("[email],[name]\n", ""),
        ("{guid},a@example.com", ""),
    ],
)
def test_json_is_told_from_text_that_starts_with_a_bracket(head: str, expected: str) -> None:
    assert looks_like_json(head) == expected


def test_utf_16_without_a_mark_is_recognised_by_where_its_zeros_are() -> None:
    text = "email\nпочта@example.com\n" * 3
    assert encoding_of(text.encode("utf-16-le")) == "utf-16-le"
    assert encoding_of(text.encode("utf-16-be")) == "utf-16-be"
    assert encoding_of(text.encode()) == "utf-8"


def test_addresses_stay_apart_when_their_hashes_collide(monkeypatch: pytest.MonkeyPatch) -> None:
    real = pl.Series.hash
    monkeypatch.setattr(pl.Series, "hash", lambda self, seed=0: real(self, seed) % (2 if seed < 2 else 2**63))
    cells = pl.Series(["c@b.example", "a@b.example", "x@a.example", "A@B.example", "c@b.example"])
    numbers, addresses = number_addresses(cells)
    assert addresses["address"].to_list() == ["x@a.example", "c@b.example", "a@b.example"]
    assert numbers.to_list() == [1, 2, 0, 2, 1]
    assert addresses["rows"].to_list() == [1, 2, 2]
