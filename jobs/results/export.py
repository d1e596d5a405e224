"""Hand results out, all or some: CSV and XLSX that are safe to open, JSONL and Parquet that are exact.

A workbook (Office Open XML, ECMA-376 part 1) has one sheet of texts, numbers and booleans and is written in a
stream: polars builds the sheet's XML column by column, with the texts inside the cells, so that memory does
not grow with the rows and no text is ever taken for a formula or a link.
"""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from pathlib import Path
from typing import IO, Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import polars as pl

from mailsift.jobs.columns import (
    CLOCK_TEXT,
    SPAN_TEXT,
    VERDICT_PREFIX,
    distinct_names,
    json_text,
    read_names,
)
from mailsift.jobs.results.files import tiered
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.tiers import TierPolicy
from mailsift.pipeline.verdict import Status


class ExportFormat(StrEnum):
    """What results can be had as; the value is the file name's extension."""

    CSV = "csv"
    XLSX = "xlsx"
    JSONL = "jsonl"
    PARQUET = "parquet"


_EXTENSIONS = {**{f".{kind}": kind for kind in ExportFormat}, ".ndjson": ExportFormat.JSONL}


def format_of(path: Path) -> ExportFormat:
    """Return the format a file's extension asks for.

    Raises:
        MailsiftError: `unknown_export_format`.
    """
    try:
        return _EXTENSIONS[path.suffix.lower()]
    except KeyError:
        known = ", ".join(_EXTENSIONS)
        raise MailsiftError("unknown_export_format", f"The output file must end in {known}.") from None


@dataclass(frozen=True, slots=True)
class Selection:
    """Results as a file, and which of its rows are wanted: arguments of `export`.

    Attributes:
        results: the file; it lives as long as whoever gave it says.
        statuses: only rows with one of these; all, when empty.
        row_numbers: only the rows with these numbers, from 0; all, when None.
        policy: what their tiers are read by.
    """

    results: Path
    statuses: frozenset[Status]
    row_numbers: pl.Series | None = None
    policy: TierPolicy = field(default_factory=TierPolicy)


_PLACE = "place"  # no column of a results file is called so (mailsift.jobs.columns)


def export(  # noqa: PLR0913 - what a file of results may be
    results: Path,
    out: IO[bytes] | Path,
    *,
    format: ExportFormat,  # noqa: A002 - the word for it
    statuses: Collection[Status] | None = None,
    row_numbers: pl.Series | None = None,
    columns: Sequence[str] | None = None,
    policy: TierPolicy | None = None,
) -> int:
    """Write results with the customer's column names, in the customer's row order.

    In CSV and XLSX a text cell or column name that a spreadsheet would take for a formula gets an apostrophe
    in front (in CSV also what follows a semicolon, tab or line end within it), and names may repeat as they
    did in the customer's file; only where one is ours, too, as in a list that was checked before, the
    customer's is made distinct. A sheet's cell holds 32,767 characters; what is longer is cut off. JSONL and
    Parquet hold every value unchanged, but for infinite numbers and what is no number, which JSON cannot hold
    (RFC 8259 section 6): in JSONL they are null. There every repeated or blank name is made distinct
    (mailsift.jobs.columns.distinct_names). Blocks; memory does not grow with the rows.

    Args:
        results: a results file (mailsift.jobs.results.files).
        out: the file to write; an open one is left open.
        format: what to write.
        statuses: keep only rows with one of these; None keeps all.
        row_numbers: keep only the rows of the file with these numbers, from 0; None keeps all.
        columns: keep only these, in this order, as choose_columns gives them; None keeps all.
        policy: what the columns `mailsift_tier` and `mailsift_tier_reason` are read by; None leaves them out.

    Returns:
        Rows written.

    Raises:
        MailsiftError: `too_many_rows_for_xlsx`.
    """
    frame = tiered(results, policy)
    if row_numbers is not None:  # before any other row goes: they number the rows of the file
        frame = frame.with_row_index(_PLACE)
        frame = frame.filter(pl.col(_PLACE).is_in(row_numbers.implode())).drop(_PLACE)
    if statuses is not None:
        frame = frame.filter(pl.col(f"{VERDICT_PREFIX}status").is_in([status.value for status in statuses]))
    rows = int(frame.select(pl.len()).collect(engine="streaming").item())
    check_fits(format, rows)
    ids = read_names(results)
    if columns is not None:
        frame, ids = frame.select(columns), {id_: ids[id_] for id_ in columns if id_ in ids}
    if isinstance(out, Path):
        with out.open("wb") as file:
            _WRITERS[format](frame, ids, file)
    else:
        _WRITERS[format](frame, ids, out)
    return rows


