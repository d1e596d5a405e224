"""Write an XLSX workbook of one sheet in a stream: cells as text, numbers and booleans, nothing else.

Office Open XML (ECMA-376 part 1): polars builds the sheet's XML column by column, with the texts inside the
cells, so that memory does not grow with the rows and no text is ever taken for a formula or a link.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from html import escape
from typing import IO, Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import polars as pl

MOST_ROWS: Final = 1_048_576
"""Rows of a sheet, its header among them."""

MOST_CHARACTERS: Final = 32_767
"""UTF-16 code units a cell holds; what is longer is cut off."""

_BATCH: Final = 8_192  # rows; bounds the memory
_BATCH_BYTES: Final = 16 << 20  # of them, which are in memory some six times over
_EXACT: Final = 2**53  # spreadsheets keep numbers as binary64
_ZIP64_BYTES: Final = 2**31 - 1  # what zipfile writes without ZIP64, which not everybody reads
_CELL_BYTES: Final = 60  # of XML around a text, at most
_ESCAPED_BYTES: Final = 7  # octets that one octet of text may become

_TEXT, _KEPT, _END = (
    '<c t="inlineStr"><is><t>',
    '<c t="inlineStr"><is><t xml:space="preserve">',
    "</t></is></c>",
)
_MARKS: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_CAREFUL: Final = r"[\x00-\x1F\x{FFFE}\x{FFFF}]|_x|^\s|\s$|\s\s"
"""What cannot stand in the XML as it is, even without marks; besides these, only texts that are too long."""
_NO_XML: Final = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")

_ROOT: Final = "http://schemas.openxmlformats.org/"
_TYPE: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml."
_HEAD: Final = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_PARTS: Final = {
    "[Content_Types].xml": f'<Types xmlns="{_ROOT}package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}sheet.main+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_TYPE}worksheet+xml"/>'
    f'<Override PartName="/xl/styles.xml" ContentType="{_TYPE}styles+xml"/></Types>',
    "_rels/.rels": f'<Relationships xmlns="{_ROOT}package/2006/relationships"><Relationship Id="rId1" '
    f'Type="{_ROOT}officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/>'
    "</Relationships>",
    "xl/workbook.xml": f'<workbook xmlns="{_ROOT}spreadsheetml/2006/main" '
    f'xmlns:r="{_ROOT}officeDocument/2006/relationships"><sheets>'
    '<sheet name="Results" sheetId="1" r:id="rId1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_ROOT}package/2006/relationships">'
    f'<Relationship Id="rId1" Type="{_ROOT}officeDocument/2006/relationships/worksheet" '
    'Target="worksheets/sheet1.xml"/>'
    f'<Relationship Id="rId2" Type="{_ROOT}officeDocument/2006/relationships/styles" Target="styles.xml"/>'
    "</Relationships>",
    "xl/styles.xml": f'<styleSheet xmlns="{_ROOT}spreadsheetml/2006/main">'
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
        frame: texts, booleans and numbers (no decimals), at most MOST_ROWS - 1 rows. Numbers that a
            spreadsheet would not keep exactly, infinite ones and what is no number become text.
        header: the titles of its columns.
        out: where the workbook goes; need not be seekable.
    """
    with ZipFile(out, "w", ZIP_DEFLATED, compresslevel=zlib.Z_BEST_SPEED) as book:
        for name, part in _PARTS.items():
            book.writestr(_entry(name), _HEAD + part)
        big = _most_bytes(frame) > _ZIP64_BYTES
        with book.open(_entry("xl/worksheets/sheet1.xml"), "w", force_zip64=big) as sheet:
            titles = "".join(f"{_KEPT}{_escaped(title)}{_END}" for title in header)
            sheet.write(f'{_HEAD}<worksheet xmlns="{_ROOT}spreadsheetml/2006/main"><sheetData>'.encode())
            sheet.write(f"<row>{titles}</row>".encode())
            frame.sink_batches(
                lambda batch: _write_batch(batch, sheet.write),
                chunk_size=_BATCH,
                maintain_order=True,
                engine="streaming",
            )
            sheet.write(b"</sheetData></worksheet>")


def _entry(name: str) -> ZipInfo:
    """Return an entry that says nothing about when and where it was made."""
    entry = ZipInfo(name)
    entry.compress_type = ZIP_DEFLATED
    return entry


