from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import time
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import xlsxwriter
from hypothesis import given
from hypothesis import strategies as st

from mailsift.jobs.columns import ADDRESS, ADDRESS_N, read_names
from mailsift.jobs.intake.models import BatchSizes, Intake, IntakeLimits, IntakeOptions
from mailsift.jobs.intake.read import inspect_list, read_list
from mailsift.jobs.intake.sniff import HEAD_BYTES
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import ADDRESSES
from mailsift.pipeline.syntax.column import parse_column
from tests.support.fuzzing import examples

HEADER = ["id", "Name", "E-Mail-Adresse", "Name", ""]
ROWS = [
    ["007", "Zoë Müller", "zoe@example.com", '5" disk, new', "x"],
    ["008", "", "ZOE@Example.com ", "two\nlines", ""],
    ["009", " spaced ", "", "=1+1", "  "],
    ["10", "Ångström", "=1+1@example.org", "a;b|c\td", "é"],
    ["11", "O'Neil", "not an address", 'say "hi"', "0"],
    ["12", "Ann", "ann@aaa.example", "\n\nblank lines inside\n", "end"],
]


@dataclass(frozen=True)
class Got:
    """What one intake wrote."""

    intake: Intake
    names: list[str]
    rows: list[tuple[Any, ...]]
    numbers: list[int]
    addresses: pl.DataFrame


def read(folder: Path, data: bytes, column: str = "", **limits: Any) -> Got:
    folder.mkdir(exist_ok=True)
    source = folder / "a list *?[1].bin"
    source.write_bytes(data)
    options = IntakeOptions(column=column, chunk_addresses=2)
    intake = read_list(source, folder, options=options, limits=IntakeLimits(**limits))
    frame = pl.read_parquet(folder / "rows.parquet")
    addresses = pl.read_parquet(folder / "addresses.parquet")
    names = list(read_names(folder / "rows.parquet").values())
    return Got(intake, names, frame.drop(ADDRESS_N, ADDRESS).rows(), frame[ADDRESS_N].to_list(), addresses)


def csv_bytes(
    rows: list[list[str]], delimiter: str = ",", end: str = "\r\n", encoding: str = "utf-8"
) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end).writerows(rows)
    return text.getvalue().encode(encoding)


def check_addresses(got: Got, cells: list[str | None]) -> None:
    """Every row points to the canonical address of its own cell, and the address table is well formed."""
    parsed = parse_column(pl.Series(cells, dtype=pl.String))
    table = got.addresses
    assert dict(table.schema) == ADDRESSES
    assert table["n"].to_list() == list(range(table.height))
    assert table["domain"].is_sorted()
    assert table["address"].is_unique().all()
    assert table[got.numbers].select("address", "local", "domain", "rule").equals(parsed)
    assert table["rows"].to_list() == [got.numbers.count(n) for n in range(table.height)]
    assert (got.intake.rows, got.intake.addresses) == (len(cells), table.height)
    assert got.intake.duplicates == len(cells) - table.height


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
def test_every_row_of_a_csv_comes_back_in_order_with_its_columns(
    tmp_path: Path, delimiter: str, encoding: str
) -> None:
    got = read(tmp_path, csv_bytes([HEADER, *ROWS], delimiter, encoding=encoding))
    assert got.names == ["id", "Name", "E-Mail-Adresse", "Name", "column_5"]
    assert got.rows == [tuple(row) for row in ROWS]
    assert (got.intake.column, got.intake.format) == ("E-Mail-Adresse", "csv")
    assert got.intake.encoding == encoding
    check_addresses(got, [row[2] for row in ROWS])
    assert got.intake.addresses == 5


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
def test_rows_of_another_encoding_leave_the_rest_of_a_list_as_it_was_written(
    tmp_path: Path, mark: bytes
) -> None:
    rows = ["ann@bücher.example,Jörg", "eve@straße.example,Zoë"]
    strays = [b"bob@example.com,M\xfcller\n", b"cat@example.com,\x8d\n"]
    got = read(tmp_path, mark + "\n".join(["email,name", *rows, ""]).encode() + b"".join(strays))
    assert got.rows == [
        *(tuple(row.split(",")) for row in rows),
        ("bob@example.com", "Müller"),
        ("cat@example.com", "\x8d"),
    ]
    check_addresses(got, [row[0] for row in got.rows])


def test_a_list_that_is_windows_1252_stays_so_whatever_some_of_its_letters_look_like(tmp_path: Path) -> None:
    rows = [("ann@bücher.example", "Müller"), ("eve@example.com", "CAFÉ’S"), ("bob@example.com", "Zoë")]
    got = read(tmp_path, "\n".join(["email,name", *map(",".join, rows), ""]).encode("cp1252"))
    assert got.rows == rows
    assert got.intake.encoding == "cp1252"


@pytest.mark.parametrize(
    ("cells", "kept"),
    [
        (["1e400", "2.5"], ["1e400", "2.5"]),
        (["-1E+999"], ["-1E+999"]),
        (['{"a": [1e400, 1.5]}'], ['{"a": ["1e400", 1.5]}']),
        (["1.5", "25e-1"], [1.5, 2.5]),
    ],
)
@pytest.mark.parametrize("array", [True, False])
def test_a_number_of_json_that_is_too_great_is_kept_as_it_was_written(
    tmp_path: Path, cells: list[str], kept: list[object], array: bool
) -> None:
    objects = [f'{{"email": "ann@example.com", "n": {cell}}}' for cell in cells]
    got = read(tmp_path, (f"[{','.join(objects)}]" if array else "\n".join(objects)).encode())
    assert [row[1] for row in got.rows] == kept


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_of_all_systems_are_understood(tmp_path: Path, end: str, last: bool) -> None:
    lines = ["Email,note", "a@example.com,1", "b@example.com,2"]
    got = read(tmp_path, (end.join(lines) + (end if last else "")).encode())
    assert got.rows == [("a@example.com", "1"), ("b@example.com", "2")]


def test_chunks_are_slices_of_the_addresses_which_count_their_rows(tmp_path: Path) -> None:
    got = read(tmp_path, csv_bytes([HEADER, *ROWS]))
    assert [(chunk.offset, chunk.addresses) for chunk in got.intake.chunks] == [(0, 2), (2, 2), (4, 1)]
    assert got.addresses["rows"].sum() == len(ROWS)


def test_a_gzip_of_two_members_reads_as_one_text(tmp_path: Path) -> None:
    data = csv_bytes([HEADER, *ROWS])
    got = read(tmp_path, gzip.compress(data[:50]) + gzip.compress(data[50:]))
    assert got.rows == [tuple(row) for row in ROWS]


def test_a_workbook_whose_first_sheet_has_no_addresses_is_refused_by_name_of_that(tmp_path: Path) -> None:
    with xlsxwriter.Workbook(book := io.BytesIO()) as made:
        made.add_worksheet().write_column(0, 0, ["Export summary", "exported from a program"])
        made.add_worksheet().write_column(0, 0, ["email", "a@example.com"])
    with pytest.raises(MailsiftError, match=r"no_address_column: .*first sheet"):
        read(tmp_path, book.getvalue())


@pytest.mark.parametrize("quoted", [True, False])
def test_blank_lines_are_skipped_and_rows_with_a_blank_address_are_not(tmp_path: Path, quoted: bool) -> None:
    mark = '"' if quoted else ""
    data = f"\n\r\nEmail,n\r\n\r\n{mark}a@example.com{mark},1\n\n,2\n , \n\n".encode()
    got = read(tmp_path, data)
    assert got.rows == [("a@example.com", "1"), ("", "2"), (" ", " ")]
    assert got.addresses.filter(rule="empty")["rows"].to_list() == [2]


