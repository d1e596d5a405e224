from __future__ import annotations

import csv
import io
import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import polars as pl
import pytest

from mailsift.jobs.columns import cell_text, names_metadata
from mailsift.jobs.intake.models import IntakeLimits
from mailsift.jobs.intake.read import inspect_list
from mailsift.jobs.results.export import ExportFormat, choose_columns, defused, export, format_of
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import VERDICTS
from mailsift.pipeline.tiers import RULES, Tier
from mailsift.pipeline.verdict import SYNTAX_SENTENCES, VERDICT_ROWS, Result, Status, syntax_reason

NASTY = [
    " =1",
    "\u00a0+1",
    "=1+1@x.com",
    "+a@x.com",
    "-a@x.com",
    "@a",
    "\tx",
    "\rx",
    "\nx",
    "＝1",
    "＋1",
    "－1",
    "＠1",
]
FINE = ["a=b@x.com", "", "'=1", "00123", "two\nlines", 'say "hi"', "é,ü;", "<b>&", "a" * 40_000]
OURS = [f"mailsift_{name}" for name in VERDICTS]


def results(folder: Path, columns: dict[str, pl.Series], statuses: list[str] | None = None) -> Path:
    """Write a results file with these customer columns, of any name even if repeated (`name#2`)."""
    height = len(next(iter(columns.values())))
    frame = pl.DataFrame([series.alias(f"c{place}") for place, series in enumerate(columns.values())])
    verdicts = {
        f"mailsift_{name}": pl.repeat(1, height, eager=True).cast(dtype, strict=False)
        for name, dtype in VERDICTS.items()
    }
    verdicts["mailsift_status"] = pl.Series(statuses or ["valid"] * height)
    verdicts["mailsift_suggestion"] = pl.repeat("=cmd()", height, eager=True)
    path = folder / "results*[1].parquet"
    names = [name.split("#")[0] for name in columns]
    frame.with_columns(**verdicts).write_parquet(
        path, metadata=names_metadata(names), row_group_size=3 + height // 4
    )
    return path


def exported(path: Path, kind: ExportFormat, **options: Any) -> bytes:
    out = io.BytesIO()
    export(path, out, format=kind, **options)
    return out.getvalue()


def read_csv(path: Path, **options: Any) -> list[list[str]]:
    text = exported(path, ExportFormat.CSV, **options).decode()
    csv.field_size_limit(10**6)
    return list(csv.reader(io.StringIO(text, newline="")))


def sheet(path: Path) -> list[tuple[Any, ...]]:
    book = openpyxl.load_workbook(io.BytesIO(exported(path, ExportFormat.XLSX)))
    return list(book.active.iter_rows())


def texts(folder: Path) -> Path:
    cells = pl.Series([*NASTY, *FINE])
    return results(folder, {"=name": cells, "name": cells.reverse(), "name#2": cells, "": cells})


HEADER = ["'=name", "name", "name", ""]


def test_csv_keeps_rows_order_and_repeated_names_and_defuses_formulas_in_every_column(tmp_path: Path) -> None:
    header, *rows = read_csv(texts(tmp_path))
    safe = [*("'" + cell for cell in NASTY), *FINE]
    assert header == [*HEADER, *OURS]
    assert [row[:4] for row in rows] == [[a, b, a, a] for a, b in zip(safe, safe[::-1], strict=True)]
    assert {row[header.index("mailsift_suggestion")] for row in rows} == {"'=cmd()"}


def test_a_formula_is_defused_in_its_own_row_where_others_are_empty(tmp_path: Path) -> None:
    path = results(tmp_path, {"note": pl.Series([None, "=1+1", None, "fine"])})
    assert [row[0] for row in read_csv(path)[1:]] == ["", "'=1+1", "", "fine"]
    assert [row[0].value for row in sheet(path)[1:]] == [None, "'=1+1", None, "fine"]


def test_no_word_of_ours_is_a_formula_for_they_are_written_as_they_are() -> None:
    codes = [*Status, *Result, *Tier, *(rule.name for rule in RULES)]
    reasons = [*(row.reason for row in VERDICT_ROWS), *SYNTAX_SENTENCES.values(), syntax_reason("a_new_one")]
    assert not [word for word in (*codes, *reasons) if defused(word) != word]


