"""How a list becomes a job: stored in its blob, inserted once however often it is sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import uuid4

from mailsift.events import audit
from mailsift.jobs.places.service import JobPlaces, Places
from mailsift.jobs.views import AccountId, JobId, JobOptions, dump_options
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.blobs import Blobs, JobBlobs
from mailsift.storage.database import Connection, Database, GroupCommits
from mailsift.storage.shared_calls import SharedCalls
from mailsift.storage.sql import idempotency, jobs
from mailsift.storage.sql.idempotency import KnownRequest, Request
from mailsift.storage.sql.jobs import NewJob

_LONGEST_UPLOAD_S = 86_400.0
"""What was stored so long ago and has no job is deleted."""

_TOGETHER: Final = 64
"""Lists at most that are noted at once."""

_FIRST_OPTIONS: Final = frozenset(
    {"mode", "column", "name", "evidence", "repair", "max_age", "deadline_s", "priority", "retention_s"}
    | {"preview", "metadata"}
)
"""What release 0.1.0 knew. Later options tell requests apart where they are set, so that who sends a list
again after an upgrade is not told that it was another one."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job of a list, and whether this very call made it."""

    job_id: JobId
    fresh: bool = True


@dataclass(frozen=True, slots=True)
class StoredList:
    """A list that lies in its blob: the file's name as the customer calls it, hex digest, size in bytes."""

    name: str
    sha256: str
    bytes: int


def new_job(
    job_id: JobId,
    account_id: AccountId,
    options: JobOptions,
    stored: StoredList,
    *,
    parent: JobId | None = None,
) -> NewJob:
    """Return the job of a stored list; it is called as the options say, else as the file."""
    return NewJob(
        id=job_id,
        account_id=account_id,
        parent_id=parent,
        name=options.name or stored.name,
        options=dump_options(options),
        source_name=stored.name,
        source_sha256=stored.sha256,
        source_bytes=stored.bytes,
        deadline_s=options.deadline_s,
        retention_s=options.retention_s,
    )


async def one_piece(data: bytes) -> AsyncIterator[bytes]:
    """Give a list that is here already."""
    yield data


def json_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Write a list as JSON lines."""
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


async def store_list(blobs: Blobs, key: str, pieces: AsyncIterator[bytes], *, name: str) -> StoredList:
    """Store a list under a key; memory holds one piece at a time.

    Raises:
        MailsiftError: `empty_file`, or what the blob store says; nothing is left of the pieces then, nor when
            they end early by an exception.
    """
    async with blobs.stream_in(key) as incoming:
        async for piece in pieces:
            await incoming.write(piece)
        if not incoming.size:
            raise MailsiftError("empty_file", "The list is empty.")
    return StoredList(name, incoming.sha256, incoming.size)


class Submissions:
    """Stores lists and inserts their jobs, for who makes jobs: people, programs and schedules."""

    def __init__(self, *, database: Database, blobs: Blobs, places: Places) -> None:
        self._database = database
        self._blobs = blobs
        self._places = places
        self._commits = GroupCommits(database)
        self._expected = SharedCalls(self._expect_blobs, most=_TOGETHER)

    async def store(
        self,
        account_id: AccountId,
        pieces: AsyncIterator[bytes],
        options: JobOptions,
        *,
        source_name: str,
        parent: JobId | None,
    ) -> NewJob:
        """Store a list and return its job, for the caller to insert.

        The list is deleted when no job was inserted within a day.
        """
        job_id = await self._new_id()
        stored = await store_list(self._blobs, JobBlobs(job_id).source, pieces, name=source_name)
        return new_job(job_id, account_id, options, stored, parent=parent)

    async def expect(
        self, account_id: AccountId, places: JobPlaces, options: JobOptions, *, parent: JobId | None = None
    ) -> NewJob:
        """Return the job of a list that a worker fetches, for the caller to insert.

        Raises:
            MailsiftError: `secret_key_missing`.
        """
        sealed = replace(options, places=self._places.seal(account_id, places))
        job_id = await self._new_id()
        stored = StoredList(places.source.name if places.source else "", places.digest(), 0)
        return new_job(job_id, account_id, sealed, stored, parent=parent)

    async def _new_id(self) -> JobId:
        """Return the id of a new job; what is stored under it goes again unless the job follows."""
        job_id = JobId(uuid4())
        await self._expected.ask(job_id)
        return job_id

    async def _expect_blobs(self, job_ids: Sequence[JobId]) -> Sequence[JobId]:
        """Note lists that are about to be stored, those that come at the same time by one statement."""
        await self._database.run(jobs.expect_blobs, *job_ids, seconds=_LONGEST_UPLOAD_S)
        return job_ids

    async def insert(self, new: NewJob, once: str, places: str = "") -> Submitted:
        """Insert a job whose list has been stored, unless its idempotency key has one already.

        `once` is that key, "" when there is none; `places` the digest of those that the options have sealed.

        Raises:
            MailsiftError: `idempotency_key_reused` with another list or other options, `service_unavailable`.
        """

        async def transaction(connection: Connection) -> Submitted:
            submitted = await _insert_for_key(connection, new, once, places)
            if submitted.fresh and new.parent_id is None:  # what repeats a job is written down as that
                await record_start(connection, new)
            return submitted

        return await self._commits.run(new.account_id, transaction)


async def insert_stored(connection: Connection, new: NewJob) -> bool:
    """Insert a job whose list has been stored; returns False when it is there, by a commit nobody heard of.

    Raises:
        MailsiftError: `service_unavailable` when storing it took so long that it was taken for lost.
    """
    if await jobs.insert(connection, new, expected=True):
        return True
    if await jobs.get(connection, new.id) is None:
        raise MailsiftError("service_unavailable", "Please try again.", retryable=True)
    return False


async def record_start(connection: Connection, new: NewJob) -> None:
    """Write down in the audit log that somebody has started a job."""
    about = {"list": new.name, "mode": new.options.get("mode", "")}
    await audit.record_change(connection, new.account_id, "job.create", str(new.id), **about)


async def _insert_for_key(connection: Connection, new: NewJob, once: str, places: str) -> Submitted:
    if not once:
        return Submitted(JobId(new.id), fresh=await insert_stored(connection, new))
    request = Request(new.account_id, once, _fingerprint(new, places))
    # Looked for first, because most repetitions come long after; those that come at once meet at the key.
    known = await idempotency.known(connection, request)
    if known is not None:
        return _as_before(request, known)
    savepoint = await connection.begin_nested()
    await insert_stored(connection, new)
    if not await idempotency.claim(connection, request, new.id):
        await savepoint.rollback()
        known = await idempotency.known(connection, request)
        if known is None:
            raise MailsiftError("service_unavailable", "Please try again.", retryable=True)
        return _as_before(request, known)
    await savepoint.commit()
    return Submitted(JobId(new.id))


def _as_before(request: Request, known: KnownRequest) -> Submitted:
    if known.fingerprint != request.fingerprint or known.job_id is None:
        text = "This Idempotency-Key was used with another list, other options or another operation."
        raise MailsiftError("idempotency_key_reused", text)
    return Submitted(JobId(known.job_id), fresh=False)


def _fingerprint(new: NewJob, places: str) -> str:
    # Sealed places look different each time, so their digest stands for them.
    given, unset = {**new.options, "places": places}, dump_options(JobOptions())
    kept = {name: one for name, one in given.items() if name in _FIRST_OPTIONS or one != unset.get(name)}
    same = json.dumps([new.source_sha256, kept], sort_keys=True)
    return hashlib.sha256(same.encode()).hexdigest()
