"""Read XLSX workbooks as a stream (ECMA-376 part 1, SpreadsheetML).

No cell costs more than itself, wherever it says it is, and every cell comes back as it is stored. Readers
that fill the rectangle between the outermost cells need gigabytes for a workbook of three cells, and some
round numbers to nine decimals and drop the errors.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Final
from urllib.parse import unquote
from xml.parsers import expat

import polars as pl

from mailsift.jobs.columns import column_id
from mailsift.jobs.intake.models import IntakeLimits
from mailsift.jobs.intake.sniff import (
    WORKBOOK,
    check_workbook,
    part_name,
    refuse_big,
    too_many_columns,
    too_many_rows,
)
from mailsift.jobs.intake.table import MOST_DIGITS, SourceTable
from mailsift.pipeline.errors import MailsiftError

_BLOCK = 1 << 18
_BATCH = 20_000
_MOST_ROWS: Final = 1_048_576
_MOST_LETTERS: Final = 3  # of a column: XFD
_WHOLE: Final = re.compile(r"-?[1-9][0-9]*")
_EXACT: Final = 2**53  # whole numbers up to here are exact
_REFERENCE = re.compile(r"\$?([A-Za-z]+)\$?([0-9]{1,7})")
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")  # ST_Xstring, section 22.9.2.19
_SURROGATES: Final = range(0xD800, 0xE000)
_MAILTO = re.compile(r"mailto:([^?]+)", re.IGNORECASE)  # RFC 6068
_LINK_FORMULA = re.compile(r"""\s*(?:_xlfn\.)?HYPERLINK\(\s*"mailto:([^"?]+)""", re.IGNORECASE)
_BOOLEANS: Final = {"0": "false", "1": "true"}

# Number formats of the standard that show a moment (section 18.8.30).
_DATE_FORMATS: Final = frozenset(map(str, (*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59))))
_ELAPSED_FORMAT: Final = "46"
_LONGEST_CODE: Final = 255  # characters of a number format that programs take
_NO_CODE = re.compile(r'"[^"]*"|\\.|_.|\*.|\[(?!(?:h+|m+|s+)\])[^\]]*\]', re.IGNORECASE)
_ELAPSED = re.compile(r"\[(?:h+|m+|s+)\]", re.IGNORECASE)
_DATE_CODE = re.compile(r"[dmhysg]", re.IGNORECASE)


def read_xlsx(path: Path, limits: IntakeLimits) -> SourceTable:
    """Read the first sheet that has cells, all as text; blank rows are skipped, and hidden sheets come last.

    A number is written with the fewest digits that mean it, a date as `2024-02-29 01:02:03` without a time at
    midnight, a time of day as `01:02:03`, an elapsed time with as many hours as it has, an error as `#N/A`.
    Addresses that cells only link to (`mailto:`) are columns of their own, behind the others.

    Raises:
        MailsiftError: `bad_xlsx` among those of `take_in`.
    """
    check_workbook(path, limits)
    try:
        with zipfile.ZipFile(path) as archive:
            return _first_sheet(_Parts(archive), limits)
    except (zipfile.BadZipFile, expat.ExpatError, zlib.error, OSError, EOFError):
        raise _bad("The workbook is damaged or of an unknown kind.") from None
    except (NotImplementedError, RuntimeError):  # how it is packed, or that it has a password
        raise _bad("The workbook is packed in a way that is not supported.") from None


def _first_sheet(parts: _Parts, limits: IntakeLimits) -> SourceTable:
    book = _Workbook()
    _parse(parts, WORKBOOK, start=book.begin)
    related = _Relations()
    _parse(parts, "xl/_rels/workbook.xml.rels", start=related.begin)
    styles, strings = _Styles(), _Strings()
    if part := related.of_kind("styles"):
        _parse(parts, part, start=styles.begin, end=styles.end)
    if part := related.of_kind("sharedStrings"):
        _parse(parts, part, start=strings.begin, end=strings.end, text=strings.text)
    kinds = styles.date_writers()
    for part in dict.fromkeys(related.targets.get(sheet, "") for sheet in book.sheets):
        links = _links_of(parts, part)
        reader = _Sheet(strings.found, kinds, links=links, book=book, limits=limits)
        _parse(parts, part, start=reader.begin, end=reader.end, text=reader.text)
        table = reader.table()
        if table is not None:
            return table
    if not book.sheets:
        raise _bad("The workbook has no sheets.")
    raise MailsiftError("empty_file", "The workbook has no cells.")


def _links_of(parts: _Parts, sheet: str) -> Mapping[str, str]:
    """Return the addresses that a sheet's cells link to, by what the cells are called (section 18.3.1.47)."""
    links = _Links()
    related = posixpath.join(posixpath.dirname(sheet), "_rels", f"{posixpath.basename(sheet)}.rels")
    if parts.has(related):
        _parse(parts, related, start=links.begin_relation)
    if links.addresses:  # they stand below the cells
        _parse(parts, sheet, start=links.begin_link)
    return links.found


