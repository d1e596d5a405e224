"""Rows of the results of a job, a page at a time: find them among a million, read the few that are shown.

Every call blocks for milliseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial, reduce
from operator import and_
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from mailsift.jobs.columns import (
    ADDRESS,
    ADDRESS_N,
    JUDGED_ADDRESS,
    REPAIRED,
    VERDICT_PREFIX,
    cell_text,
    column_id,
    read_names,
)
from mailsift.jobs.results.files import PartialVerdicts, height, verdicts_of, with_unwanted
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import VERDICTS
from mailsift.pipeline.judge.tiers import (
    TIER_FIELDS,
    Tier,
    TierPolicy,
    reason_of,
    tier_expression,
    tier_of,
)
from mailsift.pipeline.syntax.address import read_domain
from mailsift.pipeline.verdict import Status, with_repair

_DEFAULT_COLUMNS = 2  # of the customer's columns, where none was asked for
_STATUS, _RESULT = f"{VERDICT_PREFIX}status", f"{VERDICT_PREFIX}result"


@dataclass(frozen=True, slots=True)
class ResultFiles:
    """Where a job's rows and verdicts lie on this disk.

    Attributes:
        rows, addresses: what intake wrote (mailsift.jobs.intake).
        column: place of the address column among the customer's, from 0.
        results: the joined results, when the job is complete (mailsift.jobs.results.files).
        domains: the table of domains beside them (mailsift.jobs.results.breakdown.DOMAINS), where a provider
            is asked for.
        policy: what the tiers are read by.
        segments, so_far: the verdicts so far, and the same by address number, while it is not.
        window: rows looked through at a time, which bounds the memory.
        gap: rows this near each other are read together.
    """

    rows: Path
    addresses: Path
    column: int
    results: Path | None = None
    domains: Path | None = None
    policy: TierPolicy = field(default_factory=TierPolicy)
    segments: Sequence[Path] = ()
    so_far: PartialVerdicts | None = None
    window: int = 65_536
    gap: int = 4_096


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows; what is empty does not narrow.

    Attributes:
        statuses, results, tiers: of the verdict.
        domain: of the address, as the canonical form writes it (ASCII, lower case).
        provider: who runs its mail server.
        text: part of the cell with the address, upper or lower case alike.
        at_start: the cell starts with `text`; without one it says nothing.
        repaired: only rows whose cell was none, and another address was judged in its place.
    """

    statuses: frozenset[Status] = frozenset()
    results: frozenset[str] = frozenset()
    domain: str = ""
    provider: str = ""
    text: str = ""
    at_start: bool = False
    tiers: frozenset[Tier] = frozenset()
    repaired: bool = False

    def __post_init__(self) -> None:
        """Make equal what means the same rows."""
        object.__setattr__(self, "at_start", self.at_start and bool(self.text))

    @property
    def by_status_alone(self) -> bool:
        """Whether the verdict's status says which rows are meant."""
        return self == RowFilter(statuses=self.statuses)


