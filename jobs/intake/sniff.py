"""Tell from a file's first bytes what it is: container, encoding, delimiter."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from pipeline.errors import MailsiftError

HEAD_BYTES = 65_536
"""How much of a file's beginning the sniffers look at."""


class Container(StrEnum):
    """What the first bytes say."""

    TEXT = "text"
    GZIP = "gzip"
    ZIP = "zip"
    PARQUET = "parquet"


_CONTAINERS = {b"\x1f\x8b": Container.GZIP, b"PK\x03\x04": Container.ZIP, b"PAR1": Container.PARQUET}

_UNSUPPORTED = {
    b"\xd0\xcf\x11\xe0": "an old or a password-protected Excel file; save it as XLSX without a password",
    b"\x28\xb5\x2f\xfd": "compressed with Zstandard; only gzip is accepted",
    b"BZh": "compressed with bzip2; only gzip is accepted",
    b"\xfd7zXZ": "compressed with xz; only gzip is accepted",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"Rar!": "a RAR archive",
    b"%PDF": "a PDF document",
    b"{\\rtf": "a rich text document",
}

_MARKS = {  # byte order marks; what Python calls the encodings that swallow them
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

_CONTROL = bytes({*range(0x20), 0x7F} - set(b"\t\n\x0b\x0c\r\x1b"))
_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_RECORDS = 200
_ADDRESS_CELL = re.compile(r"[^\s@,;|]+@[^\s@,;|]+\.[^\s@,;|]+")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How lines are cut into cells: `delimiter` is "" for one cell a line; `columns` is the usual width."""

    delimiter: str
    columns: int


def container_of(head: bytes) -> Container:
    """Name the container by its magic bytes.

    Raises:
        MailsiftError: `unsupported_format` for those we know and do not read.
    """
    for magic, name in _UNSUPPORTED.items():
        if head.startswith(magic):
            raise MailsiftError("unsupported_format", f"The file is {name}.")
    return next((kind for magic, kind in _CONTAINERS.items() if head.startswith(magic)), Container.TEXT)


def encoding_of(head: bytes) -> str:
    """Name the encoding by its mark or its NUL bytes; "utf-8" is a guess that reading must confirm.

    Raises:
        MailsiftError: `binary_file` when this cannot be text.
    """
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name
    even, odd = head[::2].count(0), head[1::2].count(0)
    if even + odd:
        # Addresses are mostly ASCII, so in UTF-16 about every second byte is NUL, always on the same side.
        low, high = sorted((even, odd))
        if high * 4 > len(head) and low * 20 < high:
            return "utf-16-le" if odd > even else "utf-16-be"
        raise MailsiftError("binary_file", "The file is not text: it has NUL bytes.")
    if len(head) - len(head.translate(None, _CONTROL)) > len(head) // 100:
        raise MailsiftError("binary_file", "The file is not text: it is full of control characters.")
    return "utf-8"


def looks_like_json(head: str) -> str:
    """Return "json" for an array, "jsonl" for objects one a line, else ""."""
    text = head.lstrip()
    if re.match(r'\[\s*(?:[\[{"\]]|-?\d|$)', text):
        return "json"
    return "jsonl" if re.match(r'\{\s*["}]', text) else ""


def dialect_of(head: str) -> Dialect:
    """Find the delimiter that cuts most records into the same number of cells, best one with an address."""
    scored = [(score, delimiter) for delimiter in _DELIMITERS if (score := _score(head, delimiter))]
    if not scored:
        return Dialect(delimiter="", columns=1)
    score, delimiter = max(scored)
    return Dialect(delimiter=delimiter, columns=score[2])


def _score(head: str, delimiter: str) -> tuple[bool, float, int] | None:
    """Rate a delimiter: is there an address cell, share of records with the usual width, that width."""
    records = [
        row
        for row in islice(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter), _SAMPLE_RECORDS)
        if row
    ]
    if not records:
        return None
    (width, count), *_ = Counter(len(row) for row in records).most_common(1)
    if width == 1:
        return None
    has_address = any(_ADDRESS_CELL.fullmatch(cell.strip()) for row in records for cell in row)
    return has_address, count / len(records), width