class _Links:
    """Where a sheet's cells link to."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        self.found: dict[str, str] = {}

    def begin_relation(self, name: str, attributes: dict[str, str]) -> None:
        target = _MAILTO.match(attributes.get("Target", ""))
        if name == "Relationship" and target:
            self.addresses[attributes.get("Id", "")] = unquote(target[1])

    def begin_link(self, name: str, attributes: dict[str, str]) -> None:
        ids = [value for key, value in attributes.items() if key.endswith(":id")]
        if name == "hyperlink" and (address := self.addresses.get("".join(ids[:1]))):
            self.found[attributes.get("ref", "").partition(":")[0]] = address


class _Parts:
    """The parts of a package, by names that ignore case and slashes."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        entries = archive.infolist()
        self._entries = {part_name(entry.filename): entry for entry in entries}
        if len(self._entries) < len(entries):  # programs do not agree which one counts
            raise _bad("The workbook has two parts of one name.")

    def has(self, name: str) -> bool:
        return part_name(name) in self._entries

    def blocks(self, name: str) -> Iterator[bytes]:
        entry = self._entries.get(part_name(name))
        if entry is None:
            raise _bad("A part of the workbook is missing.")
        with self._archive.open(entry) as file:
            while block := file.read(_BLOCK):
                yield block


_Begin = Callable[[str, dict[str, str]], None]


def _parse(
    parts: _Parts,
    name: str,
    *,
    start: _Begin,
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
) -> None:
    """Hand the elements of a part over, by their names without a prefix."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _refuse_doctype
    parser.StartElementHandler = lambda tag, attributes: start(tag.rpartition(":")[2], attributes)
    if end is not None:
        parser.EndElementHandler = lambda tag: end(tag.rpartition(":")[2])
    if text is not None:
        parser.CharacterDataHandler = text
    for block in parts.blocks(name):
        parser.Parse(block, False)  # noqa: FBT003 - expat's own
    parser.Parse(b"", True)  # noqa: FBT003 - same


def _refuse_doctype(*_: object) -> None:
    """Refuse what may define entities; no workbook has one."""
    raise _bad("The workbook has a document type, which no workbook has.")


class _Workbook:
    """Which sheets there are, the day their dates count from, and whether results of formulas are old."""

    def __init__(self) -> None:
        self._visible: list[str] = []
        self._hidden: list[str] = []  # lists behind a choice, a program's notes
        self.epoch = datetime(1899, 12, 30)  # noqa: DTZ001 - sheets have no zones
        self.is_uncomputed = False

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        if name == "sheet":
            ids = [value for key, value in attributes.items() if key.endswith(":id")]
            sheets = self._visible if attributes.get("state", "visible") == "visible" else self._hidden
            sheets += ids[:1]
        elif name == "workbookPr" and attributes.get("date1904") in {"1", "true"}:
            self.epoch = datetime(1904, 1, 1)  # noqa: DTZ001 - same
        elif name == "calcPr":  # section 18.2.2
            self.is_uncomputed = attributes.get("fullCalcOnLoad") in {"1", "true"}

    @property
    def sheets(self) -> list[str]:
        """Return what the sheets are called here, those that are shown first."""
        return [*self._visible, *self._hidden]


class _Relations:
    """Where the parts are that a workbook names."""

    def __init__(self) -> None:
        self.targets: dict[str, str] = {}
        self._kinds: dict[str, str] = {}

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        if name == "Relationship":
            target = posixpath.normpath(posixpath.join("/xl", attributes.get("Target", ""))).lstrip("/")
            self.targets[attributes.get("Id", "")] = target
            self._kinds[attributes.get("Type", "").rpartition("/")[2]] = target

    def of_kind(self, kind: str) -> str:
        """Return the part of a kind, "" where there is none."""
        return self._kinds.get(kind, "")


class _Strings:
    """The texts that cells share; readings of Asian names (`rPh`) are no part of them."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._parts: list[str] = []
        self._reading = self._takes = False

    def begin(self, name: str, _: dict[str, str]) -> None:
        if name == "si":
            self._parts = []
        elif name == "rPh":
            self._reading = True
        elif name == "t":
            self._takes = not self._reading

    def text(self, text: str) -> None:
        if self._takes:
            self._parts.append(text)

    def end(self, name: str) -> None:
        if name == "si":
            self.found.append(_unescaped("".join(self._parts)))
        elif name == "rPh":
            self._reading = False
        elif name == "t":
            self._takes = False


