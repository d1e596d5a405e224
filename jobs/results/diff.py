"""What changed between two runs of a list."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from mailsift.jobs.columns import VERDICT_PREFIX, cell_text, column_id, read_address_place
from mailsift.pipeline.errors import MailsiftError

_FIELDS = ("status", "result", "score")


@dataclass(frozen=True, slots=True)
class Diff:
    """Two runs compared, address by address as the list writes them.

    Attributes:
        compared: addresses that both have.
        only_before, only_after: addresses that only one has.
        moves: how many went from which status and result to which, most first.
        changed: the first ones that changed.
    """

    compared: int
    only_before: int
    only_after: int
    moves: list[dict[str, Any]]
    changed: list[dict[str, Any]]


def compare(before: Path, after: Path, columns: tuple[str, str], *, limit: int) -> Diff:
    """Compare two results files.

    Args:
        before: a results file (mailsift.jobs.results.join).
        after: that of the later run.
        columns: the names of their address columns.
        limit: how many changed addresses are named.

    Raises:
        MailsiftError: `not_the_same_list` when they have no address in common.
    """
    old, new = _read(before, columns[0]), _read(after, columns[1])
    both = old.join(new, on="email", how="inner", suffix="_after", maintain_order="left")
    if both.is_empty():
        raise MailsiftError("not_the_same_list", "These two jobs have no address in common.")
    moved = both.filter(
        (pl.col("status") != pl.col("status_after")) | (pl.col("result") != pl.col("result_after"))
    )
    pairs = [f"{name}{which}" for name in ("status", "result") for which in ("", "_after")]
    moves = (
        moved.group_by(pairs).len("addresses").sort(["addresses", *pairs], descending=[True, *[False] * 4])
    )
    return Diff(
        compared=both.height,
        only_before=old.height - both.height,
        only_after=new.height - both.height,
        moves=[_change_of(row) for row in moves.iter_rows(named=True)],
        changed=[
            {"email": row["email"], **_change_of(row)} for row in moved.head(limit).iter_rows(named=True)
        ],
    )


def _change_of(row: dict[str, Any]) -> dict[str, Any]:
    sides = {
        side: {name: row[name + end] for name in _FIELDS if name + end in row}
        for side, end in (("before", ""), ("after", "_after"))
    }
    return {**sides, **({"addresses": row["addresses"]} if "addresses" in row else {})}


def _read(results: Path, column: str) -> pl.DataFrame:
    """Return the distinct addresses of a run, as the list writes them, with their verdicts."""
    id_ = column_id(read_address_place(results, column))
    fields = [pl.col(VERDICT_PREFIX + name).alias(name) for name in _FIELDS]
    frame = pl.scan_parquet(results, glob=False)
    cell = cell_text(id_, frame.collect_schema()[id_])
    frame = frame.select(cell.str.strip_chars().str.to_lowercase().alias("email"), *fields)
    addresses = frame.filter(pl.col("email") != "")  # a blank cell is no address that two lists share
    return addresses.unique("email", keep="first", maintain_order=True).collect(engine="streaming")
