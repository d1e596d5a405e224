"""The two steps around the chunks: take a list in, and finish a job.

Where verdicts were lost with their blobs, a finish counts what is left and has the rest found again.
"""

from __future__ import annotations

import asyncio
import io
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final
from uuid import UUID

import polars as pl
import structlog

from mailsift.jobs.engine.chunk import SmallList, counts_of
from mailsift.jobs.engine.end import end_job
from mailsift.jobs.intake.ahead import look_ahead
from mailsift.jobs.intake.models import IntakeLimits, IntakeOptions
from mailsift.jobs.intake.process import StandingReader, take_in
from mailsift.jobs.metrics import JOBS_ENDED
from mailsift.jobs.places.place import Place
from mailsift.jobs.places.service import Places
from mailsift.jobs.results.breakdown import Breakdown, count_segments, delete_segments, store_breakdown
from mailsift.jobs.results.files import (
    join_results,
    join_small,
    scan_segments,
    stream_parquet,
)
from mailsift.jobs.results.parts import sample
from mailsift.jobs.submissions import store_list
from mailsift.jobs.views import AccountId, JobId, JobOptions, load_options
from mailsift.pipeline.background import guarded
from mailsift.pipeline.errors import MailsiftError, SuspectError, error_fields, lacks_threads
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.frames import ADDRESSES, SEGMENT, WAITING, load_frames
from mailsift.pipeline.tiers import TIER_FIELDS, TierPolicy
from mailsift.storage.blobs import Blobs, JobBlobs
from mailsift.storage.database import Connection, Database
from mailsift.storage.local_files import check_room
from mailsift.storage.sql import chunks, jobs
from mailsift.storage.sql.chunks import ClaimedChunk, LeaseLostError, LeaseTerms, NewChunk
from mailsift.storage.sql.jobs import SMALL_BYTES, ClaimedStep, JobPlan, VerdictCounts
from mailsift.storage.states import JobTransition

_log = structlog.get_logger()

_SMALL_ROWS: Final = 1_000
"""A job with at most so many rows never waits behind a bigger one."""
_CHUNK_ADDRESSES: Final[Mapping[Mode, int]] = {Mode.FAST: 50_000, Mode.MEDIUM: 20_000, Mode.DEEP: 5_000}
"""Addresses a chunk holds at first."""
_PARTS: Final = 20
"""Chunks of a list in mode medium, at least: were all of it in work at once, no progress would be seen."""
_MOST_REDONE: Final = 3
"""Times that lost verdicts are found again: a store that damages what it is given does so again; then the job
fails, and its operators may look."""
_MAX_ATTEMPTS: Final = 3
"""Workers that may die over one step before the job fails."""
SUSPECT_PAUSES: Final = (2.0, 900.0)
"""Seconds until a step is done again that a SuspectError ended; the next time, its job fails.

The first kill of a reader may have been anybody's; by the end of the second pause another list that took the
memory has been read (IntakeLimits.seconds). Before its last try, a step that workers died over waits as long:
what else they held dies with others meanwhile, and is told apart.
"""