class SortBy(StrEnum):
    """In which order rows come; equal ones in that of the list."""

    ROW = "row"
    SCORE = "score"
    SCORE_DOWN = "-score"
    RESULT = "result"
    RESULT_DOWN = "-result"
    EMAIL = "email"
    EMAIL_DOWN = "-email"


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One row of the list with its verdict.

    Attributes:
        row: its number, from 0.
        address: the cell as the list has it.
        judged: the canonical address that was judged, "" for a cell that is none or where it was not kept.
        cells: names and texts of the customer's columns that were asked for.
        verdict: its 13 fields.
        evidence: {} where it was not asked for or not kept.
        tier, tier_reason: what to do with it, and the rule that says so, "" for `send`.
    """

    row: int
    address: str
    judged: str
    cells: tuple[tuple[str, str], ...]
    verdict: dict[str, Any]
    evidence: dict[str, Any]
    tier: Tier
    tier_reason: str


@dataclass(frozen=True, slots=True)
class ResultsPage:
    """Some of the rows that match.

    Attributes:
        rows: in the order that was asked for.
        matches: how many rows match in all.
        first: place of the first one among the matches, from 0.
        previous, next: pass one of them as `after` for the page before or after this; None where none is.
        names: of the customer's columns beside the address.
        columns: those of them that the rows show.
    """

    rows: tuple[ResultRow, ...]
    matches: int
    first: int
    previous: int | None
    next: int | None
    names: tuple[str, ...]
    columns: tuple[str, ...]


BEGINNING: Final = -1
"""The row before the first one."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which of the matching rows are wanted.

    Attributes:
        limit: at most so many.
        after: those behind the row of this number; in an order other than the list's one that is no match is
            the start.
        columns: names of the customer's columns; None: the first few.
    """

    limit: int = 50
    after: int = BEGINNING
    sort: SortBy = SortBy.ROW
    columns: Sequence[str] | None = ()


def canonical_domain(domain: str) -> str:
    """Return a domain as the canonical form of addresses writes it; what is none stays as it is."""
    return read_domain(domain) or domain.strip().removeprefix("@").lower()


def read_page(files: ResultFiles, row_filter: RowFilter, asked: PageRequest) -> ResultsPage:
    """Return some of the matching rows; columns that are not there are left out."""
    ids, columns = _own_columns(files), asked.columns
    shown = [name for name in columns if name in ids] if columns is not None else list(ids)[:_DEFAULT_COLUMNS]
    return _page(files, matching_rows(files, row_filter), {ids[name]: name for name in shown}, asked)


def read_checked_page(files: ResultFiles, row_filter: RowFilter, asked: PageRequest) -> ResultsPage | None:
    """Do `read_page` for who names only what there is; None where `after` is none of the rows.

    Raises:
        MailsiftError: `unknown_column`.
    """
    ids = {name: id_ for id_, name in reversed(read_names(files.rows).items())}  # of equal names the first
    columns = asked.columns or ()
    if not set(columns) <= set(ids):
        raise MailsiftError("unknown_column", "The list has no column with one of these names.")
    found = matching_rows(files, row_filter)
    if asked.after != BEGINNING and _position(found, asked.after) is None:
        return None
    return _page(files, found, {ids[name]: name for name in columns}, asked)


def _page(
    files: ResultFiles, found: pl.Series, columns: Mapping[str, str], asked: PageRequest
) -> ResultsPage:
    """Return some of the rows that were found, with the customer's columns of these ids."""
    window = _window(files, found, asked.sort, after=asked.after, limit=asked.limit)
    rows = {row.row: row for row in _read(files, sorted(window.rows), columns)}
    return ResultsPage(
        rows=tuple(rows[number] for number in window.rows),
        matches=len(found),
        first=window.first,
        previous=window.previous,
        next=window.rows[-1] if window.first + asked.limit < len(found) else None,
        names=tuple(_own_columns(files)),
        columns=tuple(columns.values()),
    )


def _own_columns(files: ResultFiles) -> dict[str, str]:
    """Return our ids of the customer's columns beside the address, the first of equal names."""
    ids: dict[str, str] = {}
    for id_, name in read_names(files.rows).items():
        if id_ != column_id(files.column):
            ids.setdefault(name, id_)
    return ids


class _Window(NamedTuple):
    """Some rows of an order.

    Attributes:
        first: how many matches stand before them.
        previous: the row behind which as many before them begin; None: nothing stands before them.
    """

    first: int
    rows: list[int]
    previous: int | None


def _window(files: ResultFiles, found: pl.Series, sort: SortBy, *, after: int, limit: int) -> _Window:
    """Return what follows a row in an order; a row that is no match is the start of all but the list's own.

    Nothing is sorted but what is returned: a million texts take a third of a second.
    """
    if sort is SortBy.ROW or found.is_empty():
        first = int(found.search_sorted(after, side="right"))
        before = found.slice(max(0, first - limit - 1), 1).to_list() if first > limit else [BEGINNING]
        return _Window(first, found.slice(first, limit).to_list(), before[0] if first else None)
    name, down = sort.value.removeprefix("-"), sort.value.startswith("-")
    read_keys, place = _key_reader(files, name), _position(found, after)
    at = None if place is None else next(_with_keys(files, found.slice(place, 1), read_keys))["key"][0]
    first, passed, behind = 0, [], []
    for frame in _with_keys(files, found, read_keys):
        key = frame["key"]
        if at is None:
            is_passed = pl.repeat(value=False, n=frame.height, eager=True)
        else:
            is_passed = (key > at if down else key < at) | ((key == at) & (frame["row"] <= after))
        first += int(is_passed.sum())
        passed.append(_in_order(frame.filter(is_passed), -limit - 1, down=down))
        behind.append(_in_order(frame.filter(~is_passed), limit, down=down))
    previous = BEGINNING if first else None
    if first > limit:
        previous = _in_order(pl.concat(passed), -limit - 1, down=down)["row"][0]
    return _Window(first, _in_order(pl.concat(behind), limit, down=down)["row"].to_list(), previous)


def _in_order(frame: pl.DataFrame, count: int, *, down: bool) -> pl.DataFrame:
    """Return the first `count` rows by key and number, of a negative one the last.

    Equal keys are in the order of their numbers, before and after.
    """
    if frame.is_empty():
        return frame
    key, most = frame["key"], abs(count)
    least = down == (count < 0)
    edge = key.bottom_k(most).max() if least else key.top_k(most).min()
    beyond = frame.filter(key < edge if least else key > edge)
    inside = beyond.sort("key", "row", descending=[down, False])
    equal = frame.filter(key == edge)  # there may be a million of them
    left = most - inside.height
    found = pl.concat([inside, equal.head(left)] if count > 0 else [equal.tail(left), inside])
    return pl.DataFrame(found.to_dict(as_series=False), schema=found.schema)  # else they keep all texts


