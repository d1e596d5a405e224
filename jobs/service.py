"""What people ask of jobs: submit, look, pause, resume, cancel, retry, fetch the results."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

from jobs.commit import end_job
from jobs.finish import join_results
from jobs.options import dump_options, load_options
from jobs.ports import Waker
from jobs.retry import rows_to_retry
from jobs.states import Step, sources, target
from jobs.views import AccountId, JobId, JobOptions, JobState, JobView, Waiting
from pipeline.errors import MailsiftError
from storage import chunk_rows, job_rows
from storage.blobs import Blobs, JobBlobs
from storage.chunk_rows import LaneWait
from storage.database import Connection, Database, Row
from storage.job_rows import NewJob

_READ_BYTES = 1 << 20


class JobService:
    """The jobs of one installation; every call names the account it speaks for."""

    def __init__(self, *, database: Database, blobs: Blobs, waker: Waker, scratch: Path) -> None:
        self._database = database
        self._blobs = blobs
        self._waker = waker
        self._scratch = scratch

    async def account(self, name: str) -> AccountId:
        """Return the account with this name, made when it is new."""
        async with self._database.begin() as connection:
            return AccountId(await job_rows.ensure_account(connection, name))

    async def submit(
        self, account_id: AccountId, source: Path, options: JobOptions, *, parent: JobId | None = None
    ) -> JobId:
        """Store a list and start its job.

        Raises:
            MailsiftError: `file_not_found`, `not_a_file`, or what the blob store says.
        """
        _check_readable(source)
        job_id = JobId(uuid4())
        async with self._blobs.stream_in(JobBlobs(job_id).source) as incoming:
            with source.open("rb") as file:
                while data := file.read(_READ_BYTES):
                    await incoming.write(data)
        new = NewJob(
            id=job_id,
            account_id=account_id,
            name=options.name or source.name,
            options=dump_options(options),
            source_name=source.name,
            source_sha256=incoming.sha256,
            source_bytes=incoming.size,
            parent_id=parent,
            deadline_s=options.deadline_s,
        )
        async with self._database.begin() as connection:
            await job_rows.insert(connection, new)
        await self._waker.wake(1)
        return job_id

    async def get(self, account_id: AccountId, job_id: JobId) -> JobView:
        """Return the job as it stands now.

        Raises:
            MailsiftError: `job_not_found`, also when it belongs to somebody else.
        """
        async with self._database.begin() as connection:
            row = await _owned(connection, account_id, job_id)
            return _view(row, await chunk_rows.waits(connection, job_id))

    async def newest(self, account_id: AccountId, *, limit: int = 20) -> list[JobView]:
        """Return the account's newest jobs."""
        async with self._database.begin() as connection:
            return [_view(row, []) for row in await job_rows.newest(connection, account_id, limit)]

    async def pause(self, account_id: AccountId, job_id: JobId) -> None:
        """Stop claiming the job's chunks; those being worked on may finish.

        Raises:
            MailsiftError: `job_not_found`, `job_state_conflict`.
        """
        await self._move(account_id, job_id, Step.PAUSE)

    async def resume(self, account_id: AccountId, job_id: JobId) -> None:
        """Let a paused job go on, beside the others and not before them.

        Raises:
            MailsiftError: `job_not_found`, `job_state_conflict`.
        """
        await self._move(account_id, job_id, Step.RESUME)
        await self._waker.wake(1)

    async def cancel(self, account_id: AccountId, job_id: JobId) -> None:
        """End the job now; the verdicts it has so far are kept.

        Raises:
            MailsiftError: `job_not_found`, `job_state_conflict`.
        """

        async def transaction(connection: Connection) -> None:
            row = await _owned(connection, account_id, job_id)
            error = ("cancelled", "The job was cancelled; the verdicts found so far are kept.")
            if not await end_job(connection, job_id, Step.CANCEL, error=error):
                raise _conflict(row["state"], Step.CANCEL)
            await chunk_rows.cancel(connection, job_id)

        await self._database.run(transaction)

    async def retry(self, account_id: AccountId, job_id: JobId) -> JobId:
        """Start a new job over the rows of an ended one whose result says nothing about the mailbox.

        Raises:
            MailsiftError: `job_not_found`, `no_results_yet`, `nothing_to_retry`.
        """
        async with self._database.begin() as connection:
            row = await _owned(connection, account_id, job_id)
        options = replace(load_options(row["options"]), max_age=0.0)
        async with self.results(account_id, job_id) as results:
            with tempfile.TemporaryDirectory(dir=self._scratch, prefix="retry-") as folder:
                source = Path(folder) / "retry.parquet"
                column = await asyncio.to_thread(rows_to_retry, results, source, row["address_column"])
                again = replace(options, column=column, name=f"{row['name']} (retry)")
                return await self.submit(account_id, source, again, parent=job_id)

    @asynccontextmanager
    async def results(self, account_id: AccountId, job_id: JobId) -> AsyncIterator[Path]:
        """Give the results as a local Parquet file: all rows when completed, else those with a verdict.

        Raises:
            MailsiftError: `job_not_found`, `no_results_yet`.
        """
        async with self._database.begin() as connection:
            row = await _owned(connection, account_id, job_id)
            keys = await chunk_rows.segments(connection, job_id)
        if row["state"] == JobState.COMPLETED:
            yield await self._blobs.fetch(JobBlobs(job_id).results)
            return
        if not keys:
            raise MailsiftError("no_results_yet", "This job has no verdicts yet.", retryable=True)
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix="partial-") as folder:
            out = Path(folder) / "results.parquet"
            rows = await self._blobs.fetch(JobBlobs(job_id).rows)
            segments = [await self._blobs.fetch(key) for key in keys]
            evidence = load_options(row["options"]).evidence
            await asyncio.to_thread(join_results, rows, segments, out, evidence=evidence, partial=True)
            yield out

    async def _move(self, account_id: AccountId, job_id: JobId, step: Step) -> None:
        async with self._database.begin() as connection:
            row = await _owned(connection, account_id, job_id)
            if not await job_rows.move(connection, job_id, to=target(step), allowed=sources(step)):
                raise _conflict(row["state"], step)
            if step is Step.RESUME:
                await job_rows.catch_up(connection, job_id)