@pytest.mark.parametrize("mark", ["", '"'])
def test_short_rows_are_padded_and_long_rows_keep_all_cells(tmp_path: Path, mark: str) -> None:
    data = f"Email,a\n{mark}a@example.com{mark}\nb@example.com,1,2,3\nc@example.com,1\n".encode()
    got = read(tmp_path, data)
    assert got.names == ["Email", "a", "column_3", "column_4"]
    assert got.rows == [
        ("a@example.com", "", "", ""),
        ("b@example.com", "1", "2", "3"),
        ("c@example.com", "1", "", ""),
    ]


@pytest.mark.parametrize(
    ("header", "line", "cells"),
    [
        ("name,email", "Doe, Jane,jane@a.example", ["Doe, Jane", "jane@a.example"]),
        ("name,email", "Doe,Jane,jane@a.example", ["Doe,Jane", "jane@a.example"]),
        ("name;email", "Doe; Jane;jane@a.example", ["Doe; Jane", "jane@a.example"]),
        ("name,email", '"Doe ""J""", Jane,jane@a.example', ['Doe "J", Jane', "jane@a.example"]),
        ("first,last,email", "Jane, Ann,Doe,jane@a.example", ["Jane, Ann", "Doe", "jane@a.example"]),
        ("id,name,email", "7,Doe,Jane,jane@a.example", ["7", "Doe,Jane", "jane@a.example"]),
        ("name,email,note", "Doe, J.,j@a.example,a, b", ["Doe, J.", "j@a.example", "a, b"]),
        ("name,email,note", "Doe,J.,j@a.example,a,b", ["Doe,J.", "j@a.example", "a", "b"]),
        # what may be another one's address, or nobody can tell where it belongs
        ("name,email", "Doe, J.,j@a.example,ann@a.example", ["Doe", " J.", "j@a.example", "ann@a.example"]),
        ("name,email", "Doe, Jane,Jane <jane@a.example>", ["Doe", " Jane", "Jane <jane@a.example>"]),
        ("id,email,by", "7,,ann@a.example,x", ["7", "", "ann@a.example", "x"]),
        ("email,name", "Doe,jane@a.example,Jane", ["Doe", "jane@a.example", "Jane"]),
        ("name,email", "Doe,,jane@a.example", ["Doe", "", "jane@a.example"]),
    ],
)  # fmt: skip
def test_a_row_with_a_delimiter_too_many_before_its_only_address_has_that_in_its_place(
    tmp_path: Path, header: str, line: str, cells: list[str]
) -> None:
    mark = ";" if ";" in header else ","
    names = header.split(mark)
    good = [f"u@{name}.example" if name == "email" else name for name in names]
    got = read(tmp_path, "\n".join([header, line, mark.join(good), ""]).encode())
    rows = [list(row) for row in got.rows]
    assert got.intake.column == "email"
    assert rows == [cells, good + [""] * (len(cells) - len(good))]


def test_a_header_with_the_addresses_cuts_a_list_whose_rows_mostly_end_early(tmp_path: Path) -> None:
    got = read(tmp_path, b"email,name\na@example.com\nb@example.com\nc@example.com,Cleo\nd@example.com\n")
    assert got.names == ["email", "name"]
    assert got.rows == [(f"{letter}@example.com", "Cleo" if letter == "c" else "") for letter in "abcd"]
    check_addresses(got, [email for email, _ in got.rows])


def test_a_blank_after_each_delimiter_is_none_of_the_cell_where_quotes_follow_it(tmp_path: Path) -> None:
    data = b'name, email, city\n"A", "a@example.com", "Paris, FR"\n"B", "b@example.com", ""\n'
    got = read(tmp_path, data)
    assert got.names == ["name", "email", "city"]
    assert got.rows == [("A", "a@example.com", "Paris, FR"), ("B", "b@example.com", "")]
    check_addresses(got, ["a@example.com", "b@example.com"])


def test_blanks_after_delimiters_stay_where_no_quotes_follow_them(tmp_path: Path) -> None:
    got = read(tmp_path, b'email, note\na@example.com, x\nb@example.com, "y" z\n')
    assert got.rows == [("a@example.com", " x"), ("b@example.com", ' "y" z')]