def _position(found: pl.Series, row: int) -> int | None:
    """Return where a row stands among numbers that ascend, None when it is none of them."""
    place = int(found.search_sorted(row)) if row != BEGINNING else len(found)
    return place if place < len(found) and found[place] == row else None


def _with_keys(
    files: ResultFiles, numbers: pl.Series, read_keys: Callable[[int], pl.Series]
) -> Iterator[pl.DataFrame]:
    """Yield rows, whose numbers ascend, with what they are sorted by: a window at a time, texts are large."""
    for start in range(0, int(numbers[-1]) + 1, files.window):
        end = numbers.search_sorted(start + files.window)
        here = numbers.slice(at := int(numbers.search_sorted(start)), int(end) - at)
        if len(here):
            yield pl.DataFrame({"row": here, "key": read_keys(start).gather(here - start)})


def _key_reader(files: ResultFiles, name: str) -> Callable[[int], pl.Series]:
    """Return what reads by what the rows of a window are sorted that begins at a row."""
    path = files.results or files.rows
    if name == "email":
        return lambda start: _read_window(files, start, path, _address_cell(files).str.to_lowercase())
    if files.results is not None:
        return lambda start: _read_window(files, start, path, pl.col(VERDICT_PREFIX + name))
    if files.so_far is None:
        raise AssertionError("what is not complete has its verdicts so far")
    known = files.so_far.results() if name == "result" else files.so_far.scores(files.segments)
    return lambda start: known.gather(_read_window(files, start, path, pl.col(ADDRESS_N)))


def _read_window(files: ResultFiles, start: int, path: Path, expression: pl.Expr) -> pl.Series:
    """Return for each row of a window of a file what an expression makes of it."""
    scan = with_unwanted(pl.scan_parquet(path, glob=False)).slice(start, files.window)
    return scan.select(expression).collect().to_series()


def read_row(files: ResultFiles, row: int) -> ResultRow | None:
    """Return one row with all its cells, None when there is none of this number or it has no verdict yet."""
    path = files.results or files.rows
    if row >= height(path):
        return None
    return next(_read(files, [row], read_names(path), with_evidence=True), None)


def matching_rows(files: ResultFiles, row_filter: RowFilter) -> pl.Series:
    """Return the numbers of all rows that match, ascending."""
    matching = _matching_addresses(files, row_filter)
    size = height(files.results or files.rows)
    if matching is None and row_filter == RowFilter():
        return pl.int_range(size, dtype=pl.UInt32, eager=True)
    masks = [_mask(files, row_filter, matching, start) for start in range(0, size, files.window)]
    return pl.concat(masks).arg_true() if masks else pl.Series(dtype=pl.UInt32)


def _matching_addresses(files: ResultFiles, row_filter: RowFilter) -> pl.Series | None:
    """Say for each address number whether it may match; None when the address number decides nothing."""
    masks = []
    if files.so_far is not None:
        masks.append(files.so_far.with_verdict(row_filter.statuses, row_filter.results, row_filter.tiers))
    if row_filter.domain:
        masks.append(pl.concat([*_domain_masks(files, row_filter.domain)]))
    if row_filter.provider:
        masks.append(_provider_mask(files, row_filter.provider))
    return reduce(and_, masks) if masks else None


def _domain_masks(files: ResultFiles, domain: str) -> Iterator[pl.Series]:
    scan = pl.scan_parquet(files.addresses, glob=False).select(pl.col("domain") == domain)
    for start in range(0, max(1, height(files.addresses)), files.window):
        yield scan.slice(start, files.window).collect().to_series()


def _provider_mask(files: ResultFiles, provider: str) -> pl.Series:
    if files.so_far is not None:
        return files.so_far.at_provider(provider)
    if files.domains is None:
        return pl.repeat(value=False, n=height(files.addresses), eager=True)
    theirs = (pl.col("provider") == provider).repeat_by("addresses").explode()
    return pl.scan_parquet(files.domains, glob=False).select(theirs).collect().to_series()


def _mask(files: ResultFiles, row_filter: RowFilter, matching: pl.Series | None, start: int) -> pl.Series:
    """Say for each row of a window whether it matches."""
    window, masks = partial(_read_window, files, start), []
    if matching is not None:
        numbers = window(files.rows, pl.col(ADDRESS_N))
        masks.append(matching.gather(numbers))
    conditions = [*_cell_conditions(row_filter, files)]
    if files.results is not None:
        conditions += _verdict_conditions(row_filter, files.policy)
    if conditions:
        masks.append(window(files.results or files.rows, pl.all_horizontal(conditions)))
    if row_filter.repaired:
        masks.append(window(files.rows, _was_repaired(files)))
    return reduce(and_, masks)


