"""Before any parser sees a file: what it is (container, encoding, delimiter) and whether it is too big.

Too big is what unpacks to too much, has lines that are too long, or NUL bytes in its text. A text that is no
UTF-8 is in the encoding in which its words look most like names.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import os
import re
import shutil
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Final

from mailsift.jobs.intake.models import IntakeLimits
from mailsift.jobs.intake.table import header_place, is_address_name
from mailsift.pipeline.errors import MailsiftError

HEAD_BYTES = 65_536
"""How much of a file's beginning the sniffers look at."""


class FileContainer(StrEnum):
    """What the first bytes say."""

    TEXT = "text"
    GZIP = "gzip"
    ZIP = "zip"
    PARQUET = "parquet"


_CONTAINERS = {
    b"\x1f\x8b": FileContainer.GZIP,
    b"PK\x03\x04": FileContainer.ZIP,
    b"PAR1": FileContainer.PARQUET,
}

_UNSUPPORTED = {
    b"\xd0\xcf\x11\xe0": "an old or a password-protected Excel file; save it as XLSX without a password",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard; only gzip is accepted",
    b"BZh": "compressed with bzip2; only gzip is accepted",
    b"\xfd7zXZ": "compressed with xz; only gzip is accepted",
    b"7z\xbc\xaf": "a 7-Zip archive; unpack it and send the list that is in it",
    b"Rar!": "a RAR archive; unpack it and send the list that is in it",
    b"%PDF": "a PDF document",
    b"{\\rtf": "a rich text document; save it as plain text, with an address on each line",
    b"PK\x05\x06": "an empty zip archive",
    b"ARROW1\0\0": "an Arrow IPC (Feather) file; save it as Parquet",
    b"\xff\xff\xff\xff": "an Arrow IPC stream; save it as Parquet",
    b"FEA1": "a Feather file; save it as Parquet",
    b"Obj\x01": "an Avro file; save it as Parquet",
    b"SQLite format 3\0": "a SQLite database; export its table as CSV",
    b"\0\1\0\0Standard ": "an Access database; export its table as CSV",
    b"!BDN": "a mailbox of Outlook; export its contacts as CSV",
    b"\x04\x22\x4d\x18": "compressed with LZ4; only gzip is accepted",
    b"\x1f\x9d": "compressed with compress; only gzip is accepted",
    b"\xff\xfe\0\0": "a text in UTF-32; save it as UTF-8",
    b"\0\0\xfe\xff": "a text in UTF-32; save it as UTF-8",
}
_TAR = slice(257, 265), (b"ustar\x0000", b"ustar  \0")
"""What POSIX.1-1988 and GNU write there; the letters alone may stand in an address."""


def container_of(head: bytes) -> FileContainer:
    """Name the container by its magic bytes.

    Raises:
        MailsiftError: `unsupported_format` for those we know and do not read.
    """
    for magic, name in _UNSUPPORTED.items():
        if head.startswith(magic):
            raise _is_something_else(name)
    place, magics = _TAR
    if head[place] in magics:
        raise _is_something_else("a tar archive; unpack it and send the list that is in it")
    return next((kind for magic, kind in _CONTAINERS.items() if head.startswith(magic)), FileContainer.TEXT)