@dataclass(frozen=True, slots=True)
class StepDone:
    """What a step leaves to be done.

    Attributes:
        opened: new chunks that anybody may claim.
        chunk: one that has been leased to who did the step.
        in_hand: the list that it holds, where it is small.
    """

    opened: int = 0
    chunk: ClaimedChunk | None = None
    in_hand: SmallList | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWorker:
    """Does intake and finish, each fenced by the step's lease.

    What goes from or to a customer's place is a step by itself, for it takes as long as the place likes.

    Attributes:
        overrides: the file with the operator's lists, "" for none.
        scratch: for files that live as long as a step.
        look_up: makes the domains of a list known that is still being read.
        terms: on which it takes the chunk of a small list with its intake.
        refuse_harvested: whether a list that looks made up is refused a deep run.
    """

    database: Database
    blobs: Blobs
    limits: IntakeLimits
    overrides: str
    scratch: Path
    places: Places
    look_up: Callable[[Sequence[str]], Awaitable[None]]
    terms: LeaseTerms
    refuse_harvested: bool
    _reader: StandingReader = field(default_factory=StandingReader, init=False)
    _lookups: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    async def aclose(self) -> None:
        """End the process that reads small lists, and what is looked up meanwhile."""
        await self._reader.aclose()
        for task in self._lookups:
            task.cancel()
        await asyncio.gather(*self._lookups, return_exceptions=True)

    async def work(self, step: ClaimedStep, in_hand: SmallList | None = None) -> StepDone:
        """Do the step; a list that cannot be taken in fails its job with a stable code.

        Returns what is to be done next; `in_hand` is the list with verdicts that were just committed here.

        Raises:
            LeaseLostError: another process has the step now, or the job has been cancelled.
        """
        if step.attempt > _MAX_ATTEMPTS:
            await self._fail(
                step, MailsiftError(f"{step.state}_crashed", "The process working on it kept crashing.")
            )
            return StepDone()
        if step.abandoned and step.attempt == _MAX_ATTEMPTS:
            await self._wait_for_last_try(step)
            return StepDone()
        try:
            return await self._do(step, in_hand)
        except MailsiftError as error:
            tried_enough = isinstance(error, SuspectError) and step.attempt > len(SUSPECT_PAUSES)
            if (error.retryable and not tried_enough) or lacks_threads(error):
                raise
            await self._fail(step, error)
        return StepDone()

    async def _wait_for_last_try(self, step: ClaimedStep) -> None:
        """Give the step back for a while; nobody has abandoned it then, so that it is done after that."""
        pause = SUSPECT_PAUSES[-1]
        _log.warning("job.step.died", step=step.state, tries=step.attempt - 1, pause_s=pause)
        await self.database.run(jobs.release_step, step, delay=pause, waits_for=chunks.WORKER_GONE)

    async def _do(self, step: ClaimedStep, in_hand: SmallList | None) -> StepDone:
        try:
            if step.fetches:
                return await self._fetch(step)
            if step.state == JobTransition.TAKE_IN.target:
                return await self._take_in(step)
            if step.delivers:
                return await self._deliver(step)
            return await self._finish(step, in_hand)
        except MailsiftError as error:
            if error.code != "blob_not_found":
                raise
            raise await self._missing(step) from error

    async def _missing(self, step: ClaimedStep) -> MailsiftError:
        """Return the error for a file that is not there: another machine may have it, or it comes."""
        if not await self.database.run(jobs.renew_steps, {step.token}, lease=self.terms.lease_s):
            raise LeaseLostError  # the job has been deleted, and its files with it
        text = "A file of this list is missing where lists are stored. Send the list again."
        return SuspectError("blob_not_found", text)

    async def _take_in(self, step: ClaimedStep) -> StepDone:
        keys, options = JobBlobs(step.job_id), load_options(step.options)
        account = AccountId(step.account_id)
        source = await self.places.stored_list(
            self.blobs, account, step.job_id, options.places, sha256=step.source_sha256
        )
        small = await asyncio.to_thread(os.path.getsize, source) <= SMALL_BYTES
        if not small:
            await self._reader.rest()
        load_frames()  # what judges the list, while another process reads it
        asked = self._intake_options(options, small=small, test=step.test)
        place = self.places.unseal(account, options.places).source
        asked = replace(asked, named=place is not None and place.is_database)
        with tempfile.TemporaryDirectory(dir=self.scratch, prefix="intake-") as scratch:
            folder = Path(scratch)
            if asked.look_ahead:
                self._start_lookups(folder)
            reader = self._reader if small else None
            whole = taken = await take_in(source, folder, options=asked, limits=self.limits, reader=reader)
            if options.preview:
                taken = await asyncio.to_thread(
                    sample, folder, whole, size=options.preview, chunk=asked.chunk_addresses
                )
            else:
                self.places.check_fits(self._sink_of(step, options), taken.rows)
            in_hand = await self._store_taken(keys, folder, small=small and taken.rows <= _SMALL_ROWS)
        planned = JobPlan(
            address_column=taken.column,
            total=taken.rows,
            addresses=taken.addresses,
            list_rows=whole.rows,
            list_addresses=whole.addresses,
            small=taken.rows <= _SMALL_ROWS,
        )
        new = [
            NewChunk(piece.addresses, keys.addresses, piece.offset, free_mail=piece.free_mail)
            for piece in taken.chunks
        ]
        first = await self.database.run(
            plan_job, step.job_id, planned, new, token=step.token, terms=self.terms
        )
        return StepDone(opened=len(new) - (first is not None), chunk=first, in_hand=in_hand)

    def _intake_options(self, options: JobOptions, *, small: bool, test: bool) -> IntakeOptions:
        deep = options.mode is Mode.DEEP
        return IntakeOptions(
            column=options.column,
            chunk_addresses=_CHUNK_ADDRESSES[options.mode],
            parts=_PARTS if options.mode is Mode.MEDIUM else 1,
            repair=options.repair,
            overrides=self.overrides,
            refuse_harvested=self.refuse_harvested and deep,
            forecast=deep and not small,
            look_ahead=options.mode is not Mode.FAST and not (small or test or options.preview),
        )

    async def _store_taken(self, keys: JobBlobs, folder: Path, *, small: bool) -> SmallList | None:
        """Store what an intake has written into a folder; a small list stays in hand as well."""
        files = {keys.rows: folder / "rows.parquet", keys.addresses: folder / "addresses.parquet"}
        if small and (found := await asyncio.to_thread(_read_small, files.values())):
            await self.blobs.put_all(dict(zip(files, found, strict=True)))
            rows, addresses = found
            return SmallList(rows, pl.read_parquet(io.BytesIO(addresses)))
        for key, path in files.items():
            await self.blobs.put_file(key, path)
        return None

    def _start_lookups(self, folder: Path) -> None:
        """Look up the domains that are written into this folder, until it is gone."""
        lookup = asyncio.create_task(guarded(look_ahead(folder, self.look_up), "look_ahead"))
        self._lookups.add(lookup)
        lookup.add_done_callback(self._lookups.discard)

    async def _fetch(self, step: ClaimedStep) -> StepDone:
        """Fetch the job's list from its place unless that was done before; it is read in its turn."""
        key, account = JobBlobs(step.job_id).source, AccountId(step.account_id)
        source = self.places.unseal(account, load_options(step.options).places).source
        if source is None or await self.blobs.exists(key):
            size = await asyncio.to_thread(os.path.getsize, await self.blobs.fetch(key))
        else:
            pieces = _bounded(self.places.read(account, source), self.limits.bytes)
            size = (await store_list(self.blobs, key, pieces, name=source.name)).bytes
        if not await self.database.run(jobs.record_fetched, step, size):
            raise LeaseLostError
        return StepDone(opened=1)

    async def _finish(self, step: ClaimedStep, in_hand: SmallList | None) -> StepDone:
        """Write the results; where verdicts are lost or damaged, have them found again instead."""
        if in_hand is not None and in_hand.verdicts is not None:
            await write_results(self.blobs, step, in_hand, self.scratch)
            # who asks what it amounts to has that counted from its segment
            return await self._hand_over(step)
        keys = await self.database.run(chunks.segments, step.job_id)
        sound = await self.blobs.fetch_all_sound(keys)
        # to write keeps one processor busy: what it amounts to is counted up on another one
        counting = asyncio.create_task(count_segments(self.blobs, JobId(step.job_id), list(sound.values())))
        try:
            await write_results(self.blobs, step, list(sound.values()), self.scratch)
        except MailsiftError as error:
            if error.code != "results_incomplete":
                raise
            _log.warning("finish.verdicts_lost", job=str(step.job_id), segments=len(keys) - len(sound))
            size = _CHUNK_ADDRESSES[load_options(step.options).mode]
            redone = await self._redo(step, sound, size)
            if not redone:
                raise
            return StepDone(opened=redone)
        finally:
            await asyncio.gather(counting, return_exceptions=True)
        return await self._hand_over(step, counted=await self._store_breakdown(step, counting))

    async def _redo(self, step: ClaimedStep, sound: Mapping[str, Path], size: int) -> int:
        """Give the addresses of a job that have no verdict (any more) to new chunks of so many addresses.

        `sound` are the job's undamaged segments. Returns how many chunks there are; 0: nothing can be done.

        Raises:
            MailsiftError: `blob_damaged`, `blob_not_found` for the addresses themselves.
            LeaseLostError: the lease is gone; nothing was changed.
        """
        if await self.database.run(chunks.redone, step.job_id) >= _MOST_REDONE:
            return 0
        addresses = await self.blobs.fetch(JobBlobs(step.job_id).addresses)
        policy, key = load_options(step.options).tiers, JobBlobs(step.job_id).redone(step.token)
        with tempfile.TemporaryDirectory(dir=self.scratch, prefix="redo-") as folder:
            lost = Path(folder) / "lost.parquet"
            count, counts = await asyncio.to_thread(
                _without_verdict, addresses, list(sound.values()), policy, lost, size
            )
            if not count:
                return 0
            await self.blobs.put_file(key, lost)
        new = [NewChunk(min(size, count - start), key, start) for start in range(0, count, size)]
        await self.database.run(_redo_lost, step, counts, new, sound=list(sound))
        return len(new)

    async def _hand_over(self, step: ClaimedStep, *, counted: bool = False) -> StepDone:
        """Complete a job whose results are written, or leave them to be delivered."""
        options = load_options(step.options)
        if options.preview or self._sink_of(step, options) is None:
            await self._complete(step, counted=counted)
            return StepDone()
        if not await self.database.run(jobs.record_written, step):
            raise LeaseLostError
        return StepDone(opened=1)

    async def _deliver(self, step: ClaimedStep) -> StepDone:
        """Put the results into the customer's place, be it for the second time; finish anew without them."""
        key = JobBlobs(step.job_id).results
        if not await self.blobs.exists(key):
            return await self._finish(step, None)
        results, options = await self.blobs.fetch(key), load_options(step.options)
        if sink := self._sink_of(step, options):
            account, job_id = AccountId(step.account_id), JobId(step.job_id)
            await self.places.write(
                account, sink, results, job=job_id, scratch=self.scratch, policy=options.tiers
            )
        counted = await self.blobs.exists(JobBlobs(step.job_id).breakdown)
        await self._complete(step, counted=counted)
        return StepDone()

    def _sink_of(self, step: ClaimedStep, options: JobOptions) -> Place | None:
        return self.places.unseal(AccountId(step.account_id), options.places).sink

    async def _store_breakdown(
        self, step: ClaimedStep, counting: asyncio.Task[tuple[Breakdown, bytes]]
    ) -> bool:
        """Store what the verdicts amount to once the results are there; returns whether that went well."""
        try:
            await store_breakdown(self.blobs, JobId(step.job_id), *counting.result())
        except Exception as error:  # noqa: BLE001 - the results are there; it is counted up when asked for
            _log.warning("finish.no_breakdown", job=str(step.job_id), **error_fields(error))
            return False
        return True

    async def _complete(self, step: ClaimedStep, *, counted: bool) -> None:
        """Complete the job; only then may go what its results hold, too, if it has been counted up."""
        await self._end(step, JobTransition.COMPLETE)
        if counted:
            await delete_segments(self.blobs, step.job_id)

    async def _fail(self, step: ClaimedStep, error: MailsiftError) -> None:
        await self._end(step, JobTransition.FAIL, error=(error.code, error.message))

    async def _end(
        self, step: ClaimedStep, transition: JobTransition, error: tuple[str, str] = ("", "")
    ) -> None:
        ended = await self.database.run(end_job, step.job_id, transition, token=step.token, error=error)
        if not ended:
            raise LeaseLostError
        JOBS_ENDED.labels(transition.target).inc()


