"""Reads files of outcomes: tables whose columns are recognised (CSV, JSON, Parquet), and messages."""

from __future__ import annotations

import asyncio
import csv
import json
import mailbox
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TextIO, TypeAlias, TypeVar

import polars as pl

from mailsift.jobs.columns import cell_text
from mailsift.jobs.intake.models import IntakeLimits
from mailsift.jobs.intake.sniff import (
    AS_WINDOWS,
    HEAD_BYTES,
    FileContainer,
    container_of,
    dialect_of,
    encoding_of,
    gunzip,
    is_mostly_utf8,
    looks_like_json,
    old_encodings,
    said_delimiter,
)
from mailsift.jobs.intake.table import MOST_NOTES, header_place
from mailsift.jobs.outcomes import MOST_BYTES
from mailsift.jobs.outcomes.tables import (
    OUTCOME_SAMPLE_ROWS,
    Row,
    address_at,
    address_column,
    cell_at,
    frame_of,
    is_kind,
    is_of_people,
    is_reply,
    kind_in_name,
    kind_of,
    letters,
    read_rows,
    reader_of,
    share,
    subscribed_in,
)
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.messages import read_message
from mailsift.pipeline.outcomes.outcome import WISHES, OutcomeKind, ParsedOutcome, whole_characters
from mailsift.pipeline.outcomes.senders import read_event, sender_of
from mailsift.pipeline.outcomes.times import day_first_in, epoch

_LONGEST_CELL: Final = 10_000
_MOST_ROWS: Final = 2_000_000
"""Of Parquet, which says nothing of itself by its size; about what the longest CSV file has."""
_MOST_CELLS: Final = 20 * _MOST_ROWS
_MBOX: Final = re.compile(rb"\AFrom \S+")
_MESSAGE: Final = re.compile(rb"\A(?:[!-9;-~]{1,78}:[^\r\n]*(?:\r?\n|\r)(?:[ \t][^\r\n]*(?:\r?\n|\r))*){2}")