def test_a_stray_quote_inside_a_cell_is_a_character_like_others(tmp_path: Path) -> None:
    got = read(tmp_path, b'Email,size\na@example.com,5" disk\nb@example.com,3\n"c@example.com","4"\n')
    assert got.rows == [("a@example.com", '5" disk'), ("b@example.com", "3"), ("c@example.com", "4")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_quotes_behind_backslashes_are_of_their_cells_as_mysql_spark_and_php_write_them(
    tmp_path: Path, end: bytes
) -> None:
    lines = [
        b"note,email",
        rb'"5\" disk, new",a@example.com',
        rb'"\"C:\temp\", said, ""x"" \\",b@example.com',
        rb'"two\"' + end + rb'lines\"","c@example.com"',
        rb"a\b,d@example.com",
    ]
    got = read(tmp_path, end.join([*lines, b""]))
    notes = ['5" disk, new', '"C:\\temp", said, "x" \\\\', f'two"{end.decode()}lines"', "a\\b"]
    assert got.names == ["note", "email"]
    assert got.rows == [(note, f"{name}@example.com") for note, name in zip(notes, "abcd", strict=True)]


def test_quotes_behind_backslashes_are_of_their_cells_though_commas_follow_each(tmp_path: Path) -> None:
    got = read(tmp_path, b'item,email\n"disk, 5\\", new",a@example.com\n"disk",b@example.com\n')
    assert got.rows == [('disk, 5", new', "a@example.com"), ("disk", "b@example.com")]


@pytest.mark.parametrize("cell", [r'"C:\"', r'"a\""b"', r"5\"", r'"x" \"y', r'"""a\""b"" c"'])
def test_a_backslash_before_a_quote_is_a_character_like_others_where_that_makes_a_csv(
    tmp_path: Path, cell: str
) -> None:
    text = f"note,email\n{cell},a@example.com\n"
    expected = [tuple(row) for row in csv.reader(io.StringIO(text))]
    got = read(tmp_path, text.encode())
    assert [tuple(got.names), *got.rows] == expected


WRAPPED = [
    ["email", "name", "note"],
    ["ann@example.com", "Ann, B.", 'say "hi"'],
    ["bob@example.com", "Bob", "two\nlines"],
    ["not an address", "Cy", ""],
    ["dan@example.com", "Dan", ""],
]


def wrapped(line: str) -> str:
    return '"' + line.replace('"', '""') + '"'


def _workbook(cells: list[str]) -> bytes:
    with io.BytesIO() as out:
        with xlsxwriter.Workbook(out) as book:
            book.add_worksheet().write_column(0, 0, cells)
        return out.getvalue()


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_lines_of_a_csv_in_the_only_column_of_a_workbook_are_the_rows_of_a_table(
    tmp_path: Path, delimiter: str
) -> None:
    records = [csv_bytes([row], delimiter).decode().removesuffix("\r\n") for row in WRAPPED]
    got = read(tmp_path, _workbook([*records, ""]))
    assert got.rows == [tuple(row) for row in WRAPPED[1:]]
    assert (got.names, got.intake.format) == (WRAPPED[0], "xlsx")
    check_addresses(got, [row[0] for row in WRAPPED[1:]])


@pytest.mark.parametrize(
    "cells",
    [
        ["email", "Doe, Ann <ann@example.com>"],
        ["ann@example.com", "b@example.com"],
        ["note,of,any,email", "a,b,c,d@example.com"],
    ],
)
def test_cells_of_the_only_column_of_a_workbook_are_cells(tmp_path: Path, cells: list[str]) -> None:
    got = read(tmp_path, _workbook(cells), columns=3)
    assert got.rows == [(cell,) for cell in cells[got.names[0] == cells[0] :]]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", ",,\n", ";\r\n"])
@pytest.mark.parametrize("header", [0, 1])
def test_quotes_around_whole_lines_are_taken_off_where_there_are_several_cells_in_them(
    tmp_path: Path, delimiter: str, end: str, header: int
) -> None:
    records = [csv_bytes([row], delimiter).decode().removesuffix("\r\n") for row in WRAPPED[header:]]
    got = read(tmp_path, end.join(map(wrapped, records)).encode())
    assert got.rows == [tuple(row) for row in WRAPPED[1:]]
    assert got.names == (["column_1", "column_2", "column_3"] if header else WRAPPED[0])
    check_addresses(got, [row[0] for row in WRAPPED[1:]])


def test_a_line_with_quotes_around_it_is_a_record_of_the_table_where_it_has_all_its_cells(
    tmp_path: Path,
) -> None:
    lines = [
        "email,name",
        "ann@example.com,Ann",
        '"bob@example.com,""Bob, B."""',
        '"Miller, Cy"',
        '"dan@example.com, eve@example.com"',
        '"eve@example.com","Eve"',
        '"Miller, fay@example.com",',
    ]
    got = read(tmp_path, "\n".join(lines).encode())
    assert got.rows == [
        ("ann@example.com", "Ann"),
        ("bob@example.com", "Bob, B."),
        ("Miller, Cy", ""),
        ("dan@example.com, eve@example.com", ""),
        ("eve@example.com", "Eve"),
        ("Miller, fay@example.com", ""),
    ]


@pytest.mark.parametrize(
    "cells",
    [
        ["email", "Doe, Ann <ann@example.com>", "Roe, Bob <bob@example.com>", "cy@example.com"],
        ["email", "ann@example.com, bob@example.com", "cy@example.com, dan@example.com"],
        ["email", "ann@example.com,Ann", "bob@example.com,Bob"],
        ["ann@example.com;bob@example.com", "cy@example.com;dan@example.com"],
        ["Ann, first", "ann@example.com", "bob@example.com"],
    ],
)
def test_quotes_around_the_cells_of_a_single_column_part_none_of_them(
    tmp_path: Path, cells: list[str]
) -> None:
    got = read(tmp_path, "\n".join(map(wrapped, cells)).encode(), column="1")
    assert got.rows == [(cell,) for cell in cells[got.names[0] == cells[0] :]]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_apostrophes_around_all_addresses_quote_cells_as_databases_write_them(
    tmp_path: Path, end: str
) -> None:
    lines = [
        "id,email,name",
        "1,'ann@example.com','Ann, B.'",
        "2,'o''neil@example.com','O''Neil'",
        "3,'',NULL",
        "4,'cy@example.com','it''s\n5'",
    ]
    got = read(tmp_path, end.join(lines).encode())
    assert got.rows == [
        ("1", "ann@example.com", "Ann, B."),
        ("2", "o'neil@example.com", "O'Neil"),
        ("3", "", "NULL"),
        ("4", "cy@example.com", "it's\n5"),
    ]
    check_addresses(got, [row[1] for row in got.rows])


@pytest.mark.parametrize(
    "lines",
    [["'ann@example.com'", "bob@example.com"], ["'ann@example.com", "'bob@example.com"]],
)
def test_apostrophes_of_some_addresses_are_their_letters(tmp_path: Path, lines: list[str]) -> None:
    assert read(tmp_path, "\n".join(lines).encode(), column="1").rows == [(line,) for line in lines]


def test_apostrophes_around_thousands_of_dots_take_no_longer_than_they_are(tmp_path: Path) -> None:
    started = time.process_time()
    assert read(tmp_path, f"a@b.c\n'a@{'.' * 20_000}".encode(), column="1").intake.rows == 2
    assert time.process_time() - started < 1.0  # it was some seconds


@pytest.mark.parametrize("title", ['"Guests\rof May"', '"\r"'])
def test_a_title_in_quotes_may_have_line_ends_in_it(tmp_path: Path, title: str) -> None:
    got = read(tmp_path, f"{title}\nemail\nann@example.com\nbob@example.com\n".encode())
    assert [row[0] for row in got.rows[-2:]] == ["ann@example.com", "bob@example.com"]


def test_a_text_file_is_one_address_a_line(tmp_path: Path) -> None:
    got = read(
        tmp_path, b'b@example.com\n\n  a@example.com\n"john doe"@example.com\n"quoted@example.com"\nbad\n'
    )
    cells = ["b@example.com", "  a@example.com", '"john doe"@example.com', "quoted@example.com", "bad"]
    assert got.rows == [(cell,) for cell in cells]
    assert (got.names, got.intake.format) == (["column_1"], "txt")
    check_addresses(got, list(cells))


@pytest.mark.parametrize(
    "text",
    [
        "a@example.com, b@example.com,c@example.com",
        "a@example.com;b@example.com; c@example.com;\n",
        "\na@example.com\tb@example.com\tc@example.com\n\n",
        "a@example.com b@example.com  c@example.com\n",
    ],
)
def test_each_address_of_a_text_that_is_one_line_of_them_is_a_row(tmp_path: Path, text: str) -> None:
    got = read(tmp_path, text.encode())
    assert got.rows == [("a@example.com",), ("b@example.com",), ("c@example.com",)]
    many = [f"somebody{n}@example.com" for n in range(1_000)]
    assert read(tmp_path, ", ".join(many).encode()).rows == [(one,) for one in many]


def test_a_line_of_addresses_as_long_as_what_is_sniffed_is_a_row_where_others_follow(tmp_path: Path) -> None:
    first = ",".join(f"{place:050}@example.com" for place in range(HEAD_BYTES // 63))
    got = read(tmp_path, f"{first}\nsomebody@example.com\n".encode(), line_bytes=1 << 20, columns=2_000)
    assert len(got.rows) == 2


def test_recipients_in_one_line_are_rows_with_their_names(tmp_path: Path) -> None:
    cells = ["Ann A. <a@example.com>", "<b@example.com>", "B, Bob <c@example.com>"]
    got = read(tmp_path, b'Ann A. <a@example.com>, <b@example.com>, "B, Bob" <c@example.com>\n')
    assert got.rows == [(cell,) for cell in cells]


@pytest.mark.parametrize(
    "text",
    [
        "To: Ann A. <a@example.com>, b@example.com, c@example.com",
        "Ann A. <a@example.com>, b@example.com,\n c@example.com\n",
        "An: Ann\r\n\tA. <a@example.com>; b@example.com;\r\n\tc@example.com\r\n",
        "Ann A. <a@example.com>, b@example.com,\nc@example.com\n",
        "To: Ann A. <a@example.com>, b@example.com\nCc: c@example.com\n",
    ],
)
def test_recipients_are_rows_also_as_the_header_of_a_message_has_them(tmp_path: Path, text: str) -> None:
    got = read(tmp_path, text.encode())
    assert got.rows == [("Ann A. <a@example.com>",), ("b@example.com",), ("c@example.com",)]


@pytest.mark.parametrize(
    "text",
    [
        "a@example.com,b@example.com",
        "a@example.com,b@example.com,Ann",
        "a@a.test,b@a.test,c@a.test\nx,,",
        "a@a.test,b@a.test\nc@a.test,d@a.test",
        "a@a.test,b@a.test,\nc@a.test,d@a.test,\n",
        "a@a.test,\nb@a.test,\nc@a.test",
        "Mail: a@a.test,Ann\nb@a.test,Bob",
        "a@a.test b@a.test c@a.test\nd@a.test",
    ],
)
def test_lines_that_may_be_of_a_table_are_rows(tmp_path: Path, text: str) -> None:
    got = read(tmp_path, text.encode())
    assert len(got.rows) == len(text.splitlines())


_TABLE = [["id", "E-mail", "City"], ["1", "a@example.com", "Rome"], ["2", "", "Bonn"]]


@pytest.mark.parametrize(
    "notes",
    [
        [["Notes:"], ["When exporting, addresses may be missing, or not."], []],
        [["Customer report", "", ""], ["", "", ""], ["Period", "2026-01", ""]],
        [["Newsletter Q3; all regions"]],
        [["# Contacts", " all of them", " as of May"], ["# made by hand"]],
        [["Report for Europe, made by support@crm.example on May 2"], []],
        [["Generated 2024-01-05 by max@crm.example"]],
        [["Erstellt von max@crm.example"]],
        [["Exported by: Max Berg <max@crm.example>"], []],
        [["Owner:", "max@crm.example"], ["As of:", "May", ""]],
        [
            ["Registration Report"],
            ["Topic", "ID", "Guests"],
            ["Launch", "9", "2"],
            ["Details"],
        ],
    ],
)
@pytest.mark.parametrize("rows", [1, 2])
def test_titles_and_notes_above_a_header_are_no_rows(
    tmp_path: Path, notes: list[list[str]], rows: int
) -> None:
    table = _TABLE[: rows + 1]
    with xlsxwriter.Workbook(book := io.BytesIO()) as made:
        sheet = made.add_worksheet()
        for place, record in enumerate(notes + table):
            sheet.write_row(place, 0, record)
    for data in (csv_bytes(notes + table), csv_bytes(notes + table, ";"), book.getvalue()):
        got = read(tmp_path, data)
        assert got.names == table[0]
        assert [[cell or "" for cell in row] for row in got.rows] == table[1:]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("+----+---------+\n| id | email   |\n+----+---------+\n|  1 | a@b.com |\n+----+---------+\n", 1),
        (" id |  email  \n----+---------\n  1 | a@b.com\n(1 row)\n\n", 1),
        (" id |  email  \n----+---------\n  1 | a@b.com\n(1 Zeile, 2 ms)\n\n", 1),
        ("Name | Email\n--- | :---:\nAnn | a@b.com\n", 1),
        ("  email  \n---------\n a@b.com\n\n1 row selected.\n", 1),
        ("id|email\n---|-----\n1 |row@b.com\n", 1),
        ("email\n---\na@b.com\n---\n", 3),
        ("note\n-----\na@b.com\nc@b.com\n", 3),
        ("email\n" + "-" * 60_000 + "x\na@b.com\n", 2),
    ],
)
def test_lines_drawn_around_a_table_are_no_rows(tmp_path: Path, text: str, rows: int) -> None:
    assert len(read(tmp_path, text.encode()).rows) == rows


PRINTED = [["7", "ann@example.com", "Ann, jr."], ["8", "", "Bob  Lee"], ["10", "cy@example.com", ""]]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        pytest.param(
            "┌────┬─────────────────┬──────────┐\n│ id │      email      │   name   │\n"
            "│ i4 │     varchar     │ varchar  │\n├────┼─────────────────┼──────────┤\n"
            "│  7 │ ann@example.com │ Ann, jr. │\n│  8 │                 │ Bob  Lee │\n"
            "│ 10 │ cy@example.com  │          │\n├────┴─────────────────┴──────────┤\n"
            "│ 3 rows                3 columns │\n└─────────────────────────────────┘\n",
            PRINTED,
            id="DuckDB",
        ),
        pytest.param(
            " id │      email      │   name\n────┼─────────────────┼──────────\n"
            "  7 │ ann@example.com │ Ann, jr.\n    │ bob@example.com │ Bob\n(2 rows)\n\n",
            [["7", "ann@example.com", "Ann, jr."], ["", "bob@example.com", "Bob"]],
            id="psql",
        ),
        pytest.param(
            "+----+-----------------+----------+\n| id | email           | name     |\n"
            "+----+-----------------+----------+\n|  7 | ann@example.com | Ann, jr. |\n"
            "|  8 |                 | Bob  Lee |\n| 10 | cy@example.com  |          |\n"
            "+----+-----------------+----------+\n3 rows in set (0.00 sec)\n",
            PRINTED,
            id="MySQL",
        ),
        pytest.param(
            "│ id │ email           │ name     │\n│  7 │ ann@example.com │ Ann, jr. │\n"
            "│  8 │                 │ Bob  Lee │\n└────┴─────────────────┴──────────┘\n",
            PRINTED[:2],
            id="no rule below the names",
        ),
        pytest.param(
            "│ id │ email │ name │\n│  8 │       │ Bob  │\n└────┴───────┴──────┘\n",
            [["8", "", "Bob"]],
            id="no address",
        ),
        pytest.param(
            "id│email│name\n7│ann@example.com│Ann, jr.\n8││Bob  Lee\n10│cy@example.com│\n",
            PRINTED,
            id="tight",
        ),
        pytest.param(
            "\nid          email           name    \n----------- --------------- --------\n"
            "          7 ann@example.com Ann, jr.\n          8                 Bob  Lee\n"
            "         10 cy@example.com          \nno row of the table\n\n(3 rows affected)\n",
            [*PRINTED, ["no row of the table", "", ""]],
            id="sqlcmd",
        ),
        pytest.param(
            "id  email            name\n7   ann@example.com  Ann, jr.\n"
            "8                    Bob  Lee\n10  cy@example.com\n",
            PRINTED,
            id="columns",
        ),
        pytest.param(
            '"email" "name"\n"7" "ann@example.com" "Ann ""jr"""\n"8" NA "Bob Lee"\n',
            [["7", "ann@example.com", 'Ann "jr"'], ["8", "NA", "Bob Lee"]],
            id="R",
        ),
        pytest.param(
            "email\tname\n7\tann@example.com\tAnn\n8\tNA\tBob Lee\n",
            [["7", "ann@example.com", "Ann"], ["8", "NA", "Bob Lee"]],
            id="R with tabs",
        ),
    ],
)
def test_tables_as_shells_print_them_have_their_rows_and_names(
    tmp_path: Path, text: str, rows: list[list[str]]
) -> None:
    got = read(tmp_path, text.encode())
    assert [list(row) for row in got.rows] == rows
    assert (got.intake.column, got.names[-2:]) == ("email", ["email", "name"])


