"""What others may say and see of a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from mailsift.jobs.schedules.timetable import CatchUp, Timetable
from mailsift.jobs.views import AccountId, JobId, JobOptions, JobView, load_options
from mailsift.pipeline.zones import is_zone
from mailsift.storage.database import Row, from_row

_LISTED_RUNS = 5


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


def timetable_of(row: Row) -> Timetable:
    """Return when the schedule of a row runs."""
    return Timetable(row["cron"], row["zone"], row["id"], row["jitter_seconds"], row["ends_at"])


def schedule_view(row: Row, now: datetime) -> ScheduleView:
    """Return a schedule's row as others may see it at this time."""
    known = is_zone(row["zone"])  # to this machine
    starts = timetable_of(row).starts(row["next_run_at"], now=now, count=_LISTED_RUNS) if known else ()
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