def test_csv_has_no_formula_where_semicolons_or_tabs_part_the_cells_either(tmp_path: Path) -> None:
    nasty = ["a;=1+1;b", 'q, r;"=2";', "x\n=3;y", "x\r\n@4", "b\t\t=5", ";+6", "\t=7", "a;＝8", "one;-9;+10"]
    safe = [
        "a;'=1+1;b",
        'q, r;"\'=2";',
        "x\n'=3;y",
        "x\r\n'@4",
        "b\t\t'=5",
        ";'+6",
        "'\t'=7",
        "a;'＝8",
        "one;'-9;'+10",
    ]
    path = results(tmp_path, {"name;=cmd()": pl.Series(nasty)})
    header, *rows = read_csv(path)
    assert header[0] == "name;'=cmd()"
    assert [row[0] for row in rows] == safe
    assert [row[0].value for row in sheet(path)[1:4]] == nasty[:3]


def test_xlsx_has_no_formulas_or_links_and_the_same_cells(tmp_path: Path) -> None:
    header, *rows = sheet(texts(tmp_path))
    assert [cell.value or "" for cell in header] == [*HEADER, *OURS]
    assert {cell.data_type for row in [header, *rows] for cell in row} <= {"s", "n", "b"}
    assert not any(cell.hyperlink for row in rows for cell in row)
    safe = [*("'" + cell for cell in NASTY), *FINE]
    got = [row[0].value or "" for row in rows]
    # openpyxl leaves the escape of a carriage return (ECMA-376 part 1, 22.9.2.19) as it is written.
    assert got == [cell[:32_767].replace("\r", "_x000D_") for cell in safe]


def test_jsonl_and_parquet_are_exact_and_every_name_is_distinct(tmp_path: Path) -> None:
    path = texts(tmp_path)
    cells = [*NASTY, *FINE]
    lines = [json.loads(line) for line in exported(path, ExportFormat.JSONL).decode().split("\n") if line]
    assert list(lines[0]) == ["=name", "name", "name_2", "column_4", *OURS]
    assert [(line["=name"], line["name"], line["name_2"]) for line in lines] == list(
        zip(cells, cells[::-1], cells, strict=True)
    )
    frame = pl.read_parquet(io.BytesIO(exported(path, ExportFormat.PARQUET)))
    assert frame.columns == list(lines[0])
    assert frame["=name"].to_list() == cells


def test_a_name_that_is_made_distinct_takes_no_other_columns_name(tmp_path: Path) -> None:
    names = ["mailsift_status", "mailsift_status_2", "a", "a#", "a_2", "", "column_6"]
    path = results(tmp_path, {name: pl.Series([str(n)]) for n, name in enumerate(names)})
    (row,) = map(json.loads, exported(path, ExportFormat.JSONL).splitlines())
    cells = {name: value for name, value in row.items() if name not in OURS}
    assert cells == {
        "mailsift_status_3": "0",
        "mailsift_status_2": "1",
        "a": "2",
        "a_3": "3",
        "a_2": "4",
        "column_6_2": "5",
        "column_6": "6",
    }
    assert choose_columns(path, ["mailsift_status_2", "a_2", "column_6"]) == ["c1", "c4", "c6"]


def test_a_customers_column_named_like_ours_steps_aside(tmp_path: Path) -> None:
    path = results(tmp_path, {"mailsift_status": pl.Series(["old"])})
    frame = pl.read_parquet(io.BytesIO(exported(path, ExportFormat.PARQUET)))
    assert frame.columns == ["mailsift_status_2", *OURS]
    assert frame.select("mailsift_status_2", "mailsift_status").rows() == [("old", "valid")]


@pytest.mark.parametrize("kind", [ExportFormat.CSV, ExportFormat.XLSX])
def test_of_a_list_that_was_checked_before_nobody_reads_an_old_verdict_for_the_new_one(
    tmp_path: Path, kind: ExportFormat
) -> None:
    path = results(tmp_path, {"mailsift_status": pl.Series(["old"]), "note": pl.Series(["mine"])})
    as_sheet = kind is ExportFormat.XLSX
    header, row = [[c.value for c in r] for r in sheet(path)] if as_sheet else read_csv(path)
    assert header == ["mailsift_status_2", "note", *OURS]
    assert dict(zip(header, row, strict=True))["mailsift_status"] == "valid"