@asynccontextmanager
async def unpacked(path: Path) -> AsyncIterator[Path]:
    """Give a file of outcomes as it is, or what it holds where it is compressed with gzip, as logs are kept.

    Raises:
        MailsiftError: `bad_gzip`, `compression_bomb` or `file_too_large`.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if container_of(head) is not FileContainer.GZIP:
        yield path
        return
    with TemporaryDirectory(prefix="outcomes-") as folder:
        held = Path(folder) / "unpacked"
        await asyncio.to_thread(gunzip, path, held, IntakeLimits(bytes=MOST_BYTES))
        yield held


def read_outcomes(path: Path) -> Iterator[ParsedOutcome]:
    """Read a file of outcomes.

    Args:
        path: CSV, JSON, JSON lines, Parquet, one message (RFC 5322) or many (mbox).

    Yields:
        An outcome for each row and for each recipient of each message; None for what cannot be read. A
        message that reports nothing yields nothing.

    Raises:
        MailsiftError: `empty_file`, `unsupported_format`, `binary_file`, `too_many_rows`, `no_address_column`
            or `no_outcome_column`.
    """
    head = _head_of(path)
    if _MBOX.match(head):
        return chain.from_iterable(_of_message(raw, came) for raw, came in _messages(path))
    if _MESSAGE.match(head) and not looks_like_json(head[:100].decode("latin-1")):
        return iter(_of_message(path.read_bytes()))
    if records := _records_in(path, head):
        return _read_records(records)
    names, rows = _rows(path, head)
    return read_rows(rows, names)


def read_suppressed(path: Path) -> Iterator[tuple[str, str, float]]:
    """Read a file of addresses not to send to: any table with a column of addresses.

    Amazon SES's and SendGrid's lists are among them, as CSV or as JSON.

    Args:
        path: CSV, JSON, JSON lines, Parquet, or one address a line.

    Yields:
        The address as it stands, the kind of outcome it is there for ("" when the file does not say), and
        since when (epoch seconds, 0 when it does not say). Of an export of everybody, nobody whom it calls
        subscribed; of a report on a mailing, nobody whom it reached, or may reach yet.

    Raises:
        MailsiftError: `empty_file`, `unsupported_format`, `binary_file` or `no_address_column`.
    """
    head = _head_of(path)
    records = _records_in(path, head)
    names, rows = _table_of(map(_flat, records)) if records else _rows(path, head)
    return _of_suppressed(names, rows)


def _head_of(path: Path) -> bytes:
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head.strip():
        raise MailsiftError("empty_file", "The file is empty.")
    return head


def _of_suppressed(names: tuple[str, ...] | None, rows: Iterator[Row]) -> Iterator[tuple[str, str, float]]:
    first = list(islice(rows, OUTCOME_SAMPLE_ROWS))
    if not first:
        raise MailsiftError("empty_file", "The file has no rows.")
    frame = frame_of(first)
    choice = address_column(frame, names)
    plain = [letters(name) for name in choice.names]
    when = next((plain.index(word) for word in _SINCE.split() if word in plain), None)
    cells = frame.slice(1 if choice.header else 0)
    day_first = None if when is None else day_first_in(cells.to_series(when))
    columns = [list(column) for column in cells]
    kinds = [
        place
        for place, column in enumerate(columns)
        if any(map(_is_reason, column)) and share(column, _is_entry) >= 0.5
    ]
    is_written_to = subscribed_in(columns, choice.names)
    kinds_named = {kind_of(cell) for cell in columns[kinds[0]]} if kinds else set()
    is_report = OutcomeKind.DELIVERED in kinds_named and not _GIVEN_UP.isdisjoint(kinds_named)
    replies = any(share(column, is_reply) >= 0.3 for column in cells)
    usual = OutcomeKind.BOUNCED.value if replies else ""
    for row in chain(first[1:] if choice.header else first, rows):
        kind = kind_of(cell_at(row, kinds[0])) if kinds else None
        if is_written_to(row) or (is_report and kind not in _GIVEN_UP):
            continue
        if email := address_at(row, choice.index):
            since = epoch(cell_at(row, when), day_first=day_first)
            yield email, kind.value if kind else "" if kinds else usual, since


def _is_reason(cell: str) -> bool:
    return is_kind(cell) or cell.strip().lower() == "manual"


def _is_entry(cell: str) -> bool:
    return _is_reason(cell) or is_of_people(cell)


_GIVEN_UP: Final = WISHES | {OutcomeKind.BOUNCED}
"""What has nobody written to any more."""
_SINCE: Final = "since created createdat lastupdatetime suppressedat timestamp time date"


def _messages(path: Path) -> Iterator[tuple[bytes, float]]:
    """Return the messages of an mbox (RFC 4155), and when each came there (epoch seconds)."""
    box = mailbox.mbox(path, create=False)
    try:
        for key in box.iterkeys():
            first_line, _, raw = box.get_bytes(key, from_=True).partition(b"\n")
            yield raw, epoch(first_line.decode("ascii", "replace").partition(" ")[2].partition(" ")[2])
    finally:
        box.close()


def _of_message(raw: bytes, came: float = 0.0) -> Sequence[ParsedOutcome]:
    """Return what a message reports; what names no time happened when the message came."""
    try:
        return [replace(one, happened_at=one.happened_at or came) for one in read_message(raw)]
    except MailsiftError:
        return [None]


# Tables.

_Record: TypeAlias = Mapping[str, Any]
_T = TypeVar("_T")
_BLOCK: Final = 1 << 16
_DEEPEST: Final = 6
"""Objects in objects that are looked into: so deep does Klaviyo say why it does not write to somebody."""
_MOST_FIELDS: Final = 1_000
"""Columns that are looked at: each costs time, and a line of a few kilobytes may have thousands."""


def _rows(path: Path, head: bytes) -> tuple[tuple[str, ...] | None, Iterator[Row]]:
    """Return the names of a table's columns, None where the first row may hold them, and its rows."""
    if container_of(head) is FileContainer.PARQUET:
        frame = _parquet(path)
        return tuple(frame.columns), (tuple(map(_cell, row)) for row in frame.iter_rows())
    if container_of(head) is not FileContainer.TEXT:
        text = "Outcomes come as CSV, JSON, JSON lines, Parquet, or as messages."
        raise MailsiftError("unsupported_format", text)
    encoding = _encoding(path, head)
    start = head.decode(encoding, "replace")
    named, length = said_delimiter(start)
    rows = _csv_rows(path, encoding, dialect_of(start[length:], named).delimiter or ",")
    return None, _below_notes(islice(rows, bool(length), None))


def _below_notes(rows: Iterator[Row]) -> Iterator[Row]:
    """Return a table without the titles that programs write above its header, as of a list."""
    first = list(islice(rows, MOST_NOTES + 1))
    return chain(first[header_place(first) :], rows)


def _encoding(path: Path, head: bytes) -> str:
    """Name a text's encoding; what is no UTF-8 is read as in a list."""
    guess = encoding_of(head)
    if guess != "utf-8" or _is_in(path, guess) or is_mostly_utf8(path):
        return guess
    return next((one for one in old_encodings(path) if one != "latin-1" and _is_in(path, one)), "cp1252")


