"""What people order at a moment at which PostgreSQL makes somebody step back: it is done all the same."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
from sqlalchemy import text

from mailsift.container import Container
from mailsift.events import audit
from mailsift.storage.states import JobState
from tests.support.job_states import put_job
from tests.support.ready_jobs import Planter

_ACCOUNT: Final = "SELECT FROM account FOR UPDATE"
_CHUNK: Final = "SELECT FROM chunk FOR UPDATE"
_WAITS: Final = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.mark.parametrize(
    ("verb", "before", "held"),
    [
        ("pause", JobState.QUEUED, _ACCOUNT),
        ("resume", JobState.PAUSED, _ACCOUNT),
        ("cancel", JobState.RUNNING, _ACCOUNT),
        ("delete", JobState.COMPLETED, _CHUNK),
    ],
)
async def test_an_order_that_has_to_step_back_is_carried_out(
    container: Container, planter: Planter, verb: str, before: JobState, held: str
) -> None:
    audit.act_as("ann@example.com")
    account, job = await planter.plant(["a@example.com"])
    async with container.database.begin() as connection:
        await put_job(connection, job, before)

    async with container.database.begin() as connection:
        await connection.execute(text("SET LOCAL deadlock_timeout = '10min'"))  # the other one finds it out
        await connection.execute(text(held))
        ordered = asyncio.ensure_future(getattr(container.jobs, verb)(account, job))
        while not await planter.sql(_WAITS) and not ordered.done():  # noqa: ASYNC110 - a lock sets no event
            await asyncio.sleep(0.01)
        await connection.execute(text("SELECT FROM job FOR UPDATE"))
    await ordered

    (audited,) = await planter.sql(
        "SELECT count(*) AS n FROM audit WHERE action = :action", action=f"job.{verb}"
    )
    assert audited["n"] == 1