TYPED: dict[str, tuple[pl.Series, str, Any, Any]] = {
    # name: cell, in CSV, in XLSX, in JSONL
    "int": (pl.Series([-5]), "-5", -5, -5),
    "big": (pl.Series([2**60]), str(2**60), str(2**60), 2**60),
    "float": (pl.Series([-1.5]), "-1.5", -1.5, -1.5),
    "nan": (pl.Series([float("nan")]), "NaN", "nan", None),
    "bool": (pl.Series([True]), "true", True, True),
    "null": (pl.Series([None]), "", None, None),
    "day": (pl.Series([date(2024, 2, 29)]), "2024-02-29", "2024-02-29", "2024-02-29"),
    "when": (
        pl.Series([datetime(2024, 2, 29, 1)]),  # noqa: DTZ001 - plain Parquet timestamps have no zone
        "2024-02-29T01:00:00.000000",
        "2024-02-29 01:00:00.000000",
        "2024-02-29 01:00:00",
    ),
    "time": (pl.Series([time(1, 2)]), "01:02:00.000000000", "01:02:00", "01:02:00"),
    "moment": (pl.Series([time(1, 2, 3, 4)]), "01:02:03.000004000", "01:02:03.000004", "01:02:03.000004"),
    "span": (pl.Series([timedelta(seconds=-3)]), "'-PT3S", "'-PT3S", "-PT3S"),
    "decimal": (pl.Series([Decimal("-1.10")]), "-1.10", "'-1.10", "-1.10"),
    "bytes": (pl.Series([b"\xff\x00"]), "/wA=", "/wA=", "/wA="),
    "list": (pl.Series([["=a", None]]), '["=a",null]', '["=a",null]', ["=a", None]),
    "struct": (pl.Series([{"v": {"}": 1}}]), '{"v":{"}":1}}', '{"v":{"}":1}}', {"v": {"}": 1}}),
    "no list": (pl.Series([None], dtype=pl.List(pl.Int8)), "", None, None),
    "category": (pl.Series(["=x"], dtype=pl.Categorical), "'=x", "'=x", "=x"),
}


@pytest.mark.parametrize("name", TYPED)
def test_every_type_a_list_can_have_comes_out_in_every_format(tmp_path: Path, name: str) -> None:
    series, in_csv, in_xlsx, in_jsonl = TYPED[name]
    path = results(tmp_path, {"x": series})
    assert read_csv(path)[1][0] == in_csv
    assert sheet(path)[1][0].value == in_xlsx
    assert json.loads(exported(path, ExportFormat.JSONL))["x"] == in_jsonl
    assert pl.read_parquet(io.BytesIO(exported(path, ExportFormat.PARQUET)))["x"].equals(
        series, null_equal=True
    )


@pytest.mark.parametrize("kind", ExportFormat)
def test_only_rows_of_the_wanted_statuses_are_written_to_a_path_too(
    tmp_path: Path, kind: ExportFormat
) -> None:
    path = results(tmp_path, {"n": pl.Series(range(8))}, ["valid", "risky", "invalid", "valid"] * 2)
    out = tmp_path / f"out.{kind}"
    count = export(path, out, format=format_of(out), statuses={Status.RISKY, Status.INVALID})
    readers: dict[ExportFormat, Any] = {
        ExportFormat.CSV: pl.read_csv,
        ExportFormat.JSONL: pl.read_ndjson,
        ExportFormat.PARQUET: pl.read_parquet,
        ExportFormat.XLSX: pl.read_excel,
    }
    assert readers[kind](out)["n"].to_list() == [1, 2, 5, 6]
    assert count == 4


@pytest.mark.parametrize("name", TYPED)
def test_every_type_a_list_can_have_is_shown_on_a_page(tmp_path: Path, name: str) -> None:
    series, _, in_xlsx, _ = TYPED[name]
    frame = pl.DataFrame({"x": series})
    text = frame.select(cell_text("x", series.dtype))["x"].item()
    assert isinstance(text, str)
    if series.dtype in {pl.Time, pl.Duration}:
        assert text == in_xlsx.removeprefix("'")
    listed = tmp_path / "list.parquet"
    pl.DataFrame({"email": ["ann@example.com"], "x": series}).write_parquet(listed)
    assert inspect_list(listed, tmp_path, IntakeLimits())["first"] == [["ann@example.com", text]]


@pytest.mark.parametrize("kind", ExportFormat)
def test_no_rows_are_a_header_or_nothing(tmp_path: Path, kind: ExportFormat) -> None:
    path = results(tmp_path, {"n": pl.Series([1])})
    out = io.BytesIO()
    assert export(path, out, format=kind, statuses=()) == 0
    assert out.getvalue() or kind is ExportFormat.JSONL