@pytest.mark.parametrize(
    "text",
    [
        "Name Email\nAnn Lee ann@example.com\nBob bob@example.com\n",
        "id  email           name\n7   ann@example.com Ann\n1000 bob@example.com Bob\n",
        "id  email           name\n7   Ann ann@example.com\n8   Bob bob@example.com\n",
    ],
)
def test_what_fits_in_no_columns_is_refused_with_what_to_do_instead(tmp_path: Path, text: str) -> None:
    with pytest.raises(MailsiftError, match=r"no_address_column: .* save the table as CSV"):
        read(tmp_path, text.encode())


@pytest.mark.parametrize("mark", [": ", " = ", "  : "])
def test_records_with_a_line_for_each_field_are_refused_with_what_to_do_instead(
    tmp_path: Path, mark: str
) -> None:
    text = "".join(f"Name{mark}{name}\nEmail{mark}{name}@example.com\n\n" for name in ("ann", "bob"))
    with pytest.raises(MailsiftError, match=r"no_address_column: .* save the list as CSV"):
        read(tmp_path, text.encode())


@pytest.mark.parametrize("header", ["email,name\n", ""])
@pytest.mark.parametrize(
    "count", ["(2 rows, 3 ms)\n", "2 rows in set (0.00 sec)", "\n(2 rows affected)\r\n\r\n"]
)
def test_how_many_rows_there_are_below_them_is_none(tmp_path: Path, header: str, count: str) -> None:
    got = read(tmp_path, f"{header}ann@example.com,A\nbob@example.com,B\n{count}".encode())
    assert got.rows == [("ann@example.com", "A"), ("bob@example.com", "B")]


