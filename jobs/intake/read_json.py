"""Read JSON lists with Python's own parser, which survives what polars' does not, and keep plain types."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count, islice
from pathlib import Path
from types import NoneType
from typing import Any, Never, TextIO, TypeAlias

import polars as pl

from mailsift.jobs.columns import column_id
from mailsift.jobs.intake.models import IntakeLimits
from mailsift.jobs.intake.sniff import is_bare_address, too_many_columns, too_many_rows
from mailsift.jobs.intake.table import SourceTable, is_address_name
from mailsift.pipeline.errors import MailsiftError, SuppressCodes

_BARE_COLUMN = "email"
_EXACT = 2**53  # whole numbers beyond it have no exact binary64 (RFC 8259 section 6)
_NESTED = r"^[\[{]"
_SPACES = re.compile(r"[ \t\n\r]*")

_PLAIN: dict[frozenset[type], tuple[pl.DataType, float]] = {
    # the types of a column's values, null apart: what polars calls it, and the greatest value it can hold
    frozenset(): (pl.Null(), 0),
    frozenset({str}): (pl.String(), 0),
    frozenset({bool}): (pl.Boolean(), 1),
    frozenset({int}): (pl.Int64(), 2**63 - 1),
    frozenset({float}): (pl.Float64(), sys.float_info.max),
    frozenset({int, float}): (pl.Float64(), _EXACT),
}


_Object = dict[str, Any]
_Names: TypeAlias = tuple[str, ...]


def read_json(path: Path, encoding: str, workdir: Path, *, array: bool, limits: IntakeLimits) -> SourceTable:
    """Read objects, or bare strings, in one array, one a line, or one behind the other.

    That array may stand in an object, as APIs answer: `{"data": [{"email": …}], "total": 1}`. A column that
    holds one plain type keeps it; mixed and nested values become JSON text.

    Args:
        path: the file.
        encoding: as `sniff.encoding_of` found it.
        workdir: folder for what has been read; memory does not grow with the list.
        array: whether it is one array.
        limits: bounds for rows, columns and elements.

    Raises:
        MailsiftError: `bad_json` and `bad_encoding` among those of `take_in`.
    """
    ids: dict[str, str] = {}  # by the columns' names, which may be any text, "" too
    read = _Batches(workdir, limits.batches.rows)
    try:
        with path.open(encoding=encoding) as file:
            around = () if array else _names_around(file, limits)
            objects = _values(file, limits) if around is None else _elements(file, limits, around)
            for batch in _batches(objects, limits.batches.json_items, ids):
                _check(len(ids), read.rows + len(batch), limits)  # before each name becomes a column
                read.keep(_frame(batch, ids, after=read.rows))
    except UnicodeError:
        raise MailsiftError("bad_encoding", f"Parts of the file aren’t {encoding}.") from None
    except RecursionError:
        raise _bad("Values are nested too deeply.") from None
    frame = read.frame()
    if around is None and read.rows == 1 and _holds_the_list(frame.collect().row(0)):
        raise _bad(
            "The file is one object with the addresses in arrays or objects inside it, not an object a row."
        )
    return SourceTable(frame, tuple(ids), "jsonl" if around is None else "json", encoding)


def _holds_the_list(row: Sequence[object]) -> bool:
    """Say whether the addresses of the only row are all inside values: APIs and data frames write it so."""
    texts = [value for value in row if isinstance(value, str) and "@" in value]
    return bool(texts) and all(text.startswith(("[", "{")) for text in texts)


def _batches(objects: Iterator[_Object], size: int, ids: dict[str, str]) -> Iterator[list[_Object]]:
    """Yield objects, so many at a time, and name their columns; what comes before the first waits for it."""
    blank = 0
    while batch := list(islice(objects, size)):
        for item in batch:
            for name in item:
                ids.setdefault(name, column_id(len(ids)))
        if not ids:
            blank += len(batch)
            continue
        while blank:
            yield [{}] * min(blank, size)
            blank -= min(blank, size)
        yield batch


def _check(columns: int, rows: int, limits: IntakeLimits) -> None:
    if columns > limits.columns:
        raise too_many_columns(limits.columns)
    if rows > limits.rows:
        raise too_many_rows(limits.rows)


def _values(file: TextIO, limits: IntakeLimits) -> Iterator[_Object]:
    """Return what yields objects one a line; one behind the other where the first one spans lines."""
    lines = iter(partial(file.readline, limits.line_bytes + 1), "")
    first = next(filter(str.strip, lines), "")
    file.seek(0)
    with suppress(_RepeatedNameError):  # which reading will tell
        try:
            _decoder().decode(first)
        except ValueError:
            if len(first) <= limits.line_bytes:
                return _sequence(_Pieces(file, limits))
    return _lines(file, limits)


def _sequence(text: _Pieces) -> Iterator[_Object]:
    for number in count(1):
        if not text.peek():
            return
        place = f"Object {number:,}"
        yield _object(text.value(place), place)


def _lines(file: TextIO, limits: IntakeLimits) -> Iterator[_Object]:
    """Yield one object from each line that is not blank."""
    decode = _decoder().decode
    for number, line in enumerate(iter(partial(file.readline, limits.line_bytes + 1), ""), start=1):
        if len(line) > limits.line_bytes:
            raise MailsiftError(
                "line_too_long", f"Line {number:,} is longer than {limits.line_bytes:,} bytes."
            )
        if line.isspace():
            continue
        try:
            value = decode(line)
        except _RepeatedNameError:
            raise _repeated(f"Line {number:,}") from None
        except ValueError:
            raise _bad(
                f"Line {number:,} is not JSON by itself: write an object a line, or an array."
            ) from None
        yield _object(value, f"Line {number:,}")


def _elements(file: TextIO, limits: IntakeLimits, around: _Names) -> Iterator[_Object]:
    """Yield the elements of one array, to which these names of an object lead; none: it is all there is."""
    text = _Pieces(file, limits)
    found = _in_object(text) if around else _in_array(text, around)
    rows = (value for names, value, is_element in found if is_element and names == around)
    for number, value in enumerate(rows, start=1):
        yield _object(value, f"Element {number:,}")
    if text.mark():
        raise _bad("Something follows the array.")


def _names_around(file: TextIO, limits: IntakeLimits) -> _Names | None:
    """Return the names that lead to the rows if the file is one object with an array of them, else None.

    Raises:
        MailsiftError: `bad_json`: several arrays hold addresses.
    """
    held = _arrays_with_addresses(_Pieces(file, limits))
    file.seek(0)
    if len(held) > 1:
        raise _bad("Several arrays in the object hold addresses: send the one that is the list by itself.")
    return next(iter(held), None)


def _arrays_with_addresses(text: _Pieces) -> set[_Names]:
    """Return the names that lead to arrays with addresses in them, if the text is one object and no row.

    An address under the name of an address column makes it a row. An array of such a name is a cell.
    """
    held = set[_Names]()
    with SuppressCodes("bad_json"):  # what is wrong, reading will tell
        for names, value, is_element in _in_object(text):
            is_cell = is_address_name(names[-1])
            if is_element and names not in held and not is_cell and _holds_address(value):
                held.add(names)
            if not is_element and is_cell and len(names) == 1 and _holds_address(value):
                return set()
        return set() if text.mark() else held
    return set()


def _in_object(text: _Pieces, around: _Names = ()) -> Iterator[tuple[_Names, Any, bool]]:
    """Yield an object's values with the names that lead to each, and whether it is an element of an array."""
    for place in text.items("{", "}"):
        name = text.value(place)
        if not isinstance(name, str) or text.mark() != ":":
            raise _bad(f"{place} has no name.")
        names = (*around, name)
        match text.peek():
            case "{":
                yield from _in_object(text, names)
            case "[":
                yield from _in_array(text, names)
            case _:
                yield names, text.value(place), False


