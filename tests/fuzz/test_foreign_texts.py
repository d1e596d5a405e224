"""Texts of any content: no export holds a formula, and a canonical address is its own canonical form."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import openpyxl
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mailsift.jobs.columns import names_metadata
from mailsift.jobs.results.export import ExportFormat, export
from mailsift.pipeline.syntax.address import parse_address, parse_exact
from mailsift.pipeline.syntax.column import parse_column
from tests.support.fuzzing import examples

_TEXT = st.text(
    st.one_of(
        st.sampled_from("=+-@\t\r\n;,'\"＝\ufeffa"), st.characters(codec="utf-8", categories=["L", "P"])
    ),
    max_size=8,
)
_FORMULA = re.compile(r"\A[\s\x00-\x20]*[=+\-@＝＋－＠]")


def _exported(folder: Path, name: str, cells: list[str], kind: ExportFormat) -> bytes:
    path, out = folder / "results.parquet", io.BytesIO()
    frame = pl.DataFrame({"c0": cells, "mailsift_status": ["valid"] * len(cells)})
    frame.write_parquet(path, metadata=names_metadata([name]))
    export(path, out, format=kind)
    return out.getvalue()


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("export")


def _undone(text: str) -> str:
    """Take away the apostrophes that an export put in front of what looks like a formula."""
    return re.sub(r"(\A|[;\t\r\n]\"*)'(?=[=+\-@\t\r\n＝＋－＠\ufeff])", r"\1", text)


@examples(60)
@given(_TEXT, st.lists(_TEXT, min_size=1, max_size=4), st.sampled_from([",", ";", "\t"]))
@example("\ufeff=1+1", ["\ufeff=1+1", "a;\ufeff=2"], ",")
@example("\ufeff=1+1", ["\ufeff=1+1", "a;\ufeff=2"], ";")
@example("\x01=1+1", ["\x01 \x1b=1+1", "\xa0=1", "a;\x7f;\x02=2"], ";")
def test_no_csv_holds_a_formula_whatever_parts_its_cells_and_whoever_takes_its_marks_away(
    folder: Path, name: str, cells: list[str], delimiter: str
) -> None:
    text = _exported(folder, name, cells, ExportFormat.CSV).decode()
    for seen in (text, text.replace("\ufeff", "")):
        rows = csv.reader(io.StringIO(seen, newline=""), delimiter=delimiter)
        assert not [cell for row in rows for cell in row if _FORMULA.match(cell)]


@examples(60)
@given(_TEXT, st.lists(_TEXT, min_size=1, max_size=4))
def test_a_csv_cell_is_the_cell_but_for_its_apostrophes(folder: Path, name: str, cells: list[str]) -> None:
    text = _exported(folder, name, cells, ExportFormat.CSV).decode()
    _, *rows = csv.reader(io.StringIO(text, newline=""))
    assert [_undone(row[0]) for row in rows] == [_undone(cell) for cell in cells]


@examples(20)
@given(st.lists(_TEXT, min_size=1, max_size=4))
def test_a_sheet_and_jsonl_hold_the_same_texts(folder: Path, cells: list[str]) -> None:
    lines = _exported(folder, "name", cells, ExportFormat.JSONL).decode().strip().split("\n")
    assert [json.loads(line)["name"] for line in lines] == cells
    book = openpyxl.load_workbook(io.BytesIO(_exported(folder, "name", cells, ExportFormat.XLSX)))
    assert not [cell for row in book.active.iter_rows() for cell in row if cell.data_type == "f"]


_LOCAL = st.text(
    st.one_of(st.sampled_from('aZ.+"\\ @é\u0301İσΣß'), st.characters(codec="utf-8")), min_size=1, max_size=12
)
_QUOTED = _LOCAL.map(lambda local: f'"{local}"')
_LONG = st.builds(lambda letter, times: letter * times, st.sampled_from("aéжあ"), st.integers(1, 66))
_DOMAIN = st.one_of(
    st.sampled_from(["test", "a.test", "bücher.de", "x.local", "local", "1.2", "a.b-", "ΕΛΛΑΣ.gr"]),
    st.text(st.characters(codec="utf-8", categories=["L", "N"]), max_size=4).map(lambda name: f"{name}.com"),
)


@examples(400)
@given(st.one_of(_LOCAL, _QUOTED, _LONG), _DOMAIN)
@example('"a"', "test")
@example("é" * 33, "example.com")
@example("é" * 64, "example.com")
@example("´", "a.test")
@example("→a", "a.test")
@example("ａ：b", "a.test")
def test_the_canonical_form_is_its_own_and_every_way_to_it_agrees(local: str, domain: str) -> None:
    text = f"{local}@{domain}"
    exact = parse_exact(text)
    assert parse_address(text) == exact
    if exact.rule:
        return
    assert len(exact.local.encode()) <= 64
    assert len(exact.address.encode()) <= 254
    assert parse_exact(exact.address) == parse_address(exact.address) == exact
    assert parse_column(pl.Series([exact.address])).row(0) == exact
