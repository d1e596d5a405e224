"""Which rows of a file of results are wanted, of a job that is complete and of one that still runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from mailsift.jobs.columns import read_address_place
from mailsift.jobs.results.join import join_results
from mailsift.jobs.results.pages import ResultFiles, RowFilter, matching_rows
from mailsift.jobs.results.segments import PartialVerdicts
from mailsift.jobs.views import load_options
from mailsift.pipeline.judge.tiers import TierPolicy
from mailsift.pipeline.verdict import Status
from mailsift.storage.database import Row


@dataclass(frozen=True, slots=True)
class Selection:
    """Results as a file, and which of its rows are wanted: arguments of mailsift.jobs.results.export.

    Attributes:
        results: the file; it lives as long as whoever gave it says.
        statuses: only rows with one of these; all, when empty.
        row_numbers: only the rows with these numbers, from 0; all, when None.
        policy: what their tiers are read by.
    """

    results: Path
    statuses: frozenset[Status]
    row_numbers: pl.Series | None = None
    policy: TierPolicy = field(default_factory=TierPolicy)


def select_so_far(
    row: Row, row_filter: RowFilter, files: tuple[Path, Path], segments: Sequence[Path], out: Path
) -> Selection:
    """Join the rows that have a verdict so far, and find those that are wanted. Blocks."""
    rows, addresses = files
    options = load_options(row["options"])
    join_results(rows, segments, out, evidence=options.evidence, partial=True)
    if row_filter.by_status_alone:
        return Selection(out, row_filter.statuses, policy=options.tiers)
    so_far = PartialVerdicts(row["addresses"], options.tiers)
    so_far.add_segments(segments)
    column = read_address_place(rows, row["address_column"])
    known = ResultFiles(rows, addresses, column, segments=tuple(segments), so_far=so_far)
    there = matching_rows(known, RowFilter())
    row_numbers = there.search_sorted(matching_rows(known, row_filter))
    return Selection(out, row_filter.statuses, row_numbers, options.tiers)
