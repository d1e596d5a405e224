"""What changed between two runs of a list."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from mailsift.jobs.columns import VERDICT_PREFIX, cell_text, column_id, read_address_place
from mailsift.pipeline.errors import MailsiftError

_FIELDS = ("status", "result", "score")
_PAIRS = [f"{name}{which}" for name in _FIELDS[:2] for which in ("", "_after")]
_PART = 500_000
"""Addresses that are compared together."""


@dataclass(frozen=True, slots=True)
class Diff:
    """Two runs compared, address by address as the list writes them.

    Attributes:
        compared: addresses that both have a verdict for.
        only_before, only_after: addresses with a verdict that are not in the other's list.
        moves: how many went from which status and result to which, most first.
        changed: the first ones that changed.
    """

    compared: int
    only_before: int
    only_after: int
    moves: list[dict[str, Any]]
    changed: list[dict[str, Any]]


def compare(
    before: Path,
    after: Path,
    columns: tuple[str, str],
    *,
    limit: int,
    lists: tuple[Path | None, Path | None] = (None, None),
    part_rows: int = _PART,
) -> Diff:
    """Compare two results files.

    Blocks for about a second a million rows; memory holds some 35 bytes for each row of both. Addresses are
    told apart by 64 bits of their hash; they are compared a part at a time.

    Args:
        before: a results file (mailsift.jobs.results.join).
        after: that of the later run.
        columns: the names of their address columns.
        limit: how many changed addresses are named.
        lists: where not every row has a verdict yet, a file of all of them (`rows.parquet`).
        part_rows: how many are compared at a time, about.

    Raises:
        MailsiftError: `not_the_same_list` when they have no address in common.
    """
    old, new = _read(before, columns[0]), _read(after, columns[1])
    had, has = (
        _hashes(path, column) if path else rows
        for path, column, rows in zip(lists, columns, (old, new), strict=True)
    )
    parts = max(had.height, has.height) // part_rows + 1
    compared = only_before = only_after = judged = 0
    moves, changed = [], []
    for part in range(parts):
        mine, theirs = (_distinct(rows, part, parts) for rows in (old, new))
        both = mine.join(theirs, on="hash", how="inner", suffix="_after")
        moved = both.filter(
            (pl.col("status") != pl.col("status_after")) | (pl.col("result") != pl.col("result_after"))
        )
        moves.append(moved.group_by(_PAIRS).len("addresses"))
        changed.append(moved.bottom_k(limit, by="row"))
        compared += both.height
        judged += mine.height + theirs.height
        only_before += mine.join(_part(has, part, parts), on="hash", how="anti").height
        only_after += theirs.join(_part(had, part, parts), on="hash", how="anti").height
    if only_before + only_after == judged:
        raise MailsiftError("not_the_same_list", "These two jobs have no address in common.")
    return Diff(
        compared,
        only_before,
        only_after,
        [_change_of(row) for row in _summed(moves).iter_rows(named=True)],
        _named(before, columns[0], pl.concat(changed).bottom_k(limit, by="row").sort("row")),
    )


def _summed(moves: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the moves of all parts, most first."""
    texts = pl.concat(moves).with_columns(pl.col(_PAIRS).cast(pl.String))
    summed = texts.group_by(_PAIRS).agg(pl.col("addresses").sum())
    return summed.sort(["addresses", *_PAIRS], descending=[True, *[False] * len(_PAIRS)])


def _named(results: Path, column: str, changed: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows that changed with their addresses."""
    emails = (
        _cells(results, column).select("row", "email").filter(pl.col("row").is_in(changed["row"].implode()))
    )
    rows = changed.join(emails.collect(engine="streaming"), on="row", how="left", maintain_order="left")
    return [{"email": row["email"], **_change_of(row)} for row in rows.iter_rows(named=True)]


def _change_of(row: dict[str, Any]) -> dict[str, Any]:
    sides = {
        side: {name: row[name + end] for name in _FIELDS if name + end in row}
        for side, end in (("before", ""), ("after", "_after"))
    }
    return {**sides, **({"addresses": row["addresses"]} if "addresses" in row else {})}


def _read(results: Path, column: str) -> pl.DataFrame:
    """Return the rows that have an address: their numbers, its hash, and their verdicts."""
    return _hashed(_cells(results, column))


def _hashes(rows: Path, column: str) -> pl.DataFrame:
    """Return the hashes of the addresses of a list, verdicts or not."""
    frame = pl.scan_parquet(rows, glob=False)
    return _hashed(frame.select(_address_cell(frame, rows, column)))


def _hashed(cells: pl.LazyFrame) -> pl.DataFrame:
    rows = cells.filter(pl.col("email") != "")  # a blank cell is no address two lists share
    return rows.select(pl.col("email").hash().alias("hash"), pl.exclude("email")).collect(engine="streaming")


def _cells(results: Path, column: str) -> pl.LazyFrame:
    """Return for each row its number, the address as the list writes it, and the verdict."""
    frame = pl.scan_parquet(results, glob=False)
    status, result, score = (pl.col(VERDICT_PREFIX + name).alias(name) for name in _FIELDS)
    verdict = status.cast(pl.Categorical), result.cast(pl.Categorical), score
    return frame.select(_address_cell(frame, results, column), *verdict).with_row_index("row")


def _address_cell(frame: pl.LazyFrame, path: Path, column: str) -> pl.Expr:
    """Return the address as the list writes it, of a file with the customer's columns."""
    id_ = column_id(read_address_place(path, column))
    return cell_text(id_, frame.collect_schema()[id_]).str.strip_chars().str.to_lowercase().alias("email")


def _distinct(rows: pl.DataFrame, part: int, parts: int) -> pl.DataFrame:
    """Return the first row of each address of one part of all addresses."""
    return _part(rows, part, parts).unique("hash", keep="first", maintain_order=True)


def _part(rows: pl.DataFrame, part: int, parts: int) -> pl.DataFrame:
    return rows.filter(pl.col("hash") % parts == part)