def check_fits(format: ExportFormat, rows: int) -> None:  # noqa: A002 - the word for it
    """Refuse more rows than a format can hold.

    Raises:
        MailsiftError: `too_many_rows_for_xlsx`.
    """
    if format is ExportFormat.XLSX and rows >= MOST_SHEET_ROWS:
        most = MOST_SHEET_ROWS - 1
        text = f"A sheet holds {most:,} rows below its header; these are {rows:,}. CSV has no limit."
        raise MailsiftError("too_many_rows_for_xlsx", text)


def choose_columns(results: Path, wanted: Sequence[str], policy: TierPolicy | None = None) -> list[str]:
    """Return the ids of the columns that are meant: the customer's names, or ours with or without the prefix.

    With it ours is meant also where the list has a column of that name, as one that was checked before has:
    its own is called as in JSONL then (mailsift.jobs.columns.distinct_names).

    Raises:
        MailsiftError: `unknown_column`.
    """
    ids = read_names(results)
    schema = tiered(results, policy).collect_schema()
    ours = [name for name in schema if name not in ids]
    known = {name.removeprefix(VERDICT_PREFIX): name for name in ours}
    known |= dict(zip(distinct_names(list(ids.values()), ours), ids, strict=True))
    known |= {name: id_ for id_, name in reversed(ids.items())}  # of equal names the first is meant
    known |= {name: name for name in ours}
    if not set(wanted) <= set(known):
        raise MailsiftError("unknown_column", "The results have no column with one of these names.")
    return list(dict.fromkeys(known[name] for name in wanted))


def _write_csv(frame: pl.LazyFrame, names: Mapping[str, str], out: IO[bytes]) -> None:
    schema = frame.collect_schema()
    header = io.StringIO()
    titles = (re.sub(_INNER, r"\1'\2", name) for name in _safe_header(schema, names))
    csv.writer(header, lineterminator="\r\n").writerow(titles)  # it quotes what ends its own lines
    out.write(header.getvalue().removesuffix("\r\n").encode() + b"\n")
    nothing = '""' if len(schema) == 1 else ""  # a blank line is no row: readers skip it
    _plain_cells(frame, sheet=False).sink_csv(
        out, include_header=False, null_value=nothing, engine="streaming"
    )


def _write_jsonl(frame: pl.LazyFrame, names: Mapping[str, str], out: IO[bytes]) -> None:
    schema = frame.collect_schema()
    base64 = [plain_values(name, dtype) for name, dtype in schema.items() if dtype == pl.Binary]
    _renamed(frame.with_columns(base64), names).sink_ndjson(out, engine="streaming")


def _write_parquet(frame: pl.LazyFrame, names: Mapping[str, str], out: IO[bytes]) -> None:
    _renamed(frame, names).sink_parquet(out, engine="streaming")


def _write_xlsx(frame: pl.LazyFrame, names: Mapping[str, str], out: IO[bytes]) -> None:
    write_sheet(_plain_cells(frame, sheet=True), _safe_header(frame.collect_schema(), names), out)


_WRITERS: Mapping[ExportFormat, Callable[[pl.LazyFrame, Mapping[str, str], IO[bytes]], None]] = {
    ExportFormat.CSV: _write_csv,
    ExportFormat.XLSX: _write_xlsx,
    ExportFormat.JSONL: _write_jsonl,
    ExportFormat.PARQUET: _write_parquet,
}


def _safe_header(schema: pl.Schema, names: Mapping[str, str]) -> list[str]:
    given = [names.get(id_, id_) for id_ in schema]
    like_ours = [id_ for id_ in names if names[id_] in schema.keys() - names.keys()]
    beside = distinct_names([names[id_] for id_ in like_ours], given)
    titles = {**names, **dict(zip(like_ours, beside, strict=True))}
    return [
        "'" + title if re.match(_FORMULA, title) else title
        for title in (titles.get(id_, id_) for id_ in schema)
    ]


def _renamed(frame: pl.LazyFrame, names: Mapping[str, str]) -> pl.LazyFrame:
    """Give the columns the customer's names, each made distinct from ours and each other."""
    ours = [name for name in frame.collect_schema() if name not in names]
    return frame.rename(dict(zip(names, distinct_names(list(names.values()), ours), strict=True)))


