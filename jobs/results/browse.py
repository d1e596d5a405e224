"""The results of a job while it runs and after: row by row, what they amount to, and as a file."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from mailsift.jobs.columns import read_address_place
from mailsift.jobs.results.breakdown import Breakdown, breakdown_of_complete, count_up, domains_of
from mailsift.jobs.results.export import Selection
from mailsift.jobs.results.files import PartialVerdicts, join_results
from mailsift.jobs.results.pages import (
    PageRequest,
    ResultFiles,
    ResultRow,
    ResultsPage,
    RowFilter,
    matching_rows,
    read_checked_page,
    read_page,
    read_row,
)
from mailsift.jobs.views import AccountId, JobId, bad_cursor, load_options
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.blobs.store import Blobs, JobBlobs
from mailsift.storage.database import Database, Row
from mailsift.storage.sql import chunks
from mailsift.storage.sql.jobs import owned
from mailsift.storage.states import JobState

P = ParamSpec("P")
T = TypeVar("T")

_READERS = 2  # threads that read rows for somebody; bounds the memory of the process
_KEPT_JOBS = 8  # jobs without final results whose verdicts are kept in memory
_FRESH_SECONDS = 5.0
_PAUSE_FACTOR = 20.0  # a breakdown that took long is counted again the later
_AN_ACCOUNT: Final = 2
_THREADS: Final = ThreadPoolExecutor(max_workers=2 * _AN_ACCOUNT, thread_name_prefix="results")
_turns: Final[WeakValueDictionary[AccountId, asyncio.Semaphore]] = WeakValueDictionary()


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
        """Return some of the rows that match, as they stand now (mailsift.jobs.results.pages.read_page).

        Raises:
            MailsiftError: `job_not_found`, `no_results_yet`.
        """
        return await self._ask(
            account_id, job_id, row_filter, lambda files: read_page(files, row_filter, asked)
        )

    async def checked_page(
        self, account_id: AccountId, job_id: JobId, row_filter: RowFilter, asked: PageRequest
    ) -> ResultsPage:
        """Do `page` for who names only what there is (mailsift.jobs.results.pages.read_checked_page).

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


def in_thread(
    account_id: AccountId, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> asyncio.Task[T]:
    """Start work that blocks on whole files of results, as soon as it is its turn: a few at a time.

    Threads of its own leave those free in which everything else is done that blocks, and bound the process's
    memory. An account has half of them at most: its long files keep nobody else's waiting. What is cancelled
    before its turn is not done.
    """
    turn = _turns.setdefault(account_id, asyncio.Semaphore(_AN_ACCOUNT))
    return asyncio.create_task(_in_turn(turn, partial(copy_context().run, work, *args, **kwargs)))


async def _in_turn(turn: asyncio.Semaphore, run: Callable[[], T]) -> T:
    async with turn:
        return await asyncio.get_running_loop().run_in_executor(_THREADS, run)
