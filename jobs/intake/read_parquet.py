"""Read Parquet: columns keep their types where results can have them; what none can show is refused now."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import polars as pl
from polars.datatypes import DataTypeClass

from mailsift.jobs.columns import column_id, json_text
from mailsift.jobs.intake.models import IntakeLimits
from mailsift.jobs.intake.sniff import too_many_columns
from mailsift.jobs.intake.table import SourceTable
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.zones import DEFAULT_ZONE, is_zone

_NO_TEXT = r"[\x00-\x08\x0b\x0c\x0e-\x1f]"
_Type: TypeAlias = pl.DataType | DataTypeClass


def read_parquet(path: Path, limits: IntakeLimits) -> SourceTable:
    """Read a Parquet file; columns keep their types, but for those of a program's own and unknown zones.

    Raises:
        MailsiftError: `bad_parquet` among those of `take_in`.
    """
    try:
        frame = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        schema = frame.collect_schema()
    except pl.exceptions.DuplicateError:
        text = "Two columns of the Parquet file have the same name; rename one of them."
        raise MailsiftError("bad_parquet", text) from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
        raise MailsiftError(
            "bad_parquet", "The Parquet file is damaged or of a kind we can’t read."
        ) from None
    if len(schema) > limits.columns:
        raise too_many_columns(limits.columns)
    for place, dtype in enumerate(schema.dtypes(), start=1):
        if _is_not_portable(dtype):
            text = f"Column {place} is of a type that no other format can carry."
            raise MailsiftError("bad_parquet", text)
    ids = {name: column_id(index) for index, name in enumerate(schema)}
    read = frame.rename(ids).select(_carried(ids[name], dtype) for name, dtype in schema.items())
    _check_can_be_shown(read)
    read = read.with_columns(pl.col(name).cast(pl.String) for name in _texts_as_bytes(read))
    return SourceTable(read, tuple(schema), "parquet")


def _carried(id_: str, dtype: _Type) -> pl.Expr:
    """Return a column in a type that results can have: what an extension stores, and times in UTC."""
    column = pl.col(id_)
    if isinstance(dtype, pl.BaseExtension):
        column, dtype = column.ext.storage(), dtype.ext_storage()
    known = _with_known_zones(dtype)
    return column if known == dtype else column.cast(known)


def _check_can_be_shown(frame: pl.LazyFrame) -> None:
    """Refuse now what would make polars panic when the results are written.

    There are days beyond its calendar: an infinite one of a database is a number like others in Parquet.

    Raises:
        MailsiftError: `bad_parquet`.
    """
    schema = frame.collect_schema()
    risky = [name for name, dtype in schema.items() if dtype.is_temporal() or dtype.is_nested()]
    try:
        frame.select(json_text(name).str.len_bytes().sum() for name in risky).collect(engine="streaming")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        text = "The Parquet file is damaged, or holds what no other format can carry, like an infinite day."
        raise MailsiftError("bad_parquet", text) from None


def _texts_as_bytes(frame: pl.LazyFrame) -> list[str]:
    """Name the columns of bytes that are all texts: some programs write them without a logical type.

    As bytes they would come back in base64 where a format has no others.
    """
    kept = [name for name, dtype in frame.collect_schema().items() if dtype == pl.Binary]
    return [name for name in kept if _holds_texts(frame, name)]


def _holds_texts(frame: pl.LazyFrame, name: str) -> bool:
    has_others = pl.col(name).cast(pl.String).str.contains(_NO_TEXT).any()
    try:
        return not frame.select(has_others).collect(engine="streaming").item()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):  # no UTF-8, or what reading will tell
        return False


def _with_known_zones(dtype: _Type) -> _Type:
    """Return the type with UTC instead of zones that have no name (+05:30), over which polars panics."""
    match dtype:
        case pl.Datetime(time_unit=unit, time_zone=str(zone)) if not is_zone(zone):
            return pl.Datetime(unit, DEFAULT_ZONE)
        case pl.List(inner=inner):
            return pl.List(_with_known_zones(inner))
        case pl.Array(inner=inner, size=size):
            return pl.Array(_with_known_zones(inner), size)
        case pl.Map():
            return pl.Map(_with_known_zones(dtype.key), _with_known_zones(dtype.value))
        case pl.Struct():
            return pl.Struct({name: _with_known_zones(inner) for name, inner in dtype.to_schema().items()})
        case _:
            return dtype


def _is_not_portable(dtype: _Type, *, inside: bool = False) -> bool:
    """Say whether a type is opaque, or has inside other values bytes or a program's own type.

    JSON text cannot show bytes, and polars cannot take apart what an extension is inside of.
    """
    match dtype:
        case pl.List() | pl.Array():
            return _is_not_portable(dtype.inner, inside=True)
        case pl.Map():
            return any(_is_not_portable(inner, inside=True) for inner in (dtype.key, dtype.value))
        case pl.Struct():
            return any(_is_not_portable(inner, inside=True) for inner in dtype.to_schema().values())
        case pl.BaseExtension():
            return inside or _is_not_portable(dtype.ext_storage())
        case _:
            return dtype in {pl.Object, pl.Unknown} or (inside and dtype == pl.Binary)