@pytest.mark.parametrize("last", ["(4 rows)", "2 rows, ann@example.com", "1 row", "2", "rows"])
def test_a_last_line_that_does_not_say_how_many_rows_there_are_is_a_row(tmp_path: Path, last: str) -> None:
    assert len(read(tmp_path, f"email\nann@example.com\nbob@example.com\n{last}\n".encode()).rows) == 3


def test_names_beside_addresses_are_told_with_what_repairs_them(tmp_path: Path) -> None:
    with pytest.raises(MailsiftError, match=r"no_address_column: .*`repair`"):
        read(tmp_path, b"who,recipient\n1,Ann <ann@example.com>\n2,Bob <bob@example.com>\n")


def test_cells_that_could_be_repaired_are_shown_though_no_column_is_chosen_for_them(tmp_path: Path) -> None:
    source = tmp_path / "list.csv"
    source.write_bytes(b"who,recipient\n1,Ann <ann@example.com>\n2,Bob <bob@example.com>\n")
    seen = inspect_list(source, tmp_path, IntakeLimits())
    assert (seen["guess"], seen["odd"]) == (None, ["Ann <ann@example.com>", "Bob <bob@example.com>"])


@pytest.mark.parametrize("name", ["Mail privat", "Work e-mail", "E-Mail 2"])
def test_a_name_of_one_of_several_columns_of_addresses_ends_the_notes_above_it(
    tmp_path: Path, name: str
) -> None:
    table = [["Members", "", ""], ["", "Contact", ""], ["id", "City", name], ["1", "Rome", "a@example.com"]]
    got = read(tmp_path, csv_bytes(table))
    assert (got.names, got.rows) == (table[2], [tuple(table[3])])


def test_columns_of_a_sheet_that_only_notes_above_the_header_reach_are_none_of_the_table(
    tmp_path: Path,
) -> None:
    with xlsxwriter.Workbook(book := io.BytesIO()) as made:
        sheet = made.add_worksheet()
        sheet.write(1, 1, "Customers")
        sheet.write(1, 7, "Page 1")
        for place, record in enumerate(_TABLE):
            sheet.write_row(4 + place, 2, record)
    got = read(tmp_path, book.getvalue())
    assert got.names == _TABLE[0]
    assert [[cell or "" for cell in row] for row in got.rows] == _TABLE[1:]


def test_a_column_below_notes_that_only_one_row_has_is_kept(tmp_path: Path) -> None:
    with xlsxwriter.Workbook(book := io.BytesIO()) as made:
        sheet = made.add_worksheet()
        sheet.write_row(0, 0, ["Customers", None, None, None, "Page 1"])
        for place, record in enumerate([_TABLE[0], [*_TABLE[1], "x"], _TABLE[2]]):
            sheet.write_row(1 + place, 0, record)
    assert read(tmp_path, book.getvalue()).names == [*_TABLE[0], "column_4"]


_OLD_ENCODINGS = {
    "cp1251": ["Иван Петров", "Мария Иванова", "Сергей Кузнецов", "Казань"],
    "koi8-r": ["Ольга Смирнова", "Дмитрий Волков", "Москва", "Новосибирск"],
    "cp866": ["Иван Петров", "Ольга Щукина", "Москва", "Юрий Ёлкин"],
    "cp1253": ["Γιώργος Παπαδόπουλος", "Μαρία Γεωργίου", "Αθήνα", "Πάτρα"],
    "cp1255": ["דוד כהן", "שרה לוי", "תל אביב", "ירושלים"],
    "cp1256": ["محمد أحمد", "فاطمة علي", "القاهرة", "الرياض"],
    "cp932": ["山田太郎", "佐藤花子", "渡辺ゆみ", "田中ケンジ", "東京都"],
    "gb18030": ["王伟", "李娜", "北京市", "上海市"],
    "iso2022_jp_ext": ["山田太郎", "佐藤花子", "ﾔﾏﾀﾞ", "ヘア＠サロン", "東京都"],
    "big5": ["王小明", "陳美玲", "台北市", "高雄市"],
    "cp949": ["김민준", "이서연", "서울특별시", "부산광역시"],
    "cp874": ["สมชาย ใจดี", "สมหญิง รักไทย", "กรุงเทพ", "เชียงใหม่"],
    "cp1250": ["Paweł Wiśniewski", "Małgorzata Żółkiewska", "Łódź"],
    "cp1252": [
        "François Lefèvre",
        "¿Qué?",
        "5 m³",
        "Nº 1",
        "Þórður",
        "Åsa Öberg",
        "Inês Conceição",
        "“Café” – 5 €",
        "Zürich",
    ],
}


_LATIN = {
    "Czech": ("cp1250", ["Jiří Dvořák", "Eliška Němcová", "Zdeněk Šťastný", "Plzeň", "Květa Růžičková"]),
    "Slovak": ("cp1250", ["Ľubomír Kováč", "Mária Baďurová", "Žilina", "Peter Krajčír", "Hlohovecká Ľ."]),
    "Hungarian": ("cp1250", ["Győri Jenő", "Szűcs Réka", "Gergő", "Erdős Pál", "Hódmezővásárhely"]),
    "Romanian": ("cp1250", ["Ştefan Rădulescu", "Timişoara", "Ioniţă", "Piteşti", "Brăila"]),
    "Croatian": ("cp1250", ["Đurđa Kovačić", "Ivan Babić", "Šibenik", "Željko Horvatić", "Našice"]),
    "Polish, ISO": ("iso8859-2", ["Paweł Wiśniewski", "Łódź", "Małgorzata Żak", "Gdańsk", "Częstochowa"]),
    "Czech, ISO": ("iso8859-2", ["Jiří Dvořák", "Tomáš Beneš", "Žaneta", "Luděk Šťastný", "Ústí"]),
    "Turkish": ("cp1254", ["Ayşe Yıldız", "Oğuz Çağlar", "İstanbul", "Gülşen Işık", "Şanlıurfa"]),
    "Lithuanian": ("cp1257", ["Rūta Kazlauskienė", "Žydrūnas Šimkus", "Klaipėda", "Šiauliai", "Agnė"]),
    "Latvian": ("cp1257", ["Jānis Bērziņš", "Līga Kalniņa", "Rīga", "Ēriks Ozoliņš", "Liepāja"]),
    "French, Mac": ("mac-roman", ["François Lefèvre", "Zoé", "Benoît Côté", "Orléans", "Hélène Noël"]),
    "German, Mac": ("mac-roman", ["Jörg Müller", "Düsseldorf", "Bärbel Groß", "Köln", "Jürgen Weiß"]),
    "German, DOS": ("cp858", ["Jörg Müller", "Düsseldorf", "Bärbel Groß", "5 €", "Jürgen Weiß"]),
    "Spanish, DOS": ("cp858", ["José Núñez", "Málaga", "Inés García", "Óscar Peña", "León"]),
    "Polish, DOS": ("cp852", ["Paweł Wiśniewski", "Łódź", "Małgorzata Żak", "Gdańsk", "Częstochowa"]),
    "Czech, DOS": ("cp852", ["Jiří Dvořák", "Tomáš Beneš", "Žaneta", "Luděk Šťastný", "Ústí"]),
    "French, ISO": ("iso8859-15", ["Cœur", "Hélène Dœuff", "Sacré-Cœur", "5 €", "François Bœuf"]),
}


