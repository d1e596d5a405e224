"""What people ask of jobs: submit, look, pause, resume, cancel, retry, fetch the results."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from jobs.commit import end_job
from jobs.diff import Diff, compare
from jobs.finish import join_results
from jobs.meters import JOBS_ENDED
from jobs.options import load_options
from jobs.ports import Waker
from jobs.retry import rows_to_retry
from jobs.states import Step, sources, target
from jobs.submissions import Submissions
from jobs.views import TERMINAL, AccountId, JobId, JobOptions, JobState, JobView, Waiting
from pipeline.errors import MailsiftError
from storage import chunk_rows, job_rows
from storage.blobs import Blobs, JobBlobs
from storage.chunk_rows import LaneWait
from storage.database import Connection, Database, Row

_READ_BYTES = 1 << 20


class JobService:
    """The jobs of one installation; every call names the account it speaks for."""

    def __init__(self, *, database: Database, blobs: Blobs, waker: Waker, scratch: Path) -> None:
        self._database = database
        self._blobs = blobs
        self._waker = waker
        self._scratch = scratch
        self._submissions = Submissions(database=database, blobs=blobs, waker=waker)

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
        check_readable(source)
        submitted = await self._submissions.receive(
            account_id, _pieces(source), options, source_name=source.name, parent=parent
        )
        return submitted.job_id

    async def get(self, account_id: AccountId, job_id: JobId) -> JobView:
        """Return the job as it stands now.

        Raises:
            MailsiftError: `job_not_found`, also when it belongs to somebody else.
        """
        async with self._database.begin() as connection:
            row = await owned(connection, account_id, job_id)
            return view_of(row, await chunk_rows.waits(connection, job_id))

    async def newest(self, account_id: AccountId, *, limit: int = 20) -> list[JobView]:
        """Return the account's newest jobs."""
        async with self._database.begin() as connection:
            return [view_of(row) for row in await job_rows.newest(connection, account_id, limit)]

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
            row = await owned(connection, account_id, job_id)
            error = ("cancelled", "The job was cancelled; the verdicts found so far are kept.")
            if not await end_job(connection, job_id, Step.CANCEL, error=error):
                raise _conflict(row["state"], Step.CANCEL)
            await chunk_rows.cancel(connection, job_id)

        await self._database.run(transaction)
        JOBS_ENDED.add(target(Step.CANCEL))
        await self._waker.wake(1)  # somebody is to be told

    async def retry(self, account_id: AccountId, job_id: JobId) -> JobId:
        """Start a new job over the rows of an ended one whose result says nothing about the mailbox.

        Raises:
            MailsiftError: `job_not_found`, `job_state_conflict`, `no_results_yet`, `nothing_to_retry`.
        """
        async with self._database.begin() as connection:
            row = await owned(connection, account_id, job_id)
        if row["state"] not in TERMINAL:
            raise MailsiftError("job_state_conflict", "Only a job that has ended can be retried.")
        options = replace(load_options(row["options"]), max_age=0.0)
        async with self.results(account_id, job_id) as results:
            with tempfile.TemporaryDirectory(dir=self._scratch, prefix="retry-") as folder:
                source = Path(folder) / "retry.parquet"
                column = await asyncio.to_thread(rows_to_retry, results, source, row["address_column"])
                again = replace(options, column=column, name=f"{row['name']} (retry)")
                return await self.submit(account_id, source, again, parent=job_id)

    async def rerun(self, account_id: AccountId, job_id: JobId, options: JobOptions) -> JobId:
        """Start a new job over the list of another one.

        Raises:
            MailsiftError: `job_not_found`, `source_gone`.
        """
        async with self._database.begin() as connection:
            await owned(connection, account_id, job_id)
        try:
            source = await self._blobs.fetch(JobBlobs(job_id).source)
        except MailsiftError as error:
            if error.code != "blob_not_found":
                raise
            raise MailsiftError("source_gone", "The list of this job is no longer kept.") from None
        return await self.submit(account_id, source, options, parent=job_id)

    async def diff(self, account_id: AccountId, before: JobId, after: JobId, *, limit: int) -> Diff:
        """Compare two runs of a list (jobs.diff).

        Raises:
            MailsiftError: `job_not_found`, `no_results_yet`, `not_the_same_list`.
        """
        async with self._database.begin() as connection:
            rows = [await owned(connection, account_id, job_id) for job_id in (before, after)]
        columns = (rows[0]["address_column"], rows[1]["address_column"])
        async with self.results(account_id, before) as old, self.results(account_id, after) as new:
            return await asyncio.to_thread(compare, old, new, columns, limit=limit)

    @asynccontextmanager
    async def results(self, account_id: AccountId, job_id: JobId) -> AsyncIterator[Path]:
        """Give the results as a local Parquet file: all rows when completed, else those with a verdict.

        Raises:
            MailsiftError: `job_not_found`, `no_results_yet`.
        """
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix="partial-") as folder:
            yield await self._results(account_id, job_id, Path(folder) / "results.parquet")

    async def _results(self, account_id: AccountId, job_id: JobId, partial: Path) -> Path:
        async with self._database.begin() as connection:
            row = await owned(connection, account_id, job_id)
            keys = await chunk_rows.segments(connection, job_id)
        if row["state"] == JobState.COMPLETED:
            return await self._blobs.fetch(JobBlobs(job_id).results)
        if not keys:
            raise MailsiftError("no_results_yet", "This job has no verdicts yet.", retryable=True)
        try:
            rows, *segments = await self._blobs.fetch_all((JobBlobs(job_id).rows, *keys))
            evidence = load_options(row["options"]).evidence
            await asyncio.to_thread(join_results, rows, segments, partial, evidence=evidence, partial=True)
        except (MailsiftError, FileNotFoundError):
            if (await self.get(account_id, job_id)).state is not JobState.COMPLETED:
                raise
            # It completed while we read, and its segments are gone.
            return await self._blobs.fetch(JobBlobs(job_id).results)
        return partial

    async def _move(self, account_id: AccountId, job_id: JobId, step: Step) -> None:
        async with self._database.begin() as connection:
            row = await owned(connection, account_id, job_id)
            if not await job_rows.move(connection, job_id, to=target(step), allowed=sources(step)):
                raise _conflict(row["state"], step)
            if step is Step.RESUME:
                await job_rows.catch_up(connection, job_id)


