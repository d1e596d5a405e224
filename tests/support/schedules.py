"""Schedules on real stores, with a clock that only the test moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import polars as pl
from typing_extensions import override

from mailsift.jobs.columns import names_metadata
from mailsift.jobs.engine.commit import end_job
from mailsift.jobs.schedules.models import ScheduleSpec, ScheduleView
from mailsift.jobs.schedules.runs import ScheduleRuns
from mailsift.jobs.schedules.service import ScheduleService
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.jobs.waker import Waker
from mailsift.pipeline.facts import Mode
from mailsift.storage.blobs.store import Blobs, JobBlobs
from mailsift.storage.database import Database, Row
from mailsift.storage.sql import schedules
from mailsift.storage.states import JobState, JobTransition
from tests.support.job_states import put_job

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
class Scheduling:
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
            rows = await schedules.runs(connection, schedule, limit=1_000)
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
            await put_job(connection, job_id, JobState.FINALIZING, address_column="email")
            assert await end_job(connection, job_id, JobTransition.COMPLETE)

    async def fail(self, job_id: UUID) -> None:
        """End a job as if its list could not be read."""
        async with self.database.begin() as connection:
            await put_job(connection, job_id, JobState.INTAKE)
            assert await end_job(
                connection, job_id, JobTransition.FAIL, error=("bad_csv", "The list is broken.")
            )
