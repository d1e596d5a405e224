"""A list comes in: streamed to its blob, and made a job once, however often it is sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

from jobs.options import dump_options
from jobs.ports import Waker
from jobs.views import AccountId, JobId, JobOptions
from pipeline.errors import MailsiftError
from storage import idempotency_rows, job_rows, leftover_rows
from storage.blobs import Blobs, JobBlobs
from storage.database import Connection, Database
from storage.idempotency_rows import Request
from storage.job_rows import NewJob
from storage.local_files import Incoming

LONGEST_UPLOAD_S = 86_400.0
"""What was stored so long ago and has no job is deleted."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job of a list, and whether this very call made it."""

    job_id: JobId
    fresh: bool = True


class Submissions:
    """Takes lists in for one installation."""

    def __init__(self, *, database: Database, blobs: Blobs, waker: Waker) -> None:
        self._database = database
        self._blobs = blobs
        self._waker = waker

    async def receive(
        self,
        account_id: AccountId,
        pieces: AsyncIterator[bytes],
        options: JobOptions,
        *,
        source_name: str = "",
        parent: JobId | None = None,
        once: str = "",
    ) -> Submitted:
        """Store a list and start its job; memory holds one piece at a time.

        Args:
            account_id: whose list.
            pieces: the file; when they end early by an exception, nothing is left of them.
            options: what to do.
            source_name: the file's name as the customer calls it.
            parent: the job this one repeats.
            once: with the same key, list and options no second job is made within 24 hours.

        Raises:
            MailsiftError: `idempotency_key_reused` with another list or other options, `empty_file`, what
                `pieces` raises, or what the blob store says.
        """
        job_id = JobId(uuid4())
        async with self._database.begin() as connection:
            await leftover_rows.expect(connection, job_id, seconds=LONGEST_UPLOAD_S)
        async with self._blobs.stream_in(JobBlobs(job_id).source) as incoming:
            async for piece in pieces:
                await incoming.write(piece)
            if not incoming.size:
                raise MailsiftError("empty_file", "The list is empty.")
        new = _new_job(job_id, account_id, incoming, options, source_name)
        request = Request(account_id, once, _fingerprint(incoming.sha256, options)) if once else None
        new = new if parent is None else _child(new, parent)
        try:
            submitted = await self._database.run(lambda connection: _insert(connection, new, request))
        except MailsiftError:
            await self._blobs.delete(JobBlobs(job_id).source)
            raise
        if submitted.fresh:
            await self._waker.wake(1)
        else:
            await self._blobs.delete(JobBlobs(job_id).source)
        return submitted


async def insert_stored(connection: Connection, new: NewJob) -> None:
    """Insert a job whose list has been stored.

    Raises:
        MailsiftError: `service_unavailable` when storing it took so long that it was taken for lost.
    """
    if not await leftover_rows.claim(connection, new.id):
        raise MailsiftError("service_unavailable", "Please send this again.", retryable=True)
    await job_rows.insert(connection, new)


async def _insert(connection: Connection, new: NewJob, request: Request | None) -> Submitted:
    """Insert the job, unless its key has one already."""
    if request is not None:
        # Looked for first, because most repetitions come long after; those that come at once meet at the key.
        known = await idempotency_rows.find(connection, request.account_id, request.key)
        if known is not None:
            return _again(request, known)
    savepoint = await connection.begin_nested()
    await insert_stored(connection, new)
    if request is not None and not await idempotency_rows.claim(connection, request, new.id):
        await savepoint.rollback()
        known = await idempotency_rows.find(connection, request.account_id, request.key)
        if known is None:
            raise MailsiftError("service_unavailable", "Please send this again.", retryable=True)
        return _again(request, known)
    await savepoint.commit()
    return Submitted(JobId(new.id))


def _again(request: Request, known: tuple[str, UUID]) -> Submitted:
    fingerprint, job_id = known
    if fingerprint != request.fingerprint:
        text = "This Idempotency-Key was used with another list or other options."
        raise MailsiftError("idempotency_key_reused", text)
    return Submitted(JobId(job_id), fresh=False)


def _fingerprint(sha256: str, options: JobOptions) -> str:
    told = json.dumps([sha256, dump_options(options)], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()


def _new_job(
    job_id: JobId, account_id: AccountId, incoming: Incoming, options: JobOptions, source_name: str
) -> NewJob:
    return NewJob(
        id=job_id,
        account_id=account_id,
        name=options.name or source_name,
        options=dump_options(options),
        source_name=source_name,
        source_sha256=incoming.sha256,
        source_bytes=incoming.size,
        deadline_s=options.deadline_s,
        retention_s=options.retention_s,
    )


def _child(new: NewJob, parent: JobId) -> NewJob:
    return replace(new, parent_id=parent)
