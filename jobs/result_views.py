"""What others may see of the rows of a job, and how they ask for some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline.verdict import Status


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows; what is empty does not narrow.

    Attributes:
        statuses, result: of the verdict.
        domain: of the address, as the canonical form writes it (ASCII, lower case).
        provider: who runs its mail server.
        text: part of the cell with the address, upper or lower case alike.
        at_start: the cell starts with `text`.
    """

    statuses: frozenset[Status] = frozenset()
    result: str = ""
    domain: str = ""
    provider: str = ""
    text: str = ""
    at_start: bool = False


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One row of the list with its verdict; `row` counts from 0."""

    row: int
    address: str
    status: Status
    result: str
    score: int
    reason: str
    suggestion: str
    smtp_code: int


@dataclass(frozen=True, slots=True)
class ResultsPage:
    """Some of the rows that match.

    Attributes:
        rows: in the list's order.
        matches: how many rows match in all.
        first: place of the first one among the matches, from 0.
        previous, next: pass one of them as `after` for the page before or after this; None where none is.
    """

    rows: tuple[ResultRow, ...]
    matches: int
    first: int
    previous: int | None
    next: int | None


@dataclass(frozen=True, slots=True)
class WholeRow:
    """A row with the customer's cells as text, its 13 fields and its evidence, {} when none was kept."""

    row: int
    address: str
    cells: tuple[tuple[str, str], ...]
    verdict: dict[str, Any]
    evidence: dict[str, Any]