def _in_array(text: _Pieces, around: _Names) -> Iterator[tuple[_Names, Any, bool]]:
    """Yield the elements of an array with the names that lead to it."""
    return ((around, text.value(place), True) for place in text.items("[", "]"))


def _holds_address(value: Any) -> bool:
    return any(map(is_bare_address, _texts_in(value)))


# Not ijson 3.6. On 200,000 objects its C parser takes 0.4 s, this one 0.7, its Python parser 5; but to the C
# parser 4,301 digits are a segmentation fault, 100,000 open brackets take minutes, half a surrogate is "?",
# and one element may fill the memory. What would have to stand before it (depth, digits, escapes, sizes, and
# decimals made numbers again) is longer than this.
class _Pieces:
    """A JSON text of which only a piece is in memory; one value may be `line_bytes` characters long."""

    def __init__(self, file: TextIO, limits: IntakeLimits) -> None:
        self._file, self._limit, self._piece = file, limits.line_bytes, limits.batches.json_text
        self._text, self._at = "", 0
        self._decode = _decoder().raw_decode

    def peek(self) -> str:
        """Return the next character that is not white space, "" at the end."""
        while True:
            if spaces := _SPACES.match(self._text, self._at):
                self._at = spaces.end()
            if self._at < len(self._text) or not self._refill():
                return self._text[self._at : self._at + 1]

    def mark(self) -> str:
        """Take the next character that is not white space, "" at the end."""
        mark = self.peek()
        self._at += len(mark)
        return mark

    def items(self, begin: str, end: str) -> Iterator[str]:
        """Yield a name for each item between brackets, which is to be taken before the next one."""
        if self.mark() != begin:
            raise _bad(f"There is no {begin} where one is expected.")
        if self.peek() == end:
            self.mark()
            return
        for number in count(1):
            yield (place := f"Element {number:,}")
            mark = self.mark()
            if mark == end:
                return
            if mark != ",":
                raise _bad(f"{place} is followed by neither a comma nor the end of what it is in.")

    def value(self, place: str) -> Any:
        """Take the next value; `place` names it in the error."""
        self.peek()
        while True:
            try:
                value, self._at = self._decode(self._text, self._at)
            except _RepeatedNameError:
                raise _repeated(place) from None
            except ValueError:
                if len(self._text) - self._at > self._limit or not self._refill():
                    raise _bad(f"{place} is not JSON, not finished, or too long.") from None
            else:
                return value

    def _refill(self) -> bool:
        piece = self._file.read(self._piece)
        self._text, self._at = self._text[self._at :] + piece, 0
        return bool(piece)


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=_distinct, parse_float=_decimal, parse_constant=_refuse)


