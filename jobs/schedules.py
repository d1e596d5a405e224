"""Schedules: lists that are validated again on a cron line, each of its slots once."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from hashlib import blake2b
from itertools import islice, pairwise, takewhile
from math import inf
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import structlog
from cronsim import CronSim, CronSimError

from mailsift.events import audit
from mailsift.jobs.metrics import SCHEDULE_RUNS, count_missed
from mailsift.jobs.places.service import JobPlaces, Places
from mailsift.jobs.results.parts import risky_rows
from mailsift.jobs.service import JobService, read_pieces
from mailsift.jobs.submissions import insert_stored
from mailsift.jobs.views import (
    AccountId,
    JobId,
    JobOptions,
    JobView,
    bad_cursor,
    dump_options,
    load_options,
    view_of,
)
from mailsift.jobs.waker import Waker
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError, SuppressCodes
from mailsift.pipeline.wording import visible_name
from mailsift.pipeline.zones import is_zone, zone_named
from mailsift.storage.blobs import Blobs, JobBlobs
from mailsift.storage.database import Connection, Database, Row, from_row
from mailsift.storage.sql import accounts, jobs, schedules
from mailsift.storage.sql.chunks import LeaseLostError
from mailsift.storage.sql.jobs import NewJob, owned
from mailsift.storage.sql.schedules import PUNCTUAL, Slot


class Recheck(StrEnum):
    """What of the list is asked again."""

    ALL = "all"  # every address, whatever is remembered
    STALE = "stale"  # every address whose verdict is older than the options' max_age
    RISKY = "risky"  # the rows that ended risky the last time


class Overlap(StrEnum):
    """What happens when a slot comes while the run before, be it one by hand, has not ended."""

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL_PREVIOUS = "cancel_previous"


class CatchUp(StrEnum):
    """What becomes of slots that were missed, at most a day ago."""

    NONE = "none"
    LATEST = "latest"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class ScheduleSpec:
    """What a schedule does.

    Attributes:
        cron: five fields.
        zone: IANA name of the time zone the cron line is read in; "" when one is made: the account's.
        name: "" = the list's.
        options: None = those of the list's job.
        jitter_seconds: every run starts up to so much after its slot, always the same for the same slot.
        ends_at: no later slot is run; None = for ever.
        pause_after_failures: failed runs in a row after which the schedule pauses itself; 0 = never.
    """

    cron: str
    zone: str = "UTC"
    name: str = ""
    recheck: Recheck = Recheck.ALL
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LATEST
    options: JobOptions | None = None
    jitter_seconds: int = 0
    ends_at: datetime | None = None
    pause_after_failures: int = 5

    def timetable(self, schedule_id: UUID) -> Timetable:
        """Return when the schedule with this id runs."""
        return Timetable(self.cron, self.zone, schedule_id, self.jitter_seconds, self.ends_at)


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as it stands; times are UTC.

    Attributes:
        source_job_id: the job whose list it is; None when that was deleted, or the list comes from a place.
        list_expires_at: when that job is deleted, and the schedule pauses; None = not by itself.
        next_runs: when the next five runs start; () while it is paused or has ended, or its zone is unknown.
        ended: no slot is left before its end.
        last_run_at: the slot that was run last.
        last_error: code of what kept the last slot from being run or paused the schedule, else "".
        failures: failed runs in a row.
    """

    id: UUID
    account_id: AccountId
    source_job_id: JobId | None
    list_expires_at: datetime | None
    spec: ScheduleSpec
    enabled: bool
    next_runs: tuple[datetime, ...]
    ended: bool
    last_run_at: datetime | None
    last_error: str
    failures: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class RunView:
    """A run of a schedule: its job, and the slot it was made for; None when somebody said "now"."""

    job: JobView
    scheduled_for: datetime | None


_LISTED_RUNS = 5


