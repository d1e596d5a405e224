"""Read CSV and its kin: polars where its reading is beyond doubt, Python's csv module for the rest."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from operator import length_hint
from pathlib import Path
from typing import TextIO

import polars as pl

from mailsift.jobs.columns import column_id
from mailsift.jobs.intake.models import IntakeLimits
from mailsift.jobs.intake.read_print import print_as_csv
from mailsift.jobs.intake.sniff import (
    AS_WINDOWS,
    HEAD_BYTES,
    ISO_2022_JP,
    Dialect,
    TextScan,
    addresses_in_line,
    dialect_of,
    holds_addresses,
    is_bare_address,
    is_mostly_utf8,
    named_place,
    old_encodings,
    said_delimiter,
    too_many_columns,
    too_many_rows,
)
from mailsift.jobs.intake.table import SourceTable, header_place, is_address_name
from mailsift.pipeline.errors import MailsiftError

_BLOCK = 1 << 20
_SAMPLE_LINES = 200
_LINE_END = re.compile(r"\r\n?|\n")
_NO_DELIMITER = "\0"  # the scan made sure that no line has one
_ESCAPED_QUOTE = re.compile(r'(?<!\\)((?:\\\\)*)\\"')
_QUOTED_LINE = r'^"((?:[^"]|"")*)"$'
_WRAPPED = re.compile(r'"([^"]*(?:""[^"]*)*)"([,;|\t ]*)([\r\n]*)')
_IN_APOSTROPHES = re.compile(
    r"(?:^|(?<=[,;|\t ]))'(?:[^\s@',;|]|'')+@[^\s@',;|][^\s@',;|.]*\.[^\s@',;|]+'(?=[,;|\t ]|\r?$)",
    re.MULTILINE,
)
_GOES_ON = re.compile(r" +\S")
_COUNTED = re.compile(rb"(?<=\n)\(?([0-9]{1,9}) rows?\b[^\r\n@]*\s*\Z", re.IGNORECASE)
_END_BYTES = 200
_SWAPPED = str.maketrans("'\"", "\"'")
_WRAPPED_LINE = r'^"(?:[^"]|"")*[,;|\t](?:[^"]|"")*"[,;|\t ]*$'


def read_text(path: Path, encoding: str, workdir: Path, limits: IntakeLimits) -> SourceTable:
    """Read a text file of one record a line; quoted cells may span lines, blank lines are skipped.

    Of one that is a line of addresses, as mail programs have them, each is a record.

    Args:
        path: the file, which starts as text does.
        encoding: as `sniff.encoding_of` found it.
        workdir: folder for a rewritten copy, where one is needed.
        limits: bounds for lines, columns and rows.

    Raises:
        MailsiftError: see `take_in`.
    """
    path, scan, encoding = _as_utf8(path, encoding, workdir, limits)
    path = _without_count(path, workdir)
    named, length = said_delimiter(_head(path))
    if length:
        path = _without_prefix(path, length, workdir)
    if scan.escapes:
        path = _with_doubled_quotes(path, named, workdir, limits)
    if scan.quotes and (scan.lone_returns or _has_line(path, pl.col("line").str.contains(_WRAPPED_LINE))):
        path = _without_outer_quotes(path, named, workdir, limits)
    head = _head(path)
    if not scan.quotes and _stand_in_apostrophes(head):
        with suppress(MailsiftError):  # some are no quotes
            return _quoted_by_apostrophes(path, encoding, workdir, limits)
    is_whole = len(head) < HEAD_BYTES
    if is_whole and (cells := addresses_in_line(head)):
        return SourceTable(pl.LazyFrame({column_id(0): cells}), None, "txt", encoding)
    dialect = _dialect(head, named)
    printed, has_addresses = workdir / "printed.csv", holds_addresses(head, dialect)
    if not named and print_as_csv(path, _LINE_END.split(head), printed, drawn=has_addresses):
        return replace(read_text(printed, "utf-8", workdir, limits), encoding=encoding)
    if dialect.columns > limits.columns:
        raise too_many_columns(limits.columns)
    frame = _frame(path, scan, dialect, workdir, limits)
    return SourceTable(frame, None, "csv" if dialect.delimiter else "txt", encoding)


def _head(path: Path) -> str:
    with path.open(encoding="utf-8", newline="") as file:
        return file.read(HEAD_BYTES)


def _dialect(head: str, named: str) -> Dialect:
    """Find how lines are cut by those of a file's beginning."""
    return dialect_of(_whole_lines(head), named)


def _whole_lines(head: str) -> str:
    """Return a file's beginning without its last line where that may be cut off."""
    return head[: max(head.rfind("\n"), head.rfind("\r")) + 1] if len(head) == HEAD_BYTES else head