@pytest.mark.parametrize("language", _LATIN)
def test_names_in_other_encodings_with_latin_letters_come_back_as_they_were(
    tmp_path: Path, language: str
) -> None:
    encoding, names = _LATIN[language]
    rows = [[f"user{n}@example.com", name] for n, name in enumerate(names)]
    got = read(tmp_path, csv_bytes([["email", "name"], *rows], ";", encoding=encoding))
    assert list(map(list, got.rows)) == rows
    assert got.intake.encoding == encoding


@pytest.mark.parametrize(
    "names",
    [
        ["Søren Kjær", "Åse Bjørnstad", "Ærøskøbing"],
        ["João Simões", "Conceição", "Guimarães", "Mª José", "1ª"],
        ["Montaña", "Núñez", "¿Qué?", "¡Hola!", "5 m³", "½ l"],
        ["Œuvre", "Père Noël", "L’Haÿ-les-Roses", "«Café»", "“Café” – 5 €"],
        ["Þórður Guðmundsson", "Ægir", "Hafþór", "Sigríður"],
        ["MOSFELLSBÆR", "Garðabær"],
        ["Tõnu Kõiv", "Võru", "Nadežda"],
        ["Tomáš Novák", "Müller", "Søren", "Žižek"],
        ["Çelik", "Öztürk", "Groß"],
        ["Škoda"],
        ["JOSÉ MUÑOZ", "MÜLLER", "SØREN ÅBERG"],
        ["D’Ângelo", "Krüger–Müller", "10 µm", "§ 5", "Bücher®", "3×4"],
        ["a" + "×a" * 500, "Zürich"],
    ],
)
def test_names_of_western_europe_are_read_as_windows_1252(tmp_path: Path, names: list[str]) -> None:
    rows = [[f"user{n}@example.com", name] for n, name in enumerate(names)]
    got = read(tmp_path, csv_bytes([["email", "name"], *rows], ";", encoding="cp1252"))
    assert list(map(list, got.rows)) == rows


@pytest.mark.parametrize("encoding", _OLD_ENCODINGS)
def test_names_in_the_encodings_that_excel_writes_come_back_as_they_were(
    tmp_path: Path, encoding: str
) -> None:
    rows = [[f"user{n}@example.com", name] for n, name in enumerate(_OLD_ENCODINGS[encoding] * 5)]
    got = read(tmp_path, csv_bytes([["email", "name"], *rows], ";", encoding=encoding))
    assert list(map(list, got.rows)) == rows
    assert got.intake.encoding == encoding


@pytest.mark.parametrize(
    "rows",
    [
        [["Contact", "Via"], ["1", "E-mail"], ["2", "a@example.com"]],  # as full as what follows
        [["#1001", "Post"], ["#1002", "E-mail"], ["#1003", "a@example.com"]],  # orders
        [["someone@example.com"], ["1", "E-mail"], ["2", "a@example.com"]],  # an address
        [["Ann Mary van Berg x@example.com"], ["1", "E-mail"], ["2", "a@example.com"]],  # with a name
        [["Dr. Ann M. van Berg <x@example.com>"], ["1", "E-mail"], ["2", "a@example.com"]],
        [["x@example.com as well as her sister"], ["1", "E-mail"], ["2", "a@example.com"]],
        [["#ann@example.com"], ["1", "E-mail"], ["2", "a@example.com"]],
        [["n/a"], ["email"], ["a@example.com"]],
        [["bob at example.com"], ["email"], ["a@example.org"]],
        [["bob"], ["bert"], ["email"], ["a@example.org"], ["c@example.org"]],
        [
            ["Ann", "?", "Rome"],
            ["Eve", ""],
            ["Bob", "Email", "Bonn"],
            ["Cy", "a@example.com", "Lyon"],
        ],  # no title
        [["Contacts"], ["Ann", "Email", "Rome"], ["Bob", "Phone", "a@example.com"]],  # no address below it
    ],
)
def test_what_may_be_a_row_is_none_of_the_notes_above_a_header(tmp_path: Path, rows: list[list[str]]) -> None:
    assert len(read(tmp_path, csv_bytes(rows)).rows) >= len(rows) - 1


@pytest.mark.parametrize(
    "notes",
    [
        "# made in May, 2026\n# by hand\n",
        "Newsletter of 5.1.2026\n\n",
        "Customers\nAs of: May\n",
        "Generated 2024-01-05 by max@crm.example\n",
    ],
)
def test_notes_above_the_header_of_a_list_of_one_column_are_no_rows(tmp_path: Path, notes: str) -> None:
    got = read(tmp_path, f"{notes}email\na@example.com\n".encode())
    assert (got.names[0], [row[0] for row in got.rows]) == ("email", ["a@example.com"])


@pytest.mark.parametrize("end", [b"\r\n", b"\n", b"\r"])
def test_the_line_that_tells_excel_the_delimiter_is_no_row(tmp_path: Path, end: bytes) -> None:
    for hint in (b"sep=;", b'"sep=;"'):
        got = read(tmp_path, end.join((hint, b"Email;n", b"a@example.com;1", b"")))
        assert (got.names, got.rows) == (["Email", "n"], [("a@example.com", "1")])
    got = read(tmp_path, end.join((b"sep=^", b"n^who", b"1^a@example.com", b"2^b@example.com", b"")))
    assert (got.names, got.rows) == (["n", "who"], [("1", "a@example.com"), ("2", "b@example.com")])


@pytest.mark.parametrize("marks", [1, 127])
def test_the_marks_that_end_a_file_in_dos_are_no_row(tmp_path: Path, marks: int) -> None:
    text, end = "Email;n\r\na@example.com;ä\r\n", b"\x1a" * marks
    for data in (text.encode() + end, text.encode("cp1252") + end, gzip.compress(text.encode() + end)):
        got = read(tmp_path, data)
        assert (got.names, got.rows) == (["Email", "n"], [("a@example.com", "ä")])


def test_half_a_letter_of_utf_16_is_no_mark_of_dos(tmp_path: Path) -> None:
    got = read(tmp_path, "Email;n\na@example.com;\u041a".encode("utf-16-be"))
    assert got.rows == [("a@example.com", "\u041a")]


def test_nothing_but_the_mark_that_ends_a_file_in_dos_is_an_empty_list(tmp_path: Path) -> None:
    with pytest.raises(MailsiftError, match="empty_file"):
        read(tmp_path, b"\x1a")


@pytest.mark.parametrize("array", [True, False])
def test_json_objects_keep_plain_types_and_turn_the_rest_into_text(tmp_path: Path, array: bool) -> None:
    items: list[dict[str, Any]] = [
        {
            "id": 1,
            "email": "a@example.com",
            "vip": True,
            "score": 1,
            "mixed": "x",
            "tags": ["a", "ü"],
            "big": 1,
        },
        {"id": 2, "email": None, "score": 1.5, "mixed": 2, "big": 2**70},
        {"email": "A@example.com", "id": 3, "vip": False, "late": "\u2028"},
    ]
    text = json.dumps(items, indent=1) if array else "\n\n".join(json.dumps(item) for item in items)
    got = read(tmp_path, text.encode())
    assert got.names == ["id", "email", "vip", "score", "mixed", "tags", "big", "late"]
    assert got.rows == [
        (1, "a@example.com", True, 1.0, "x", '["a", "ü"]', "1", None),
        (2, None, None, 1.5, "2", None, str(2**70), None),
        (3, "A@example.com", False, None, None, None, None, "\u2028"),
    ]
    assert got.intake.format == ("json" if array else "jsonl")
    check_addresses(got, ["a@example.com", None, "A@example.com"])


