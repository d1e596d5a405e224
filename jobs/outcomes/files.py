"""Reads files of outcomes: tables whose columns are recognised (CSV, JSON, Parquet), and messages."""

from __future__ import annotations

import csv
import json
import mailbox
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, TypeAlias
from unicodedata import combining, normalize

import polars as pl

from mailsift.jobs.intake.sniff import (
    HEAD_BYTES,
    FileContainer,
    container_of,
    dialect_of,
    encoding_of,
    looks_like_json,
)
from mailsift.jobs.intake.table import Choice, choose_column
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.messages import read_message
from mailsift.pipeline.outcomes.outcome import ACCEPTED, Outcome, OutcomeKind, Read, diagnose
from mailsift.pipeline.outcomes.times import day_first_in, epoch

_SAMPLE: Final = 1_000
_LOOKED_AT: Final = 50
"""Rows in which times are looked for, which takes longer than to look for words."""
_LONGEST_CELL: Final = 10_000
_MOST_ROWS: Final = 2_000_000
"""Of Parquet, which says nothing of itself by its size; about what the longest CSV file has."""
_MOST_CELLS: Final = 20 * _MOST_ROWS
_MBOX: Final = re.compile(rb"\AFrom \S+")
_MESSAGE: Final = re.compile(rb"\A(?:[!-9;-~]{1,78}:[^\r\n]*(?:\r?\n|\r)(?:[ \t][^\r\n]*(?:\r?\n|\r))*){2}")

KINDS: Final = {
    OutcomeKind.DELIVERED: "delivered delivery delivers ok success successful"
    " opened open opens clicked click clicks read replied viewed"
    " zugestellt livre remis delivre entregado entregue"
    " consegnato recapitato bezorgd afgeleverd dostarczono",
    OutcomeKind.BOUNCED: "bounced bounce bounces hardbounce hardbounced hard permanent permanentbounce"
    " failed failure fail dropped drop blocked block rejected reject invalid invalidemail undelivered"
    " undeliverable outofband permfail hardfail nonexistent expired returned nondelivery ndr"
    " unzustellbar abgewiesen abgelehnt fehlgeschlagen rejete refuse echec echoue rebote rebotado rechazado"
    " fallido devolvido rejeitado respinto rimbalzato fallito geweigerd mislukt odrzucono",
    OutcomeKind.DEFERRED: "deferred defer delay delayed deliverydelay softbounce softbounced soft temporary"
    " transient temporaryfailure temporaryfail tempfail softfail retrying greylisted"
    " verzogert differe retarde aplazado diferido adiado differito uitgesteld",
    OutcomeKind.COMPLAINED: "complained complaint complaints spam spamreport spamcomplaint abuse"
    " reportedspam feedback junk beschwerde plainte queja reclamacao reclamo klacht",
    OutcomeKind.UNSUBSCRIBED: "unsubscribed unsubscribe unsubscribes optout optedout groupunsubscribe"
    " listunsubscribe linkunsubscribe"
    " abgemeldet abbestellt desabonne desinscrit descadastrado disiscritto uitgeschreven afgemeld"
    " abmeldung abbestellung desinscription desabonnement baja descadastro disiscrizione uitschrijving"
    " afmelding",
}
"""What senders call a kind, in the letters of the word alone."""

_KIND_OF: Final = {word: kind for kind, words in KINDS.items() for word in words.split()}

_PHRASES: Final = (
    (re.compile(r"\b(?:re-?subscri\w+|not[ -]spam|non[ -]?spam)\b"), None),
    (re.compile(r"\b(?:spam|abuse|complain\w*|junk)\b"), OutcomeKind.COMPLAINED),
    (re.compile(r"\b(?:un-? ?subscri\w+|opt(?:ed)?[ -]?out)\b"), OutcomeKind.UNSUBSCRIBED),
    (re.compile(r"\b(?:soft|deferred|delayed|temporar\w+|transient)\b"), OutcomeKind.DEFERRED),
    (
        re.compile(
            r"\b(?:(?:hard|block)?[ -]?bounce[ds]?|un-?deliver\w+|not delivered|deliver\w+ fail\w+)\b"
        ),
        OutcomeKind.BOUNCED,
    ),
    (re.compile(r"\b(?:delivered|opened|clicked|received e-?mail)\b"), OutcomeKind.DELIVERED),
)
"""What a phrase of a few words means ("Unsubscribed by user"), the first row that is in it."""

