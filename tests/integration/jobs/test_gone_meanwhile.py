"""What something is made of is deleted at that instant: it is made without it, or refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import pytest
from sqlalchemy import text

from mailsift.container import Container
from mailsift.jobs.schedules import ScheduleSpec
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from tests.support.installation import until
from tests.support.ready_jobs import Planter

T = TypeVar("T")

FAST = JobOptions(mode=Mode.FAST)
WEEKLY = ScheduleSpec(cron="0 6 * * 1", zone="Europe/Berlin")
_WAITS = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
async def account(container: Container) -> AccountId:
    return await container.jobs.account("alice")


@pytest.fixture
async def job(container: Container, account: AccountId, tmp_path: Path) -> JobId:
    source = tmp_path / "list.csv"
    source.write_text("email\na@example.com\n")
    return await container.jobs.submit(account, source, FAST)


@asynccontextmanager
async def deleted(container: Container, table: str, row_id: UUID) -> AsyncIterator[None]:
    """Delete a row; others hear of it when the block ends."""
    async with container.database.begin() as connection:
        await connection.execute(text(f"DELETE FROM {table} WHERE id = :id"), {"id": row_id})  # noqa: S608 - ours
        yield


async def ended(planter: Planter, work: Coroutine[Any, Any, T], during: Any) -> T:
    """Begin to work, let it come to wait for what is deleted, and return what it comes to."""

    async def waits() -> bool:
        return bool(await planter.sql(_WAITS)) or task.done()

    async with during:
        task = asyncio.create_task(work)
        await until(waits, within=20, every=0.01)
        assert not task.done(), "it went by without waiting"
    return await task


async def test_a_list_is_run_again_although_the_job_before_is_deleted_by_then(
    container: Container, planter: Planter, account: AccountId, job: JobId
) -> None:
    again = await ended(planter, container.jobs.repeat(account, job), deleted(container, "job", job))
    view = await container.jobs.get(account, again)
    assert view.parent_id is None


async def test_a_schedule_is_not_made_of_a_job_that_is_deleted(
    container: Container, planter: Planter, account: AccountId, job: JobId
) -> None:
    making = container.schedules.create(account, job, WEEKLY)
    with pytest.raises(MailsiftError, match="job_not_found"):
        await ended(planter, making, deleted(container, "job", job))
    assert await planter.sql("SELECT id FROM schedule") == []


async def test_a_run_of_a_schedule_that_is_deleted_is_a_job_like_others(
    container: Container, planter: Planter, account: AccountId, job: JobId
) -> None:
    schedule = await container.schedules.create(account, job, WEEKLY)
    running = container.schedules.run_now(account, schedule.id)
    made = await ended(planter, running, deleted(container, "schedule", schedule.id))
    (row,) = await planter.sql("SELECT schedule_id, parent_id FROM job WHERE id = :id", id=made)
    assert (row["schedule_id"], row["parent_id"]) == (None, job)


async def test_a_run_is_made_of_a_list_that_is_deleted_by_then(
    container: Container, planter: Planter, account: AccountId, job: JobId
) -> None:
    schedule = await container.schedules.create(account, job, WEEKLY)
    running = container.schedules.run_now(account, schedule.id)
    made = await ended(planter, running, deleted(container, "job", job))
    (row,) = await planter.sql("SELECT schedule_id, parent_id FROM job WHERE id = :id", id=made)
    assert (row["schedule_id"], row["parent_id"]) == (schedule.id, None)
