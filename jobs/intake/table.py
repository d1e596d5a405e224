"""A list while it is being read: anonymous columns, and their names if the format has any."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True, slots=True)
class Table:
    """What a reader found.

    Attributes:
        frame: the rows in order, nothing computed yet; its columns are named by `jobs.columns.column_id`.
        names: the columns' names, or None when the first row may hold them.
        format, encoding: as in `Intake`.
    """

    frame: pl.LazyFrame
    names: tuple[str, ...] | None
    format: str
    encoding: str = ""