_STATUS: Final = re.compile(r"[245]\.\d{1,3}\.\d{1,3}")
_LONGEST_PHRASE: Final = 6
_LONGEST_NAME: Final = 3
"""Words of a phrase in which one known word is enough."""

_COLUMNS: Final = {
    "kind": "event outcome kind status type eventtype eventname result action bouncetype state what"
    " lastevent",
    "when": "timestamp time when date happenedat occurredat createdat eventtime sentat bouncedat"
    " deliveredat datetime at ts",
    "words": "diagnostic diagnosticcode reason response smtpresponse message description error details"
    " bouncereason rawreason errormessage smtpreply bouncedescription",
    "status": "enhancedcode statuscode enhancedstatus dsn enhanced code bouncecode errorcode smtpcode",
    "message_id": "messageid smtpid id mailid sgmessageid providermessageid",
}
"""By what names columns are known, the first that a file has wins."""

_KIND_COLUMNS: Final = (
    (
        re.compile(r"bounced?(?:category|reason|class|type|description|detail)|cleaned(?:reason|time|at)"),
        OutcomeKind.BOUNCED,
    ),
    (
        re.compile(r"(?:complain(?:ed|t)|abuse|spam)(?:report)?(?:ed)?(?:time|date|at|on)\b"),
        OutcomeKind.COMPLAINED,
    ),
    (
        re.compile(r"(?:unsub|unsubscribed?|optout|optedout)(?:time|date|at|on|reason|campaign)"),
        OutcomeKind.UNSUBSCRIBED,
    ),
)
"""How a column begins that has a value only for messages to which this happened."""


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which column holds what, counted from 0; None for what a file does not say."""

    address: int
    kind: int | None
    when: int | None
    words: int | None
    status: int | None
    message_id: int | None
    day_first: bool | None = None
    sent_is_delivered: bool = False
    tells: tuple[tuple[int, OutcomeKind], ...] = ()


def read_outcomes(path: Path) -> Iterator[Read]:
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
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head.strip():
        raise MailsiftError("empty_file", "The file is empty.")
    if _MBOX.match(head):
        return chain.from_iterable(_of_message(raw, came) for raw, came in _messages(path))
    if _MESSAGE.match(head) and not looks_like_json(head[:100].decode("latin-1")):
        return iter(_of_message(path.read_bytes()))
    names, rows = _rows(path, head)
    return _read_rows(names, rows)


def read_suppressed(path: Path) -> Iterator[tuple[str, str, float]]:
    """Read a file of addresses not to send to: any table with a column of addresses.

    Amazon SES's and SendGrid's lists are among them, as CSV or as JSON.

    Args:
        path: CSV, JSON, JSON lines, Parquet, or one address a line.

    Yields:
        The address as it stands, the kind of outcome it is there for ("" when the file does not say), and
        since when (epoch seconds, 0 when it does not say).

    Raises:
        MailsiftError: `empty_file`, `unsupported_format`, `binary_file` or `no_address_column`.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head.strip():
        raise MailsiftError("empty_file", "The file is empty.")
    names, rows = _rows(path, head)
    return _of_suppressed(names, rows)


def _of_suppressed(names: tuple[str, ...] | None, rows: Iterator[_Row]) -> Iterator[tuple[str, str, float]]:
    first = list(islice(rows, _SAMPLE))
    if not first:
        raise MailsiftError("empty_file", "The file has no rows.")
    width = max(map(len, first))
    sample = [(*row, *[""] * (width - len(row))) for row in first]
    frame = pl.DataFrame(sample, schema=[f"c{place}" for place in range(width)], orient="row")
    choice = _address_column(frame, names)
    plain = [_letters(name) for name in choice.names]
    when = next((plain.index(word) for word in _SINCE.split() if word in plain), None)
    cells = frame.slice(1 if choice.header else 0)
    day_first = None if when is None else day_first_in(cells.to_series(when))
    kinds = [place for place, column in enumerate(cells) if _share(column, _is_reason) >= 0.5]
    replies = any(_share(column, _is_reply) >= 0.3 for column in cells)
    usual = OutcomeKind.BOUNCED.value if replies else ""
    for row in chain(first[1:] if choice.header else first, rows):
        kind = kind_of(_cell_at(row, kinds[0])) if kinds else None
        if email := _address_at(row, choice.index):
            since = epoch(_cell_at(row, when), day_first=day_first)
            yield email, kind.value if kind else "" if kinds else usual, since