async def _owned(connection: Connection, account_id: UUID, job_id: UUID) -> Row:
    row = await job_rows.get(connection, job_id)
    if row is None or row["account_id"] != account_id:
        raise MailsiftError("job_not_found", "There is no such job.")
    return row


def _conflict(state: str, step: Step) -> MailsiftError:
    return MailsiftError("job_state_conflict", f"A job that is {state} cannot {step.value}.")


def _check_readable(source: Path) -> None:
    if not source.exists():
        raise MailsiftError("file_not_found", "There is no such file.")
    if not source.is_file():
        raise MailsiftError("not_a_file", "This is not a regular file.")


def _view(row: Row, waits: list[LaneWait]) -> JobView:
    return JobView(
        id=JobId(row["id"]),
        account_id=AccountId(row["account_id"]),
        parent_id=JobId(row["parent_id"]) if row["parent_id"] else None,
        name=row["name"],
        state=JobState(row["state"]),
        mode=load_options(row["options"]).mode,
        total=row["total"],
        addresses=row["addresses"],
        duplicates=row["total"] - row["addresses"],
        processed=row["processed"],
        valid=row["valid"],
        invalid=row["invalid"],
        risky=row["risky"],
        chunks=row["chunks"],
        chunks_open=row["chunks_open"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        error_code=row["error_code"],
        error_detail=row["error_detail"],
        waiting=tuple(Waiting(wait.lane, wait.reason, wait.addresses, wait.until) for wait in waits),
    )