def _schedule_view(row: Row, now: datetime) -> ScheduleView:
    """Return a schedule's row as others may see it at this time."""
    known = is_zone(row["zone"])  # to this machine
    starts = _timetable_of(row).starts(row["next_run_at"], now=now, count=_LISTED_RUNS) if known else ()
    spec = from_row(
        ScheduleSpec,
        row,
        recheck=Recheck(row["recheck"]),
        overlap=Overlap(row["overlap"]),
        catch_up=CatchUp(row["catch_up"]),
        options=load_options(row["options"]),
    )
    return from_row(
        ScheduleView,
        row,
        spec=spec,
        next_runs=starts if row["enabled"] else (),
        ended=known and not starts,
    )


def _timetable_of(row: Row) -> Timetable:
    """Return when the schedule of a row runs."""
    return Timetable(row["cron"], row["zone"], row["id"], row["jitter_seconds"], row["ends_at"])


_MAX_SCHEDULES = 100  # of one account


class ScheduleService:
    """The schedules of one installation; every call of people names the account it speaks for."""

    def __init__(self, *, database: Database, runs: ScheduleRuns, places: Places, clock: Clock) -> None:
        self._database = database
        self._places = places
        self._runs = runs
        self._clock = clock

    async def create(
        self,
        account_id: AccountId,
        job_id: JobId | None,
        spec: ScheduleSpec,
        *,
        source: str = "",
        sink: str = "",
    ) -> ScheduleView:
        """Run the list of a job, or one that is fetched for every run, again by the clock.

        Args:
            account_id: whose.
            job_id: the job whose list it is; a list that this job has fetched is fetched anew.
            spec: what to do and when.
            source: the place of the list, in place of a job.
            sink: where the results of every run are put, "" for where the job has put them.

        Raises:
            MailsiftError: `schedule_needs_list` without or with two lists, `job_not_found`, `bad_place`,
                `place_not_allowed`, `unknown_export_format`, `schedule_cron_invalid`,
                `schedule_zone_invalid`, `schedule_jitter_too_long`, `schedule_ended`, `schedule_limit`.
        """
        if (job_id is None) is not bool(source):
            raise MailsiftError("schedule_needs_list", "A schedule needs a list: from a job or from a place.")
        if not spec.zone:
            account = await self._database.run(accounts.get, account_id)
            spec = replace(spec, zone=account["zone"] if account else "")
        check_cron(spec.cron, spec.zone)
        check_jitter(spec.cron, spec.jitter_seconds)
        now, schedule_id = self._now(), uuid4()
        first = spec.timetable(schedule_id).upcoming(now)
        named = await self._places.checked(account_id, source, sink)
        async with self._database.begin() as connection:
            job = await owned(connection, account_id, job_id, stays=True) if job_id else None
            theirs = load_options(job["options"]) if job else JobOptions()
            before = self._places.unseal(account_id, theirs.places)
            places = JobPlaces(named.source or before.source, named.sink or before.sink)
            name = job["name"] if job else places.source.name if places.source else ""
            await accounts.get(connection, account_id, lock=True)
            if len(await schedules.of_account(connection, account_id)) >= _MAX_SCHEDULES:
                raise MailsiftError(
                    "schedule_limit", f"An account can have at most {_MAX_SCHEDULES} schedules."
                )
            sealed = self._places.seal(account_id, places) if places else ""
            await schedules.insert(
                connection,
                id=schedule_id,
                account_id=account_id,
                source_job_id=job_id,
                options=dump_options(replace(spec.options or theirs, places=sealed)),
                created_at=now,
                next_run_at=first.at,
                starts_at=first.starts_at,
                fetches=places.source is not None,
                **_columns(replace(spec, name=spec.name or name)),
            )
            return await self._record_change(
                connection, account_id, schedule_id, "schedule.create", cron=spec.cron
            )

    async def list(self, account_id: AccountId) -> Sequence[ScheduleView]:
        """Return the account's schedules, oldest first."""
        now = self._now()
        async with self._database.begin() as connection:
            rows = await schedules.of_account(connection, account_id)
            return [_schedule_view(row, now) for row in rows]

    async def get(self, account_id: AccountId, schedule_id: UUID) -> ScheduleView:
        """Return a schedule with its next five runs.

        Raises:
            MailsiftError: `schedule_not_found`, also when it belongs to somebody else.
        """
        return await self._database.run(self._view, account_id, schedule_id)

    async def runs(
        self, account_id: AccountId, schedule_id: UUID, *, limit: int = 20, after: UUID | None = None
    ) -> Sequence[RunView]:
        """Return the runs of a schedule, newest first; `after` is the job of the last one seen.

        Raises:
            MailsiftError: `schedule_not_found`, `bad_cursor` when no run of it has this job.
        """
        async with self._database.begin() as connection:
            await _owned(connection, account_id, schedule_id)
            before = await schedules.place_of_run(connection, schedule_id, after) if after else None
            if after is not None and before is None:
                raise bad_cursor()
            rows = await schedules.runs(connection, schedule_id, limit=limit, before=before)
            return [RunView(view_of(row), row["scheduled_for"]) for row in rows]

    async def update(
        self, account_id: AccountId, schedule_id: UUID, change: Callable[[ScheduleSpec], ScheduleSpec]
    ) -> ScheduleView:
        """Replace what a schedule does by what `change` makes of it.

        A slot that waits, for its delay or for the run before, goes on waiting unless other slots are wanted.

        Raises:
            MailsiftError: `schedule_not_found`, `schedule_cron_invalid`, `schedule_zone_invalid`,
                `schedule_jitter_too_long`, `schedule_ended` when no run would be left of a schedule that
                is not paused.
        """
        async with self._database.begin() as connection:
            row, now = await _owned(connection, account_id, schedule_id, lock=True), self._now()
            spec = change(_schedule_view(row, now).spec)
            check_cron(spec.cron, spec.zone)
            values = _columns(spec)
            times, before = spec.timetable(schedule_id), _timetable_of(row)
            if not times.has_slots_of(before):
                check_jitter(spec.cron, spec.jitter_seconds)
            if not (times.has_slots_of(before) and times.includes(row["next_run_at"])):
                upcoming = times.upcoming(now) if row["enabled"] else times.following(now)
                values |= {"next_run_at": upcoming.at, "starts_at": upcoming.starts_at}
            if spec.options is not None:
                values["options"] = dump_options(spec.options)
            await schedules.change(connection, schedule_id, **values)
            return await self._record_change(
                connection, account_id, schedule_id, "schedule.update", cron=spec.cron
            )

    async def pause(self, account_id: AccountId, schedule_id: UUID) -> ScheduleView:
        """Run nothing until `resume`.

        Raises:
            MailsiftError: `schedule_not_found`.
        """
        async with self._database.begin() as connection:
            await _owned(connection, account_id, schedule_id)
            await schedules.change(connection, schedule_id, enabled=False)
            return await self._record_change(connection, account_id, schedule_id, "schedule.pause")

    async def resume(self, account_id: AccountId, schedule_id: UUID) -> ScheduleView:
        """Go on with the next slot; what was missed meanwhile is not caught up.

        A schedule that is not paused goes on as it did, with the slot that waits.

        Raises:
            MailsiftError: `schedule_not_found`, `schedule_ended`, `schedule_zone_invalid`.
        """
        async with self._database.begin() as connection:
            row = await _owned(connection, account_id, schedule_id, lock=True)
            if row["enabled"]:
                return _schedule_view(row, self._now())
            upcoming = _timetable_of(row).upcoming(self._now())
            await schedules.change(
                connection,
                schedule_id,
                enabled=True,
                next_run_at=upcoming.at,
                starts_at=upcoming.starts_at,
                failures=0,
                last_error="",
            )
            return await self._record_change(connection, account_id, schedule_id, "schedule.resume")

    async def delete(self, account_id: AccountId, schedule_id: UUID) -> None:
        """Delete a schedule; its jobs stay.

        Raises:
            MailsiftError: `schedule_not_found`.
        """
        async with self._database.begin() as connection:
            row = await _owned(connection, account_id, schedule_id)
            await schedules.delete(connection, schedule_id)
            await audit.record_change(
                connection, account_id, "schedule.delete", row["name"], cron=row["cron"]
            )

    async def run_now(self, account_id: AccountId, schedule_id: UUID) -> JobId:
        """Make a run at once, whatever still runs: who asks has seen that. To its slots it is the run before.

        Raises:
            MailsiftError: `schedule_not_found`, `schedule_source_gone`, `nothing_to_retry`.
        """
        row = await self._database.run(_owned, account_id, schedule_id)
        job_id = await self._runs.start_now(row)
        async with self._database.begin() as connection:
            await audit.record_change(connection, account_id, "schedule.run", row["name"])
        return job_id

    def _now(self) -> datetime:
        return utc_datetime(self._clock())

    async def _record_change(
        self, connection: Connection, account_id: AccountId, schedule_id: UUID, action: str, **detail: str
    ) -> ScheduleView:
        """Write a change down and return what has become of the schedule."""
        view = await self._view(connection, account_id, schedule_id)
        await audit.record_change(connection, account_id, action, view.spec.name, **detail)
        return view

    async def _view(self, connection: Connection, account_id: AccountId, schedule_id: UUID) -> ScheduleView:
        return _schedule_view(await _owned(connection, account_id, schedule_id), self._now())