async def owned(connection: Connection, account_id: UUID, job_id: UUID) -> Row:
    """Return the account's job.

    Raises:
        MailsiftError: `job_not_found`, also when it belongs to somebody else.
    """
    row = await job_rows.get(connection, job_id)
    if row is None or row["account_id"] != account_id:
        raise MailsiftError("job_not_found", "There is no such job.")
    return row


async def _pieces(source: Path) -> AsyncIterator[bytes]:
    with source.open("rb") as file:
        while data := file.read(_READ_BYTES):
            yield data


def _conflict(state: str, step: Step) -> MailsiftError:
    return MailsiftError("job_state_conflict", f"A job that is {state} cannot {step.value}.")


def check_readable(source: Path) -> None:
    """Refuse what cannot be a list.

    Raises:
        MailsiftError: `file_not_found`, `not_a_file`.
    """
    if not source.exists():
        raise MailsiftError("file_not_found", "There is no such file.")
    if not source.is_file():
        raise MailsiftError("not_a_file", "This is not a regular file.")


def view_of(row: Row, waits: Sequence[LaneWait] = ()) -> JobView:
    """Return what others may see of a job's row."""
    options = load_options(row["options"])
    return JobView(
        id=JobId(row["id"]),
        account_id=AccountId(row["account_id"]),
        parent_id=JobId(row["parent_id"]) if row["parent_id"] else None,
        name=row["name"],
        state=JobState(row["state"]),
        mode=options.mode,
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
        warning=row["warning"],
        options=options,
        list_rows=row["list_rows"],
        list_addresses=row["list_addresses"],
        expires_at=row["expires_at"],
    )
