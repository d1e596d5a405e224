"""A first look at a customer's file: its columns, its first rows, how long it is; runs in a child process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from jobs.columns import cell_text
from jobs.intake.bounds import check_size, too_many_rows
from jobs.intake.column import Choice, address_shares, as_text, choose_column
from jobs.intake.plan import IntakeLimits
from jobs.intake.read import first_rows, opened
from pipeline.errors import MailsiftError

_ROWS = 8
_CELL = 120  # characters shown of a cell
_NAME = 60


def look_at(source: Path, workdir: Path, limits: IntakeLimits) -> dict[str, Any]:
    """Return what `jobs.drafts.Look` holds, as JSON types.

    Raises:
        MailsiftError: see `jobs.intake.take_in`, but a list without an address column is no error here.
    """
    check_size(source, limits)
    table = opened(source, workdir, limits)
    try:
        sample = first_rows(table)
        rows = int(table.frame.select(pl.len()).collect(engine="streaming").item())
    except pl.exceptions.PolarsError:  # its text may quote the file
        raise MailsiftError(f"bad_{table.format}", f"The file could not be read as {table.format}.") from None
    choice, guess = _choice(sample, table.names)
    rows -= choice.header
    if rows > limits.rows:
        raise too_many_rows(limits.rows)
    if not rows:
        raise MailsiftError("empty_file", "The file has no rows below its header.")
    data = sample.slice(int(choice.header))
    texts = data.select(as_text(column) for column in data)
    cells = data.head(_ROWS).select(
        cell_text(name, dtype).str.slice(0, _CELL) for name, dtype in sample.schema.items()
    )
    return {
        "rows": rows,
        "format": table.format,
        "encoding": table.encoding,
        "header": choice.header or table.names is not None,
        "columns": [
            {"name": name[:_NAME], "key": key, "share": share}
            for name, key, share in zip(
                choice.names, _keys(sample, table.names, choice), address_shares(texts), strict=True
            )
        ],
        "guess": guess,
        "first": [list(row) for row in cells.iter_rows()],
    }


def _choice(sample: pl.DataFrame, names: Sequence[str] | None) -> tuple[Choice, int | None]:
    """Find the address column; where there is none, the first one stands in and nothing is guessed."""
    try:
        choice = choose_column(sample, names, "")
    except MailsiftError as error:
        if error.code != "no_address_column":
            raise
        return choose_column(sample, names, "1"), None
    return choice, choice.index


def _keys(sample: pl.DataFrame, names: Sequence[str] | None, choice: Choice) -> Iterator[str]:
    """Yield for each column what to ask intake for to get it, "" where nothing would.

    Intake takes a name or a number, and a name wins: a column's number may be the name of another one.
    """
    first = sample.head(1)
    for index, name in enumerate(choice.names):
        cell = "" if names is not None else (first.item(0, index) or "").strip()
        tried = (
            text for text in (name, cell, str(index + 1)) if text and _leads_to(first, names, text, index)
        )
        yield next(tried, "")


def _leads_to(first: pl.DataFrame, names: Sequence[str] | None, key: str, index: int) -> bool:
    try:
        return choose_column(first, names, key).index == index
    except MailsiftError:
        return False