async def _owned(connection: Connection, account_id: UUID, schedule_id: UUID, *, lock: bool = False) -> Row:
    """Return the schedule's row; `lock` keeps others from changing it until the transaction ends."""
    row = await schedules.get(connection, schedule_id, lock=lock)
    if row is None or row["account_id"] != account_id:
        raise MailsiftError("schedule_not_found", "There is no such schedule.")
    return row


def _columns(spec: ScheduleSpec) -> dict[str, Any]:
    """Return what a schedule's row says of what it does, but for the options and the slot that is next."""
    columns = asdict(replace(spec, name=visible_name(spec.name), options=None))
    return {name: value for name, value in columns.items() if name != "options"}


RUN_LEASE = timedelta(minutes=10)
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
    _put_off: list[Row] = field(default_factory=list, init=False)

    async def run_due(self) -> int:
        """Make every due slot into a job; returns how many jobs there are now more.

        What has failed, as something was away, is tried again once a turn finds nothing else to do.
        """
        made = 0
        while True:
            now = self._now()
            claimed = await self.database.run(schedules.claim, now=now, until=now + RUN_LEASE)
            if claimed is None:
                while self._put_off:
                    await self.database.run(schedules.release, self._put_off[-1], now=now)
                    self._put_off.pop()
                return made
            if not is_zone(claimed["zone"]):
                await self._leave_to_others(claimed)
                continue
            try:
                made += await self._run_claimed(claimed)
            except MailsiftError:
                self._put_off.append(claimed)
                raise

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
        times = _timetable_of(row)
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
                raise
            await self._skip(row, times, plan, error.code)
            return 0
        if replaces:  # not before there is something to run in their place
            await self._cancel_runs(row)
        return await self._commit(row, new, times, plan)

    async def _plan(self, row: Row, times: Timetable, slot: Slot) -> DueRun:
        catch_up, now = CatchUp(row["catch_up"]), self._now()
        if catch_up is CatchUp.NONE and row["lost_at"] is not None:
            # What was taken in time was not missed, though its maker has died.
            now = row["lost_at"] - RUN_LEASE
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