def plain_values(name: str, dtype: pl.DataType, *, sheet: bool = False) -> pl.Expr:
    """Turn values that neither CSV nor a sheet can hold into text: JSON for nested ones, base64 for bytes.

    Args:
        name: of the column.
        dtype: its type.
        sheet: also what CSV has a form for, but a sheet has none: dates, times and decimals.
    """
    column = pl.col(name)
    if dtype.is_nested():
        return json_text(name)
    if dtype == pl.Binary:
        return column.bin.encode("base64")
    if dtype == pl.Duration:
        return column.dt.to_string(SPAN_TEXT)
    if sheet and dtype == pl.Time:
        return column.dt.to_string(CLOCK_TEXT)
    if isinstance(dtype, pl.Categorical | pl.Enum) or (sheet and (dtype.is_temporal() or dtype.is_decimal())):
        return column.cast(pl.String)
    return column


def _plain_cells(frame: pl.LazyFrame, *, sheet: bool) -> pl.LazyFrame:
    """Make every value fit for CSV or a sheet; no text is left that a spreadsheet takes for a formula."""
    plain = frame.select(
        plain_values(name, dtype, sheet=sheet) for name, dtype in frame.collect_schema().items()
    )
    schema = plain.collect_schema()
    texts = [name for name, dtype in schema.items() if dtype == pl.String and name not in _WORDS_OF_OURS]
    pattern, text = _FORMULA, pl.col("text")
    if not sheet:
        pattern, text = _FORMULA_OR_INNER, text.str.replace_all(_INNER, _DEFUSED)
    dangerous = pl.col(texts).str.contains(pattern).fill_null(value=False)

    def defuse(cells: pl.DataFrame) -> pl.DataFrame:
        return cells.with_columns(
            _rewritten(cells[where.name], where, text) for where in cells.select(dangerous) if where.any()
        )

    return plain.map_batches(defuse, streamable=True) if texts else plain


_WORDS_OF_OURS: Final = frozenset(
    VERDICT_PREFIX + name for name in ("status", "result", "reason", "tier", "tier_reason")
)
"""Columns of the results that hold words of ours alone, none of them a formula: to look for one there took a
fifth of a CSV's time."""

# A spreadsheet takes a cell that starts with one of these as a formula, or hides how it starts (OWASP, "CSV
# Injection"); `=1+1@example.com` is a valid address. What reads a file may take U+FEFF and blanks away first;
# LibreOffice takes every control character for a blank.
_MARK = "\ufeff"
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", _MARK)
_BLANKS = r"[\s\x00-\x20]*"
_FORMULA = f"^{_BLANKS}[{''.join(map(re.escape, _FORMULA_STARTS))}]"
# Where semicolons or tabs part the cells, as they do for Excel in much of Europe, our commas and quotes mean
# nothing: there a cell begins inside a text, too.
_INNER = rf'([;\t\r\n]"*{_BLANKS})([=+\-@＝＋－＠{_MARK}])'
_FORMULA_OR_INNER = f"{_FORMULA}|{_INNER}"
_DEFUSED = "${1}'${2}"


def _rewritten(texts: pl.Series, where: pl.Series, text: pl.Expr) -> pl.Series:
    """Write some texts anew, as `text` has them; as they are few, this costs less than to look for them."""
    changed = texts.filter(where).alias("text").to_frame().select(_with_apostrophe(text)).to_series()
    return texts.scatter(where.arg_true(), changed)


def _with_apostrophe(text: pl.Expr) -> pl.Expr:
    """Put an apostrophe before what has become of `text` where it begins like a formula."""
    starts = pl.col("text").str.contains(_FORMULA)
    return pl.when(starts).then(pl.concat_str(pl.lit("'"), text)).otherwise(text)


