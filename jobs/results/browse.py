"""The results of a job while it runs and after: row by row, what they amount to, and as a file.

Rows are shown a page at a time: to find them among a million and read the few that are shown blocks for
milliseconds.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial, reduce
from operator import and_
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar
from weakref import WeakValueDictionary

import polars as pl

from mailsift.jobs.columns import (
    ADDRESS,
    ADDRESS_N,
    JUDGED_ADDRESS,
    REPAIRED,
    VERDICT_PREFIX,
    cell_text,
    column_id,
    read_address_place,
    read_names,
)
from mailsift.jobs.results.breakdown import Breakdown, breakdown_of_complete, count_up, domains_of
from mailsift.jobs.results.export import Selection
from mailsift.jobs.results.files import PartialVerdicts, height, join_results, verdicts_of, with_unwanted
from mailsift.jobs.views import AccountId, JobId, bad_cursor, load_options
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import VERDICTS
from mailsift.pipeline.syntax.address import read_domain
from mailsift.pipeline.tiers import (
    TIER_FIELDS,
    Tier,
    TierPolicy,
    reason_of,
    tier_expression,
    tier_of,
)
from mailsift.pipeline.verdict import Status, with_repair
from mailsift.storage.blobs import Blobs, JobBlobs
from mailsift.storage.database import Database, Row
from mailsift.storage.sql import chunks
from mailsift.storage.sql.jobs import owned
from mailsift.storage.states import JobState


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


def canonical_domain(domain: str) -> str:
    """Return a domain as the canonical form of addresses writes it; what is none stays as it is."""
    return read_domain(domain) or domain.strip().removeprefix("@").lower()


class SortBy(StrEnum):
    """In which order rows come; equal ones in that of the list."""

    ROW = "row"
    SCORE = "score"
    SCORE_DOWN = "-score"
    RESULT = "result"
    RESULT_DOWN = "-result"
    EMAIL = "email"
    EMAIL_DOWN = "-email"


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


P = ParamSpec("P")
T = TypeVar("T")

_READERS = 2  # threads that read rows for somebody; bounds the memory of the process
_KEPT_JOBS = 8  # jobs without final results whose verdicts are kept in memory
_FRESH_SECONDS = 5.0
_PAUSE_FACTOR = 20.0  # a breakdown that took long is counted again the later


@dataclass(slots=True)
class _Running:
    """What is remembered of a job without final results."""

    so_far: PartialVerdicts
    segments: dict[str, Path] = field(default_factory=dict)
    breakdown: Breakdown | None = None
    recount_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """Reads the results of one installation's jobs; every call names the account it speaks for."""

    database: Database
    blobs: Blobs
    scratch: Path
    monotonic: Callable[[], float] = time.monotonic
    _running: OrderedDict[JobId, _Running] = field(default_factory=OrderedDict, init=False)
    _slots: asyncio.Semaphore = field(default_factory=partial(asyncio.Semaphore, _READERS), init=False)
    _loading: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def page(
        self, account_id: AccountId, job_id: JobId, row_filter: RowFilter, asked: PageRequest
    ) -> ResultsPage:
        """Return some of the rows that match, as they stand now (read_page).

        Raises:
            MailsiftError: `job_not_found`, `no_results_yet`.
        """
        return await self._ask(
            account_id, job_id, row_filter, lambda files: read_page(files, row_filter, asked)
        )

    async def checked_page(
        self, account_id: AccountId, job_id: JobId, row_filter: RowFilter, asked: PageRequest
    ) -> ResultsPage:
        """Do `page` for who names only what there is (read_checked_page).

        Raises:
            MailsiftError: `job_not_found`, `no_results_yet`, `unknown_column`, `bad_cursor`.
        """
        found = await self._ask(
            account_id, job_id, row_filter, lambda files: read_checked_page(files, row_filter, asked)
        )
        if found is None:
            raise bad_cursor()
        return found

    async def row(self, account_id: AccountId, job_id: JobId, row: int) -> ResultRow:
        """Return all of one row, counted from 0.

        Raises:
            MailsiftError: `job_not_found`, `no_results_yet`, `row_not_found`.
        """
        found = await self._ask(account_id, job_id, RowFilter(), lambda files: read_row(files, row))
        if found is None:
            raise MailsiftError("row_not_found", "This list has no such row, or the row has no verdict yet.")
        return found

    async def breakdown(self, account_id: AccountId, job_id: JobId) -> Breakdown:
        """Return what the verdicts so far amount to; of a job that runs it may be some seconds old.

        Raises:
            MailsiftError: `job_not_found`, `no_results_yet`.
        """
        return await self._read_job(account_id, job_id, self._breakdown)

    async def _breakdown(self, row: Row) -> Breakdown:
        job_id = JobId(row["id"])
        if row["state"] == JobState.COMPLETED:
            return await breakdown_of_complete(self.blobs, job_id)
        running = await self._so_far(row)
        breakdown = running.breakdown
        if breakdown is None or self.monotonic() >= running.recount_at:
            started = self.monotonic()
            addresses = await self.blobs.fetch(JobBlobs(job_id).addresses)
            breakdown = (await self._thread(lambda: count_up(addresses, running.so_far)))[0]
            now = self.monotonic()
            running.recount_at = now + max(_FRESH_SECONDS, _PAUSE_FACTOR * (now - started))
            running.breakdown = breakdown
        return breakdown

    @asynccontextmanager
    async def results(self, account_id: AccountId, job_id: JobId) -> AsyncIterator[Path]:
        """Give the results as a local Parquet file: all rows when completed, else those with a verdict.

        Raises:
            MailsiftError: `job_not_found`, `no_results_yet`.
        """
        async with self.selection(account_id, job_id, RowFilter()) as found:
            yield found.results

    @asynccontextmanager
    async def selection(
        self, account_id: AccountId, job_id: JobId, wanted: RowFilter
    ) -> AsyncIterator[Selection]:
        """Give the results as `results` does, and which of their rows are wanted.

        Raises:
            MailsiftError: `job_not_found`, `no_results_yet`.
        """
        with tempfile.TemporaryDirectory(dir=self.scratch, prefix="partial-") as folder:
            partial = Path(folder) / "results.parquet"
            yield await self._read_job(account_id, job_id, lambda row: self._select(row, wanted, partial))

    async def _select(self, row: Row, wanted: RowFilter, partial: Path) -> Selection:
        """Find the wanted rows in the results, or in those so far, which are written to `partial`."""
        keys = JobBlobs(row["id"])
        if row["state"] != JobState.COMPLETED:
            segments = await self._segments(row)
            rows, addresses, *found = await self.blobs.fetch_all((keys.rows, keys.addresses, *segments))
            return await in_thread(
                row["account_id"], select_so_far, row, wanted, (rows, addresses), found, partial
            )
        numbers = None
        if not wanted.by_status_alone:
            files = await self._files(row, wanted)
            numbers = await self._thread(lambda: matching_rows(files, wanted))
        results = await self.blobs.fetch(keys.results)
        return Selection(results, wanted.statuses, numbers, load_options(row["options"]).tiers)

    async def _ask(
        self, account_id: AccountId, job_id: JobId, row_filter: RowFilter, read: Callable[[ResultFiles], T]
    ) -> T:
        async def read_files(row: Row) -> T:
            files = await self._files(row, row_filter)
            return await self._thread(lambda: read(files))

        return await self._read_job(account_id, job_id, read_files)

    async def _read_job(self, account_id: AccountId, job_id: JobId, read: Callable[[Row], Awaitable[T]]) -> T:
        """Look at a job, and once more when it completes meanwhile: its segments are gone then."""
        row = await self.database.run(owned, account_id, job_id)
        try:
            return await read(row)
        except Exception:
            again = await self.database.run(owned, account_id, job_id)
            if again["state"] == row["state"] or again["state"] != JobState.COMPLETED:
                raise
        return await read(again)

    async def _files(self, row: Row, row_filter: RowFilter) -> ResultFiles:
        keys = JobBlobs(row["id"])
        policy = load_options(row["options"]).tiers
        running = None if row["state"] == JobState.COMPLETED else await self._so_far(row)
        rows, addresses = await self.blobs.fetch_all((keys.rows, keys.addresses))
        column = await self._thread(lambda: read_address_place(rows, row["address_column"]))
        if running is not None:
            return ResultFiles(
                rows,
                addresses,
                column,
                policy=policy,
                segments=tuple(running.segments.values()),
                so_far=running.so_far,
            )
        self._running.pop(row["id"], None)
        results = await self.blobs.fetch(keys.results)
        domains = await domains_of(self.blobs, row["id"]) if row_filter.provider else None
        return ResultFiles(rows, addresses, column, results=results, domains=domains, policy=policy)

    async def _so_far(self, row: Row) -> _Running:
        """Bring up to date what is remembered of a job: segments never change, new ones are added."""
        keys = await self._segments(row)
        async with self._loading:
            policy = load_options(row["options"]).tiers
            if row["id"] not in self._running or self._running[row["id"]].so_far.policy != policy:
                empty = await self._thread(lambda: PartialVerdicts(row["addresses"], policy))
                self._running[row["id"]] = _Running(empty)
            running = self._running[row["id"]]
            self._running.move_to_end(row["id"])
            while len(self._running) > _KEPT_JOBS:
                self._running.popitem(last=False)
            fresh = [key for key in keys if key not in running.segments]
            found = await self.blobs.fetch_all(fresh)
            await self._thread(lambda: running.so_far.add_segments(found))
            running.segments.update(zip(fresh, found, strict=True))
            return running

    async def _segments(self, row: Row) -> list[str]:
        """Return the blob keys of a job's verdicts so far, of which there are some."""
        keys = await self.database.run(chunks.segments, row["id"])
        if not keys:
            raise MailsiftError("no_results_yet", "This job has no verdicts yet.", retryable=True)
        return keys

    async def _thread(self, work: Callable[[], T]) -> T:
        async with self._slots:
            return await asyncio.to_thread(work)


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