_CATCH_UP_WINDOW = timedelta(hours=24)
"""How far back missed slots are caught up."""

_SHIFT = timedelta(hours=3)
"""A zone whose rules are changed moves by no more."""

_MOMENT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class DueRun:
    """What a due schedule does now.

    Attributes:
        slot: the slot to run; None = none is worth it.
        next: the slot that is looked at after it; it may lie in the past when there is more to catch up.
    """

    slot: datetime | None
    next: Slot


@dataclass(frozen=True, slots=True)
class Timetable:
    """The slots of one schedule; each starts a little later than the cron line says when there is jitter.

    Attributes:
        cron: five fields.
        zone: IANA name of the zone the cron line is read in.
        seed: the schedule's id: every process finds the same delay for the same slot.
        jitter: the longest delay, in seconds.
        ends_at: no later slot is run; None = for ever.
    """

    cron: str
    zone: str
    seed: UUID
    jitter: int = 0
    ends_at: datetime | None = None

    def slot(self, at: datetime) -> Slot:
        """Return a slot with the moment its run starts."""
        digest = blake2b(f"{self.seed}:{at.timestamp():.0f}".encode(), digest_size=8).digest()
        return Slot(at, at + timedelta(seconds=int.from_bytes(digest) % (self.jitter + 1)))

    def following(self, after: datetime) -> Slot:
        """Return the first slot after a time, past the end too."""
        return next(self._slots(after))

    def standing(self, at: datetime) -> Slot:
        """Return the slot that a time stands for which was written down as one.

        Its zone may have other rules now: then it is the last one shortly before, or else the next one.
        """
        found = self.following(at - _MOMENT)
        if found.at == at:
            return found
        earlier = list(takewhile(lambda one: one.at < at, self._slots(at - _SHIFT)))
        return earlier[-1] if earlier else found

    def upcoming(self, after: datetime) -> Slot:
        """Return the first slot after a time.

        Raises:
            MailsiftError: `schedule_ended` when there is none before its end.
        """
        found = self.following(after)
        if self.is_over(found):
            raise MailsiftError("schedule_ended", "No runs are left before the schedule ends.")
        return found

    def is_over(self, slot: Slot) -> bool:
        """Say whether a slot lies past the end."""
        return not self.includes(slot.at)

    def includes(self, at: datetime) -> bool:
        """Say whether a moment does not lie past the end."""
        return self.ends_at is None or at <= self.ends_at

    def has_slots_of(self, other: Timetable) -> bool:
        """Say whether both have the same slots, wherever they end."""
        return replace(self, ends_at=None) == replace(other, ends_at=None)

    def starts(self, first: datetime, *, now: datetime, count: int) -> tuple[datetime, ...]:
        """Return when so many next runs start; `first` is the first slot that has not been looked at.

        What should have started before `now` is late, and not shown.
        """
        later = max(first - _MOMENT, now - timedelta(seconds=self.jitter))
        slots = takewhile(lambda slot: not self.is_over(slot), self._slots(later))
        return tuple(islice((slot.starts_at for slot in slots if slot.starts_at > now), count))

    def due(
        self, catch_up: CatchUp, *, slot: Slot, now: datetime, freed_at: datetime | None = None
    ) -> DueRun:
        """Decide what a schedule runs whose first slot that has not been looked at is due.

        `freed_at` is when the last run ended, where slots wait for that: they were not missed until then.
        """
        now = max(now, slot.starts_at)  # it is due, whoever has written down when it starts
        # What has waited behind the delay of the first slot is looked at after it.
        last = now - (slot.starts_at - slot.at)
        oldest = max(slot.at, now - _CATCH_UP_WINDOW - timedelta(seconds=self.jitter)) - _MOMENT
        begun = list(takewhile(lambda one: one.at <= last and self._has_begun(one, now), self._slots(oldest)))
        following = self.following(begun[-1].at if begun else oldest)
        missed = [one for one in begun if now - one.starts_at <= _CATCH_UP_WINDOW]
        if catch_up is CatchUp.ALL and missed:
            return DueRun(missed[0].at, missed[1] if len(missed) > 1 else following)
        latest = missed[-1] if missed else None
        if freed_at is not None and slot.starts_at <= freed_at and now - freed_at <= _CATCH_UP_WINDOW:
            latest = latest or slot
        if (
            latest is not None
            and catch_up is CatchUp.NONE
            and now - max(latest.starts_at, freed_at or latest.starts_at) > PUNCTUAL
        ):
            latest = None
        return DueRun(latest.at if latest else None, following)

    def _slots(self, after: datetime) -> Iterator[Slot]:
        """Yield the slots after a time, past the end too."""
        return map(self.slot, fires(self.cron, self.zone, after=after))

    def _has_begun(self, slot: Slot, now: datetime) -> bool:
        return slot.starts_at <= now and self.includes(slot.at)


