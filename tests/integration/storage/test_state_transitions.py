"""Every statement that changes a state, tried in every state: it does what the table says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from uuid import UUID, uuid4

import pytest
from sqlalchemy import column, func, select, table, text, update

from mailsift.storage.database import Connection, Row
from mailsift.storage.sql import accounts, chunks, jobs
from mailsift.storage.sql.chunks import ClaimedChunk, LeaseTerms, NewChunk
from mailsift.storage.sql.jobs import JobPlan, NewJob, VerdictCounts
from mailsift.storage.states import ChunkState, ChunkTransition, JobState, JobTransition
from tests.support.job_states import put_job, row_of

TOKEN: Final = UUID(int=7)
PLAN: Final = JobPlan("email", total=1, addresses=1, list_rows=1, list_addresses=1, small=True)

chunk: Final = table("chunk", *map(column, ("job_id", "state", "lease_token", "lease_until")))

Change = Callable[[Connection, UUID], Awaitable[object]]


async def claim_step(connection: Connection, _: UUID) -> object:
    return (await jobs.claim_step(connection, owner="me", lease=60, small_only=False)).step


async def claim_chunk(connection: Connection, _: UUID) -> object:
    return await chunks.claim(connection, LeaseTerms("me", 60), job_cap=9, small_only=False, triage=True)


def ends(transition: JobTransition) -> Change:
    return lambda connection, job_id: jobs.end(connection, job_id, transition)


JOBS: Final[Mapping[JobTransition, Change]] = {
    JobTransition.TAKE_IN: claim_step,
    JobTransition.PLAN: lambda connection, job_id: jobs.plan(connection, job_id, PLAN, chunks=1, token=TOKEN),
    JobTransition.START: claim_chunk,
    JobTransition.PAUSE: jobs.pause,
    JobTransition.RESUME: jobs.resume,
    JobTransition.CLOSE: jobs.close,
    JobTransition.REDO: lambda connection, job_id: jobs.redo(
        connection, job_id, VerdictCounts(), added=1, token=TOKEN
    ),
    JobTransition.COMPLETE: ends(JobTransition.COMPLETE),
    JobTransition.FAIL: ends(JobTransition.FAIL),
    JobTransition.CANCEL: ends(JobTransition.CANCEL),
}


ATTEMPTS: Final = {
    JobTransition.TAKE_IN: 3,
    JobTransition.PLAN: 0,
    JobTransition.PAUSE: 0,
    JobTransition.RESUME: 0,
    JobTransition.CLOSE: 0,
    JobTransition.REDO: 0,
}
"""Tries of the job's step afterwards, where there were two before: the next step begins at none."""


def held(job_id: UUID) -> ClaimedChunk:
    return ClaimedChunk(job_id, 0, "", 1, 1, "key", 0, TOKEN, uuid4(), {}, small=False, deadline_passed=False)


CHUNKS: Final[Mapping[ChunkTransition, Change]] = {
    ChunkTransition.CLAIM: claim_chunk,
    ChunkTransition.CLOSE: lambda connection, job_id: chunks.close(connection, held(job_id), "segment"),
    ChunkTransition.RELEASE: lambda connection, job_id: chunks.release(connection, held(job_id)),
    ChunkTransition.EXPIRE: lambda connection, _: chunks.free_expired_leases(connection),
    ChunkTransition.TAKE_BACK: lambda connection, _: chunks.take_back_leases(connection, [TOKEN]),
    ChunkTransition.CANCEL: chunks.cancel,
}


async def add_job(connection: Connection, state: JobState, **columns: object) -> UUID:
    """Insert a job in a state, with one chunk that is ready."""
    job_id, account = uuid4(), await accounts.ensure_account(connection, "a")
    await jobs.insert(connection, NewJob(job_id, account, "list", {"mode": "deep"}, "list.csv", "", 0))
    assert (await row_of(connection, job_id))["state"] == JobState.UPLOADING
    await chunks.insert(connection, job_id, 0, [NewChunk(1, "key")])
    await put_job(connection, job_id, state, **columns)
    return job_id


async def put_chunk(connection: Connection, job_id: UUID, state: ChunkState) -> None:
    leased = state is ChunkState.LEASED
    values: dict[str, Any] = {"state": state, "lease_token": TOKEN if leased else None}
    over = func.clock_timestamp() - func.make_interval(0, 0, 0, 0, 0, 0, 1) if leased else None
    await connection.execute(update(chunk).where(chunk.c.job_id == job_id).values(lease_until=over, **values))


