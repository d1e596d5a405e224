"""What the cells of a workbook mean: numbers that show dates, shared texts and their readings (ECMA-376)."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import polars as pl
import pytest
import xlsxwriter

from mailsift.jobs.intake.models import IntakeLimits, IntakeOptions
from mailsift.jobs.intake.read import read_list
from mailsift.jobs.intake.read_xlsx import read_xlsx
from mailsift.pipeline.errors import MailsiftError
from tests.support.hostile_files import small_workbook, workbook

LEAP_DAY = 45_351  # 2024-02-29 in the days that sheets count


def frame_of(folder: Path, data: bytes, **limits: Any) -> pl.DataFrame:
    path = folder / "list.xlsx"
    path.write_bytes(data)
    return read_xlsx(path, IntakeLimits(**limits)).frame.collect()


def cell_text(folder: Path, number: float, kind: int, code: str = "", settings: str = "") -> str:
    """Return what a cell holds that shows a number in the format of this number, or this code."""
    codes = f'<numFmts><numFmt numFmtId="{kind}" formatCode="{code}"/></numFmts>' if code else ""
    styles = (
        f'{codes}<cellStyleXfs><xf numFmtId="14"/></cellStyleXfs>'
        f'<cellXfs><xf numFmtId="0"/><xf numFmtId="{kind}"/></cellXfs>'
        '<dxfs><xf numFmtId="14"/></dxfs>'
    )
    cells = f'<row><c s="1"><v>{number!r}</v></c></row>'
    return str(frame_of(folder, small_workbook(cells, styles=styles, settings=settings)).item())


@pytest.mark.parametrize("kind", [14, 15, 16, 17, 22, 27, 30, 36, 50, 54, 58])
def test_formats_of_the_standard_that_show_a_day_are_days(tmp_path: Path, kind: int) -> None:
    assert cell_text(tmp_path, LEAP_DAY, kind) == "2024-02-29"
    assert cell_text(tmp_path, LEAP_DAY + 0.25, kind) == "2024-02-29 06:00:00"


@pytest.mark.parametrize("kind", [18, 20, 21, 45, 47])
def test_formats_of_the_standard_that_show_a_time_are_times_of_day(tmp_path: Path, kind: int) -> None:
    assert cell_text(tmp_path, 0.25, kind) == "06:00:00"
    assert cell_text(tmp_path, 0.5 + 0.25 / 86_400, kind) == "12:00:00.250"


@pytest.mark.parametrize("kind", [0, 1, 4, 9, 10, 11, 12, 13, 23, 26, 37, 40, 44, 48, 49, 59])
def test_all_other_formats_of_the_standard_are_numbers(tmp_path: Path, kind: int) -> None:
    assert cell_text(tmp_path, LEAP_DAY, kind) == "45351"


def test_elapsed_time_has_as_many_hours_as_it_has(tmp_path: Path) -> None:
    assert cell_text(tmp_path, 1.5, 46) == "36:00:00"
    assert cell_text(tmp_path, 1.5, 200, "[h]:mm") == "36:00:00"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("yyyy\\-mm", "2024-02-29"),
        ("[$-407]d. mmmm yyyy", "2024-02-29"),
        ("[Red]0.00", "45351"),
        ("0 &quot;days&quot;", "45351"),
        ("0\\d", "45351"),
        ("0;yyyy", "45351"),
        ("General &quot;d&quot;", "45351"),
    ],
)
def test_a_code_shows_a_date_by_its_letters_outside_of_texts(tmp_path: Path, code: str, text: str) -> None:
    assert cell_text(tmp_path, LEAP_DAY, 200, code) == text


@pytest.mark.parametrize(
    ("days", "date"), [(1, "1900-01-01"), (59, "1900-02-28"), (60, "1900-02-28"), (61, "1900-03-01")]
)
def test_days_are_counted_as_sheets_count_them(tmp_path: Path, days: int, date: str) -> None:
    assert cell_text(tmp_path, days, 14) == date


def test_readings_of_asian_names_are_no_part_of_a_text(tmp_path: Path) -> None:
    name = "<t>山</t><r><t>田</t></r><rPh sb='0' eb='1'><t>ヤマ</t></rPh><t>太郎</t>"
    cells = f"<row><c t='s'><v>1</v></c><c t='inlineStr'><is>{name}</is></c><c t='s'><v>0</v></c></row>"
    frame = frame_of(tmp_path, small_workbook(cells, strings=f"<si><t>a</t></si><si>{name}</si>"))
    assert frame.rows() == [("山田太郎", "山田太郎", "a")]


@pytest.mark.parametrize("row", [1_048_577, 2_097_153, 9_999_999])
def test_a_row_beyond_what_a_sheet_can_have_is_refused(tmp_path: Path, row: int) -> None:
    with pytest.raises(MailsiftError, match="bad_xlsx"):
        frame_of(tmp_path, small_workbook(f'<row r="{row}"><c t="str"><v>a</v></c></row>'))


def test_a_number_of_thousands_of_digits_is_a_wrong_one(tmp_path: Path) -> None:
    digits, cell = "1" * 5_000, '<c s="0"><v>5</v></c>'
    with pytest.raises(MailsiftError, match="bad_xlsx"):
        frame_of(tmp_path, small_workbook(f'<row r="{digits}">{cell}</row>'))
    styles = f'<cellXfs><xf numFmtId="{digits}"/></cellXfs>'
    assert frame_of(tmp_path, small_workbook(f"<row>{cell}</row>", styles=styles)).item() == "5"


def test_a_code_longer_than_programs_take_costs_no_more_than_one_they_take(tmp_path: Path) -> None:
    code = f'<numFmts><numFmt numFmtId="200" formatCode="{"[" * 30_000}"/></numFmts>'
    styles = code + "<cellXfs>" + '<xf numFmtId="200"/>' * 1_000 + "</cellXfs>"
    started = time.process_time()
    assert frame_of(tmp_path, small_workbook('<row><c s="9"><v>5</v></c></row>', styles=styles)).item() == "5"
    assert time.process_time() - started < 2.0  # a single style took as long


def test_a_sheet_that_is_named_again_and_again_is_read_once(tmp_path: Path) -> None:
    book = small_workbook("<row/>" * 10_000, sheets='<sheet r:id="r0"/>' * 1_000)
    started = time.process_time()
    assert refusal(tmp_path, book) == "empty_file"
    assert time.process_time() - started < 2.0  # it was twenty


def test_a_text_that_cells_share_counts_as_often_as_it_stands_there(tmp_path: Path) -> None:
    strings = f"<si><t>{'a' * 1_000}</t></si>"
    book = small_workbook('<row><c t="s"><v>0</v></c></row>' * 20, strings=strings)
    assert frame_of(tmp_path, book, bytes=20_000).height == 20
    assert refusal(tmp_path, book, bytes=19_999) == "file_too_large"


def test_the_last_row_of_a_sheet_is_read(tmp_path: Path) -> None:
    assert frame_of(tmp_path, small_workbook('<row r="1048576"><c t="str"><v>a</v></c></row>')).item() == "a"


def test_a_sheet_has_a_header_beside_the_rows_that_are_allowed(tmp_path: Path) -> None:
    row = '<row><c t="str"><v>a</v></c></row>'
    assert frame_of(tmp_path, small_workbook(3 * row), rows=2).height == 3
    with pytest.raises(MailsiftError, match="too_many_rows"):
        frame_of(tmp_path, small_workbook(4 * row), rows=2)


@pytest.mark.parametrize(
    ("days", "date"),
    [(0.5, "12:00:00"), (1, "1904-01-02"), (59, "1904-02-29"), (LEAP_DAY - 1462, "2024-02-29")],
)
def test_a_workbook_may_count_its_days_from_1904(tmp_path: Path, days: float, date: str) -> None:
    assert cell_text(tmp_path, days, 14, settings='<workbookPr date1904="1"/>') == date
    assert cell_text(tmp_path, LEAP_DAY, 14, settings='<workbookPr date1904="0"/>') == "2024-02-29"


def texts(*cells: str) -> str:
    return "".join(f'<c t="str"><v>{cell}</v></c>' for cell in cells)


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ("1E2", "100"),
        ("1.50", "1.5"),
        ("0", "0"),
        ("-7", "-7"),
        ("007", "7"),
        ("9.007199254740992E15", "9007199254740992"),  # exact up to here
        ("9.007199254740994E15", "9007199254740994.0"),
        ("-9.007199254740994E15", "-9007199254740994.0"),
        ("12345678901234567890", "12345678901234567890"),
        ("1E999", "1E999"),
        ("NaN", "NaN"),
        ("x", "x"),
    ],
)
def test_a_number_has_the_fewest_digits_that_mean_it(tmp_path: Path, stored: str, text: str) -> None:
    assert frame_of(tmp_path, small_workbook(f"<row><c><v>{stored}</v></c></row>")).item() == text


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ("a_x000A_b", "a\nb"),
        ("_x005F_x0041_", "_x0041_"),
        ("_xD7FF_", "\ud7ff"),
        ("_xD800_", "_xD800_"),  # half a letter
        ("_xDFFF_", "_xDFFF_"),
        ("_xE000_", "\ue000"),
    ],
)
def test_escaped_letters_are_read_where_they_are_letters(tmp_path: Path, stored: str, text: str) -> None:
    assert frame_of(tmp_path, small_workbook(f"<row>{texts(stored)}</row>")).item() == text


def test_white_space_between_elements_and_formulas_are_no_part_of_a_text(tmp_path: Path) -> None:
    cells = """<row>
      <c t="str"> <f>"a"</f> <v>a</v> </c>
      <c t="s"> <v>0</v> </c>
      <c t="inlineStr"> <is> <t>c</t> </is> </c>
    </row>"""
    strings = "<si> <t>b</t> <rPh> <t>x</t> <t>y</t> </rPh> </si>"
    assert frame_of(tmp_path, small_workbook(cells, strings=strings)).rows() == [("a", "b", "c")]


def test_cells_lie_where_they_say_and_else_beside_and_below_the_one_before(tmp_path: Path) -> None:
    unsaid = f"<row>{texts('a', 'b')}</row>"
    xml = '<row r="2"><c r="A2" t="str"><v>c</v></c><c r="B2" t="str"><v>d</v></c></row>'
    assert frame_of(tmp_path, small_workbook(unsaid + xml + unsaid)).rows() == [
        ("a", "b"),
        ("c", "d"),
        ("a", "b"),
    ]
    below = '<row><c r="A1" t="str"><v>a</v></c><c r="B2" t="str"><v>b</v></c></row>'
    assert frame_of(tmp_path, small_workbook(below)).rows() == [("a", None), (None, "b")]
    for row in ('<row r="2"/>', '<row><c r="A1"/></row>', '<row><c r="A1048577"/></row>'):
        assert refusal(tmp_path, small_workbook(below + row)) == "bad_xlsx"


def test_a_table_begins_and_ends_with_the_columns_that_hold_something(tmp_path: Path) -> None:
    cells = "".join(
        f'<c r="{name}1" t="{kind}"><v>{text}</v></c>'
        for name, kind, text in (("Y", "n", ""), ("Z", "str", "a"), ("AA", "str", "b"), ("AB", "n", ""))
    )
    assert frame_of(tmp_path, small_workbook(f"<row>{cells}</row>")).rows() == [("a", "b")]


@pytest.mark.parametrize("state", ["hidden", "veryHidden"])
def test_a_hidden_sheet_is_read_only_where_no_other_has_cells(tmp_path: Path, state: str) -> None:
    book = openpyxl.Workbook()
    book.active.append(["behind"])
    book.active.sheet_state = state
    for name, cells in (("empty", []), ("list", ["a@example.com"]), ("more", ["b@example.com"])):
        book.create_sheet(name).append(cells)
    book.active = 1
    book.save(tmp_path / "shown.xlsx")
    assert frame_of(tmp_path, (tmp_path / "shown.xlsx").read_bytes()).item() == "a@example.com"
    for sheet in book.worksheets[2:]:
        book.remove(sheet)
    book.save(tmp_path / "shown.xlsx")
    assert frame_of(tmp_path, (tmp_path / "shown.xlsx").read_bytes()).item() == "behind"


@pytest.mark.parametrize("spelled", [str.upper, lambda name: name.replace("/", "\\")])
def test_parts_may_be_spelled_as_windows_spells_them(tmp_path: Path, spelled: Callable[[str], str]) -> None:
    plain, packed = small_workbook(f"<row>{texts('a@example.com')}</row>"), io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(plain)) as book, zipfile.ZipFile(packed, "w") as other:
        for name in book.namelist():
            other.writestr(spelled(name), book.read(name))
    assert frame_of(tmp_path, packed.getvalue()).item() == "a@example.com"


def refusal(folder: Path, data: bytes, **limits: Any) -> str:
    with pytest.raises(MailsiftError) as refused:
        frame_of(folder, data, **limits)
    return refused.value.code


def test_a_sheet_is_as_wide_as_the_limit_and_no_wider_than_a_sheet_can_be(tmp_path: Path) -> None:
    assert frame_of(tmp_path, small_workbook(f"<row>{texts('a', 'b')}</row>"), columns=2).width == 2
    assert (
        refusal(tmp_path, small_workbook(f"<row>{texts('a', 'b', 'c')}</row>"), columns=2)
        == "too_many_columns"
    )
    for reference, code in (("XFD1", "too_many_columns"), ("AAAA1", "bad_xlsx")):
        cell = f'<row><c r="{reference}" t="str"><v>a</v></c></row>'
        assert refusal(tmp_path, small_workbook(cell)) == code


@pytest.mark.parametrize("place", ["1", "2", "-1", "x", "9" * 5_000])
def test_a_shared_text_that_is_not_there_is_refused(tmp_path: Path, place: str) -> None:
    cells = f'<row><c t="s"><v>{place}</v></c></row>'
    assert refusal(tmp_path, small_workbook(cells, strings="<si><t>a</t></si>")) == "bad_xlsx"


def test_what_is_no_whole_workbook_is_refused_by_what_it_lacks(tmp_path: Path) -> None:
    assert refusal(tmp_path, small_workbook("")) == "empty_file"
    assert refusal(tmp_path, small_workbook("", sheets="")) == "bad_xlsx"
    assert refusal(tmp_path, small_workbook(f"<row>{texts('a')}</row><!--")) == "bad_xlsx"
    book = workbook(x=b"x").replace(b"xl/workbook.xml", b"xx/workbook.xml")
    assert refusal(tmp_path, book) == "unsupported_format"


def linked(*cells: tuple[str, str]) -> bytes:
    """Return a workbook of one column, whose cells show a text and link to something, "" to nothing."""
    data = io.BytesIO()
    with xlsxwriter.Workbook(data, {"in_memory": True}) as book:
        sheet = book.add_worksheet()
        for row, (text, target) in enumerate(cells):
            if target.startswith("="):
                sheet.write_formula(row, 0, target, None, text)
            elif target:
                sheet.write_url(row, 0, target, string=text)
            else:
                sheet.write(row, 0, text)
    return data.getvalue()


def test_addresses_that_cells_only_link_to_are_a_column_of_their_own(tmp_path: Path) -> None:
    cells = [
        ("Name", ""),
        ("Ann", "mailto:ann%2B1@example.com?subject=Hi"),
        ("Bob", '=HYPERLINK("mailto:bob@example.com","Bob")'),
        ("Cat", "https://example.com/"),
        ("dora@example.com", "mailto:d@example.com"),
    ]
    assert frame_of(tmp_path, linked(*cells)).rows() == [
        ("Name", None),
        ("Ann", "ann+1@example.com"),
        ("Bob", "bob@example.com"),
        ("Cat", None),
        ("dora@example.com", None),
    ]


def test_links_to_what_the_cells_show_are_no_column(tmp_path: Path) -> None:
    cells = [("Email", ""), ("ann@example.com", "mailto:ann@example.com")]
    assert frame_of(tmp_path, linked(*cells)).width == 1
    assert refusal(tmp_path, linked(("Ann", "mailto:ann@example.com")), columns=1) == "too_many_columns"


def computed(program: str, *rows: tuple[object, ...]) -> bytes:
    """Return a workbook as a program writes it that computes nothing."""
    data = io.BytesIO()
    if program == "openpyxl":
        book = openpyxl.Workbook()
        for row in rows:
            book.worksheets[0].append(row)
        book.save(data)
    else:
        with xlsxwriter.Workbook(data, {"in_memory": True}) as written:
            sheet = written.add_worksheet()
            for number, row in enumerate(rows):
                sheet.write_row(number, 0, row)
    return data.getvalue()


@pytest.mark.parametrize("program", ["openpyxl", "xlsxwriter"])
def test_addresses_that_nobody_has_computed_are_not_judged(tmp_path: Path, program: str) -> None:
    path = tmp_path / "list.xlsx"
    options, limits = IntakeOptions(), IntakeLimits()
    path.write_bytes(computed(program, ("Name", "Email"), ("ann", '=A2&"@example.com"')))
    with pytest.raises(MailsiftError, match="bad_xlsx: Addresses of this workbook are formulas"):
        read_list(path, tmp_path, options=options, limits=limits)
    path.write_bytes(computed(program, ("Email", "Name"), ("ann@example.com", "=UPPER(A2)")))
    assert read_list(path, tmp_path, options=options, limits=limits).rows == 1
