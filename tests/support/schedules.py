"""Schedules on real stores, with a clock that only the test moves."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import polars as pl

from mailsift.container import Container, OtherParts
from mailsift.jobs.columns import names_metadata
from mailsift.jobs.engine.end import end_job
from mailsift.jobs.schedules import ScheduleSpec, ScheduleView
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.facts import Mode
from mailsift.settings import Settings
from mailsift.storage.blobs import JobBlobs
from mailsift.storage.database import Row
from mailsift.storage.sql import schedules
from mailsift.storage.states import JobState, JobTransition
from tests.support.job_states import put_job

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
HOURLY = ScheduleSpec(cron="0 * * * *")


class Scheduling:
    """Schedules of one container, with a clock that only the test moves; it begins at half past eleven."""

    def __init__(self, settings: Settings, scratch: Path, closing: AsyncExitStack) -> None:
        self.now = NOON - timedelta(minutes=30)
        self.scratch = scratch
        other = OtherParts(clock=lambda: self.now.timestamp())  # noqa: PLW0108 - `now` is not always this one
        container = Container(settings, closing, other=other)
        self.database, self.blobs = container.database, container.blobs
        self.jobs, self.runs, self.service = container.jobs, container.schedule_runs, container.schedules

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
