"""How a job's Parquet files name columns: by number, as customers may use any name, even one name twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import polars as pl

ADDRESS_N = "address_n"
"""Column of `rows.parquet`: the number of the row's address (frames.ADDRESSES)."""

ADDRESS = "address"
"""Column of `rows.parquet`: the canonical address that is judged for the row, "" where its cell is none.
Lists that an older release took in do not have it."""

REPAIRED = "repaired"
"""Column of `rows.parquet`, where repair was asked for: the cell is no address and clearly means this one."""

VERDICT_PREFIX = "mailsift_"
"""What the columns we add to a customer's file start with."""

JUDGED_ADDRESS = VERDICT_PREFIX + ADDRESS
"""The same in the results."""

SPAN_TEXT, CLOCK_TEXT = "iso", "%H:%M:%S%.f"
"""How durations and times of day are written: polars refuses to cast the first, and drops fractions of the
second."""

_NAMES = "mailsift.names"
_PLACE = "mailsift.address_column"


def column_id(index: int) -> str:
    """Return our name of the customer's column, counted from 0."""
    return f"c{index}"


def names_metadata(names: Sequence[str], *, address_place: int | None = None) -> dict[str, str]:
    """Return the Parquet metadata that carries the customer's column names, and which one has the addresses.

    Args:
        names: of the columns, in the file's order.
        address_place: of the address column, from 0; None where nobody will ask.
    """
    place = {} if address_place is None else {_PLACE: str(address_place)}
    return {_NAMES: json.dumps(list(names)), **place}


def kept_metadata(path: Path | IO[bytes]) -> dict[str, str]:
    """Return what `names_metadata` has written into a file, for one that is made of it."""
    return {name: text for name, text in pl.read_parquet_metadata(path).items() if name in {_NAMES, _PLACE}}


def read_address_place(path: Path, name: str) -> int:
    """Return the place of the address column, from 0.

    Args:
        path: of a file with the customer's columns.
        name: what the column is called; names may repeat, and of equal ones the first is meant in files of
            older releases, which tell no more.
    """
    metadata = kept_metadata(path)
    return int(metadata[_PLACE]) if _PLACE in metadata else list(json.loads(metadata[_NAMES])).index(name)


def read_names(path: Path | IO[bytes]) -> dict[str, str]:
    """Return the customer's column names by our ids, in the file's order."""
    names: list[str] = json.loads(pl.read_parquet_metadata(path)[_NAMES])
    return {column_id(index): name for index, name in enumerate(names)}


def distinct_names(names: Sequence[str], taken: Sequence[str], *, longest: int | None = None) -> list[str]:
    """Give every column a name of its own, for formats that need it.

    A blank name becomes `column_3` (its place), a repeated one gets the suffix `_2`, `_3` …. None gets a name
    that another column has by itself.

    Args:
        names: of the columns.
        taken: names that none of them may have.
        longest: bytes of UTF-8 that a name may have; it is cut off there, before its suffix. None: any.
    """
    used, given = set(taken), set(names)
    result = []
    for place, name in enumerate(names, start=1):
        base = name or f"column_{place}"
        free, again = _cut(base, "", longest), 2
        while free in used or (free in given and not name.startswith(free)):
            free, again = _cut(base, f"_{again}", longest), again + 1
        used.add(free)
        result.append(free)
    return result


def _cut(base: str, suffix: str, longest: int | None) -> str:
    room = None if longest is None else longest - len(suffix)
    return base.encode()[:room].decode(errors="ignore") + suffix


def cell_text(name: str, dtype: pl.DataType) -> pl.Expr:
    """Return a column as text to look at, and to find addresses in.

    That is "" for nothing, JSON for nested values, and for bytes UTF-8, hexadecimal where they are none: some
    programs write texts as bytes (Parquet's BYTE_ARRAY without a logical type).
    """
    column = pl.col(name)
    if dtype == pl.Binary:
        text = column.map_batches(_bytes_text, return_dtype=pl.String, is_elementwise=True)
    elif dtype.is_nested():
        text = json_text(name)
    elif dtype in (pl.Duration, pl.Time):
        text = column.dt.to_string(SPAN_TEXT if dtype == pl.Duration else CLOCK_TEXT)
    else:
        text = column.cast(pl.String, strict=False)
    return text.fill_null("").alias(name)


def json_text(name: str) -> pl.Expr:
    """Return a column of nested values as JSON, null where there is nothing."""
    column = pl.col(name)
    bare = pl.struct(column.alias("v")).struct.json_encode().str.strip_prefix('{"v":').str.strip_suffix("}")
    return pl.when(column.is_not_null()).then(bare).alias(name)


def _bytes_text(values: pl.Series) -> pl.Series:
    try:
        return values.cast(pl.String)
    except pl.exceptions.ComputeError:  # one of them is no UTF-8
        return pl.Series(
            values.name, [None if one is None else _one_bytes_text(one) for one in values], pl.String
        )


def _one_bytes_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.hex()