_ANY_DAY: Final = datetime(2024, 1, 1, tzinfo=UTC)


def check_cron(cron: str, zone: str) -> None:
    """Refuse what never fires.

    Raises:
        MailsiftError: `schedule_cron_invalid`, `schedule_zone_invalid`.
    """
    _check_zone(zone)
    if len(cron) > 200 or len(cron.split()) != 5:
        raise MailsiftError("schedule_cron_invalid", "A cron line must have five fields.")
    try:
        next(CronSim(cron, _ANY_DAY))
    except (CronSimError, StopIteration):
        raise MailsiftError("schedule_cron_invalid", "The cron line is malformed or never fires.") from None


def _check_zone(zone: str) -> None:
    if not is_zone(zone):
        raise MailsiftError("schedule_zone_invalid", "The time zone must be an IANA name.")


_ANOTHER_DAY: Final = datetime(2025, 2, 1, tzinfo=UTC)
_LEAST_GAP_S: Final = 60
_LOOKED_AT: Final = 1_500
"""How many slots show what lies between two: those of a day, where there is one every minute."""


def check_jitter(cron: str, jitter: int) -> None:
    """Refuse a delay by which runs of a good cron line would overtake each other: slots would be left out.

    Raises:
        MailsiftError: `schedule_jitter_too_long`.
    """
    if jitter < _LEAST_GAP_S:
        return
    slots = islice(takewhile(lambda slot: slot < _ANOTHER_DAY, CronSim(cron, _ANY_DAY)), _LOOKED_AT)
    shortest = min(((later - slot).total_seconds() for slot, later in pairwise(slots)), default=inf)
    if jitter >= shortest:
        text = f"The delay must be shorter than the {shortest:,.0f} seconds between two runs."
        raise MailsiftError("schedule_jitter_too_long", text)