def csv_lines(rows: Iterable[Sequence[object]]) -> bytes:
    """Return rows as they stand in a CSV file; texts of strangers are to be `defused`."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()


def defused(text: str) -> str:
    """Return a cell of a CSV file that no spreadsheet takes for a formula."""
    inner = re.sub(_INNER, r"\1'\2", text)
    return f"'{inner}" if re.match(_FORMULA, inner) else inner


MOST_SHEET_ROWS: Final = 1_048_576
"""Rows of a sheet, its header among them."""

_MOST_CELL_CHARACTERS: Final = 32_767
"""UTF-16 code units a cell holds; what is longer is cut off."""

_SHEET_BATCH: Final = 8_192  # rows; bounds the memory
_ZIP64_BYTES: Final = 2**31 - 1  # what zipfile writes without ZIP64, which not everybody reads

_TEXT_CELL, _KEPT_CELL, _CELL_END = (
    '<c t="inlineStr"><is><t>',
    '<c t="inlineStr"><is><t xml:space="preserve">',
    "</t></is></c>",
)

_SCHEMAS: Final = "http://schemas.openxmlformats.org/"
_SHEET_TYPE: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml."
_XML_HEAD: Final = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_BOOK_PARTS: Final = {
    "[Content_Types].xml": f'<Types xmlns="{_SCHEMAS}package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_SHEET_TYPE}sheet.main+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_SHEET_TYPE}worksheet+xml"/>'
    f'<Override PartName="/xl/styles.xml" ContentType="{_SHEET_TYPE}styles+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{_SCHEMAS}package/2006/relationships"><Relationship Id="rId1" '
    f'Type="{_SCHEMAS}officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/>'
    "</Relationships>",
    "xl/workbook.xml": f'<workbook xmlns="{_SCHEMAS}spreadsheetml/2006/main" '
    f'xmlns:r="{_SCHEMAS}officeDocument/2006/relationships"><sheets>'
    '<sheet name="Results" sheetId="1" r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_SCHEMAS}package/2006/relationships">'
    f'<Relationship Id="rId1" Type="{_SCHEMAS}officeDocument/2006/relationships/worksheet" '
    'Target="worksheets/sheet1.xml"/>'
    f'<Relationship Id="rId2" Type="{_SCHEMAS}officeDocument/2006/relationships/styles" Target="styles.xml"/>'
    "</Relationships>",
    "xl/styles.xml": f'<styleSheet xmlns="{_SCHEMAS}spreadsheetml/2006/main">'
    '<fonts count="1"><font><sz val="11"/><name val="Calibri"/></font></fonts>'
    '<fills count="2"><fill><patternFill patternType="none"/></fill>'
    '<fill><patternFill patternType="gray125"/></fill></fills>'
    '<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>'
    '<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>'
    '<cellXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/></cellXfs>'
    '<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>'
    "</styleSheet>",
}


def write_sheet(frame: pl.LazyFrame, header: Sequence[str], out: IO[bytes]) -> None:
    """Write a workbook whose one sheet, "Results", has a header and the rows of a frame below it.

    Args:
        frame: texts, booleans and numbers (no decimals), at most MOST_SHEET_ROWS - 1 rows. Numbers that a
            spreadsheet would not keep exactly, infinite ones and what is no number become text.
        header: the titles of its columns.
        out: where the workbook goes; need not be seekable.
    """
    with ZipFile(out, "w", ZIP_DEFLATED, compresslevel=zlib.Z_BEST_SPEED) as book:
        for name, part in _BOOK_PARTS.items():
            book.writestr(_book_entry(name), _XML_HEAD + part)
        big = _most_bytes(frame) > _ZIP64_BYTES
        with book.open(_book_entry("xl/worksheets/sheet1.xml"), "w", force_zip64=big) as sheet:
            titles = "".join(f"{_KEPT_CELL}{_xml_text(title)}{_CELL_END}" for title in header)
            sheet.write(
                f'{_XML_HEAD}<worksheet xmlns="{_SCHEMAS}spreadsheetml/2006/main"><sheetData>'.encode()
            )
            sheet.write(f"<row>{titles}</row>".encode())
            frame.sink_batches(
                lambda batch: _write_batch(batch, sheet.write),
                chunk_size=_SHEET_BATCH,
                maintain_order=True,
                engine="streaming",
            )
            sheet.write(b"</sheetData></worksheet>")


def _book_entry(name: str) -> ZipInfo:
    """Return an entry that says nothing about when and where it was made."""
    entry = ZipInfo(name)
    entry.compress_type = ZIP_DEFLATED
    return entry


_CELL_BYTES: Final = 60  # of XML around a text, at most
_ESCAPED_BYTES: Final = 7  # octets that one octet of text may become


def _most_bytes(frame: pl.LazyFrame) -> int:
    """Return a bound for the size of the sheet's XML."""
    schema = frame.collect_schema()
    texts = [pl.col(name).str.len_bytes().sum() for name, dtype in schema.items() if dtype == pl.String]
    rows, *sizes = frame.select(pl.len().alias("rows"), *texts).collect(engine="streaming").row(0)
    return int(rows) * len(schema) * _CELL_BYTES + _ESCAPED_BYTES * int(sum(filter(None, sizes)))


_SHEET_BATCH_BYTES: Final = 16 << 20  # of them, which are in memory some six times over


