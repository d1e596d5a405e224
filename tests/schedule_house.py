"""Schedules on real stores, with a clock that only the test moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import polars as pl
from typing_extensions import override

from jobs.columns import names_metadata
from jobs.commit import end_job
from jobs.ports import Waker
from jobs.schedule_runs import ScheduleRuns
from jobs.schedule_views import ScheduleSpec, ScheduleView
from jobs.schedules import ScheduleService
from jobs.service import JobService
from jobs.states import Step
from jobs.views import AccountId, JobId, JobOptions
from pipeline.facts import Mode
from storage import job_rows, schedule_rows
from storage.blobs import Blobs, JobBlobs
from storage.database import Database, Row

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
HOURLY = ScheduleSpec(cron="0 * * * *")


class Counter(Waker):
    """Counts wake-ups."""

    def __init__(self) -> None:
        self.count = 0

    @override
    async def wake(self, count: int) -> None:
        self.count += count


@dataclass
class House:
    """Schedules with a clock that only the test moves; it begins at half past eleven."""

    database: Database
    blobs: Blobs
    scratch: Path
    now: datetime = NOON - timedelta(minutes=30)
    waker: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.jobs = JobService(
            database=self.database, blobs=self.blobs, waker=self.waker, scratch=self.scratch
        )
        self.runs = ScheduleRuns(
            database=self.database,
            blobs=self.blobs,
            jobs=self.jobs,
            waker=self.waker,
            clock=self._clock,
            scratch=self.scratch,
        )
        self.service = ScheduleService(database=self.database, runs=self.runs, clock=self._clock)

    def _clock(self) -> float:
        return self.now.timestamp()

    async def start(self, spec: ScheduleSpec = HOURLY) -> tuple[AccountId, JobId, ScheduleView]:
        """Submit a list and make a schedule for it."""
        account = await self.jobs.account("a")
        source = self.scratch / "list.csv"
        source.write_text("email\na@example.com\nb@example.com\n")
        job = await self.jobs.submit(account, source, JobOptions(mode=Mode.FAST, column="email", name="list"))
        return account, job, await self.service.create(account, job, spec)

    async def made(self, schedule: UUID) -> list[Row]:
        """Return the schedule's jobs, oldest slot first."""
        async with self.database.begin() as connection:
            rows = await schedule_rows.runs(connection, schedule, limit=1_000)
        return sorted(rows, key=lambda row: row["scheduled_for"] or NOON)

    async def complete(self, job_id: UUID) -> None:
        """End a job as if its work were done; b@example.com is risky."""
        frame = pl.DataFrame(
            {"c0": ["a@example.com", "b@example.com"], "mailsift_status": ["valid", "risky"]}
        )
        path = self.scratch / f"{job_id}.parquet"
        frame.write_parquet(path, metadata=names_metadata(["email"]))
        await self.blobs.put_file(JobBlobs(job_id).results, path)
        async with self.database.begin() as connection:
            await job_rows.move(
                connection, job_id, to="finalizing", allowed={"uploading"}, address_column="email"
            )
            assert await end_job(connection, job_id, Step.COMPLETE)

    async def fail(self, job_id: UUID) -> None:
        """End a job as if its list could not be read."""
        async with self.database.begin() as connection:
            await job_rows.move(connection, job_id, to="intake", allowed={"uploading"})
            assert await end_job(connection, job_id, Step.FAIL, error=("bad_csv", "The list is broken."))