@dataclass
class _Styles:
    """How cells show their numbers."""

    _codes: dict[str, str] = field(default_factory=dict)
    _formats: list[str] = field(default_factory=list)
    _in_cells: bool = False

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        if name == "numFmt":
            self._codes[attributes.get("numFmtId", "")] = attributes.get("formatCode", "")
        elif name == "cellXfs":
            self._in_cells = True
        elif name == "xf" and self._in_cells:
            self._formats.append(attributes.get("numFmtId", "0"))

    def end(self, name: str) -> None:
        if name == "cellXfs":
            self._in_cells = False

    def date_writers(self) -> dict[str, _NumberWriter]:
        """Return how a number is written, for the styles that show a date or a time."""
        writers = {str(place): self._writer_of(number) for place, number in enumerate(self._formats)}
        return {style: write for style, write in writers.items() if write is not None}

    def _writer_of(self, number: str) -> _NumberWriter | None:
        if number in self._codes:
            code = _NO_CODE.sub("", self._codes[number][:_LONGEST_CODE].partition(";")[0])
            if _ELAPSED.search(code):
                return _elapsed
            return _iso_date_time if _DATE_CODE.search(code) and "General" not in code else None
        if number == _ELAPSED_FORMAT:
            return _elapsed
        return _iso_date_time if number in _DATE_FORMATS else None


_NumberWriter = Callable[[float, datetime], str]


def _iso_date_time(days: float, epoch: datetime) -> str:
    """Write days since the epoch as a date, a time of day, or both; to the millisecond, as sheets do."""
    since = _duration(days)
    if 0 <= days < 1:
        return _clock(since)
    if epoch.year == 1899 and days < 60:  # where sheets count a 29 February 1900
        since += timedelta(days=1)
    return (epoch + since).isoformat(" ").removesuffix(" 00:00:00").removesuffix("000")


def _elapsed(days: float, _: datetime) -> str:
    return _clock(_duration(days))


def _duration(days: float) -> timedelta:
    return timedelta(milliseconds=round(days * 86_400_000))


