"""A sheet holds every text exactly as far as a sheet can, as two foreign readers see it."""

from __future__ import annotations

import io

import fastexcel
import openpyxl
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl.utils.escape import unescape

from mailsift.jobs.results.export import write_sheet
from tests.support.fuzzing import examples

ODD = [
    "\x00\x01\x08\x0b\x0c\x0e\x1f",
    "_x0041_ and _x000D_",
    "\ufffe\uffff",
    " before",
    "behind ",
    "two  spaces",
    "a\r\nb\tc\n",
    "]]> &amp; &#65; <c>",
    "=1+1",
    "é😀",
    "_x",
]


def sheet_of(frame: pl.DataFrame, header: list[str] | None = None) -> bytes:
    out = io.BytesIO()
    write_sheet(frame.lazy(), header or frame.columns, out)
    return out.getvalue()


def read(book: bytes) -> list[tuple[object, ...]]:
    rows = openpyxl.load_workbook(io.BytesIO(book)).worksheets[0].iter_rows(values_only=True)
    return [tuple(unescape(cell) if isinstance(cell, str) else cell for cell in row) for row in rows]


def test_odd_texts_come_back_as_they_are() -> None:
    book = sheet_of(pl.DataFrame({"a": ODD, "b": list(reversed(ODD))}), ["<&>", " \x01"])
    assert read(book) == [("<&>", " \x01"), *zip(ODD, reversed(ODD), strict=True)]
    plain = ["]]> &amp; &#65; <c>", "=1+1", "é😀", " a "]
    seen = fastexcel.read_excel(sheet_of(pl.DataFrame({"a": plain}))).load_sheet(0).to_polars()
    assert seen["a"].to_list() == plain


@pytest.mark.parametrize("letter", ["a", "é", "😀", "&"])
def test_what_no_cell_can_hold_is_cut_off_between_letters(letter: str) -> None:
    [_, (got,)] = read(sheet_of(pl.DataFrame({"a": [letter * 40_000]})))
    assert got == letter * (32_767 // (len(letter.encode("utf-16-le")) // 2))


def test_blank_cells_keep_their_place_and_batches_their_order() -> None:
    frame = pl.DataFrame({"n": range(9_000)}).with_columns(
        pl.when(pl.col("n") % 3 == 0).then(pl.lit("x")).alias("text"),
        (pl.col("n") % 2 == 0).alias("even"),
    )
    _, *rows = read(sheet_of(frame))
    assert rows == frame.rows()


@examples(15)  # with many texts in each: a workbook costs more than what is in it
@given(st.lists(st.text(max_size=20), min_size=1, max_size=20))
def test_any_text_comes_back(texts: list[str]) -> None:
    assert [row[0] or "" for row in read(sheet_of(pl.DataFrame({"a": texts})))[1:]] == texts