def _is_reason(cell: str) -> bool:
    return _is_kind(cell) or cell.strip().lower() == "manual"


_SINCE: Final = "since created createdat lastupdatetime suppressedat timestamp time date"


def _cell_at(row: _Row, place: int | None) -> str:
    return row[place].strip() if place is not None and place < len(row) else ""


def _address_at(row: _Row, place: int) -> str:
    """Return an address without the apostrophe that an export puts before what looks like a formula."""
    cell = _cell_at(row, place)
    return cell[1:] if _DEFUSED.match(cell) else cell


_DEFUSED: Final = re.compile(r"'[=+\-]")


def _messages(path: Path) -> Iterator[tuple[bytes, float]]:
    """Return the messages of an mbox (RFC 4155), and when each came there (epoch seconds)."""
    box = mailbox.mbox(path, create=False)
    try:
        for key in box.iterkeys():
            first_line, _, raw = box.get_bytes(key, from_=True).partition(b"\n")
            yield raw, epoch(first_line.decode("ascii", "replace").partition(" ")[2].partition(" ")[2])
    finally:
        box.close()


def _of_message(raw: bytes, came: float = 0.0) -> Sequence[Read]:
    """Return what a message reports; what names no time happened when the message came."""
    try:
        return [replace(one, happened_at=one.happened_at or came) for one in read_message(raw)]
    except MailsiftError:
        return [None]


# Tables.

_Row: TypeAlias = Sequence[str]


def _rows(path: Path, head: bytes) -> tuple[tuple[str, ...] | None, Iterator[_Row]]:
    """Return the names of a table's columns, None where the first row may hold them, and its rows."""
    if container_of(head) is FileContainer.PARQUET:
        frame = _parquet(path)
        return tuple(frame.columns), (tuple(map(_cell, row)) for row in frame.iter_rows())
    if container_of(head) is not FileContainer.TEXT:
        text = "Outcomes come as CSV, JSON, JSON lines, Parquet, or as messages."
        raise MailsiftError("unsupported_format", text)
    encoding = encoding_of(head)
    shown = head.decode(encoding, "replace")
    if shape := looks_like_json(shown):
        return _records(path, encoding, shape)
    dialect = dialect_of(shown)
    return None, _csv_rows(path, encoding, dialect.delimiter or ",")


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
        return pl.col(name).cast(pl.String, strict=False).str.slice(0, _LONGEST_CELL)
    return pl.col(name)


def _csv_rows(path: Path, encoding: str, delimiter: str) -> Iterator[_Row]:
    with path.open(encoding=encoding, errors="replace", newline="") as file:
        lines = (line.replace("\0", "") for line in file)
        try:
            yield from (row for row in csv.reader(lines, delimiter=delimiter) if any(row))
        except csv.Error as error:
            raise MailsiftError("bad_csv", "A cell in the file is too long to be read.") from error


def _records(path: Path, encoding: str, shape: str) -> tuple[tuple[str, ...], Iterator[_Row]]:
    found = (
        _json_lines(path, encoding)
        if shape == "jsonl"
        else _json_or_none(path.read_text(encoding, "replace"))
    )
    if found is None:
        raise MailsiftError("bad_json", "The file isn’t valid JSON.")
    listed = [found] if isinstance(found, dict) else found
    records = map(_record_of, chain.from_iterable(map(_unfolded, listed)))
    first = list(islice(records, _SAMPLE))
    names = tuple(dict.fromkeys(chain.from_iterable(first)))
    if not names:
        raise MailsiftError("no_address_column", "The file contains no records with named fields.")
    return names, (tuple(record.get(name, "") for name in names) for record in chain(first, records))