def _is_in(path: Path, encoding: str) -> bool:
    with path.open(encoding=encoding, newline="") as file, suppress(UnicodeDecodeError):
        while file.read(_BLOCK):
            pass
        return True
    return False


def _opened(path: Path, encoding: str, newline: str | None = None) -> TextIO:
    """Open a text of which each octet that is not in its encoding counts for itself."""
    errors = AS_WINDOWS if encoding.startswith("utf-8") else "replace"
    return path.open(encoding=encoding, errors=errors, newline=newline)


def _parquet(path: Path) -> pl.DataFrame:
    """Read a table that may be a bomb: a few kilobytes of Parquet hold billions of cells, or long ones."""
    try:
        table = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        kept = {name: dtype for name, dtype in table.collect_schema().items() if not dtype.is_nested()}
        _check_size(table.select(pl.len()).collect().item(), len(kept))
        return table.select(_bounded(name, dtype) for name, dtype in kept.items()).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise MailsiftError("bad_parquet", "The Parquet file is damaged.") from error


def _check_size(rows: int, columns: int) -> None:
    if rows > _MOST_ROWS or rows * columns > _MOST_CELLS:
        raise MailsiftError("too_many_rows", f"A Parquet file can have at most {_MOST_ROWS:,} rows here.")


def _bounded(name: str, dtype: pl.DataType) -> pl.Expr:
    if isinstance(dtype, pl.String | pl.Binary | pl.Categorical | pl.Enum):
        return cell_text(name, dtype).str.slice(0, _LONGEST_CELL)
    return pl.col(name)


def _csv_rows(path: Path, encoding: str, delimiter: str) -> Iterator[Row]:
    with _opened(path, encoding, newline="") as file:
        lines = (line.replace("\0", "") for line in file)
        try:
            rows = (row[:_MOST_FIELDS] for row in csv.reader(lines, delimiter=delimiter))
            yield from filter(any, rows)
        except csv.Error as error:
            raise MailsiftError("bad_csv", "A cell in the file is too long to be read.") from error


# JSON: objects one a line, one after another, in a list or in envelopes.


def _records_in(path: Path, head: bytes) -> Iterator[_Record] | None:
    """Return the objects of a file of JSON, None for another file."""
    if container_of(head) is not FileContainer.TEXT:
        return None
    encoding = _encoding(path, head)
    shape = looks_like_json(head.decode(encoding, "replace"))
    if not shape:
        return None
    values = _values_by_line(path, encoding) if _is_by_line(path, encoding) else _values(path, encoding)
    return chain.from_iterable(map(_records_of, values))


def _is_by_line(path: Path, encoding: str) -> bool:
    with _opened(path, encoding) as file:
        first = _decoded(next(filter(str.strip, file), ""))
    return len(first) == 1 and isinstance(first[0], dict)


def _values_by_line(path: Path, encoding: str) -> Iterator[Any]:
    with _opened(path, encoding) as file:
        yield from chain.from_iterable(_decoded(line) or [None] for line in filter(str.strip, file))


def _values(path: Path, encoding: str) -> Sequence[Any]:
    """Return what a file holds that is no object a line: a list, an object, or many after another."""
    with _opened(path, encoding) as file:
        found = _decoded(file.read()) or list(_values_by_line(path, encoding))
    if all(value is None for value in found):
        raise MailsiftError("bad_json", "The file isn’t valid JSON.")
    return found


def _decoded(text: str) -> list[Any]:
    """Return the values that stand in a text, one after another, as far as they can be read."""
    found, place = list[Any](), 0
    try:
        while place < len(text) and (blank := _BLANK.match(text, place)):
            value, place = _DECODER.raw_decode(text, blank.end())
            found.append(value)
    except (ValueError, RecursionError):
        pass  # what came before the damage has been read
    return found


_DECODER: Final = json.JSONDecoder()
_BLANK: Final = re.compile(r"[\s,\ufeff]*+(?!\Z)")


def _records_of(value: Any) -> Iterator[_Record]:
    """Yield the objects of a value: one, a list of some, or an envelope; a plain text is an address."""
    for one in value if isinstance(value, list) else [value]:
        for record in map(_wrapped_event, _unfolded(_wrapped_event(one))):
            yield record if isinstance(record, dict) else {"email": record} if isinstance(record, str) else {}


def _wrapped_event(found: Any) -> Any:
    """Return a sender's event that Amazon has wrapped (SNS, SQS, Lambda, logs), else what is given."""
    inner = found
    for _ in range(_DEEPEST):
        if not isinstance(inner, dict):
            break
        if sender_of(inner):
            return inner
        held = next((inner[name] for name in _WRAPPED_IN if name in inner), None)
        inner = next(iter(_decoded(held)), None) if isinstance(held, str) else held
    return found