class _RepeatedNameError(Exception):
    """A name stands twice in an object, of which one value would be lost (RFC 8259 section 4)."""


def _distinct(members: list[tuple[str, Any]]) -> _Object:
    found = dict(members)
    if len(found) < len(members):
        raise _RepeatedNameError
    return found


def _decimal(text: str) -> float | str:
    """Return a decimal; one that is beyond all that a float can hold stays as it is written."""
    value = float(text)
    return value if math.isfinite(value) else text


def _refuse(_constant: str) -> Never:
    """Refuse NaN and Infinity, which Python's parser takes and RFC 8259 does not know."""
    raise ValueError


def _object(value: Any, place: str) -> _Object:
    if isinstance(value, dict):
        return value
    if value is None:  # a row with nothing in it, as databases put it among addresses
        return {}
    if isinstance(value, str):
        return {_BARE_COLUMN: value}
    raise _bad(f"{place} is neither an object nor a string.")


def _frame(batch: list[_Object], ids: Mapping[str, str], *, after: int) -> pl.DataFrame:
    """Turn objects into columns; so many rows stand before them.

    Raises:
        MailsiftError: `bad_json` for half of a surrogate pair, which is no text (RFC 8259 section 8.2).
    """
    try:
        "".join(ids).encode()
        return pl.DataFrame([_column(id_, [item.get(name) for item in batch]) for name, id_ in ids.items()])
    except UnicodeEncodeError:
        row = next(row for row, item in enumerate(batch, start=after + 1) if not _is_text(item))
        raise _bad(f"A string of row {row:,} holds half of a surrogate pair.") from None


