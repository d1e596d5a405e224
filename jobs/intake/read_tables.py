"""Read XLSX workbooks and Parquet files."""

from __future__ import annotations

from pathlib import Path

import fastexcel
import polars as pl
from polars.datatypes import DataTypeClass

from jobs.columns import column_id
from jobs.intake.bounds import check_workbook, too_many_columns
from jobs.intake.plan import IntakeLimits
from jobs.intake.table import Table
from pipeline.errors import MailsiftError

_MIDNIGHT = r"^(\d{4}-\d\d-\d\d) 00:00:00$"


def read_xlsx(path: Path, workdir: Path, limits: IntakeLimits) -> Table:
    """Read the first sheet that has cells; numbers and dates become text, blank rows are skipped.

    Raises:
        MailsiftError: `bad_xlsx` among those of `take_in`.
    """
    check_workbook(path, limits)
    named = workdir / "book.xlsx"  # the reader goes by the name
    named.symlink_to(path.absolute())
    try:
        sheet = _first_sheet(fastexcel.read_excel(named))
    except fastexcel.FastExcelError:
        raise MailsiftError("bad_xlsx", "The workbook is damaged or of an unknown kind.") from None
    if sheet.width > limits.columns:
        raise too_many_columns(limits.columns)
    cells = pl.all().str.replace(_MIDNIGHT, "$1")  # a date without a time
    frame = sheet.rename({name: column_id(index) for index, name in enumerate(sheet.columns)})
    filled = frame.lazy().filter(~pl.all_horizontal(pl.all().is_null())).select(cells)
    return Table(filled, None, "xlsx")


def _first_sheet(book: fastexcel.ExcelReader) -> pl.DataFrame:
    for name in book.sheet_names:
        sheet: pl.DataFrame = book.load_sheet(name, header_row=None, dtypes="string").to_polars()
        if sheet.height:
            return sheet
    raise MailsiftError("empty_file", "The workbook has no cells.")


def read_parquet(path: Path, limits: IntakeLimits) -> Table:
    """Read a Parquet file; columns keep their types.

    Raises:
        MailsiftError: `bad_parquet` among those of `take_in`.
    """
    try:
        frame = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        schema = frame.collect_schema()
    except (pl.exceptions.PolarsError, OSError, ValueError):
        raise MailsiftError("bad_parquet", "The Parquet file is damaged or of an unknown kind.") from None
    if len(schema) > limits.columns:
        raise too_many_columns(limits.columns)
    for place, dtype in enumerate(schema.dtypes(), start=1):
        if _cannot_travel(dtype):
            text = f"Column {place} is of a type that no other format can carry."
            raise MailsiftError("bad_parquet", text)
    ids = {name: column_id(index) for index, name in enumerate(schema)}
    return Table(frame.rename(ids), tuple(schema), "parquet")


def _cannot_travel(dtype: pl.DataType | DataTypeClass, *, inside: bool = False) -> bool:
    """Say whether a type is opaque, or has bytes inside other values, which JSON text cannot show."""
    if isinstance(dtype, pl.List | pl.Array):
        return _cannot_travel(dtype.inner, inside=True)
    if isinstance(dtype, pl.Struct):
        return any(_cannot_travel(inner, inside=True) for inner in dtype.to_schema().values())
    return dtype in {pl.Object, pl.Unknown} or (inside and dtype == pl.Binary)