def _clock(since: timedelta) -> str:
    seconds, thousandths = divmod(round(since.total_seconds() * 1000), 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{thousandths:03}" if thousandths else text


class _Sheet:
    """The rows of one sheet, as its elements come."""

    def __init__(
        self,
        strings: Sequence[str],
        kinds: Mapping[str, _NumberWriter],
        *,
        links: Mapping[str, str],
        book: _Workbook,
        limits: IntakeLimits,
    ) -> None:
        self._strings, self._kinds, self._epoch, self._limits = strings, kinds, book.epoch, limits
        # Where nothing was computed yet, some programs write 0, others no result.
        self._no_results = {None, "0"} if book.is_uncomputed else {None}
        self._uncomputed: set[int] = set()
        self._links = links
        self._rows = self._size = 0
        self._batch: list[list[str | None]] = []
        self._linked: list[dict[int, str]] = []  # of each row, by column
        self._frames: list[pl.DataFrame] = []
        self._row: list[str | None] = []
        self._row_links: dict[int, str] = {}
        self._link, self._formula = "", list[str]()
        self._number = self._column = 0
        self._type = self._style = ""
        self._text: list[str] | None = None  # of the cell; None while it has none
        self._takes = self._reading = self._is_formula = self._in_formula = False

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "c":
                self._begin_cell(attributes)
            case "f":
                self._is_formula = self._in_formula = True
            case "v" | "t":
                self._takes = not self._reading
                if self._text is None:
                    self._text = []
            case "row":
                self._begin_row(attributes.get("r", ""))
            case "rPh":
                self._reading = True
            case _:
                pass

    def text(self, text: str) -> None:
        if self._takes and self._text is not None:
            self._text.append(text)
        elif self._in_formula:
            self._formula.append(text)

    def end(self, name: str) -> None:
        match name:
            case "v" | "t":
                self._takes = False
            case "f":
                self._in_formula = False
            case "c":
                self._end_cell()
            case "rPh":
                self._reading = False
            case _:
                pass

    def table(self) -> SourceTable | None:
        """Return all rows that hold something, from the first column that does; None where there are none."""
        self._end_row()
        self._flush()
        if not self._frames:
            return None
        frame = pl.concat(self._frames, how="diagonal")
        cells = frame.select(name for name in frame.columns if name.isdecimal())
        links = frame.select(sorted(set(frame.columns) - set(cells.columns)))
        filled = [place for place, column in enumerate(cells) if column.null_count() < cells.height]
        used = cells[:, filled[0] : filled[-1] + 1].hstack(links)
        if used.width > self._limits.columns:
            raise too_many_columns(self._limits.columns)
        names = {name: column_id(place) for place, name in enumerate(used.columns)}
        uncomputed = frozenset(names[str(place)] for place in self._uncomputed if str(place) in names)
        return SourceTable(used.rename(names).lazy(), None, "xlsx", uncomputed=uncomputed)

    def _begin_row(self, number: str) -> None:
        self._end_row()
        if not number.isdecimal():
            self._step_to(self._number + 1)
        else:
            self._step_to(int(number) if len(number) <= MOST_DIGITS else _MOST_ROWS + 1)
        self._column = 0

    def _step_to(self, number: int) -> None:
        if not self._number < number <= _MOST_ROWS:
            raise _bad("The rows of the sheet are not in order, or more than a sheet can have.")
        self._number = number

    def _begin_cell(self, attributes: dict[str, str]) -> None:
        self._column += 1
        reference = attributes.get("r")
        if reference:
            self._go_to(reference)
        if self._column > self._limits.columns:
            raise too_many_columns(self._limits.columns)
        self._type, self._style = attributes.get("t", "n"), attributes.get("s", "")
        self._text, self._link = None, self._links.get(reference or "", "")
        self._formula.clear()
        self._is_formula = False

    def _go_to(self, reference: str) -> None:
        """Go where a cell says it is, which may be in a later row than the one around it."""
        found = _REFERENCE.fullmatch(reference)
        if found is None:
            raise _bad("A cell of the sheet says that it is nowhere.")
        self._column = _column_number(found[1])
        if (number := int(found[2])) != self._number:
            self._end_row()
            self._step_to(number)

    def _end_cell(self) -> None:
        value = None if self._text is None else self._value("".join(self._text))
        if self._text is not None:
            row = self._row
            row += [None] * (self._column - len(row))
            row[self._column - 1] = value
            self._size += len(value or "")  # thousands of cells may share one long text
            refuse_big(self._size, self._limits)
            formula = _LINK_FORMULA.match("".join(self._formula)) if self._formula else None
            link = self._link or (unquote(formula[1]) if formula else "")
            if link and value is not None and "@" not in value:
                self._row_links[self._column] = link
        if self._is_formula and value in self._no_results:
            self._uncomputed.add(self._column - 1)
        self._text = None

    def _value(self, text: str) -> str | None:
        match self._type:
            case "s":
                return self._shared(text.strip())
            case "n":
                return self._number_text(text.strip()) or None
            case "b":
                return _BOOLEANS.get(text.strip(), text)
            case _:  # text of its own or of a formula, an error, a date in ISO 8601
                return _unescaped(text)

    def _shared(self, place: str) -> str | None:
        if not place:
            return None
        if not place.isdecimal() or len(place) > MOST_DIGITS or int(place) >= len(self._strings):
            raise _bad("A cell of the sheet names a text that is not there.")
        return self._strings[int(place)]

    def _number_text(self, text: str) -> str:
        """Write a number, or the date it stands for."""
        write = self._kinds.get(self._style)
        if write is None:
            return _number(text)
        try:
            return write(float(text), self._epoch)
        except (ValueError, OverflowError):  # no number, or no day of ours
            return _number(text)

    def _end_row(self) -> None:
        row, self._row = self._row, []
        links, self._row_links = self._row_links, {}
        if not any(cell is not None for cell in row):
            return
        self._rows += 1
        if self._rows > self._limits.rows + 1:  # one more is allowed: the header
            raise too_many_rows(self._limits.rows)
        self._batch.append(row)
        self._linked.append(links)
        if len(self._batch) == _BATCH:
            self._flush()

    def _flush(self) -> None:
        rows, self._batch = self._batch, []
        linked, self._linked = self._linked, []
        columns = {str(n): column for n, column in enumerate(zip_longest(*rows))}
        columns |= {
            f"link {place:05}": tuple(links.get(place) for links in linked)
            for place in sorted(set().union(*linked))
        }
        if rows:
            texts = (pl.Series(name, column, dtype=pl.String) for name, column in columns.items())
            self._frames.append(pl.DataFrame(list(texts)))


def _column_number(letters: str) -> int:
    """Return the number of a column, counted from 1: that of AA is 27."""
    if len(letters) > _MOST_LETTERS:
        raise _bad("A cell of the sheet lies beyond the last column that a sheet can have.")
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number


def _number(text: str) -> str:
    """Write a stored number with the fewest digits that mean the same binary64; a whole one as it stands."""
    if _WHOLE.fullmatch(text):
        return text
    try:
        value = float(text)
    except ValueError:
        return text
    if value.is_integer() and abs(value) <= _EXACT:
        return str(int(value))
    return repr(value) if value - value == 0 else text  # neither infinite nor no number


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(_unescaped_character, text) if "_x" in text else text


def _unescaped_character(found: re.Match[str]) -> str:
    code = int(found[1], 16)
    return found[0] if code in _SURROGATES else chr(code)


def _bad(text: str) -> MailsiftError:
    return MailsiftError("bad_xlsx", text)