def _read_small(paths: Iterable[Path]) -> list[bytes]:
    """Read files that are small; where one is not, nothing is read."""
    sizes = [path.stat().st_size for path in paths]
    return [] if max(sizes) > SMALL_BYTES else [path.read_bytes() for path in paths]


async def _bounded(pieces: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    size = 0
    async for piece in pieces:
        size += len(piece)
        if size > most:
            raise MailsiftError("file_too_large", f"A list can have at most {most:,} bytes.")
        yield piece


async def write_results(
    blobs: Blobs, step: ClaimedStep, verdicts: Sequence[Path] | SmallList, scratch: Path
) -> None:
    """Join the verdicts, be they in segments or in hand, with the rows of the list and store the result."""
    evidence = load_options(step.options).evidence
    if isinstance(verdicts, SmallList):
        if verdicts.verdicts is None:
            raise AssertionError("the caller has seen that they are there")
        results = await asyncio.to_thread(join_small, verdicts.rows, verdicts.verdicts, evidence=evidence)
        await blobs.put_all({JobBlobs(step.job_id).results: results})
        return
    rows = await blobs.fetch(JobBlobs(step.job_id).rows)
    with tempfile.TemporaryDirectory(dir=scratch, prefix="finish-") as folder:
        out = Path(folder) / "results.parquet"
        try:
            await asyncio.to_thread(join_results, rows, verdicts, out, evidence=evidence)
        except pl.exceptions.PolarsError:
            await asyncio.to_thread(check_room, out.parent)
            raise
        await blobs.put_file(JobBlobs(step.job_id).results, out)


async def plan_job(
    connection: Connection,
    job_id: UUID,
    planned: JobPlan,
    new: Sequence[NewChunk],
    *,
    token: UUID,
    terms: LeaseTerms | None = None,
) -> ClaimedChunk | None:
    """Give a job its chunks, so that they can be claimed.

    The only one of a small job is leased and returned, under the same token, to a caller with `terms`.

    Raises:
        LeaseLostError: the lease of the intake is gone; the transaction must be rolled back.
    """
    if not await jobs.plan(connection, job_id, planned, chunks=len(new), token=token):
        raise LeaseLostError
    await chunks.insert(connection, job_id, 0, new)
    await jobs.catch_up(connection, job_id)
    if terms is None or not planned.small or len(new) != 1:
        return None
    return await chunks.lease_first(connection, job_id, terms, token=token)


def _without_verdict(
    addresses: Path, segments: Sequence[Path], policy: TierPolicy, out: Path, size: int
) -> tuple[int, VerdictCounts]:
    """Write the addresses that no segment has, in their order (frames.WAITING), and count the others.

    Memory holds a few bytes an address and what is read of one segment.
    """
    try:
        known = pl.scan_parquet(addresses, glob=False)
        rows = known.select("n", "rows").collect(engine="streaming").sort("n")["rows"]  # n: dense from 0
        has_verdict = pl.repeat(value=False, n=len(rows), dtype=pl.Boolean, eager=True)
        counts: Counter[str] = Counter()
        for segment in segments:
            read = scan_segments([segment], {name: SEGMENT[name] for name in ("n", *TIER_FIELDS)})
            found = read.filter(pl.col("n") < len(rows)).collect(engine="streaming")
            has_verdict = has_verdict.scatter(found["n"], values=True)
            carried = found.with_columns(rows.gather(found["n"]).alias("rows"))
            counts.update(asdict(counts_of(carried, policy)))
        more = {name: dtype for name, dtype in WAITING.items() if name not in ADDRESSES}
        nothing = [pl.lit("" if dtype == pl.String else 0, dtype).alias(name) for name, dtype in more.items()]
        without_verdict = pl.col("n").map_batches(
            lambda numbers: ~has_verdict.gather(numbers), return_dtype=pl.Boolean, is_elementwise=True
        )
        lost = known.filter(without_verdict).with_columns(nothing).select(*WAITING)
        stream_parquet(lost, out, group=size)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        check_room(out.parent)
        raise MailsiftError("blob_damaged", "The job's list of addresses is damaged.") from error
    return len(rows) - counts["addresses"], VerdictCounts(**counts)


async def _redo_lost(
    connection: Connection,
    step: ClaimedStep,
    counts: VerdictCounts,
    new: Sequence[NewChunk],
    *,
    sound: Sequence[str],
) -> None:
    """Count what still has a verdict, in the `sound` segments, and insert the chunks of all the others."""
    before = await jobs.get(connection, step.job_id)
    first_free = await jobs.redo(connection, step.job_id, counts, added=len(new), token=step.token)
    if before is None or first_free is None:
        raise LeaseLostError
    addresses = await chunks.forget_lost(connection, step.job_id, sound)
    await chunks.insert(connection, step.job_id, first_free, new)
    rows = before["processed"] - counts.processed
    await jobs.take_back_use(connection, step.job_id, rows=rows, addresses=addresses)