_WRAPPED_IN: Final = ("Message", "Sns", "body", "Body", "detail", "message")


def _unfolded(found: Any) -> Sequence[Any]:
    """Return what an envelope holds, which names no address itself; anything else is a record."""
    if not isinstance(found, dict) or sender_of(found) or any("@" in held for held in _of(found, str)):
        return [found]
    lists, objects = _of(found, list), _of(found, dict)
    lists = [held for held in lists if held] or ([] if objects else lists)
    if len(lists) == 1:
        return _told_by_its_list(found, lists[0])
    if not lists and len(objects) == 1 and not any("@" in held for held in _of(objects[0], str)):
        inner = _of(objects[0], list)
        if len(inner) == 1:
            return _told_by_its_list(objects[0], inner[0])
        if objects[0] and all(map(str.isdecimal, objects[0])):  # Mautic's contacts, each by its id
            return list(objects[0].values())
    return [found]


def _told_by_its_list(envelope: _Record, held: list[Any]) -> Sequence[Any]:
    """Return what a list holds; what says itself nothing of what happened is what the list is called."""
    name = next(name for name, value in envelope.items() if value is held)
    meant = kind_in_name(name)
    if meant is None or not (meant[0] in WISHES or "bounce" in name.lower()) or any(map(_tells, held)):
        return held
    records = [{"email": one} if isinstance(one, str) else one for one in held]
    return [{"event": meant[0].value, **one} if isinstance(one, dict) else one for one in records]


def _tells(one: Any) -> bool:
    return isinstance(one, dict) and any(is_kind(cell) or is_reply(cell) for cell in _of(one, str))


def _of(record: _Record, kind: type[_T]) -> list[_T]:
    return [held for held in record.values() if isinstance(held, kind)]


def _read_records(records: Iterator[_Record]) -> Iterator[ParsedOutcome]:
    """Read events of senders as they post them to webhooks, and other records as rows of a table."""
    first = list(islice(records, OUTCOME_SAMPLE_ROWS))
    are_events = [bool((sender := sender_of(record)) and read_event(sender, record)) for record in first]
    names: Row = ()
    read: Callable[[Row], ParsedOutcome] = _nothing
    try:
        names, rows = _table_of(_flat(one) for one, known in zip(first, are_events, strict=True) if not known)
        read, _ = reader_of(names, list(rows))
    except MailsiftError:
        if not any(are_events):
            raise
    return chain.from_iterable(_read_record(record, names, read) for record in chain(first, records))


def _nothing(_row: Row) -> ParsedOutcome:
    return None


def _read_record(
    record: _Record, names: Row, read: Callable[[Row], ParsedOutcome]
) -> Sequence[ParsedOutcome]:
    sender = sender_of(record)
    if sender and (events := read_event(sender, record)):
        return events
    one = read(_row_of(_flat(record), names))
    # What its reader leaves out shows nothing, unless it came to a mailbox and was looked at there.
    return [one] if sender is None or (one and one.kind is OutcomeKind.DELIVERED) else []


def _table_of(records: Iterator[dict[str, str]]) -> tuple[tuple[str, ...], Iterator[Row]]:
    first = list(islice(records, OUTCOME_SAMPLE_ROWS))
    names = tuple(islice(dict.fromkeys(chain.from_iterable(first)), _MOST_FIELDS))
    if not names:
        raise MailsiftError("no_address_column", "The file contains no records with named fields.")
    return names, (_row_of(record, names) for record in chain(first, records))


def _row_of(record: dict[str, str], names: Row) -> Row:
    return tuple(record.get(name, "") for name in names)


def _flat(record: _Record) -> dict[str, str]:
    """Return the fields of a record and of the objects in it, by their paths; outer ones stand first."""
    flat: dict[str, str] = {}
    level: list[tuple[str, _Record]] = [("", record)]
    for _ in range(_DEEPEST):
        inner: list[tuple[str, _Record]] = []
        for path, held in level:
            for name, value in held.items():
                one = value[0] if isinstance(value, list) and len(value) == 1 else value
                place = path + whole_characters(name)
                if isinstance(one, dict):
                    inner.append((f"{place}.", one))
                elif one is not None and not isinstance(one, list):
                    flat[place] = _cell(one)
        level = inner
    return flat


def _cell(value: object) -> str:
    return "" if value is None else whole_characters(str(value)[:_LONGEST_CELL])
