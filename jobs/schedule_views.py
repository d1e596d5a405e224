"""What others may say and see of a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from jobs.cron import CatchUp, fires
from jobs.options import load_options
from jobs.views import AccountId, JobId, JobOptions
from storage.database import Row

_SHOWN_RUNS = 5


class Recheck(StrEnum):
    """What of the list is asked again."""

    ALL = "all"  # every address, whatever is remembered
    STALE = "stale"  # every address whose verdict is older than the options' max_age
    RISKY = "risky"  # the rows that ended risky the last time


class Overlap(StrEnum):
    """What happens when a slot comes while the run before has not ended."""

    SKIP = "skip"
    QUEUE = "queue"
    CANCEL_PREVIOUS = "cancel_previous"


@dataclass(frozen=True, slots=True)
class ScheduleSpec:
    """What a schedule does.

    Attributes:
        cron: five fields.
        zone: IANA name of the time zone the cron line is read in.
        name: "" = the list's.
        options: None = those of the list's job.
    """

    cron: str
    zone: str = "UTC"
    name: str = ""
    recheck: Recheck = Recheck.ALL
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LATEST
    options: JobOptions | None = None


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule as it stands; times are UTC.

    Attributes:
        source_job_id: the job whose list it is; None when that was deleted.
        next_runs: the next five slots; () while it is paused.
        last_error: code of what kept the last slot from being run, "" when it was.
    """

    id: UUID
    account_id: AccountId
    source_job_id: JobId | None
    spec: ScheduleSpec
    enabled: bool
    next_runs: tuple[datetime, ...]
    last_run_at: datetime | None
    last_error: str
    created_at: datetime


def schedule_view(row: Row, now: datetime) -> ScheduleView:
    """Return a schedule's row as others may see it at this time."""
    runs = fires(row["cron"], row["zone"], after=now, count=_SHOWN_RUNS) if row["enabled"] else []
    return ScheduleView(
        id=row["id"],
        account_id=AccountId(row["account_id"]),
        source_job_id=JobId(row["source_job_id"]) if row["source_job_id"] else None,
        spec=ScheduleSpec(
            cron=row["cron"],
            zone=row["zone"],
            name=row["name"],
            recheck=Recheck(row["recheck"]),
            overlap=Overlap(row["overlap"]),
            catch_up=CatchUp(row["catch_up"]),
            options=load_options(row["options"]),
        ),
        enabled=row["enabled"],
        next_runs=tuple(runs),
        last_run_at=row["last_run_at"],
        last_error=row["last_error"],
        created_at=row["created_at"],
    )
