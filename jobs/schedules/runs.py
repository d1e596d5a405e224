"""The runs of schedules: which are due, from what list, each slot once."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from mailsift.jobs.metrics import SCHEDULE_RUNS, count_missed
from mailsift.jobs.places.service import Places
from mailsift.jobs.results.retry import risky_rows
from mailsift.jobs.schedules.models import Overlap, Recheck, timetable_of
from mailsift.jobs.schedules.timetable import CatchUp, DueRun, Timetable
from mailsift.jobs.service import JobService, read_pieces
from mailsift.jobs.submissions import insert_stored
from mailsift.jobs.views import AccountId, JobId, JobOptions, load_options
from mailsift.jobs.waker import Waker
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError, SuppressCodes
from mailsift.pipeline.zones import is_zone
from mailsift.storage.blobs import Blobs, JobBlobs
from mailsift.storage.database import Connection, Database, Row
from mailsift.storage.sql import jobs, schedules
from mailsift.storage.sql.chunks import LeaseLostError
from mailsift.storage.sql.jobs import NewJob
from mailsift.storage.sql.schedules import Slot

LEASE = timedelta(minutes=10)
"""How long the making of one run may take before another worker tries."""

_AWAY = frozenset({"blob_not_found", "job_not_found", "schedule_source_gone"})

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRuns:
    """Makes due slots into jobs; any number of them may try at the same time."""

    database: Database
    blobs: Blobs
    jobs: JobService
    places: Places
    waker: Waker
    clock: Clock
    scratch: Path

    async def run_due(self) -> int:
        """Make every due slot into a job; returns how many jobs there are now more."""
        made = 0
        while True:
            now = self._now()
            claimed = await self.database.run(schedules.claim, now=now, until=now + LEASE)
            if claimed is None:
                return made
            if is_zone(claimed["zone"]):
                made += await self._run_claimed(claimed)
            else:
                await self._leave_to_others(claimed)

    async def start_now(self, row: Row) -> JobId:
        """Run a schedule at once, whatever still runs; to its slots that is the run before.

        Raises:
            MailsiftError: `schedule_source_gone`, `no_results_yet`, `nothing_to_retry`, or what the blob
                store says.
        """
        try:
            new = await self._make(row)
        except MailsiftError as error:
            if error.code != "blob_not_found":
                raise
            raise MailsiftError("schedule_source_gone", "This schedule’s list is no longer kept.") from None

        async def transaction(connection: Connection) -> None:
            await insert_stored(connection, new)
            await schedules.attach(connection, new.id, row["id"], None)

        await self.database.run(transaction)
        await self.waker.wake(1)
        return JobId(new.id)

    async def _run_claimed(self, row: Row) -> int:
        """Do what a claimed schedule is due for; returns how many jobs it made."""
        times = timetable_of(row)
        slot = times.standing(row["next_run_at"])
        if slot.at > row["next_run_at"]:
            await self._move_on(row, times, DueRun(None, slot))
            return 0
        plan = await self._plan(row, times, slot)
        if plan.slot is None:
            await self._skip(row, times, plan, "missed")
            return 0
        # a clock was put back meanwhile
        if await self.database.run(schedules.was_run, row["id"], plan.slot):
            await self._move_on(row, times, plan)
            return 0
        replaces = Overlap(row["overlap"]) is Overlap.CANCEL_PREVIOUS
        open_runs = () if replaces else await self.database.run(schedules.open_runs, row["id"])
        if open_runs:
            await self._skip(row, times, plan, "still_running")
            return 0
        try:
            new = await self._make(row)
        except MailsiftError as error:
            if error.retryable and error.code != "no_results_yet":
                raise  # the lease runs out and the slot is tried again
            await self._skip(row, times, plan, error.code)
            return 0
        if replaces:  # not before there is something to run in their place
            await self._cancel_runs(row)
        return await self._commit(row, new, times, plan)

    async def _plan(self, row: Row, times: Timetable, slot: Slot) -> DueRun:
        catch_up, now = CatchUp(row["catch_up"]), self._now()
        if catch_up is CatchUp.NONE and row["lost_at"] is not None:
            now = row["lost_at"] - LEASE  # what was taken in time was not missed, though its maker has died
        now -= row["next_run_at"] - slot.at  # nor was what lies earlier by now
        return times.due(catch_up, slot=slot, now=now, freed_at=await self._freed_at(row))

    async def _freed_at(self, row: Row) -> datetime | None:
        if Overlap(row["overlap"]) is not Overlap.QUEUE:
            return None
        return await self.database.run(schedules.last_end, row["id"])

    async def _cancel_runs(self, row: Row) -> None:
        for job_id in await self.database.run(schedules.open_runs, row["id"]):
            with SuppressCodes("job_state_conflict"):  # it has ended meanwhile
                await self.jobs.cancel(AccountId(row["account_id"]), JobId(job_id))

    async def _skip(self, row: Row, times: Timetable, plan: DueRun, code: str) -> None:
        await self._move_on(row, times, plan, code)
        count_missed(code)
        _log.info("schedule.skipped", schedule=str(row["id"]), code=code)

    async def _leave_to_others(self, row: Row) -> None:
        """Say that this machine's tables do not know the zone; when the lease ends, perhaps another's do."""
        code = "schedule_zone_invalid"
        await self.database.run(schedules.record_trouble, row, code)
        _log.warning("schedule.waits", schedule=str(row["id"]), code=code, zone=row["zone"])

    async def _move_on(self, row: Row, times: Timetable, plan: DueRun, code: str = "") -> None:
        await self.database.run(
            schedules.record_slot,
            row,
            following=plan.next,
            last_error=code,
            pause=code in _AWAY or times.is_over(plan.next),
        )

    async def _commit(self, row: Row, new: NewJob, times: Timetable, plan: DueRun) -> int:
        async def transaction(connection: Connection) -> None:
            recorded = await schedules.record_slot(
                connection,
                row,
                following=plan.next,
                last_run_at=plan.slot,
                pause=times.is_over(plan.next),
            )
            if not recorded:
                raise LeaseLostError  # somebody else makes this run, or the schedule has been changed
            await insert_stored(connection, new)
            await schedules.attach(connection, new.id, row["id"], plan.slot)

        try:
            await self.database.run(transaction)
        except LeaseLostError:
            await self.blobs.delete_prefix(JobBlobs(new.id).prefix)
            return 0
        SCHEDULE_RUNS.inc()
        _log.info("schedule.run", schedule=str(row["id"]), job=str(new.id))
        await self.waker.wake(1)
        return 1

    async def _make(self, row: Row) -> NewJob:
        """Return the job of a run, not yet inserted, its list stored or to be fetched."""
        account = AccountId(row["account_id"])
        async with self.database.begin() as connection:
            source = await jobs.get(connection, row["source_job_id"]) if row["source_job_id"] else None
            last = await schedules.last_completed(connection, row["id"])
        options = replace(load_options(row["options"]), name=row["name"], preview=0, part=False)
        places = self.places.unseal(account, options.places)
        if source is None and places.source is None:
            raise MailsiftError("schedule_source_gone", "This schedule’s list was deleted.")
        before = last or source
        if Recheck(row["recheck"]) is Recheck.RISKY and before is not None:
            return await self._risky(before, options)
        if Recheck(row["recheck"]) is not Recheck.STALE:
            options = replace(options, max_age=0.0)
        if source is None or places.source is not None:
            parent = JobId(before["id"]) if before else None
            return await self.jobs.submissions.expect(account, places, options, parent=parent)
        sealed = load_options(source["options"]).places
        path = await self.places.stored_list(
            self.blobs, account, source["id"], sealed, sha256=source["source_sha256"]
        )
        return await self._store(path, source, options, name=source["source_name"])

    async def _risky(self, base: Row, options: JobOptions) -> NewJob:
        """Make a list of the rows that ended risky; their results are not what is wanted at a place."""
        account, job_id = AccountId(base["account_id"]), JobId(base["id"])
        async with self.jobs.browser.results(account, job_id) as results:
            with tempfile.TemporaryDirectory(dir=self.scratch, prefix="schedule-") as folder:
                path = Path(folder) / "risky.parquet"
                column = await asyncio.to_thread(risky_rows, results, path, base["address_column"])
                again = replace(options, column=column, max_age=0.0, places="", part=True)
                return await self._store(path, base, again, name=path.name)

    async def _store(self, path: Path, base: Row, options: JobOptions, *, name: str) -> NewJob:
        account, parent = AccountId(base["account_id"]), JobId(base["id"])
        return await self.jobs.submissions.store(
            account, read_pieces(path), options, source_name=name, parent=parent
        )

    def _now(self) -> datetime:
        return utc_datetime(self.clock())
