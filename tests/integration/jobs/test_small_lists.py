"""A small list stays in one hand: who reads it validates and finishes it, under one lease."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from mailsift.jobs.engine.engine import Claimer, renew_leases
from mailsift.jobs.engine.step import plan_job
from mailsift.jobs.service import JobService
from mailsift.settings import Settings
from mailsift.storage.database import Connection
from mailsift.storage.sql import accounts, chunks, jobs
from mailsift.storage.sql.chunks import LeaseTerms, NewChunk
from mailsift.storage.sql.jobs import JobPlan, NewJob
from mailsift.storage.states import JobState
from tests.support.job_states import put_job
from tests.support.parts import open_database
from tests.support.ready_jobs import FAST, Planter, engine_on, work_until_ended


async def test_a_small_list_is_claimed_once(
    settings: Settings,
    planter: Planter,
    service: JobService,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claimed: list[object] = []
    claim = Claimer.claim

    async def watched(*arguments: object) -> object:
        found = await claim(*arguments)  # type: ignore[arg-type]  # as it was called
        claimed.extend([found] if found is not None else [])
        return found

    monkeypatch.setattr(Claimer, "claim", watched)
    source = tmp_path / "list.csv"
    source.write_text("email\na@example.com\nb@example.com\nnone\n")
    account = await service.account("tests")
    job = await service.submit(account, source, FAST)
    async with engine_on(settings) as engine:
        view = await work_until_ended(engine, service, account, job)
    assert (view.state, view.valid, view.invalid) == (JobState.COMPLETED, 2, 1)
    assert len(claimed) == 1
    assert [event["type"] for event in await planter.events(job)] == ["bulk.validation.completed"]


async def test_a_lease_that_goes_from_list_to_chunk_while_it_is_renewed_is_not_lost(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, job_id, token = open_database(settings), uuid4(), uuid4()
    async with database.begin() as connection:
        account_id = await accounts.ensure_account(connection, "tests")
        await jobs.insert(connection, NewJob(job_id, account_id, "list", {}, "list.csv", "", 60))
        await put_job(connection, job_id, JobState.INTAKE, step_token=token)
    renew, planned = chunks.renew, JobPlan("email", 3, 3, list_rows=3, list_addresses=3, small=True)

    async def renew_and_plan(connection: Connection, tokens: Collection[UUID], *, lease: float) -> set[UUID]:
        found = await renew(connection, tokens, lease=lease)
        monkeypatch.setattr(chunks, "renew", renew)
        async with database.begin() as other:
            new, terms = [NewChunk(3, "blob")], LeaseTerms("me", 60)
            assert await plan_job(other, job_id, planned, new, token=token, terms=terms)
        return found

    monkeypatch.setattr(chunks, "renew", renew_and_plan)
    async with database.begin() as connection:
        assert await renew_leases(connection, {token, UUID(int=1)}, lease_s=60) == {UUID(int=1)}
    await database.aclose()