def _write_batch(batch: pl.DataFrame, write: Callable[[bytes], object]) -> None:
    """Write a batch as rows, fewer at a time where they are long."""
    pieces = int(batch.estimated_size()) // _SHEET_BATCH_BYTES + 1
    for rows in batch.iter_slices(batch.height // pieces + 1):
        _write_rows(rows, write)


def _write_rows(batch: pl.DataFrame, write: Callable[[bytes], object]) -> None:
    """Write some rows together; what stands between two cells is put there once."""
    parts: list[pl.Expr] = []
    between = "<row>"
    for cells in (_sheet_cells(column) for column in batch):
        parts += [pl.lit(between + cells.before), pl.lit(cells.texts)]
        between = cells.behind
    rows = batch.select(pl.concat_str(*parts, pl.lit(between + "</row>")).str.join("")).item()
    write(rows.encode())


class _SheetCells(NamedTuple):
    """A column's cells: their texts, and what stands before and behind each of them."""

    texts: pl.Series
    before: str = ""
    behind: str = ""


_CAREFUL: Final = r"[\x00-\x1F\x{FFFE}\x{FFFF}]|_x|^\s|\s$|\s\s"
"""What cannot stand in the XML as it is, even without marks; besides these, only texts that are too long."""


def _sheet_cells(column: pl.Series) -> _SheetCells:
    if column.dtype == pl.Boolean:
        return _texts_or_blanks(column.cast(pl.UInt8).cast(pl.String), '<c t="b"><v>', "</v></c>")
    if column.dtype != pl.String:
        return _number_cells(column)
    careful = column.str.contains(_CAREFUL) | (column.str.len_bytes() > _MOST_CELL_CHARACTERS)
    if careful.any():
        return _careful_cells(column, careful.fill_null(value=False))
    return _texts_or_blanks(_unmarked(column), _TEXT_CELL, _CELL_END)


_EXACT: Final = 2**53  # spreadsheets keep numbers as binary64


def _number_cells(column: pl.Series) -> _SheetCells:
    """Return numbers, as texts where a spreadsheet would change them."""
    exact = column.cast(pl.Float64).abs() < _EXACT  # not so for what is no number
    texts = _complete_cells(
        _texts_or_blanks(column.cast(pl.String).str.to_lowercase(), _TEXT_CELL, _CELL_END)
    )
    numbers = _complete_cells(_texts_or_blanks(column.cast(pl.String), "<c><v>", "</v></c>"))
    return _SheetCells(numbers.zip_with(exact.fill_null(value=True), texts))


def _careful_cells(column: pl.Series, careful: pl.Series) -> _SheetCells:
    """Return texts some of which cannot stand in XML as they are."""
    cells = _complete_cells(_texts_or_blanks(_unmarked(column), _TEXT_CELL, _CELL_END))
    written = [f"{_KEPT_CELL}{_xml_text(text)}{_CELL_END}" for text in column.filter(careful)]
    return _SheetCells(cells.scatter(careful.arg_true(), written))


_XML_MARKS: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def _unmarked(texts: pl.Series) -> pl.Series:
    """Return texts with what XML takes for its own marks written as XML wants it."""
    if not texts.str.contains("[&<>]").any():
        return texts
    return texts.str.replace_many(_XML_MARKS)


def _texts_or_blanks(texts: pl.Series, before: str, behind: str) -> _SheetCells:
    """Return texts as cells; where there are none, the cell is blank."""
    blank = texts.is_null() | (texts == "")
    if not blank.any():
        return _SheetCells(texts, before, behind)
    filled = pl.concat_str(pl.lit(before), pl.lit(texts), pl.lit(behind))
    return _SheetCells(pl.select(pl.when(pl.lit(blank)).then(pl.lit("<c/>")).otherwise(filled)).to_series())


def _complete_cells(cells: _SheetCells) -> pl.Series:
    """Return the cells with what stands around them."""
    if not cells.before:
        return cells.texts
    whole = pl.concat_str(pl.lit(cells.before), pl.lit(cells.texts), pl.lit(cells.behind))
    return pl.select(whole).to_series()


_NO_XML: Final = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")


def _xml_text(text: str) -> str:
    """Return a text as XML, what XML cannot hold as `_x001F_` (ST_Xstring), cut off where a cell ends."""
    short = text.encode("utf-16-le")[: 2 * _MOST_CELL_CHARACTERS].decode("utf-16-le", "ignore")
    return escape(_NO_XML.sub(lambda found: f"_x{ord(found[0]):04X}_", short), quote=False)