def _transcode(source: Path, encoding: str, target: Path) -> None:
    """Write the file anew as UTF-8 without a mark.

    What is no UTF-8 in a file of that encoding is read as Windows-1252: files are put together from others.

    Raises:
        UnicodeError: the file is not in this encoding.
    """
    errors = AS_WINDOWS if encoding.startswith("utf-8") else "strict"
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    with source.open("rb") as file, target.open("wb") as out:
        while block := file.read(_BLOCK):
            out.write(decoder.decode(block).encode())
        out.write(decoder.decode(b"", final=True).encode())


def _as_utf8(path: Path, encoding: str, workdir: Path, limits: IntakeLimits) -> tuple[Path, TextScan, str]:
    """Return a UTF-8 version of the file, what is in it, and the encoding it had."""
    likely = [encoding, "utf-8"] if encoding == ISO_2022_JP else [encoding]  # with letters of one vendor
    if encoding == "utf-8":
        scan = TextScan(path, limits)
        if scan.utf8:
            return path, scan, encoding
        if not is_mostly_utf8(path):
            likely = old_encodings(path)
    target = workdir / "utf8.txt"
    for found in likely:
        with suppress(UnicodeError):
            _transcode(path, found, target)
            return target, TextScan(target, limits), found
    raise MailsiftError("bad_encoding", f"The file looks like {encoding} but isn’t.")


def _without_prefix(path: Path, start: int, workdir: Path) -> Path:
    """Return a copy of the file without its first bytes."""
    target = workdir / "without.txt"
    with path.open("rb") as file, target.open("wb") as out:
        file.seek(start)
        shutil.copyfileobj(file, out, _BLOCK)
    return target