@pytest.mark.parametrize(
    "text",
    [
        '{"emails": ["a@example.com", "b@example.com"], "mode": "fast"}',
        '{"email":[{"email":"a@example.com"}]}',
    ],
)
def test_one_object_around_the_list_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(MailsiftError, match="bad_json"):
        read(tmp_path, text.encode())


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    "around",
    [
        '{"data": %s}',
        '{"status": "ok", "owner": "o@example.com", "links": [{"rel": "x"}], "results": %s, "total": 2}',
        '{"response": {"page": {}, "contacts": %s}, "empty": [], "n": [1]}',
    ],
)
def test_an_array_with_addresses_in_an_object_is_the_list(
    tmp_path: Path, around: str, indent: int | None
) -> None:
    rows = [{"id": 1, "email": "a@example.com"}, {"id": 2, "email": "b"}, None]
    text = json.dumps(json.loads(around % json.dumps(rows)), indent=indent)
    got = read(tmp_path, text.encode(), batches=BatchSizes(json_text=7))
    assert (got.names, got.intake.format) == (["id", "email"], "json")
    check_addresses(got, ["a@example.com", "b", None])


def test_an_array_of_texts_in_an_object_is_the_list(tmp_path: Path) -> None:
    check_addresses(read(tmp_path, b'\n{"members":\n["a@example.com", "b"]}\n'), ["a@example.com", "b"])


def test_of_two_arrays_with_addresses_in_an_object_neither_is_taken_for_the_list(tmp_path: Path) -> None:
    with pytest.raises(MailsiftError, match="Several arrays") as caught:
        read(tmp_path, b'{"good": ["a@example.com"], "bad": [{"email": "b@example.com"}]}')
    assert caught.value.code == "bad_json"


def test_objects_that_span_lines_are_rows_one_behind_the_other(tmp_path: Path) -> None:
    items = [{"email": "a@example.com", "tags": ["x@example.com"]}, {"email": "b@example.com"}]
    got = read(tmp_path, "\n".join(json.dumps(item, indent=2) for item in items).encode())
    check_addresses(got, ["a@example.com", "b@example.com"])
    with pytest.raises(MailsiftError, match="Object 2 "):
        read(tmp_path, b'{\n"email": "a@example.com"}\n{"email": \n')


def test_addresses_that_only_objects_in_cells_hold_are_found(tmp_path: Path) -> None:
    items = [{"id": n, "properties": {"name": f"N{n}", "email": f"u{n}@example.com"}} for n in range(3)]
    got = read(tmp_path, json.dumps({"results": items}).encode())
    check_addresses(got, [f"u{n}@example.com" for n in range(3)])


@pytest.mark.parametrize("text", ['{"email":"a\\ud800@b.co"}', '{"email":"a@b.co","\\udc00":1}'])
@pytest.mark.parametrize("array", [True, False])
def test_half_of_a_surrogate_pair_is_told_by_its_row(tmp_path: Path, text: str, array: bool) -> None:
    first = '{"email":"c@example.com"}'
    with pytest.raises(MailsiftError, match=r"bad_json: .*row 2 "):
        read(tmp_path, (f"[{first},{text}]" if array else f"{first}\n\n{text}").encode())


def test_a_first_record_that_is_said_to_hold_names_does_whatever_it_looks_like(tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(b"b@example.com,30,30\r\na@example.com,7,8\r\n,,\r\n")
    options = IntakeOptions(named=True)
    intake = read_list(tmp_path / "list", tmp_path, options=options, limits=IntakeLimits())
    assert (intake.rows, intake.column) == (2, "b@example.com")
    assert list(read_names(tmp_path / "rows.parquet").values()) == ["b@example.com", "30", "30"]


def test_one_object_with_an_address_is_a_list_of_one_row(tmp_path: Path) -> None:
    got = read(tmp_path, b'{"email":"a@example.com","others":["b@example.com"]}')
    check_addresses(got, ["a@example.com"])


@pytest.mark.parametrize("array", [True, False])
def test_an_array_with_one_address_in_a_cell_of_json_is_that_address(tmp_path: Path, array: bool) -> None:
    cells = [
        ["a@example.com"],
        ["b@example.com", "c@example.com"],
        "d@example.com",
        [],
        None,
        [1],
        ["e@example.com", "", None],
        [{"value": "f@example.com", "type": "work", "primary": True}],
        {"name": "Ann", "email": "g@example.com"},
        ["ann", "at home"],
        "[h]@example.com",
    ]
    objects = [json.dumps({"emails": cell, "n": 1}) for cell in cells]
    got = read(tmp_path, (f"[{','.join(objects)}]" if array else "\n".join(objects)).encode())
    assert got.rows[0] == ('["a@example.com"]', 1)
    alone = [f"{letter}@example.com" for letter in "efg"]
    meant = ["a@example.com", "b@example.com, c@example.com", "d@example.com", "", "", "", *alone]
    check_addresses(got, [*meant, "ann, at home", "[h]@example.com"])


@pytest.mark.parametrize(
    "text", ['{"email":"a@example.com","email":""}', '{"n":{"x":1,"x":2},"email":"b@example.com"}']
)
@pytest.mark.parametrize("array", [True, False])
def test_an_object_of_json_with_a_name_twice_is_refused_for_one_value_would_be_lost(
    tmp_path: Path, text: str, array: bool
) -> None:
    first = '{"email":"c@example.com"}'
    with pytest.raises(MailsiftError, match=r"(Element|Line) 2 .* name stands twice") as caught:
        read(tmp_path, (f"[{first},{text}]" if array else f"{first}\n{text}").encode())
    assert caught.value.code == "bad_json"


def test_json_with_too_many_names_is_refused_before_each_name_is_a_column_of_every_row(
    tmp_path: Path,
) -> None:
    text = "\n".join(f'{{"n{n}":"a@example.com"}}' for n in range(5_000))
    started = time.process_time()
    with pytest.raises(MailsiftError, match="too_many_columns"):
        read(tmp_path, text.encode())
    assert time.process_time() - started < 1.0  # 25 million cells took seconds


def test_json_columns_stay_exact_when_batches_disagree_about_the_type(tmp_path: Path) -> None:
    lines = [
        {"email": "a@example.com", "price": 10, "big": 2**60, "x": None},
        {"email": "b@example.com", "price": 10.5, "big": 0.5, "x": True},
        {"email": "c@example.com", "new": "n", "x": "t"},
    ]
    text = "\n".join(map(json.dumps, lines))
    got = read(tmp_path, text.encode(), batches=BatchSizes(json_items=1))
    assert list(tmp_path.glob("json-*"))  # no more than some of it was in memory
    assert got.rows == [
        ("a@example.com", 10.0, str(2**60), None, None),
        ("b@example.com", 10.5, "0.5", "true", None),
        ("c@example.com", None, None, "t", "n"),
    ]


def test_a_json_array_of_strings_is_a_list_of_addresses(tmp_path: Path) -> None:
    got = read(tmp_path, b' [ "b@example.com" ,\n"a@example.com"]\n')
    assert (got.names, got.rows) == (["email"], [("b@example.com",), ("a@example.com",)])


def test_a_json_array_larger_than_the_reading_window_is_read_whole(tmp_path: Path) -> None:
    items = [{"email": f"u{n}@example.com", "n": n} for n in range(50)]
    got = read(tmp_path, json.dumps(items).encode(), batches=BatchSizes(json_text=7, json_items=6, rows=12))
    assert got.rows == [(item["email"], item["n"]) for item in items]
    assert len(list(tmp_path.glob("json-*"))) == 4  # all but the last 2 of 50


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("array", [False, True])
def test_objects_without_a_member_before_the_first_column_are_rows(
    tmp_path: Path, size: int, array: bool
) -> None:
    lines: list[dict[str, str]] = [{}, {}, {}, {}, {}, {"email": "a@example.com"}, {}]
    text = json.dumps(lines) if array else "\n".join(map(json.dumps, lines))
    got = read(tmp_path, text.encode(), batches=BatchSizes(json_items=size))
    assert got.rows == [(None,)] * 5 + [("a@example.com",), (None,)]


def test_a_workbook_comes_back_as_text(tmp_path: Path) -> None:
    data = io.BytesIO()
    with xlsxwriter.Workbook(data, {"in_memory": True}) as book:
        book.add_worksheet("empty")
        sheet = book.add_worksheet("list")
        day = book.add_format({"num_format": "yyyy-mm-dd"})
        sheet.write_row(0, 0, ["Email", "n", "n", "when", "zip"])
        sheet.write_row(1, 0, ["a@example.com", 1, 1.5])
        sheet.write_datetime(1, 3, datetime(2024, 2, 29), day)  # noqa: DTZ001 - sheets have no zones
        sheet.write_string(1, 4, "00123")
        sheet.write_row(3, 0, ["b@example.com", 123456789012, True])
        sheet.write_datetime(3, 3, datetime(2024, 2, 29, 1, 2, 3), day)  # noqa: DTZ001 - same
    got = read(tmp_path, data.getvalue())
    assert got.names == ["Email", "n", "n", "when", "zip"]
    assert got.rows == [
        ("a@example.com", "1", "1.5", "2024-02-29", "00123"),
        ("b@example.com", "123456789012", "true", "2024-02-29 01:02:03", None),
    ]
    check_addresses(got, ["a@example.com", "b@example.com"])


def test_a_parquet_file_keeps_its_types(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            ADDRESS_N: [3, 4],
            "who": pl.Series(["a@example.com", None], dtype=pl.Categorical),
            "day": [date(2024, 2, 29), None],
            "nested": [{"a": [1]}, {"a": []}],
            "raw": [b"\xff", b""],
        }
    )
    data = io.BytesIO()
    frame.write_parquet(data)
    got = read(tmp_path, data.getvalue())
    assert (got.names, got.rows) == (frame.columns, frame.rows())
    check_addresses(got, ["a@example.com", None])