def fires(cron: str, zone: str, *, after: datetime) -> Iterator[datetime]:
    """Yield the slots after a time, in UTC.

    A time the clocks skip fires right after the gap, one they repeat fires once (cronsim, as Debian's cron).

    Raises:
        MailsiftError: `schedule_zone_invalid` for a zone that this machine's tables do not know.
    """
    _check_zone(zone)
    for slot in CronSim(cron, after.astimezone(zone_named(zone))):
        due = slot.astimezone(UTC)
        if due > after:  # within an hour that is repeated, cronsim begins with its first pass
            yield due


_ORDINALS: Final = {"second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8}
_TH: Final = r"(second|third|fourth|fifth|sixth|seventh|eighth|\d+)(?:th|st|nd|rd)?"


def _rhythm(whole: int, even: str, found: re.Match[str]) -> str:
    """Say a rhythm; one that does not divide the hour or the day evenly keeps the words that count it."""
    step = _ORDINALS.get(found[1]) or int(found[1])
    return found[0] if whole % step else even.format(step)


_Better = tuple[str, str | Callable[[re.Match[str]], str]]
_BETTER: Final[tuple[_Better, ...]] = (
    (rf"Every {_TH} minute of every hour\b", partial(_rhythm, 60, "Every {} minutes")),
    (rf"At minute 0 past every {_TH} hour\b", partial(_rhythm, 24, "Every {} hours, on the hour")),
    (r"At the start of every hour\b", "Every hour, on the hour"),
    (r"\b([23]?1)th\b", r"\1st"),
    (r"\b(2?2)th\b", r"\1nd"),
    (r"\b(2?3)th\b", r"\1rd"),
    (r"\b(days?) of month\b", r"\1 of the month"),
    (r"\bthrough\b", "to"),
    (r"^At ([\d:]+(?: and [\d:]+)?) (?:on (?=\w+day$)|(?=every day$))(?:every )?(\w+)$", r"Every \2 at \1"),
    (r"^At ([\d:]+(?: and [\d:]+)?) on (\w+day to \w+day)$", r"\2 at \1"),
)


def in_words(cron: str) -> str:
    """Return what a good cron line of five fields says: "Every Monday at 06:00".

    The library explains every line; the usual ones are then put as people say them.
    """
    words = CronSim(cron, _ANY_DAY).explain()
    for pattern, better in _BETTER:
        words = re.sub(pattern, better, words)
    return words