_MARKS = {  # byte order marks; what Python calls the encodings that swallow them
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

ISO_2022_JP: Final = "iso2022_jp_ext"
"""What Japanese mail programs write: seven bits, among which an @ or a comma is half a letter as often."""
_TO_JAPANESE = re.compile(rb"\x1b\$[@B]")  # RFC 1468

_DOS_END = b"\x1a"
"""Ctrl-Z, with which programs of DOS end a text; those of CP/M fill its last block with it."""
_CONTROL = bytes({*range(0x20), 0x7F} - set(b"\t\n\x0b\x0c\r\x1b"))
_NO_TEXT = "The file isn’t text: it is full of control characters. Save the list as CSV or XLSX."
_A_FEW = 5
"""Control characters that stray into a text, however short it is."""


def encoding_of(head: bytes) -> str:
    """Name the encoding by its mark or its NUL bytes; "utf-8" is a guess that reading must confirm.

    Raises:
        MailsiftError: `binary_file` when this cannot be text.
    """
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name
    head = head.rstrip(_DOS_END)
    even, odd = head[::2].count(0), head[1::2].count(0)
    if even + odd:
        # Addresses are mostly ASCII, so in UTF-16 about every second byte is NUL, always on the same side.
        low, high = sorted((even, odd))
        if high * 4 > len(head) and low * 20 < high:
            return "utf-16-le" if odd > even else "utf-16-be"
        raise MailsiftError("binary_file", "The file isn’t text: it contains NUL bytes.")
    if len(head) - len(head.translate(None, _CONTROL)) > max(len(head) // 100, _A_FEW):
        raise MailsiftError("binary_file", _NO_TEXT)
    return ISO_2022_JP if _TO_JAPANESE.search(head) and head.isascii() else "utf-8"


_DOS_BLOCK = 128


def without_dos_end(path: Path, workdir: Path) -> Path:
    """Return the file, which is no UTF-16, or a copy of it without the Ctrl-Z that end it."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _DOS_BLOCK))
        last = file.read()
    if not last.endswith(_DOS_END):
        return path
    target = workdir / "ended.txt"
    shutil.copyfile(path, target)
    os.truncate(target, size - len(last) + len(last.rstrip(_DOS_END)))
    return target


_NO_LISTS = (  # how texts begin that hold no list, and what they are
    (
        re.compile(r"\s*(?:<!--|<(?:!doctype|html|head|body|table|\?xml)[\s>])", re.IGNORECASE),
        "a web page or XML whatever it is called; open it in a spreadsheet program and save it as XLSX",
    ),
    (
        re.compile(r"\s*<[a-z][\w.:-]*(?:\s[^<>@]*)?>\s*<[a-z!/]", re.IGNORECASE),
        "XML; save it as XLSX or CSV",
    ),
    (re.compile(r"ID;P\w*(?:;[NE])*\r?\n[A-Z]{1,2};"), "a SYLK file; save it as XLSX or CSV"),
    (
        re.compile(
            r"\s*(?:Expanded display is on\.\s*)?"
            r"(?:[+\u250c\u2554]?[-\u2500\u2550]\[ \w+ 1 \]|\* Record 1\s|\*{3,} 1\. row \*{3,})"
        ),
        "printed with a field on each line (`\\x` of psql, `\\G` of MySQL); export the table as CSV",
    ),
    (re.compile(r"\s*BEGIN:VCARD\s", re.IGNORECASE), "an address book of vCards; export it as CSV"),
    (re.compile(r"\s*BEGIN:VCALENDAR\s", re.IGNORECASE), "a calendar; export its guests as CSV"),
    (re.compile(r"(?:(?:#|version:).*\n\s*)*dn::? *\S", re.IGNORECASE), "an LDIF file; export it as CSV"),
    (
        re.compile(
            r"\s*(?:--.*\n\s*|/\*[^*]*\*/;?\s*|(?:set|use|begin|pragma|start)\b[^;\n]*;\s*)*"
            r"(?:insert\s+(?:ignore\s+)?into|create\s+(?:table|database|schema)|drop\s+table)\s",
            re.IGNORECASE,
        ),
        "a dump of SQL statements; export the table as CSV",
    ),
    (
        re.compile(
            r"(?:From .*\n)?(?:[\w-]+:[ \t].*\n(?:[ \t].*\n)*)*?"  # RFC 5322, section 2.2
            r"(?:Received|Message-ID|MIME-Version|Content-Type|DKIM-Signature):[ \t]",
            re.IGNORECASE,
        ),
        "a message; paste its addresses, one a line",
    ),
    (
        re.compile(r"From \S+ +(?:mon|tue|wed|thu|fri|sat|sun) ", re.IGNORECASE),
        "a mailbox of messages; paste their addresses, one a line",
    ),
)


def check_is_list(head: str) -> None:
    """Refuse a text that begins as no list does.

    Raises:
        MailsiftError: `unsupported_format`.
    """
    for beginning, name in _NO_LISTS:
        if beginning.match(head):
            raise _is_something_else(name)


def _is_something_else(name: str) -> MailsiftError:
    return MailsiftError("unsupported_format", f"The file is {name}.")


def looks_like_json(head: str) -> str:
    """Return "json" for an array, "jsonl" for objects one a line, else ""."""
    text = head.lstrip()
    if re.match(r'\[\s*(?:[\[{"\]]|-?\d|null\b|$)', text):
        return "json"
    return "jsonl" if re.match(r'\{\s*["}]', text) else ""


_EXCEL_HINT = re.compile(r'("?)sep=(.)\1(?:\r?\n|\r)', re.ASCII | re.IGNORECASE)
_MAY_PART = re.compile(r"[^\w\"\x00-\x08\x0a-\x1f\x7f]", re.ASCII)
"""One octet for polars."""


def said_delimiter(head: str) -> tuple[str, int]:
    """Return what parts the cells, as a first line says that only spreadsheets read, and that line's length.

    "" is said where it is nothing that could, and 0 is the length where there is no such line.
    """
    hint = _EXCEL_HINT.match(head)
    if hint is None:
        return "", 0
    return hint[2] if hint[2].isascii() and _MAY_PART.match(hint[2]) else "", len(hint[0])


@dataclass(frozen=True, slots=True)
class Dialect:
    """How lines are cut into cells.

    Attributes:
        delimiter: "" for one cell a line.
        columns: the usual width.
        spaced: a blank follows each delimiter, and quotes begin after it.
    """

    delimiter: str
    columns: int
    spaced: bool = False


_DELIMITERS = (",", ";", "\t", "|")
_DELIMITERS_IN_ADDRESSES = ("^", "~", ":")
"""These may stand in an address, too, or before it: what is above or behind tells that they part cells."""


def dialect_of(head: str, named: str = "") -> Dialect:
    """Find the delimiter that cuts most records into the same number of cells, best one with an address.

    Args:
        head: the first records.
        named: the delimiter that the file itself names, if it does; it is believed where it cuts anything.
    """
    known = (*_DELIMITERS, *(mark for mark in _DELIMITERS_IN_ADDRESSES if _parts_cells(head, mark)))
    scored = _scored(head, named) or _scored(head, known)
    if not scored:
        return Dialect(delimiter="", columns=1)
    score, delimiter = max(scored)
    return Dialect(delimiter=delimiter, columns=score[2], spaced=_is_spaced(head, delimiter))


def _scored(head: str, delimiters: Iterable[str]) -> list[tuple[tuple[bool, float, int], str]]:
    return [(score, delimiter) for delimiter in delimiters if (score := _score(head, delimiter))]


def _parts_cells(head: str, mark: str) -> bool:
    """Say whether the first record names an address column beside others, or a mark follows a domain."""
    first, *others = _records(head, mark, spaced=False) or [[]]
    is_header = len(first) > 1 and any(map(is_address_name, first))
    if is_header and any("@" in cell for cell in first):  # labels of all rows, or of this one
        return all(len(row) > 1 for row in others)
    return is_header or bool(re.search(rf"@[\w.-]+{re.escape(mark)}", head))


_ADDRESS_CELL = re.compile(r"[^\s@,;|]+@[^\s@,;|][^\s@,;|.]*\.[^\s@,;|]+")  # one way only to match many dots
_FEWEST_IN_LINE = 3  # one or two may be columns of a table


def addresses_in_line(text: str) -> list[str]:
    """Return the addresses, perhaps with names, of a text that is one line of them and nothing else.

    As the header of a message it may begin with the name of a field, and go on in other lines: where one ends
    with the delimiter, or the next one begins with a blank.
    """
    found = (_recipients(text.strip(), delimiter) for delimiter in _DELIMITERS)
    return next(filter(None, found), []) or _words_of_line(text.strip())


def _words_of_line(line: str) -> list[str]:
    """Return the words of one line if each is an address."""
    words = line.split()
    is_line = len(line.splitlines()) == 1 and len(words) >= _FEWEST_IN_LINE
    return words if is_line and all(map(_ADDRESS_CELL.fullmatch, words)) else []


_RECIPIENT = re.compile(rf"{_ADDRESS_CELL.pattern}|[^@<>]*<{_ADDRESS_CELL.pattern}>")
_FIELD_NAME = re.compile(r"(?:^|(?<![\r\n])[\r\n]+)[^\W\d_]{2,20}:[ \t]+")  # To: Cc: An: Destinataire:
_FIRST_TAB = r"(?<![ \t]) *\t"  # of blanks that stand together: thousands are sought through once
_FOLD = re.compile(r"(?:\r\n?|\n)[ \t]+")  # RFC 5322, section 2.2.3


def _recipients(text: str, delimiter: str) -> list[str]:
    text = _FIELD_NAME.sub(lambda found: f"{delimiter}\n" if found.start() else "", text)
    mark = _FIRST_TAB if delimiter == "\t" else re.escape(delimiter)
    broken = re.compile(rf"{mark}[ \t]*+(?:\r\n?|\n)\s*")
    line, breaks = broken.subn(f"{delimiter} ", _FOLD.sub(" ", text))
    if breaks and line.endswith(delimiter):  # as rows of a table do whose last column is empty
        return []
    first, *others = _records(line, delimiter, spaced=True) or [[]]
    cells = [cell for cell in map(str.strip, first) if cell]
    is_one = not others and len(cells) >= max(_FEWEST_IN_LINE, breaks + 2)
    return cells if is_one and all(map(_RECIPIENT.fullmatch, cells)) else []


_SAMPLE_RECORDS = 200


def _records(head: str, delimiter: str, *, spaced: bool, strict: bool = False) -> list[list[str]]:
    reader = csv.reader(
        io.StringIO(head, newline=""), delimiter=delimiter, skipinitialspace=spaced, strict=strict
    )
    return [row for row in islice(reader, _SAMPLE_RECORDS) if row]


def _is_spaced(head: str, delimiter: str) -> bool:
    """Say whether a blank follows each delimiter, and whole cells in quotes some of these."""
    if f'{delimiter} "' not in head:
        return False
    try:
        _records(head, delimiter, spaced=True, strict=True)
    except csv.Error:  # what begins in quotes goes on behind them
        return False
    plain = _records(head, delimiter, spaced=False)
    return all(not cell or cell.startswith(" ") for row in plain for cell in row[1:])


def _score(head: str, delimiter: str) -> tuple[bool, float, int] | None:
    """Rate a delimiter: is there an address cell, share of records with the usual width, that width."""
    records = _records(head, delimiter, spaced=_is_spaced(head, delimiter))
    if not records:
        return None
    (width, count), *_ = Counter(len(row) for row in records).most_common(1)
    header = records[header_place(records)]
    if width == 1 and any(map(is_address_name, header)):
        # It says how many cells there may be where most rows end early, or notes stand above.
        width = len(header)
        count = sum(len(row) <= width for row in records)
    if width == 1:
        return None
    has_address = any(_holds_addresses(cell) for row in records for cell in row)
    return has_address, count / len(records), width


def holds_addresses(head: str, dialect: Dialect) -> bool:
    """Say whether a cell of the first records is nothing but an address or several."""
    records = _records(head, dialect.delimiter or "\0", spaced=dialect.spaced)  # no text has a NUL
    return any(_holds_addresses(cell) for row in records for cell in row)


def named_place(head: str, dialect: Dialect) -> tuple[int, int]:
    """Return how wide the header is, and the place of its only address column; (0, 0) if first rows disagree.

    They agree where those as wide as the header have addresses, there and nowhere else.
    """
    records = _records(head, dialect.delimiter or "\0", spaced=dialect.spaced)
    header, *rows = records[header_place(records) :] or [[]]
    named = [place for place, name in enumerate(header) if is_address_name(name)]
    rows = [row for row in rows if len(row) == len(header)]
    found = {n for row in rows for n, cell in enumerate(row) if "@" in cell and is_bare_address(cell)}
    return (len(header), named[0]) if len(named) == 1 and found == {*named} else (0, 0)


def _holds_addresses(cell: str) -> bool:
    """Say whether a cell is nothing but an address or several, parted by what may part cells elsewhere."""
    return all(map(is_bare_address, re.split(r"[\s,;|]+", cell.strip(" \t,;|"))))


def is_bare_address(cell: str) -> bool:
    """Say whether a cell is an address by its looks, with nothing beside it."""
    return bool(_ADDRESS_CELL.fullmatch(cell.strip()))


def check_size(path: Path, limits: IntakeLimits) -> None:
    """Refuse an empty or a too big file."""
    size = path.stat().st_size
    if not size:
        raise MailsiftError("empty_file", "The file is empty.")
    refuse_big(size, limits)


_BLOCK = 1 << 20


def gunzip(source: Path, target: Path, limits: IntakeLimits) -> None:
    """Decompress a gzip file of one or more members (RFC 1952) within the limits."""
    packed, unpacked = source.stat().st_size, 0
    try:
        with gzip.open(source) as file, target.open("wb") as out:
            while block := file.read(_BLOCK):
                unpacked += out.write(block)
                _refuse_bomb(packed, unpacked)
                refuse_big(unpacked, limits)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise MailsiftError("bad_gzip", "The gzip file is damaged or incomplete.") from None


WORKBOOK: Final = "xl/workbook.xml"
"""The part that makes a zip archive a workbook."""

_OTHER_PACKAGES: Final = {  # parts that tell what a zip archive is which is no workbook of ours
    "xl/workbook.bin": "a binary Excel workbook (XLSB); save it as XLSX",
    "index/document.iwa": "a document of Apple’s Numbers or its kin; export it as CSV or XLSX",
    "content.xml": "an OpenDocument file (ODS); save it as XLSX or CSV",
}
_ZIP_ENTRIES = 10_000


def check_workbook(path: Path, limits: IntakeLimits) -> None:
    """Refuse zip files that are no workbooks, and those that say they unpack to too much."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        raise MailsiftError("bad_xlsx", "The file is a damaged XLSX or zip file.") from None
    parts = {part_name(entry.filename) for entry in entries}
    if WORKBOOK not in parts:
        known = (name for part, name in _OTHER_PACKAGES.items() if part in parts)
        raise _is_something_else(
            next(known, "a zip archive, but not an XLSX workbook; unpack it and send the list that is in it")
        )
    unpacked = sum(entry.file_size for entry in entries)
    _refuse_bomb(path.stat().st_size if len(entries) <= _ZIP_ENTRIES else 0, unpacked)
    refuse_big(unpacked, limits)


def part_name(name: str) -> str:
    """Return the name of a workbook's part as all programs mean it, whatever its case and slashes."""
    return name.replace("\\", "/").lower()


_BLANK_LINE = re.compile(rb"\n\r?\n")
_LONE_RETURN = re.compile(rb"\r[^\n]")  # of one at the end nobody knows yet


class TextScan:
    """One pass over a text file that shall be UTF-8, at the speed of memory.

    Attributes:
        utf8: it is; when it is not, the other attributes mean nothing.
        quotes: there are double quotes.
        escapes: there are double quotes behind backslashes.
        blanks: there are empty lines.
        lone_returns: there are carriage returns that do not end a line together with a line feed.

    Raises:
        MailsiftError: `binary_file`, `line_too_long` or `too_many_columns`.
    """

    def __init__(self, path: Path, limits: IntakeLimits) -> None:
        self.utf8 = True
        self.quotes = self.escapes = self.blanks = self.lone_returns = False
        self._path, self._limits = path, limits
        self._offset = self._pending = 0
        decoder, before = codecs.getincrementaldecoder("utf-8")(), b"\n"
        try:
            with path.open("rb") as file:
                while block := file.read(limits.line_bytes):
                    if not block.isascii() or decoder.getstate()[0]:
                        decoder.decode(block)
                    self._measure(block)
                    self._note(before + block[:2])
                    self._note(block)
                    before = block[-2:]
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            self.utf8 = False
        self.lone_returns = self.lone_returns or before.endswith(b"\r")

    def _measure(self, block: bytes) -> None:
        """Find NUL bytes and long lines; a line inside one block cannot be too long."""
        if b"\0" in block:
            raise MailsiftError(
                "binary_file", f"There is a NUL byte near line {self._line:,}; text files have none."
            )
        end = b"\n" if b"\n" in block else b"\r"
        first = block.find(end)
        if self._pending + (len(block) if first < 0 else first) > self._limits.line_bytes:
            raise self._too_long(block)
        self._pending = self._pending + len(block) if first < 0 else len(block) - block.rfind(end) - 1
        self._offset += len(block)

    def _note(self, text: bytes) -> None:
        """Look for what needs care in a block, or in the four bytes around the seam of two."""
        self.quotes = self.quotes or b'"' in text
        # two octets are sought at a twentieth of the speed of one
        self.escapes = self.escapes or (self.quotes and b"\\" in text and b'\\"' in text)
        self.blanks = self.blanks or bool(_BLANK_LINE.search(text))
        self.lone_returns = self.lone_returns or bool(_LONE_RETURN.search(text))

    def _too_long(self, block: bytes) -> MailsiftError:
        columns = self._limits.columns
        if any(block.count(delimiter) > columns for delimiter in map(str.encode, _DELIMITERS)):
            return too_many_columns(columns)
        text = f"Line {self._line:,} is longer than {self._limits.line_bytes:,} bytes."
        return MailsiftError("line_too_long", text)

    @property
    def _line(self) -> int:
        """The number of the line where the block starts; counted only when somebody has to be told."""
        with self._path.open("rb") as file:
            size = self._limits.line_bytes
            return 1 + sum(file.read(size).count(b"\n") for _ in range(self._offset // size))


def too_many_columns(limit: int) -> MailsiftError:
    """Say that the list is too wide."""
    return MailsiftError("too_many_columns", f"The list has more than {limit:,} columns.")


def too_many_rows(limit: int) -> MailsiftError:
    """Say that the list is too long."""
    return MailsiftError("too_many_rows", f"The list has more than {limit:,} rows.")


def refuse_big(size: int, limits: IntakeLimits) -> None:
    """Refuse more octets than a list may have, counted unpacked."""
    if size > limits.bytes:
        text = f"The file is larger than {limits.bytes / 2**20:,.0f} MiB, counted unpacked."
        raise MailsiftError("file_too_large", text)


BOMB_BYTES = 64 * 2**20
_BOMB_RATIO = 50


def _refuse_bomb(packed: int, unpacked: int) -> None:
    if unpacked > BOMB_BYTES and unpacked > _BOMB_RATIO * packed:
        text = f"The file unpacks to more than {_BOMB_RATIO} times its size."
        raise MailsiftError("compression_bomb", text)


AS_WINDOWS: Final = "mailsift.windows-1252"
"""The error handler that reads octets that are no UTF-8 as Windows-1252, each by itself: in a text that is
UTF-8 otherwise, for files are put together from others."""
_UTF8_LETTER: Final = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
"""A character beyond ASCII, as UTF-8 writes it (RFC 3629 section 4)."""
_ASCII: Final = bytes(range(128))


def is_mostly_utf8(path: Path) -> bool:
    """Say whether most characters beyond ASCII are written as UTF-8, as hardly any in Windows-1252 look."""
    letters = others = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            found = _UTF8_LETTER.findall(block)
            letters += len(found)
            others += len(block.translate(None, _ASCII)) - sum(map(len, found))
    return letters > others


def _as_windows(error: UnicodeError) -> tuple[str, int]:
    """Return what Windows-1252 takes the octets for that are no UTF-8, and where they end."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    octets = error.object[error.start : error.end]
    try:
        return octets.decode("cp1252"), error.end
    except UnicodeDecodeError:  # five octets mean nothing there
        return octets.decode("latin-1"), error.end


codecs.register_error(AS_WINDOWS, _as_windows)


_OTHER_SCRIPTS: Final = (
    *("cp1251", "koi8-r", "cp866", "cp1253", "cp1255", "cp1256", "cp874"),
    *("cp932", "euc-jp", "gb18030", "big5", "cp949"),
)
"""What Excel and others write where letters are Cyrillic, Greek, Hebrew, Arabic, Thai or East Asian."""
_CELL: Final = re.compile(rb"[^,;|\t\r\n]+")
_WORD: Final = re.compile(rb"[A-Za-z\x80-\xff]{3,}")
_NOT_LATIN: Final = 0.7
"""So many octets of words are beyond ASCII where any are: of Latin ones 0.4 at most, of others from 0.8."""
_HANGUL: Final = re.compile("[\uac00-\ud7a3]")


def old_encodings(path: Path) -> list[str]:
    """Name what a text that is no UTF-8 may be in, the likeliest first; the last one takes every octet."""
    with path.open("rb") as file:
        cells = b" ".join(cell for cell in _CELL.findall(file.read(HEAD_BYTES)) if not cell.isascii())
    words = [word for word in _WORD.findall(cells) if not word.isascii()]
    if sum(len(word.translate(None, _ASCII)) for word in words) <= _NOT_LATIN * sum(map(len, words)):
        return [_latin_encoding(cells), "cp1252", "latin-1"]
    from chardet import detect  # noqa: PLC0415 - few lists need it

    guess = detect(cells, include_encodings=_OTHER_SCRIPTS, no_match_encoding=_OTHER_SCRIPTS[0])
    found = codecs.lookup(guess["encoding"] or "cp1252").name
    if found == "cp949" and 2 * len(_HANGUL.findall(text := cells.decode(found, "ignore"))) < len(text):
        found = "gb18030"  # names are written in Hangul in Korea
    return [found, "cp1252", "latin-1"]


def _latin_encoding(text: bytes) -> str:
    """Name the likeliest encoding of a text in Latin letters, by the letters of the names in it.

    That is Windows-1252 where others are no likelier. A reading of a word is worth as much as its letters are
    frequent in names of one language that is written in that encoding. The octets of Dvořák are Dvoøák in
    Windows-1252: hardly a language of Western Europe has both of ø and á, and Czech has both of ř and á.
    """
    shapes = Counter(_word_shape(word) for word in set(_LATIN_WORD.findall(text)) if not word.isascii())
    rated = {encoding: _log_likelihood(shapes, encoding) for encoding in _READINGS}
    best = max(rated, key=rated.__getitem__)
    return best if rated[best] > rated[_USUAL_LATIN] + math.log(_SURER) else _USUAL_LATIN


_USUAL_LATIN: Final = "cp1252"


def _languages(*letters: str) -> tuple[Mapping[str, float], ...]:
    return tuple(map(_letter_shares, letters))


def _letter_shares(letters: str) -> Mapping[str, float]:
    often, seldom = letters.split()
    weights = Counter({letter: 10 * times for letter, times in Counter(often).items()})
    weights.update(seldom)
    return {letter: weight / weights.total() for letter, weight in weights.items()}


def _in_usual(shares: Mapping[str, float]) -> Mapping[str, float]:
    """Return what Windows-1252 can write of a language's names: they may be guests in a Western list."""
    return {letter: share for letter, share in shares.items() if letter.encode(_USUAL_LATIN, "ignore")}


# Letters beyond ASCII of a language's names: frequent ones about as often as they come, then seldom ones.
_WESTERN: Final = _languages(
    "äööüüüß é",  # German
    "éééèêëàâîïôçœ ûùæÿü",  # French
    "ááéíííóóññ úüàèçôâ",  # Spanish
    "ãããááââçççéíóú àêôõü",  # Portuguese
    "àèéìòù îâ",  # Italian
    "ëë éèïöüçêáûâú",  # Dutch
    "ååääööö éü",  # Swedish, Finnish
    "æåøøø éöüä",  # Danish, Norwegian
    "ááéííóóúðððöþþæ ý",  # Icelandic
    "ààèèéííòóúç ïüñ",  # Catalan
    "äääõõõüüö šž",  # Estonian
    "ëëë ç",  # Albanian
)
_CENTRAL: Final = _languages(
    "ááááííííéřřěěčččšššžžý úůňďťüóö",  # Czech
    "ááááčččšššééííľžý ňúďťôóäŕĺüö",  # Slovak
    "ááááééééíóóöööőőü úű",  # Hungarian
    "łłłłśńńóóżąęć źüö",  # Polish
    "ćććččšššžđ ö",  # Croatian, Slovenian, Bosnian, Serbian
    "ăăăţţşşâî öé",  # Romanian
)
_TURKISH: Final = _languages("üüüşşşııııççöğğ İâîû")
_BALTIC: Final = _languages(
    "ėėėėžžžšššūūčč ąęįųö",  # Lithuanian
    "īīīāāāņņņēēšššū ķžģļčö",  # Latvian
    "äääõõõüüö šž",  # Estonian
)
_READINGS: Final = {
    _USUAL_LATIN: (*_WESTERN, *map(_in_usual, (*_CENTRAL, *_TURKISH, *_BALTIC))),
    "cp1250": _CENTRAL,
    "iso8859-2": _CENTRAL,
    "cp1254": _TURKISH,  # ISO 8859-9, too: their letters are the same
    "cp1257": _BALTIC,  # ISO 8859-13, too
    "mac-roman": _WESTERN,
    "iso8859-15": _WESTERN,
    "cp858": _WESTERN,  # of DOS: 850 with a euro
    "cp852": _CENTRAL,
}

_LATIN_WORD: Final = re.compile(rb"[A-Za-z\x80-\xff]{2,}")
_SMALL, _CAPITALS = re.compile(rb"[a-z]+"), re.compile(rb"[A-Z]+")
_IN_NAMES: Final = "\u2019\xa0"
"""An apostrophe, and a blank that breaks no line."""
_NO_LETTERS: Final = "ªºµ"
_UNREAD: Final = "\ufffd"
"""What is read for an octet that an encoding does not know."""

# What is worth as much as a letter that is so frequent:
_LIKE_COMMON: Final = 0.3
_AT_EDGE: Final = 0.03  # a sign where a word begins or ends, like a quotation mark
_FOREIGN: Final = 1e-3  # a letter that the language's names do not have
_SMALL_FIRST: Final = 0.1  # besides what the letter is worth: names begin with capitals
_STRANGE: Final = 1e-4  # a sign inside a word, a capital behind a small letter, an octet that means nothing

_GUESTS: Final = 0.1
"""So many names of a list are of another language than most."""
_SURER: Final = 50
"""So many times likelier than Windows-1252 must another encoding be."""


def _word_shape(word: bytes) -> bytes:
    """Return what counts of a word: the octets beyond ASCII, and the kind of letters between them."""
    return _CAPITALS.sub(b"A", _SMALL.sub(b"a", word))


def _log_likelihood(shapes: Mapping[bytes, int], encoding: str) -> float:
    """Rate what the words read as: names of one language, with some guests."""
    words = [shape.decode(encoding, "replace") for shape in shapes]
    by_language = [[_word_worth(word, shares) for word in words] for shares in _READINGS[encoding]]
    best = [max(worths) for worths in zip(*by_language, strict=True)]
    return max(
        sum(
            count * math.log((1 - _GUESTS) * worth + _GUESTS * most)
            for count, worth, most in zip(shapes.values(), worths, best, strict=True)
        )
        for worths in by_language
    )


def _word_worth(word: str, shares: Mapping[str, float]) -> float:
    worth = 1.0
    for before, letter, behind in zip(" " + word, word, word[1:] + " ", strict=False):
        if letter.isascii():
            continue
        if not letter.isalpha() or letter in _NO_LETTERS:
            worth *= _sign_worth(letter, is_inside=before != " " and behind != " ")
        else:
            worth *= shares.get(letter, shares.get(letter.lower(), _FOREIGN))
            worth *= _case_worth(letter, before)
    return max(worth, sys.float_info.min)  # a word may be long


def _case_worth(letter: str, before: str) -> float:
    if letter.isupper():
        return _STRANGE if before.islower() else 1
    return _SMALL_FIRST if before == " " else 1


def _sign_worth(sign: str, *, is_inside: bool) -> float:
    if sign in _IN_NAMES:
        return _LIKE_COMMON
    is_control = not sign.isprintable() or sign == _UNREAD
    return _STRANGE if is_inside or is_control else _AT_EDGE