def _most_bytes(frame: pl.LazyFrame) -> int:
    """Return a bound for the size of the sheet's XML."""
    schema = frame.collect_schema()
    texts = [pl.col(name).str.len_bytes().sum() for name, dtype in schema.items() if dtype == pl.String]
    rows, *sizes = frame.select(pl.len().alias("rows"), *texts).collect(engine="streaming").row(0)
    return int(rows) * len(schema) * _CELL_BYTES + _ESCAPED_BYTES * int(sum(filter(None, sizes)))


def _write_batch(batch: pl.DataFrame, write: Callable[[bytes], object]) -> None:
    """Write a batch as rows, fewer at a time where they are long."""
    pieces = int(batch.estimated_size()) // _BATCH_BYTES + 1
    for rows in batch.iter_slices(batch.height // pieces + 1):
        _write_rows(rows, write)


def _write_rows(batch: pl.DataFrame, write: Callable[[bytes], object]) -> None:
    """Write some rows together; what stands between two cells is put there once."""
    parts: list[pl.Expr] = []
    between = "<row>"
    for cells in (_cells(column) for column in batch):
        parts += [pl.lit(between + cells.before), pl.lit(cells.texts)]
        between = cells.behind
    rows = batch.select(pl.concat_str(*parts, pl.lit(between + "</row>")).str.join("")).item()
    write(rows.encode())


class _Cells(NamedTuple):
    """A column's cells: their texts, and what stands before and behind each of them."""

    texts: pl.Series
    before: str = ""
    behind: str = ""


def _cells(column: pl.Series) -> _Cells:
    if column.dtype == pl.Boolean:
        return _texts_or_blanks(column.cast(pl.UInt8).cast(pl.String), '<c t="b"><v>', "</v></c>")
    if column.dtype != pl.String:
        return _numbers(column)
    careful = column.str.contains(_CAREFUL) | (column.str.len_bytes() > MOST_CHARACTERS)
    if careful.any():
        return _careful_texts(column, careful.fill_null(value=False))
    return _texts_or_blanks(_unmarked(column), _TEXT, _END)


def _numbers(column: pl.Series) -> _Cells:
    """Return numbers, as texts where a spreadsheet would change them."""
    exact = column.cast(pl.Float64).abs() < _EXACT  # not so for what is no number
    texts = _complete_cells(_texts_or_blanks(column.cast(pl.String).str.to_lowercase(), _TEXT, _END))
    numbers = _complete_cells(_texts_or_blanks(column.cast(pl.String), "<c><v>", "</v></c>"))
    return _Cells(numbers.zip_with(exact.fill_null(value=True), texts))


def _careful_texts(column: pl.Series, careful: pl.Series) -> _Cells:
    """Return texts some of which cannot stand in XML as they are."""
    cells = _complete_cells(_texts_or_blanks(_unmarked(column), _TEXT, _END))
    written = [f"{_KEPT}{_escaped(text)}{_END}" for text in column.filter(careful)]
    return _Cells(cells.scatter(careful.arg_true(), written))


def _unmarked(texts: pl.Series) -> pl.Series:
    """Return texts with what XML takes for its own marks written as XML wants it."""
    if not texts.str.contains("[&<>]").any():
        return texts
    return texts.str.replace_many(_MARKS)


def _texts_or_blanks(texts: pl.Series, before: str, behind: str) -> _Cells:
    """Return texts as cells; where there are none, the cell is blank."""
    blank = texts.is_null() | (texts == "")
    if not blank.any():
        return _Cells(texts, before, behind)
    filled = pl.concat_str(pl.lit(before), pl.lit(texts), pl.lit(behind))
    return _Cells(pl.select(pl.when(pl.lit(blank)).then(pl.lit("<c/>")).otherwise(filled)).to_series())


def _complete_cells(cells: _Cells) -> pl.Series:
    """Return the cells with what stands around them."""
    if not cells.before:
        return cells.texts
    whole = pl.concat_str(pl.lit(cells.before), pl.lit(cells.texts), pl.lit(cells.behind))
    return pl.select(whole).to_series()


def _escaped(text: str) -> str:
    """Return a text as XML, what XML cannot hold as `_x001F_` (ST_Xstring), cut off where a cell ends."""
    short = text.encode("utf-16-le")[: 2 * MOST_CHARACTERS].decode("utf-16-le", "ignore")
    return escape(_NO_XML.sub(lambda found: f"_x{ord(found[0]):04X}_", short), quote=False)