def _cell_conditions(row_filter: RowFilter, files: ResultFiles) -> Iterator[pl.Expr]:
    if row_filter.text:
        begin = r"^\s*" if row_filter.at_start else ""
        yield _address_cell(files).str.contains(f"(?i){begin}{re.escape(row_filter.text)}")


def _address_cell(files: ResultFiles) -> pl.Expr:
    """Return the cell with the address as text."""
    cell = column_id(files.column)
    return cell_text(cell, pl.read_parquet_schema(files.results or files.rows)[cell])


def _verdict_conditions(row_filter: RowFilter, policy: TierPolicy) -> Iterator[pl.Expr]:
    if row_filter.statuses:
        yield pl.col(_STATUS).is_in([status.value for status in row_filter.statuses])
    if row_filter.results:
        yield pl.col(_RESULT).is_in(sorted(row_filter.results))
    if row_filter.tiers:
        yield tier_expression(policy, VERDICT_PREFIX).is_in(sorted(row_filter.tiers))


def _read(
    files: ResultFiles, numbers: list[int], columns: Mapping[str, str], *, with_evidence: bool = False
) -> Iterator[ResultRow]:
    """Read rows by their numbers, which ascend, with the customer's columns of these ids.

    Those that have no verdict yet are left out.
    """
    address = column_id(files.column)
    cells = [*dict.fromkeys((address, *columns))]
    fields = [*dict.fromkeys((*VERDICTS, *TIER_FIELDS))]
    wanted: list[str | pl.Expr] = [*cells, _judged_column(files), _repaired(files)]
    if files.results is None:
        fields += ["evidence"] if with_evidence else []
        frame = _cells(files, files.rows, numbers, [*wanted, ADDRESS_N])
        verdicts = verdicts_of(files.segments, frame[ADDRESS_N].to_list(), fields)
        frame = frame.join(verdicts, left_on=ADDRESS_N, right_on="n", how="left", maintain_order="left")
    else:
        kept = pl.read_parquet_schema(files.results)
        fields += ["evidence"] if with_evidence and f"{VERDICT_PREFIX}evidence" in kept else []
        ours = [pl.col(VERDICT_PREFIX + name).alias(name) for name in fields]
        frame = _cells(files, files.results, numbers, [*wanted, *ours])
    frame = frame.with_columns(cell_text(cell, frame.schema[cell]) for cell in cells)
    for row, raw in zip(numbers, frame.iter_rows(named=True), strict=True):
        if raw["status"] is not None:
            values = with_repair(raw, raw["judged"] if raw[REPAIRED] else "")
            yield ResultRow(
                row=row,
                address=values[address],
                judged=values["judged"],
                cells=tuple((name, values[id_]) for id_, name in columns.items()),
                verdict={name: values[name] for name in VERDICTS},
                evidence=json.loads(values.get("evidence") or "{}"),
                tier=tier_of(values, files.policy),
                tier_reason=reason_of(values, files.policy),
            )


def _judged_column(files: ResultFiles) -> pl.Expr:
    """Return the column with the judged addresses, blanks for a list of an older release."""
    path, name = (files.results, JUDGED_ADDRESS) if files.results else (files.rows, ADDRESS)
    return (pl.col(name) if name in pl.read_parquet_schema(path) else pl.lit("")).alias("judged")


def _repaired(files: ResultFiles) -> pl.Expr:
    """Say which rows were repaired and do not say so yet: the joined results do."""
    return (_was_repaired(files) if files.results is None else pl.lit(value=False)).alias(REPAIRED)


def _was_repaired(files: ResultFiles) -> pl.Expr:
    """Say which rows of a list were repaired, as long as its schema is its own."""
    kept = REPAIRED in pl.read_parquet_schema(files.rows)
    return pl.col(REPAIRED) if kept else pl.repeat(value=False, n=pl.len())


def _cells(
    files: ResultFiles, path: Path, numbers: list[int], columns: Sequence[str | pl.Expr]
) -> pl.DataFrame:
    scan = with_unwanted(pl.scan_parquet(path, glob=False)).select(columns)
    if not numbers:
        return scan.head(0).collect()
    near = [
        scan.slice(run[0], run[-1] - run[0] + 1).collect()[[number - run[0] for number in run]]
        for run in _runs(numbers, files.gap)
    ]
    return pl.concat(near)


def _runs(numbers: list[int], gap: int) -> Iterator[list[int]]:
    """Split ascending numbers where they lie far apart."""
    run = [numbers[0]]
    for number in numbers[1:]:
        if number - run[-1] > gap:
            yield run
            run = []
        run.append(number)
    yield run