def test_a_sheet_with_too_many_rows_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "results.parquet"
    rows = pl.DataFrame({"c0": pl.repeat(1, 1_048_576, dtype=pl.UInt8, eager=True)})
    rows.write_parquet(path, metadata=names_metadata(["n"]))
    out = tmp_path / "out.xlsx"
    with pytest.raises(MailsiftError) as caught:
        export(path, out, format=ExportFormat.XLSX)
    assert caught.value.code == "too_many_rows_for_xlsx"
    assert "1,048,575 rows below its header; these are 1,048,576" in caught.value.message
    assert not out.exists()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.CSV", "csv"), ("a.b.xlsx", "xlsx"), ("a.ndjson", "jsonl"), ("a.parquet", "parquet")],
)
def test_the_extension_names_the_format(name: str, kind: str) -> None:
    assert format_of(Path(name)) is ExportFormat(kind)


@pytest.mark.parametrize("name", ["a", "a.txt", "csv"])
def test_an_unknown_extension_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(MailsiftError, match=r"\.csv, \.xlsx, \.jsonl, \.parquet") as caught:
        format_of(Path(name))
    assert caught.value.code == "unknown_export_format"


def test_jsonl_has_null_for_what_json_has_no_number_for(tmp_path: Path) -> None:
    path = results(tmp_path, {"n": pl.Series([1.5, float("nan"), float("inf"), -float("inf")])})
    lines = exported(path, ExportFormat.JSONL).decode().splitlines()
    assert [json.loads(line)["n"] for line in lines] == [1.5, None, None, None]
    assert str(exported(path, ExportFormat.CSV).decode().splitlines()[2]).startswith("NaN,")


def test_a_line_end_in_a_columns_name_ends_no_line(tmp_path: Path) -> None:
    rows = read_csv(results(tmp_path, {"a\rb": pl.Series(["x"]), "c\nd": pl.Series(["y"])}))
    assert [row[:2] for row in rows] == [["a'\rb".replace("'", ""), "c\nd"], ["x", "y"]]


def test_a_sheet_holds_whole_numbers_as_numbers_as_far_as_they_are_exact(tmp_path: Path) -> None:
    most = 2**53 - 1
    path = results(tmp_path, {"n": pl.Series([most, -most, most + 2, -most - 2])})
    assert [row[0].value for row in sheet(path)[1:]] == [most, -most, str(most + 2), str(-most - 2)]


def test_columns_are_chosen_by_their_names_and_ours_with_or_without_the_prefix(tmp_path: Path) -> None:
    path = results(tmp_path, {"email": pl.Series(["x"]), "email#2": pl.Series(["y"])})
    assert choose_columns(path, ["score", "email", "mailsift_score"]) == ["mailsift_score", "c0"]
    with pytest.raises(MailsiftError, match="unknown_column"):
        choose_columns(path, ["email", "phone"])


def test_a_list_that_was_checked_before_gives_the_verdicts_of_now(tmp_path: Path) -> None:
    cells = pl.Series(["x"])
    path = results(tmp_path, {"email": cells, "status": cells, "mailsift_status": cells, "email#2": cells})
    assert choose_columns(path, ["mailsift_status", "status"]) == ["mailsift_status", "c1"]
    assert choose_columns(path, ["mailsift_status_2", "email_2", "email"]) == ["c2", "c3", "c0"]


@pytest.mark.parametrize("cells", [["x", None, "", "y"], [1, None, 2]])
def test_a_row_whose_only_column_is_empty_is_no_blank_line_that_readers_skip(
    tmp_path: Path, cells: list[Any]
) -> None:
    path = results(tmp_path, {"x": pl.Series(cells)})
    rows = [[str(cell)] if cell else [""] for cell in cells]
    assert read_csv(path, columns=["c0"]) == [["x"], *rows]
    assert [row[0] for row in read_csv(path)[1:]] == [row[0] for row in rows]


def test_chosen_columns_come_alone_in_their_order_under_the_customers_names(tmp_path: Path) -> None:
    path = results(tmp_path, {"email": pl.Series(["x"]), "name": pl.Series(["y"])})
    everything = ["name", "email", *OURS]
    assert choose_columns(path, everything) == ["c1", "c0", *OURS]
    everything += [name.removeprefix("mailsift_") for name in OURS]
    assert choose_columns(path, everything) == ["c1", "c0", *OURS]
    for wanted, header in ((["mailsift_score", "c1"], ["mailsift_score", "name"]), (["c0"], ["email"])):
        assert read_csv(path, columns=wanted)[0] == header
        (line,) = exported(path, ExportFormat.JSONL, columns=wanted).decode().splitlines()
        assert list(json.loads(line)) == header