async def chunk_of(connection: Connection, job_id: UUID) -> Row:
    found = select(text("*")).select_from(chunk).where(chunk.c.job_id == job_id)
    row: Row = (await connection.execute(found)).mappings().one()
    return row


@pytest.mark.parametrize("transition", JobTransition, ids=lambda one: one.name)
async def test_a_job_changes_as_the_table_says(connection: Connection, transition: JobTransition) -> None:
    for state in JobState:
        savepoint = await connection.begin_nested()
        token = TOKEN if transition in {JobTransition.PLAN, JobTransition.REDO} else None
        job_id = await add_job(connection, state, step_token=token, step_attempt=2, total=1)
        await JOBS[transition](connection, job_id)
        after = await row_of(connection, job_id)
        assert after["state"] == (transition.target if state in transition.sources else state), state
        if state in transition.sources:
            assert (after["step_token"] is None) == (transition is not JobTransition.TAKE_IN), state
            assert after["step_attempt"] == ATTEMPTS.get(transition, 2), state
            assert (after["finished_at"] is None) == bool(
                transition.target not in {JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED}
            )
        await savepoint.rollback()


@pytest.mark.parametrize("transition", ChunkTransition, ids=lambda one: one.name)
async def test_a_chunk_changes_as_the_table_says(connection: Connection, transition: ChunkTransition) -> None:
    for state in ChunkState:
        savepoint = await connection.begin_nested()
        job_id = await add_job(connection, JobState.RUNNING)
        await put_chunk(connection, job_id, state)
        await CHUNKS[transition](connection, job_id)
        after = await chunk_of(connection, job_id)
        assert after["state"] == (transition.target if state in transition.sources else state), state
        assert (after["lease_token"] is not None) == (after["state"] == ChunkState.LEASED), state
        await savepoint.rollback()


@pytest.mark.parametrize("state", JobState)
async def test_only_the_job_that_is_meant_is_removed_and_only_when_it_has_ended(
    connection: Connection, state: JobState
) -> None:
    job_id, other = await add_job(connection, state), await add_job(connection, JobState.COMPLETED)
    ended = state in {JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED}
    assert await jobs.remove(connection, job_id) == ended
    assert (await jobs.get(connection, job_id) is None) == ended
    assert await jobs.get(connection, other) is not None


async def test_a_job_that_ended_says_by_which_code_and_in_which_words(connection: Connection) -> None:
    job_id = await add_job(connection, JobState.INTAKE)
    ended = await jobs.end(
        connection, job_id, JobTransition.FAIL, error=("empty_file", "The file has no rows.")
    )
    assert ended is not None
    after = await row_of(connection, job_id)
    assert (after["error_code"], after["error_detail"]) == ("empty_file", "The file has no rows.")


@pytest.mark.parametrize("state", JobState)
async def test_a_chunk_is_only_claimed_and_counted_while_its_job_may_have_open_ones(
    connection: Connection, state: JobState
) -> None:
    job_id = await add_job(connection, state, total=1)
    await put_chunk(connection, job_id, ChunkState.LEASED)
    counted = await jobs.count(connection, job_id, jobs.VerdictCounts(), n=0, token=TOKEN, added=1)
    assert (counted is not None) == (state in JobTransition.CLOSE.sources)
    await put_chunk(connection, job_id, ChunkState.READY)
    claimed = await claim_chunk(connection, job_id)
    assert (claimed is not None) == (state in JobTransition.START.sources)


async def test_a_plan_needs_the_lease_of_the_intake(connection: Connection) -> None:
    job_id = await add_job(connection, JobState.INTAKE, step_token=TOKEN)
    assert not await jobs.plan(connection, job_id, PLAN, chunks=1, token=uuid4())
    assert await jobs.plan(connection, job_id, PLAN, chunks=1, token=TOKEN)
    row = await row_of(connection, job_id)
    assert [row[name] for name in ("chunks", "chunks_open", "small", "address_column")] == [
        1,
        1,
        True,
        "email",
    ]


def test_every_transition_is_tried() -> None:
    assert set(JOBS) == set(JobTransition)
    assert set(CHUNKS) == set(ChunkTransition)