_FILES_AN_ACCOUNT: Final = 2
_THREADS: Final = ThreadPoolExecutor(max_workers=2 * _FILES_AN_ACCOUNT, thread_name_prefix="results")
_turns: Final[WeakValueDictionary[AccountId, asyncio.Semaphore]] = WeakValueDictionary()


def in_thread(
    account_id: AccountId, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> asyncio.Task[T]:
    """Start work that blocks on whole files of results, as soon as it is its turn: a few at a time.

    Threads of its own leave those free in which everything else is done that blocks, and bound the process's
    memory. An account has half of them at most: its long files keep nobody else's waiting. What is cancelled
    before its turn is not done.
    """
    turn = _turns.setdefault(account_id, asyncio.Semaphore(_FILES_AN_ACCOUNT))
    return asyncio.create_task(_in_turn(turn, partial(copy_context().run, work, *args, **kwargs)))


async def _in_turn(turn: asyncio.Semaphore, run: Callable[[], T]) -> T:
    async with turn:
        return await asyncio.get_running_loop().run_in_executor(_THREADS, run)


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


_DEFAULT_COLUMNS = 2  # of the customer's columns, where none was asked for


def read_page(files: ResultFiles, row_filter: RowFilter, asked: PageRequest) -> ResultsPage:
    """Return some of the matching rows; columns that are not there are left out."""
    ids, columns = _own_columns(files), asked.columns
    names = [name for name in columns if name in ids] if columns is not None else list(ids)[:_DEFAULT_COLUMNS]
    return _page(files, matching_rows(files, row_filter), {ids[name]: name for name in names}, asked)


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
    window = _window_of(files, found, asked.sort, after=asked.after, limit=asked.limit)
    rows = {row.row: row for row in _read_rows(files, sorted(window.rows), columns)}
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


def _window_of(files: ResultFiles, found: pl.Series, sort: SortBy, *, after: int, limit: int) -> _Window:
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
    return next(_read_rows(files, [row], read_names(path), with_evidence=True), None)


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
        yield pl.col(f"{VERDICT_PREFIX}status").is_in([status.value for status in row_filter.statuses])
    if row_filter.results:
        yield pl.col(f"{VERDICT_PREFIX}result").is_in(sorted(row_filter.results))
    if row_filter.tiers:
        yield tier_expression(policy, VERDICT_PREFIX).is_in(sorted(row_filter.tiers))


def _read_rows(
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
        frame = _cells_at(files, files.rows, numbers, [*wanted, ADDRESS_N])
        verdicts = verdicts_of(files.segments, frame[ADDRESS_N].to_list(), fields)
        frame = frame.join(verdicts, left_on=ADDRESS_N, right_on="n", how="left", maintain_order="left")
    else:
        kept = pl.read_parquet_schema(files.results)
        fields += ["evidence"] if with_evidence and f"{VERDICT_PREFIX}evidence" in kept else []
        ours = [pl.col(VERDICT_PREFIX + name).alias(name) for name in fields]
        frame = _cells_at(files, files.results, numbers, [*wanted, *ours])
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


def _cells_at(
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