def _is_text(item: _Object) -> bool:
    with suppress(UnicodeEncodeError):
        return bool(json.dumps(item, ensure_ascii=False).encode())
    return False


def _column(name: str, values: list[Any]) -> pl.Series:
    """Keep the type if it is one and plain; else write each value as JSON, strings as they are."""
    dtype, most = _PLAIN.get(frozenset(map(type, values)) - {NoneType}, (None, 0))
    if most:
        numbers = [value for value in values if value is not None]
        dtype = dtype if max(numbers) <= most and min(numbers) >= -most else None
    if dtype is None:
        dtype = pl.String()
        values = [v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values]
    return pl.Series(name, values, dtype=dtype, strict=False)


class _Batches:
    """Batches in their order; those beyond the last few are files.

    Args:
        folder: for the files.
        max_rows: rows that may be in memory.

    Attributes:
        rows: how many there have been.
    """

    def __init__(self, folder: Path, max_rows: int) -> None:
        self.rows = 0
        self._folder, self._max_rows = folder, max_rows
        self._last: list[pl.DataFrame] = []  # of one schema
        self._files: list[pl.LazyFrame] = []
        self._types: defaultdict[str, set[pl.DataType]] = defaultdict(set)
        self._inexact: set[str] = set()

    def keep(self, batch: pl.DataFrame) -> None:
        """Take a batch more; it has the columns of those before it, and new ones behind them."""
        if self._last and (
            self._last[0].schema != batch.schema or sum(map(len, self._last)) >= self._max_rows
        ):
            self._spill()
        self._last.append(batch)
        self.rows += batch.height
        for column in batch:
            self._types[column.name].add(column.dtype)
            if column.dtype == pl.Int64 and not (column.abs() <= _EXACT).all():
                self._inexact.add(column.name)

    def frame(self) -> pl.LazyFrame:
        """Put them together; a column of which they disagree becomes text."""
        if not self._last:
            return pl.LazyFrame()
        parts = [*self._files, pl.concat(self._last).lazy()]
        schema = {
            name: _common(types, exact=name not in self._inexact) for name, types in self._types.items()
        }
        names = [part.collect_schema().names() for part in parts]
        return pl.concat(
            [
                part.cast({name: schema[name] for name in mine})
                for part, mine in zip(parts, names, strict=True)
            ],
            how="diagonal",
        )

    def _spill(self) -> None:
        path = self._folder / f"json-{len(self._files)}"
        pl.concat(self._last).write_ipc(path)
        self._files.append(pl.scan_ipc(path, glob=False))
        self._last = []


def _common(types: set[pl.DataType], *, exact: bool) -> pl.DataType:
    some = types - {pl.Null()}
    if len(some) == 1:
        return next(iter(some))
    return pl.Float64() if exact and some == {pl.Int64(), pl.Float64()} else pl.String()


def with_texts_of_objects(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows in which the texts of objects stand for these, as their addresses will be read."""
    cells = pl.col(pl.String)
    return rows.with_columns(
        pl.when(cells.str.starts_with("{"))
        .then(cells.map_batches(joined_texts, return_dtype=pl.String))
        .otherwise(cells)
    )


def joined_texts(cells: pl.Series) -> pl.Series:
    """Return cells with the addresses, else the texts, that are inside of values: of one that is the cell."""
    if not cells.str.contains(_NESTED).any():
        return cells
    return cells.map_elements(_joined, return_dtype=pl.String)


def _joined(cell: str) -> str:
    if not cell.startswith(("[", "{")):
        return cell
    try:
        texts = list(dict.fromkeys(_texts_in(json.loads(cell))))
    except (ValueError, RecursionError):
        return cell
    return ", ".join(list(filter(is_bare_address, texts)) or texts)


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(one)


def _repeated(place: str) -> MailsiftError:
    return _bad(f"{place} has an object in which a name stands twice.")


def _bad(text: str) -> MailsiftError:
    return MailsiftError("bad_json", text)
