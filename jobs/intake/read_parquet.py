"""Read Parquet files."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from polars.datatypes import DataTypeClass

from mailsift.jobs.columns import column_id
from mailsift.jobs.intake.models import IntakeLimits
from mailsift.jobs.intake.sniff import too_many_columns
from mailsift.jobs.intake.table import SourceTable
from mailsift.pipeline.errors import MailsiftError


def read_parquet(path: Path, limits: IntakeLimits) -> SourceTable:
    """Read a Parquet file; columns keep their types.

    Raises:
        MailsiftError: `bad_parquet` among those of `take_in`.
    """
    try:
        frame = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        schema = frame.collect_schema()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError):
        raise MailsiftError("bad_parquet", "The Parquet file is damaged or of an unknown kind.") from None
    if len(schema) > limits.columns:
        raise too_many_columns(limits.columns)
    for place, dtype in enumerate(schema.dtypes(), start=1):
        if _cannot_travel(dtype):
            text = f"Column {place} is of a type that no other format can carry."
            raise MailsiftError("bad_parquet", text)
    ids = {name: column_id(index) for index, name in enumerate(schema)}
    return SourceTable(frame.rename(ids), tuple(schema), "parquet")


def _cannot_travel(dtype: pl.DataType | DataTypeClass, *, inside: bool = False) -> bool:
    """Say whether a type is opaque, or has bytes inside other values, which JSON text cannot show."""
    if isinstance(dtype, pl.List | pl.Array):
        return _cannot_travel(dtype.inner, inside=True)
    if isinstance(dtype, pl.Struct):
        return any(_cannot_travel(inner, inside=True) for inner in dtype.to_schema().values())
    return dtype in {pl.Object, pl.Unknown} or (inside and dtype == pl.Binary)
