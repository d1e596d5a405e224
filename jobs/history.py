"""What else belongs to a job: other runs of its list, and what was told of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobs.service import owned, view_of
from jobs.views import AccountId, JobId, JobView
from storage import run_rows
from storage.database import Database


@dataclass(frozen=True, slots=True)
class Told:
    """An event of the job, and how its deliveries to webhooks stand: how many by state."""

    id: UUID
    type: str
    created_at: datetime
    deliveries: dict[str, int]


@dataclass(frozen=True, slots=True)
class About:
    """What stands beside the view of a job.

    Attributes:
        runs: other jobs over the same list, newest first.
        told: its events, oldest first.
        source_name, source_bytes: of the uploaded file.
        column: name of the address column, "" until it is known.
        schedule_id: the schedule that started it.
    """

    runs: tuple[JobView, ...]
    told: tuple[Told, ...]
    source_name: str
    source_bytes: int
    column: str
    schedule_id: UUID | None


class History:
    """Looks around the jobs of one installation."""

    def __init__(self, *, database: Database) -> None:
        self._database = database

    async def about(self, account_id: AccountId, job_id: JobId, *, runs: int = 50) -> About:
        """Return what belongs to a job, with at most so many other runs.

        Raises:
            MailsiftError: `job_not_found`.
        """
        async with self._database.begin() as connection:
            row = await owned(connection, account_id, job_id)
            others = await run_rows.same_list(connection, row, runs)
            events = await run_rows.events(connection, job_id)
        return About(
            runs=tuple(view_of(other) for other in others),
            told=tuple(Told(one["id"], one["type"], one["created_at"], one["deliveries"]) for one in events),
            source_name=row["source_name"],
            source_bytes=row["source_bytes"],
            column=row["address_column"],
            schedule_id=row["schedule_id"],
        )