def test_texts_that_a_parquet_file_has_as_bytes_are_texts_and_other_bytes_are_bytes(tmp_path: Path) -> None:
    who, raw, bad = "zoë@example.com", [b"a\x00", b"ok"], [b"\xff", b"x"]
    frame = pl.DataFrame({"email": [who.encode(), None], "raw": raw, "bad": bad})
    data = io.BytesIO()
    frame.write_parquet(data)
    got = read(tmp_path, data.getvalue())
    assert got.rows == [(who, raw[0], bad[0]), (None, raw[1], bad[1])]
    check_addresses(got, [who, None])


@pytest.mark.parametrize(
    "text", ['[null, "a@example.com", null, "b@example.com", null]', '{"email": "a@example.com"}\nnull\n']
)
def test_what_is_null_in_json_is_a_row_with_nothing_in_it(tmp_path: Path, text: str) -> None:
    got = read(tmp_path, text.encode())
    cells = [None if one == "null" else one for one in re.findall(r"null|[ab]@example.com", text)]
    assert (got.names, got.rows) == (["email"], [(cell,) for cell in cells])
    check_addresses(got, cells)


def _parquet(values: pl.Series) -> bytes:
    data = io.BytesIO()
    pl.DataFrame({"email": ["a@example.com"], "odd": values}).write_parquet(data)
    return data.getvalue()


_NEVER = pl.Series([2**31 - 1], dtype=pl.Int32).cast(pl.Date)
"""What some databases write for a day without end."""


@pytest.mark.parametrize(
    "values",
    [
        _NEVER,
        pl.Series([2**63 - 1]).cast(pl.Datetime("us")),
        pl.Series([-(2**63)]).cast(pl.Duration("ms")),
        pl.select(pl.struct(pl.lit(_NEVER).alias("day"))).to_series(),
        pl.Series([{"a": b"x"}], dtype=pl.Map(pl.String, pl.Binary)),
    ],
)
def test_what_no_result_could_show_is_refused_before_anybody_is_asked(
    tmp_path: Path, values: pl.Series
) -> None:
    with pytest.raises(MailsiftError, match="bad_parquet"):
        read(tmp_path, _parquet(values))


def test_a_parquet_file_with_a_name_twice_is_told_so_and_one_of_arrow_what_it_is(tmp_path: Path) -> None:
    frame = pl.DataFrame({"email": ["a@example.com"], "emali": [1]})
    frame.write_parquet(tmp_path / "twice")
    with pytest.raises(MailsiftError, match=r"bad_parquet: Two columns .* same name"):
        read(tmp_path / "read", (tmp_path / "twice").read_bytes().replace(b"emali", b"email"))
    frame.write_ipc(tmp_path / "arrow")
    with pytest.raises(MailsiftError, match=r"unsupported_format: .*Feather.* Parquet"):
        read(tmp_path / "read", (tmp_path / "arrow").read_bytes())


def test_a_column_of_a_program_s_own_type_is_what_it_stores(tmp_path: Path) -> None:
    values = pl.Series(['{"a":1}']).ext.to(pl.Extension("arrow.json", pl.String, ""))
    assert read(tmp_path, _parquet(values)).rows == [("a@example.com", '{"a":1}')]
    assert pl.read_parquet_schema(tmp_path / "rows.parquet")["c1"] == pl.String


NOTE = st.text(alphabet="ab.,;\"' \t|é=\n", max_size=6)


@examples(20)
@given(
    notes=st.lists(st.tuples(NOTE, NOTE), min_size=1, max_size=8),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_any_csv_reads_as_the_csv_module_reads_it(
    tmp_path_factory: pytest.TempPathFactory, notes: list[tuple[str, str]], quoting: Any, end: str
) -> None:
    rows = [("note", "email", "more")] + [
        (note, f"u{n}@example.com", more) for n, (note, more) in enumerate(notes)
    ]
    text = io.StringIO()
    csv.writer(text, quoting=quoting, lineterminator=end).writerows(rows)
    got = read(tmp_path_factory.mktemp("any"), text.getvalue().encode())
    assert got.rows == rows[1:]


def test_addresses_of_parquet_may_be_bytes(tmp_path: Path) -> None:
    cells = [b"A@example.com", "é@bücher.de".encode(), b"\xff@example.com", None]
    pl.DataFrame({"email": cells}).write_parquet(tmp_path / "bytes")
    got = read(tmp_path / "read", (tmp_path / "bytes").read_bytes())
    assert [cell for (cell,) in got.rows] == cells
    check_addresses(got, ["A@example.com", "é@bücher.de", "ff406578616d706c652e636f6d", ""])


def test_a_column_of_lists_that_is_asked_for_holds_no_addresses(tmp_path: Path) -> None:
    pl.DataFrame({"tags": [["a@example.com"], []], "email": ["b@example.com", ""]}).write_parquet(
        tmp_path / "lists"
    )
    got = read(tmp_path / "read", (tmp_path / "lists").read_bytes(), "tags")
    check_addresses(got, ['["a@example.com"]', "[]"])