def _without_count(path: Path, workdir: Path) -> Path:
    """Return the file, or a copy without a last line that says how many others there are, or rows."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _END_BYTES))
        last = file.read()
        found = _COUNTED.search(last)
        if found is None:
            return path
        file.seek(0)
        others = sum(not line.isspace() for line in file) - 1
    if others - int(found[1]) not in {0, 1}:
        return path
    target = workdir / "uncounted.txt"
    shutil.copyfile(path, target)
    os.truncate(target, size - len(last) + found.start())
    return target


def _with_doubled_quotes(path: Path, named: str, workdir: Path, limits: IntakeLimits) -> Path:
    """Return a copy with two quotes for each behind a backslash, where that is how cells hold quotes.

    MySQL, Spark and PHP write so. It shows by the file: the copy is a CSV, and the file itself is none or has
    records of more different widths.
    """
    target = workdir / "doubled.csv"
    _copy(path, target, lambda file: (_ESCAPED_QUOTE.sub(r'\1""', line) for line in file))
    as_it_is, doubled = _widths(path, named, limits), _widths(target, named, limits)
    return target if doubled and (not as_it_is or len(doubled) < len(as_it_is)) else path


def _widths(path: Path, named: str, limits: IntakeLimits) -> set[int]:
    """Return how wide records are; none where a quote is neither around a cell nor one of two in it."""
    with path.open(encoding="utf-8", newline="") as file, suppress(MailsiftError):
        return set(map(len, _records(file, _dialect(_head(path), named), limits, strict=True)))
    return set()


def _without_outer_quotes(path: Path, named: str, workdir: Path, limits: IntakeLimits) -> Path:
    """Return a copy without the quotes around whole records, where these are no cells of a single column.

    So spreadsheet programs write lines that they took for one cell: all of them, or those with a quote
    (`"a@example.com,""A, B"",1"`). It shows by the header, or by a first record with just one address: there
    are several cells in it.
    """
    csv.field_size_limit(2 * limits.line_bytes)
    sample = io.StringIO(_whole_lines(_head(path)), newline="")
    lines = [line for line in _joined_lines(sample, limits) if line.strip()][:_SAMPLE_LINES]
    taken_off = list(map(_unwrapped, lines))
    dialect = dialect_of("".join(taken_off), named)
    records = [_cells(line, dialect) for line in taken_off]
    first = records[header_place(records)] if records else []
    if not dialect.delimiter or not (_is_row(first, dialect) or _is_header(first)):
        return path
    every = all(map(_WRAPPED.fullmatch, lines))

    def bare(line: str) -> str:
        inner = _unwrapped(line)
        is_one = inner is not line and (len(inner.strip().splitlines()) == 1 or _cells(inner, dialect))
        is_row = every or (line.rstrip().endswith('"') and _is_row(_cells(inner, dialect), dialect))
        return inner if is_one and is_row else line

    return _copy(path, workdir / "unwrapped.csv", lambda file: map(bare, _joined_lines(file, limits)))


def _copy(path: Path, target: Path, changed: Callable[[TextIO], Iterable[str]]) -> Path:
    """Return a copy of a file with its lines changed, ends included."""
    with (
        path.open(encoding="utf-8", newline="") as file,
        target.open("w", encoding="utf-8", newline="") as out,
    ):
        out.writelines(changed(file))
    return target


def _stand_in_apostrophes(head: str) -> bool:
    """Say whether all addresses stand between apostrophes, one a cell, as databases quote texts."""
    return len(_IN_APOSTROPHES.findall(head)) == head.count("@") > 0


def _quoted_by_apostrophes(path: Path, encoding: str, workdir: Path, limits: IntakeLimits) -> SourceTable:
    """Read a text without quotes as if its apostrophes were some."""
    swapped = _copy(path, workdir / "swapped.csv", lambda file: (line.translate(_SWAPPED) for line in file))
    found = read_text(swapped, "utf-8", workdir, limits)
    frame = found.frame.with_columns(pl.all().str.replace_all('"', "'", literal=True))
    return replace(found, frame=frame, encoding=encoding)


def _joined_lines(file: Iterable[str], limits: IntakeLimits) -> Iterator[str]:
    """Yield lines with their ends; those that a cell in quotes spans are one."""
    joined, size, is_open = list[str](), 0, False
    for line in file:
        joined.append(line)
        size += len(line)
        is_open ^= line.count('"') % 2 == 1
        if not is_open or size > limits.line_bytes:
            yield "".join(joined)
            joined, size, is_open = [], 0, False
    yield "".join(joined)


def _unwrapped(line: str) -> str:
    """Return what stands between the quotes around a whole line, behind which cells may be blank."""
    found = _WRAPPED.fullmatch(line)
    return found[1].replace('""', '"') + found[3] if found else line


def _cells(line: str, dialect: Dialect) -> list[str]:
    """Cut a line that is one record; of others there are none."""
    reader = csv.reader(
        io.StringIO(line, newline=""),
        delimiter=dialect.delimiter or _NO_DELIMITER,
        skipinitialspace=dialect.spaced,
    )
    first, *others = list(reader) or [[]]
    return [] if others else first


def _is_header(cells: Sequence[str]) -> bool:
    return len(cells) > 1 and any(map(is_address_name, cells))


def _is_row(cells: Sequence[str], dialect: Dialect) -> bool:
    """Say whether a record has all cells of its table, just one of them with an address, which is bare."""
    found = [cell for cell in cells if "@" in cell]
    return len(cells) == dialect.columns > 1 and len(found) == 1 and is_bare_address(found[0])


def _frame(path: Path, scan: TextScan, dialect: Dialect, workdir: Path, limits: IntakeLimits) -> pl.LazyFrame:
    """Choose the fastest reader that reads this file exactly."""
    width, place = named_place(_whole_lines(_head(path)), dialect)
    rewritten = partial(_rewritten, path, dialect, workdir, limits, width=width, place=place)
    if scan.lone_returns or dialect.spaced:
        return rewritten()
    if scan.quotes and not _quotes_are_plain(path, dialect):
        if dialect.delimiter or _has_line(path, pl.col("line").str.count_matches('"', literal=True) % 2 == 1):
            return rewritten()
        # One address a line, and `"john doe"@example.com` is one: only a pair around all is a CSV quote.
        whole = pl.col("line").str.extract(_QUOTED_LINE).str.replace_all('""', '"', literal=True)
        return _lines(_without_blank_lines(path, scan, workdir)).select(
            whole.fill_null(pl.col("line")).alias(column_id(0))
        )
    columns = dialect.columns if scan.quotes else _max_columns(path, dialect)
    if columns > limits.columns:
        raise too_many_columns(limits.columns)
    if place and columns > width:
        return rewritten()
    return _scan(_without_blank_lines(path, scan, workdir), dialect.delimiter, columns, quotes=scan.quotes)


def _scan(path: Path, delimiter: str, columns: int, *, quotes: bool) -> pl.LazyFrame:
    """Let polars read a file known to be well formed and not wider than `columns`; short rows are padded."""
    return pl.scan_csv(
        _with_second_mark(path),
        glob=False,  # a name with * is a name
        has_header=False,
        separator=delimiter or _NO_DELIMITER,
        quote_char='"' if quotes else None,
        schema={column_id(index): pl.String for index in range(columns)},
        missing_columns="insert",  # the first row may be a short one
        empty_string_is_null=False,
    )


def _with_second_mark(path: Path) -> Path:
    """Return a file that begins as this one does once polars has taken away a byte order mark.

    The customer's own mark is gone by now (`_transcode`): one that is left belongs to the first cell.
    """
    with path.open("rb") as file:
        if not file.read(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):
            return path
        target = path.with_name(f"marked-{path.name}")
        with target.open("wb") as out:
            out.write(codecs.BOM_UTF8 * 2)
            shutil.copyfileobj(file, out, _BLOCK)
    return target


def _lines(path: Path) -> pl.LazyFrame:
    """Read whole lines, without their ends."""
    return _scan(path, "", 1, quotes=False).rename({column_id(0): "line"})


def _max_columns(path: Path, dialect: Dialect) -> int:
    """Count the cells of the widest line of a file without quotes."""
    if not dialect.delimiter:
        return 1
    cells = pl.col("line").str.count_matches(dialect.delimiter, literal=True) + 1
    return int(_lines(path).select(cells.max()).collect(engine="streaming").item() or 1)


def _quotes_are_plain(path: Path, dialect: Dialect) -> bool:
    """Say whether each line is a record by itself, with quotes only around whole cells or doubled inside."""
    # A regular expression in Rust costs linear time whatever the line (no backtracking).
    delimiter = re.escape(dialect.delimiter)
    cell = rf'(?:[^"{delimiter}][^"{delimiter}]*|"[^"]*(?:""[^"]*)*"|)'
    record = rf"^{cell}(?:{delimiter}{cell}){{0,{dialect.columns - 1}}}$"
    return not _has_line(path, ~pl.col("line").str.contains(record))


def _has_line(path: Path, condition: pl.Expr) -> bool:
    """Say whether this holds of some `line`."""
    return bool(_lines(path).select(condition.any()).collect(engine="streaming").item())


def _without_blank_lines(path: Path, scan: TextScan, workdir: Path) -> Path:
    """Return a copy without blank lines, if there are any; only for files whose every line is a record."""
    if not scan.blanks:
        return path
    target = workdir / "squeezed.txt"
    with path.open("rb") as file, target.open("wb") as out:
        out.writelines(line for line in file if line not in {b"\n", b"\r\n"})
    return target


def _rewritten(
    path: Path, dialect: Dialect, workdir: Path, limits: IntakeLimits, *, width: int, place: int
) -> pl.LazyFrame:
    """Read any CSV the way the csv module does and write it down well formed for polars.

    What is too wide is seen by the width of the header and the place of its address column (named_place).
    """
    target, columns = workdir / "rewritten.csv", 1
    with (
        path.open(encoding="utf-8", newline="") as file,
        target.open("w", encoding="utf-8", newline="") as out,
    ):
        write = csv.writer(out, lineterminator="\r\n").writerow
        for count, record in enumerate(_records(file, dialect, limits)):
            is_wide = 0 < width < len(record)
            cells = _rejoined(record, width, place, dialect.delimiter) if is_wide else record
            columns = max(columns, len(cells))
            if columns > limits.columns:
                raise too_many_columns(limits.columns)
            if count > limits.rows:  # one more is allowed: the header
                raise too_many_rows(limits.rows)
            write(cells)
    return _scan(target, ",", columns, quotes=True)


def _rejoined(record: list[str], width: int, place: int, delimiter: str) -> list[str]:
    """Return a record wider than its header with its only address in its place, as far as it was moved right.

    Somebody wrote `Doe, Jane` without quotes: cells that begin with a blank belong to the ones before them
    where that makes up for all; else those before the address are one cell, unless one of them is empty.
    """
    at, *others = [n for n, cell in enumerate(record) if "@" in cell] or [0]
    if others or not 0 < place < at <= place + len(record) - width or not is_bare_address(record[at]):
        return record
    starts = [n for n, cell in enumerate(record) if not n or not _GOES_ON.match(cell)]
    if len(starts) != width or starts[place] != at:
        if not all(map(str.strip, record[place - 1 : at])):
            return record
        starts = [*range(place), *range(at, len(record))]
    return [delimiter.join(record[start:end]) for start, end in pairwise((*starts, len(record)))]


def _records(
    file: Iterator[str], dialect: Dialect, limits: IntakeLimits, *, strict: bool = False
) -> Iterator[list[str]]:
    """Yield the records of a CSV file.

    Raises:
        MailsiftError: `unclosed_quote` with the line where the cell starts; if `strict`, for one that is
            closed before its cell ends, too.
    """
    delimiter = dialect.delimiter or _NO_DELIMITER
    csv.field_size_limit(limits.line_bytes)  # lines are shorter, so only an open quote can reach it
    end = iter([f"{delimiter}end"])  # a line of our own: an open quote would swallow it
    reader = csv.reader(chain(file, end), delimiter=delimiter, skipinitialspace=dialect.spaced, strict=strict)
    line, record = 1, [""]
    try:
        for record in reader:
            if not length_hint(end):
                break
            if record:
                yield record
            line = reader.line_num + 1
    except csv.Error:
        raise _unclosed(line) from None
    if record != ["", "end"]:
        raise _unclosed(line)


def _unclosed(line: int) -> MailsiftError:
    return MailsiftError(
        "unclosed_quote", f"The record starting on line {line:,} has a quote that is never closed."
    )
