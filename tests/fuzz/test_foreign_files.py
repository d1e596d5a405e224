"""Files of any content: a cell comes back as another reader reads it, or the file is refused by name."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openpyxl
import polars as pl
import pytest
import xlsxwriter
from hypothesis import example, given
from hypothesis import strategies as st

from mailsift.jobs.columns import ADDRESS, ADDRESS_N, read_names
from mailsift.jobs.intake.models import IntakeLimits, IntakeOptions
from mailsift.jobs.intake.read import read_list
from tests.support.fuzzing import ChildRun, examples, read_in_child
from tests.support.hostile_files import sheet, small_workbook, three_cells

EMAIL = "email"
Cells = list[tuple[Any, ...]]


def read(folder: Path, data: bytes) -> tuple[list[str], Cells]:
    """Return the names and the cells of a list in this process."""
    source = folder / "list.bin"
    source.write_bytes(data)
    read_list(source, folder, options=IntakeOptions(column=EMAIL), limits=IntakeLimits())
    frame = pl.read_parquet(folder / "rows.parquet").drop(ADDRESS_N, ADDRESS)
    return list(read_names(folder / "rows.parquet").values()), frame.rows()


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("foreign")


def is_harmless(run: ChildRun) -> bool:
    """Whether the reading process came to an end of its own, and at a bounded cost."""
    return run.code == 0 and run.answer.get("code") != "intake_crashed" and run.seconds < 2


_TEXT = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=8)
_SHEET_TEXT = _TEXT.filter(lambda text: "_x" not in text)  # how a sheet escapes; the other reader does not
_NUMBER = st.one_of(st.integers(-(2**53), 2**53), st.floats(-1e300, 1e300, allow_subnormal=False))
_ERROR = st.sampled_from(["#N/A", "#DIV/0!", "#REF!", "#VALUE!", "#NAME?", "#NUM!", "#NULL!"])
_CELL = st.one_of(
    st.none(), _SHEET_TEXT, _NUMBER, st.booleans(), st.builds(lambda text: {"error": text}, _ERROR)
)


def _workbook(rows: Sequence[Sequence[Any]]) -> bytes:
    data = io.BytesIO()
    with xlsxwriter.Workbook(data, {"in_memory": True, "strings_to_numbers": False}) as book:
        page = book.add_worksheet()
        for row, cells in enumerate(rows):
            for place, cell in enumerate(cells):
                if isinstance(cell, dict):
                    page.write_formula(row, place, "=NA()", None, cell["error"])
                elif isinstance(cell, str):
                    page.write_string(row, place, cell)
                elif cell is not None:
                    page.write(row, place, cell)
    return data.getvalue()


def _as_text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return str(int(value))
    return None if value is None else str(value)


@examples(40)
@given(st.lists(st.lists(_CELL, max_size=5), min_size=1, max_size=8))
@example([[1 / 3, 1e-10, 99999.9999999999]])
@example([[float(2**53 + 2), -float(2**60)]])
@example([[{"error": "#N/A"}, {"error": "#N/A"}], [None], ["below"]])
def test_a_workbook_reads_as_openpyxl_reads_it(folder: Path, rows: list[list[Any]]) -> None:
    data = _workbook([[EMAIL], *rows])
    page = openpyxl.load_workbook(io.BytesIO(data), data_only=True).worksheets[0]
    expected = [tuple(map(_as_text, cells)) for cells in page.iter_rows(values_only=True, min_row=2)]
    filled = [cells for cells in expected if any(cell is not None for cell in cells)]
    if filled:
        assert read(folder, data)[1] == filled


_REFERENCE = st.builds(
    lambda letters, number: f"{letters}{number}",
    st.sampled_from(["A", "B", "GR", "GS", "XFD", "XFE", "ZZZZ", "AAAAAAAAAA", "", "Ä"]),
    st.sampled_from([0, 1, 2, 1_048_576, 1_048_577, 10**7, 2**64]),
)


@examples(4)
@given(st.lists(_REFERENCE, min_size=1, max_size=4))
@example(["A1", "B1", "GR1048576"])
@example(["A1", "B1", "GR524288"])
@example(["A1", "B1", "ZZZZ1"])
def test_a_cell_far_away_costs_no_more_than_one_that_is_near(folder: Path, references: list[str]) -> None:
    run = read_in_child(folder, three_cells(*references))
    assert is_harmless(run), run
    assert run.bytes < 500_000_000


_PIECES = st.sampled_from(
    [
        *('<row r="1">', "<row>", "</row>", '<c r="A1">', '<c r="B2" t="s">', '<c t="inlineStr">', "</c>"),
        *("<v>0</v>", "<v>1e999</v>", "<v>-1</v>", '<c s="1"><v>1e308</v></c>', "<is><t>a@b.com</t></is>"),
        *('<c t="e"><v>#N/A</v></c>', '<c t="d"><v>x</v></c>', "<v>", "&lol;", "_xD83D_", "\x00", "]]>"),
    ]
)
_STYLES = (
    '<numFmts><numFmt numFmtId="200" formatCode="[h]:mm"/></numFmts>'
    '<cellXfs><xf/><xf numFmtId="200"/></cellXfs>'
)


@examples(6)
@given(st.lists(_PIECES, max_size=10).map("".join))
def test_no_workbook_breaks_its_reader(folder: Path, cells: str) -> None:
    assert is_harmless(read_in_child(folder, small_workbook(cells, strings="<si/>", styles=_STYLES)))


_KEY = st.text(st.characters(codec="utf-8"), max_size=4).filter(lambda key: key != EMAIL)
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), _TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEY, inner, max_size=3)),
    max_leaves=4,
).filter(lambda value: "Infinity" not in json.dumps(value))


def _means(cell: Any, value: Any) -> bool:
    """Whether a cell is what the JSON said: itself, or its JSON as text."""
    if value is None or isinstance(value, bool | str):
        return bool(cell == value) or (isinstance(cell, str) and cell == json.dumps(value))
    return bool((json.loads(cell) if isinstance(cell, str) else cell) == value)


@examples(60)
@given(st.lists(st.dictionaries(_KEY, _JSON, max_size=4), min_size=1, max_size=5), st.booleans())
@example([{"\0": None, "": 2}], False)  # noqa: FBT003 - same
@example([{"": 1}], True)  # noqa: FBT003 - hypothesis takes arguments by place
@example([{"": 1}, {"c0": 2, "c1": None}], False)  # noqa: FBT003 - same
def test_json_reads_as_the_json_module_reads_it(
    folder: Path, items: list[dict[str, Any]], array: bool
) -> None:
    rows = [{EMAIL: "a@example.com", **item} for item in items]
    text = json.dumps(rows) if array else "\n".join(map(json.dumps, rows))
    names, cells = read(folder, text.encode())
    keys = list(dict.fromkeys(key for row in rows for key in row))
    assert names == [key.replace("\0", "") for key in keys]  # which no text file can hold
    for row, got in zip(rows, cells, strict=True):
        assert all(_means(cell, row.get(key)) for key, cell in zip(keys, got, strict=True))


@examples(4)
@given(st.text(st.sampled_from('[]{}",:1e-\\u0dnt \n'), max_size=30))
@example('[{"":1,"email":"a@example.com"}]')
@example('{"email":"a@example.com","":{"":{}}}')
def test_no_json_breaks_its_reader(folder: Path, text: str) -> None:
    assert is_harmless(read_in_child(folder, text.encode("utf-8", "surrogatepass")))


_COLUMN = st.sampled_from(
    [
        *(pl.Int8, pl.UInt64, pl.Float32, pl.Float64, pl.Boolean, pl.String, pl.Binary, pl.Date, pl.Time),
        *(pl.Datetime("us", "Asia/Kolkata"), pl.Duration("ms"), pl.List(pl.Int16), pl.Categorical),
        pl.Struct({"a": pl.List(pl.String)}),
    ]
)


def _list(dtypes: Sequence[Any]) -> pl.DataFrame:
    email = pl.Series(EMAIL, ["a@example.com", None], dtype=pl.String)
    blank = [pl.Series(f"x{n}", [None, None], dtype=dtype) for n, dtype in enumerate(dtypes)]
    return pl.DataFrame([email, *blank, pl.Series("n", [1, 2])])


def _parquet(frame: pl.DataFrame) -> bytes:
    data = io.BytesIO()
    frame.write_parquet(data, compression="uncompressed")
    return data.getvalue()


@examples(20)
@given(st.lists(_COLUMN, max_size=4))
def test_parquet_reads_as_polars_reads_it(folder: Path, dtypes: list[Any]) -> None:
    frame = _list(dtypes)
    assert read(folder, _parquet(frame)) == (frame.columns, frame.rows())


@examples(6)
@given(
    st.lists(_COLUMN, max_size=2),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1, max_size=3),
)
def test_no_damage_to_parquet_breaks_its_reader(
    folder: Path, dtypes: list[Any], flips: list[tuple[float, int]]
) -> None:
    data = bytearray(_parquet(_list(dtypes)))
    for place, bits in flips:
        data[4 + int(place * (len(data) - 4))] ^= bits
    assert is_harmless(read_in_child(folder, bytes(data)))


_MARKED = st.text(st.sampled_from("ab;,\t|'\" \ufeffé=\n"), max_size=6)


@examples(60)
@given(st.lists(st.tuples(_MARKED, _MARKED), min_size=1, max_size=6), st.booleans(), st.booleans())
@example([("x", "y")], True, True)  # noqa: FBT003 - hypothesis takes arguments by place
def test_csv_reads_as_the_csv_module_reads_it(
    folder: Path, cells: list[tuple[str, str]], marked: bool, hinted: bool
) -> None:
    """A mark in front of the file is the file's; one that comes after it belongs to the first cell."""
    header = ("\ufeffnote", EMAIL, "more")
    rows = [header, *((first, f"u{n}@example.com", last) for n, (first, last) in enumerate(cells))]
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    hint = "sep=,\r\n" if hinted else ""
    start = "\ufeff" if marked or not hinted else ""
    names, got = read(folder, (start + hint + text.getvalue()).encode())
    assert (tuple(names), got) == (header, rows[1:])


@pytest.mark.parametrize("rows", [[[EMAIL], ["a@example.com"] * 300], [[EMAIL, *["x"] * 200]]])
def test_a_sheet_that_is_too_wide_is_refused(folder: Path, rows: list[list[str]]) -> None:
    assert read_in_child(folder, sheet(rows)).answer["code"] == "too_many_columns"
