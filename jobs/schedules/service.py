"""What people ask of schedules: make, look, change, pause, resume, run now, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from mailsift.events import audit
from mailsift.jobs.places.service import JobPlaces, Places
from mailsift.jobs.schedules.models import RunView, ScheduleSpec, ScheduleView, schedule_view, timetable_of
from mailsift.jobs.schedules.runs import ScheduleRuns
from mailsift.jobs.schedules.timetable import check_cron, check_jitter
from mailsift.jobs.views import AccountId, JobId, JobOptions, bad_cursor, dump_options, load_options, view_of
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.wording import shown
from mailsift.storage.database import Connection, Database, Row
from mailsift.storage.sql import accounts, schedules
from mailsift.storage.sql.jobs import owned

MAX_SCHEDULES = 100


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
            if len(await schedules.of_account(connection, account_id)) >= MAX_SCHEDULES:
                raise MailsiftError(
                    "schedule_limit", f"An account can have at most {MAX_SCHEDULES} schedules."
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
            return [schedule_view(row, now) for row in rows]

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
            spec = change(schedule_view(row, now).spec)
            check_cron(spec.cron, spec.zone)
            values = _columns(spec)
            times, before = spec.timetable(schedule_id), timetable_of(row)
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
                return schedule_view(row, self._now())
            upcoming = timetable_of(row).upcoming(self._now())
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
        return schedule_view(await _owned(connection, account_id, schedule_id), self._now())


async def _owned(connection: Connection, account_id: UUID, schedule_id: UUID, *, lock: bool = False) -> Row:
    """Return the schedule's row; `lock` keeps others from changing it until the transaction ends."""
    row = await schedules.get(connection, schedule_id, lock=lock)
    if row is None or row["account_id"] != account_id:
        raise MailsiftError("schedule_not_found", "There is no such schedule.")
    return row


def _columns(spec: ScheduleSpec) -> dict[str, Any]:
    """Return what a schedule's row says of what it does, but for the options and the slot that is next."""
    columns = asdict(replace(spec, name=shown(spec.name), options=None))
    return {name: value for name, value in columns.items() if name != "options"}