def _json_lines(path: Path, encoding: str) -> Iterator[Any]:
    with path.open(encoding=encoding, errors="replace") as file:
        yield from map(_json_or_none, filter(str.strip, file))


def _json_or_none(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _unfolded(found: Any) -> Sequence[Any]:
    """Return what an envelope holds, which names no address itself; anything else is a record."""
    if not isinstance(found, dict) or any("@" in held for held in found.values() if isinstance(held, str)):
        return [found]
    lists: list[list[Any]] = [held for held in found.values() if isinstance(held, list)]
    return lists[0] if len(lists) == 1 else [found]


def _record_of(one: Any) -> dict[str, str]:
    return _flat(one) if isinstance(one, dict) else {"email": one} if isinstance(one, str) else {}


def _flat(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a record and of the objects in it, one level deep."""
    flat: dict[str, str] = {}
    for name, value in record.items():
        inner = value.items() if isinstance(value, dict) else [(name, value)]
        flat.update(
            {inner_name: _cell(inner_value) for inner_name, inner_value in inner if inner_value is not None}
        )
    return flat


def _cell(value: object) -> str:
    return "" if value is None else str(value)[:_LONGEST_CELL]


def _read_rows(names: tuple[str, ...] | None, rows: Iterator[_Row]) -> Iterator[Read]:
    first = list(islice(rows, _SAMPLE))
    if not first:
        raise MailsiftError("empty_file", "The file has no rows.")
    width = max(map(len, first))
    columns, header = _recognise(names, [(*row, *[""] * (width - len(row))) for row in first])
    for row in chain(first[1:] if header else first, rows):
        yield _read_row(row, columns)


def _recognise(names: tuple[str, ...] | None, sample: Sequence[_Row]) -> tuple[_Columns, bool]:
    """Find out which column holds what, by name and else by its cells; and whether there is a header."""
    frame = pl.DataFrame(sample, schema=[f"c{place}" for place in range(len(sample[0]))], orient="row")
    choice = _address_column(frame, names, _recipients(names or sample[0], sample))
    plain = [_letters(name) for name in choice.names]
    cells = frame.slice(1 if choice.header else 0)
    named = {
        role: next((plain.index(word) for word in words.split() if word in plain), None)
        for role, words in _COLUMNS.items()
    }
    kinds = [place for place, column in enumerate(cells) if _share(column, _is_kind) >= 0.5]
    named["kind"] = max(
        kinds, key=lambda place: (_count(cells.to_series(place)), place == named["kind"]), default=None
    )
    if named["words"] is None:
        others = (place for place in range(frame.width) if place not in {choice.index, named["kind"]})
        replies = [place for place in others if _share(cells.to_series(place), _is_reply) >= 0.3]
        named["words"] = replies[0] if replies else None
    if named["status"] is None:
        coded = (place for place, column in enumerate(cells) if _share(column, _STATUS.fullmatch) >= 0.8)
        named["status"] = next(coded, None)
    times = [place for place, column in enumerate(cells.head(_LOOKED_AT)) if _share(column, epoch) >= 0.8]
    if named["when"] not in times:
        named["when"] = times[0] if times else None
    tells = tuple(
        (place, kind)
        for place, name in enumerate(plain)
        for pattern, kind in _KIND_COLUMNS
        if pattern.match(name)
    )
    if named["kind"] is None and named["words"] is None and not tells:
        text = "No column says what happened: delivered, bounced, deferred, complained or unsubscribed."
        raise MailsiftError("no_outcome_column", text)
    arrived = named["kind"] is not None and _says_sent_for_delivered(cells.to_series(named["kind"]))
    day_first = None if named["when"] is None else day_first_in(cells.to_series(named["when"]))
    columns = _Columns(
        address=choice.index, **named, day_first=day_first, sent_is_delivered=arrived, tells=tells
    )
    return columns, choice.header


def _address_column(frame: pl.DataFrame, names: tuple[str, ...] | None, wanted: str = "") -> Choice:
    """Find the column of addresses as in a list; nobody can name another one here."""
    try:
        return choose_column(frame, names, wanted)
    except MailsiftError as error:
        if error.code != "no_address_column":
            raise
        text = "No column is named like one with addresses, and none holds any."
        raise MailsiftError("no_address_column", text) from None


def _says_sent_for_delivered(column: Iterable[str]) -> bool:
    """Say whether "sent" is what becomes of a message here: others bounced, and no word for delivered."""
    kinds = {kind_of(cell) for cell in column if cell}
    return OutcomeKind.BOUNCED in kinds and OutcomeKind.DELIVERED not in kinds


def _recipients(names: Sequence[str], sample: Sequence[_Row]) -> str:
    """Return the name of the column that says to whom, where another one may say from whom."""
    return next(
        (
            name
            for place, name in enumerate(names)
            if _TO.fullmatch(_letters(name)) and any("@" in row[place] for row in sample)
        ),
        "",
    )


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


_TO: Final = re.compile(
    r"(?:(?:final|original)?(?:recipients?|rcpt)(?:to)?|to)(?:e?mail)?(?:address(?:es)?)?"
)


def _count(column: Iterable[str]) -> int:
    return sum(map(_is_kind, filter(None, column)))


def _share(column: Iterable[str], holds: Any) -> float:
    filled = [cell for cell in column if cell and cell.strip()]
    return sum(map(bool, map(holds, filled))) / len(filled) if filled else 0.0


def kind_of(word: str) -> OutcomeKind | None:
    """Return what a sender's word means, "Hard Bounce" for one; None for words that tell of nothing."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|[_.:/]", " ", word)
    plain = _unaccented(apart).lower()
    known = _KIND_OF.get(re.sub(r"[^a-z]", "", plain))
    if known or not 1 < len(plain.split()) <= _LONGEST_PHRASE or re.search(r"\d", plain):
        return known
    said = next((row for row in _PHRASES if row[0].search(plain)), None)
    if said or len(plain.split()) > _LONGEST_NAME:
        return said[1] if said else None
    kinds = {_KIND_OF[word] for word in plain.split() if word in _KIND_OF}
    return kinds.pop() if len(kinds) == 1 else None


def _unaccented(word: str) -> str:
    return "".join(letter for letter in normalize("NFKD", word) if not combining(letter))


def _is_kind(cell: str) -> bool:
    return kind_of(cell) is not None


def _is_reply(cell: str) -> bool:
    return bool(re.search(r"(?<![\d.])[245]\d\d[ \-]|\b[245]\.\d{1,3}\.\d{1,3}\b", cell))


def _read_row(row: _Row, columns: _Columns) -> Read:
    words, status = _cell_at(row, columns.words), _cell_at(row, columns.status)
    kind = _kind_of_row(row, columns, words, status)
    texts = (_cell_at(row, place) for place, of in columns.tells if of is kind)
    words = words or next((cell for cell in texts if " " in cell), "")  # one word alone is their category
    address = _address_at(row, columns.address)
    if kind is None or "@" not in address:
        return None
    failed = kind in {OutcomeKind.BOUNCED, OutcomeKind.DEFERRED}
    diagnosis = diagnose(words, status=status, permanent=kind is OutcomeKind.BOUNCED) if failed else ACCEPTED
    at = epoch(_cell_at(row, columns.when), day_first=columns.day_first)
    return Outcome(address, kind, at, diagnosis, "file", _cell_at(row, columns.message_id)[:255])


def _kind_of_row(row: _Row, columns: _Columns, words: str, status: str) -> OutcomeKind | None:
    word = _cell_at(row, columns.kind)
    if columns.sent_is_delivered and word.lower() in {"sent", "send"}:
        return OutcomeKind.DELIVERED
    found = kind_of(word) if columns.kind is not None else _kind_by(words, status)
    return found or next((kind for place, kind in columns.tells if _cell_at(row, place)), None)


def _kind_by(words: str, status: str) -> OutcomeKind | None:
    """Return what a server's words tell where no column says what happened."""
    found = re.search(r"(?<![\d.])([245])(?:\d\d(?=[ \-])|\.\d{1,3}\.\d{1,3}\b)", f"{status} {words}")
    kinds = {"2": OutcomeKind.DELIVERED, "4": OutcomeKind.DEFERRED, "5": OutcomeKind.BOUNCED}
    return kinds[found[1]] if found else None
