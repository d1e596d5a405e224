"""Addresses come as a list or in somebody's frames; verdicts go back in frames of the same family.

Neither pandas nor pyarrow is loaded here: who gives us one of their frames has done so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import polars as pl

from mailsift.jobs.columns import cell_text, column_id
from mailsift.jobs.intake.numbering import number_addresses
from mailsift.jobs.intake.table import SAMPLE_ROWS, as_texts, choose_column
from mailsift.library import writable
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import ADDRESSES, VERDICTS

_ARROW_ROWS: Final = 1_000_000  # in one array: its texts may take 2 GiB
_ARROW_BYTES: Final = frozenset({"binary", "large_binary", "binary_view"})
_ARROW_TEXTS: Final = frozenset({"string", "large_string", "string_view"}) | _ARROW_BYTES
_LIST_NAMES: Final = (str, bytes, bytearray, Mapping)
_BYTES: Final = (bytes, bytearray)


@dataclass(frozen=True, slots=True)
class GivenFrame:
    """What the caller has."""

    cells: pl.Series  # the addresses as text, null where there is none
    names: tuple[str, ...]  # the columns that stay beside the verdicts
    build: Callable[[pl.DataFrame], Any]  # makes what is returned out of the verdicts, a row for each cell


def _read_addresses(addresses: Any, column: str) -> GivenFrame:
    """Find the addresses in what the caller has: an iterable, or a series or frame with a column of them."""
    for kind in type(addresses).__mro__:
        read = _READERS.get((kind.__module__.partition(".")[0], kind.__name__))
        if read is not None:
            return read(addresses, column)
    if (
        isinstance(addresses, _LIST_NAMES)
        or not _is_iterable(addresses)
        or hasattr(type(addresses), "columns")  # somebody else's frame: a loop over it gives names of columns
    ):
        raise _not_a_list(f"one {_name_of(addresses)}")
    values = list(addresses)
    texts = _texts(values)
    if texts.null_count() == len(values):
        for row in values:
            if isinstance(row, Sized) and not isinstance(row, _BYTES):  # holds values itself
                raise _not_a_list(f"an iterable of {_name_of(row)}")
    return GivenFrame(texts, (), _unchanged)


def _is_iterable(value: Any) -> bool:
    """Say whether there is a loop over a value: some say no only when asked (numpy's 0-d arrays)."""
    try:
        iter(value)
    except TypeError:
        return False
    return True


def _not_a_list(given: str) -> MailsiftError:
    taken = "an iterable of texts, or a series or frame of polars, pandas or pyarrow"
    return MailsiftError("not_a_list", f"check_many takes {taken}, and was given {given}.")


def _name_of(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _framed(
    names: Sequence[str],
    read: Callable[[int, int | None], pl.Series],
    column: str,
    build: Callable[[pl.DataFrame], Any],
) -> GivenFrame:
    """Choose a frame's column; `read` gives one by its place, all of it or so many rows."""
    if not names:
        raise MailsiftError("no_address_column", "The frame has no columns.")
    sample = [read(place, SAMPLE_ROWS).alias(column_id(place)) for place in range(len(names))]
    place = choose_column(pl.DataFrame(sample), names, column).index
    return GivenFrame(read(place, None), tuple(names), build)


def _unchanged(fields: pl.DataFrame) -> pl.DataFrame:
    return fields


def _texts(values: list[Any]) -> pl.Series:
    """Return texts as a column; what is none is null."""
    try:
        return pl.Series(values, dtype=pl.String)
    except (TypeError, ValueError, AttributeError, pl.exceptions.PolarsError):  # what is no text, or no UTF-8
        return pl.Series([_text(value) for value in values], dtype=pl.String)


def _text(value: Any) -> str | None:
    if isinstance(value, _BYTES):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    return writable(value) if isinstance(value, str) else None


def _column_texts(column: pl.Series) -> pl.Series:
    """Return the column if it can hold addresses, else blanks; bytes are what a job takes them for."""
    if column.dtype == pl.Binary:
        return column.to_frame().select(cell_text(column.name, column.dtype)).to_series()
    return _texts(column.to_list()) if column.dtype == pl.Object else as_texts(column.to_frame()).to_series()


def _polars_series(series: Any, _: str) -> GivenFrame:
    return GivenFrame(_column_texts(series), (), _unchanged)


def _polars_frame(frame: Any, column: str) -> GivenFrame:
    def read(place: int, rows: int | None) -> pl.Series:
        return _column_texts(frame.to_series(place)[:rows])

    return _framed(frame.columns, read, column, frame.hstack)


def _pandas_series(series: Any, _: str) -> GivenFrame:
    def build(fields: pl.DataFrame) -> Any:
        return sys.modules["pandas"].DataFrame(
            {field.name: _pandas_values(field) for field in fields}, index=series.index
        )

    return GivenFrame(_texts(series.to_list()), (), build)


def _pandas_frame(frame: Any, column: Any) -> GivenFrame:
    def read(place: int, rows: int | None) -> pl.Series:
        return _texts(frame.iloc[:rows, place].to_list())

    def build(fields: pl.DataFrame) -> Any:
        return frame.assign(**{field.name: _pandas_values(field) for field in fields})

    wanted = "" if column is None else str(column)  # its names may be numbers or tuples
    return _framed([str(name) for name in frame.columns], read, wanted, build)


def _pandas_values(field: pl.Series) -> Any:
    """Return texts and numbers in the types pandas has for them."""
    if field.dtype == pl.String:  # as pandas' own, also where there are none
        return sys.modules["pandas"].Series(field.to_list(), dtype="str").array
    return field.to_numpy() if field.dtype == pl.Boolean else field.cast(pl.Int64).to_numpy()


def _arrow_array(array: Any, _: str) -> GivenFrame:
    def build(fields: pl.DataFrame) -> Any:
        return sys.modules["pyarrow"].table({field.name: _arrow_values(field) for field in fields})

    return GivenFrame(_arrow_texts(array), (), build)


def _arrow_texts(array: Any) -> pl.Series:
    """Return an array's texts, blanks where it holds others: of arrow's types polars knows only some."""
    pa: Any = sys.modules["pyarrow"]
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _arrow_texts(array.cast(kind.storage_type))
    if pa.types.is_run_end_encoded(kind):
        return _arrow_texts(import_module("pyarrow.compute").run_end_decode(array))
    if pa.types.is_dictionary(kind) and str(kind.value_type) in _ARROW_BYTES:
        return _arrow_texts(array.cast(kind.value_type))
    if str(kind.value_type if pa.types.is_dictionary(kind) else kind) in _ARROW_TEXTS:
        return _column_texts(pl.Series(array))
    return pl.Series([None], dtype=pl.String).new_from_index(0, len(array))


def _arrow_frame(frame: Any, column: str) -> GivenFrame:
    names: list[str] = frame.schema.names

    def read(place: int, rows: int | None) -> pl.Series:
        return _arrow_texts(frame.column(place).slice(0, rows))

    def build(fields: pl.DataFrame) -> Any:
        pa: Any = sys.modules["pyarrow"]
        ours = {field.name: _arrow_values(field) for field in fields}
        made = [pa.field(name, values.type) for name, values in ours.items()]
        schema = pa.schema([*frame.schema, *made], metadata=frame.schema.metadata)
        arrays = [*frame.columns, *ours.values()]
        if isinstance(frame, pa.RecordBatch):  # it holds each column in one piece
            arrays = [pa.concat_arrays(one.chunks) if hasattr(one, "chunks") else one for one in arrays]
        return type(frame).from_arrays(arrays, schema=schema)

    return _framed(names, read, column, build)


def _arrow_values(field: pl.Series) -> Any:
    """Return a column in a type that every engine knows: there are some without unsigned numbers."""
    pa: Any = sys.modules["pyarrow"]
    kind = {pl.String: pa.string(), pl.Boolean: pa.bool_()}.get(field.dtype.base_type(), pa.int32())
    starts = range(0, max(1, len(field)), _ARROW_ROWS)
    pieces = [field.slice(start, _ARROW_ROWS).to_arrow().cast(kind) for start in starts]
    return pieces[0] if len(pieces) == 1 else pa.chunked_array(pieces)


_READERS: Final[Mapping[tuple[str, str], Callable[[Any, str], GivenFrame]]] = {
    ("polars", "Series"): _polars_series,
    ("polars", "DataFrame"): _polars_frame,
    ("pandas", "Series"): _pandas_series,
    ("pandas", "DataFrame"): _pandas_frame,
    ("pyarrow", "Array"): _arrow_array,
    ("pyarrow", "ChunkedArray"): _arrow_array,
    ("pyarrow", "Table"): _arrow_frame,
    ("pyarrow", "RecordBatch"): _arrow_frame,
}
"""By library and name of a class, or of one it comes from."""


@dataclass(frozen=True, slots=True)
class NumberedList:
    """What the caller has, with its distinct addresses (frames.ADDRESSES) and the number of each row's."""

    given: GivenFrame
    numbers: pl.Series
    distinct: pl.DataFrame
    prefix: str

    def with_verdicts(self, verdicts: pl.DataFrame) -> Any:
        """Return what the caller gets, of the verdicts (frames.VERDICTS) on the distinct addresses."""
        fields = pl.concat([self.distinct.select("address"), verdicts], how="horizontal")
        names = {name: self.prefix + name for name in fields.columns}
        return self.given.build(fields[self.numbers].rename(names))


def number_given(addresses: Any, column: str, prefix: str) -> NumberedList:
    """Find the addresses, parse them and number the distinct ones.

    Raises:
        MailsiftError: `not_a_list`, `column_not_found`, `no_address_column`, `column_taken`.
    """
    given = _read_addresses(addresses, column)
    taken = sorted({prefix + name for name in ("address", *VERDICTS)}.intersection(given.names))
    if taken:
        text = f"The frame has a column {taken[0]!r}: give the new ones a prefix, as in prefix='mailsift_'."
        raise MailsiftError("column_taken", text)
    if given.cells.is_empty():
        return NumberedList(given, pl.Series(dtype=pl.UInt32), pl.DataFrame(schema=dict(ADDRESSES)), prefix)
    return NumberedList(given, *number_addresses(given.cells.alias("raw")), prefix)
