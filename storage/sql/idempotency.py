"""Idempotency keys in SQL, for a day: which request made which job, and what all others were answered.

A key belongs to one request: a list, then `job_id` is its job; or any other one, then `lease_until` is set
while it is worked on and `answer` when it is answered. One whose lease has run out died on its way: the key
is free, unless it had changed something; then its `answer` is empty, and nobody knows it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection, row_as


@dataclass(frozen=True, slots=True)
class Request:
    """A request that shall happen once: whose, under which key, and a digest of what it asks."""

    account_id: UUID
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class KnownRequest:
    """What is known of a key.

    Attributes:
        fingerprint: of the request that has it.
        job_id: its job, if it has one.
        answer: what it was answered, sealed; None while it is worked on, and where a list made a job.
        died: it changed something and died before it was answered.
    """

    fingerprint: str
    job_id: UUID | None
    answer: bytes | None
    died: bool


# A key older than a day is free again. A second request with the same key waits here for the first one's
# transaction.
_TAKE = text("""
    INSERT INTO idempotency (account_id, key, fingerprint, job_id, token, lease_until)
    VALUES (:account_id, :key, :fingerprint, :job_id, :token,
            clock_timestamp() + make_interval(secs => :lease))
    ON CONFLICT (account_id, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, job_id = excluded.job_id, token = excluded.token,
            lease_until = excluded.lease_until, answer = NULL, created_at = clock_timestamp()
        WHERE idempotency.created_at < clock_timestamp() - interval '24 hours'
           OR (idempotency.lease_until < clock_timestamp() AND idempotency.answer IS NULL)
""")

_RENEW = text("""
    UPDATE idempotency SET lease_until = clock_timestamp() + make_interval(secs => :lease)
    WHERE account_id = :account_id AND key = :key AND token = :token
""")

# Goes with the transaction it ends, when that one has written something.
_MARK = text("""
    UPDATE idempotency SET answer = ''
    WHERE account_id = :account_id AND key = :key AND token = :token AND answer IS NULL
      AND pg_current_xact_id_if_assigned() IS NOT NULL
""")

# Of a job the answer goes when the job goes.
_FINISH = text("""
    UPDATE idempotency SET answer = :answer, lease_until = NULL,
        job_id = (SELECT id FROM job WHERE id = :job_id AND account_id = :account_id FOR KEY SHARE)
    WHERE account_id = :account_id AND key = :key AND token = :token
""")

_FREE = text("""
    WITH undone AS (
        DELETE FROM idempotency
        WHERE account_id = :account_id AND key = :key AND token = :token AND answer IS NULL)
    UPDATE idempotency SET lease_until = '-infinity'
    WHERE account_id = :account_id AND key = :key AND token = :token AND answer = ''
""")

_FOUND = text("""
    SELECT fingerprint, job_id, NULLIF(answer, '') AS answer,
        (answer = '' AND lease_until < clock_timestamp()) IS TRUE AS died
    FROM idempotency
    WHERE account_id = :account_id AND key = :key
      AND created_at >= clock_timestamp() - interval '24 hours'
      AND (lease_until IS NULL OR lease_until >= clock_timestamp() OR answer IS NOT NULL)
""")

_PURGE = text("""
    DELETE FROM idempotency
    WHERE created_at < clock_timestamp() - interval '24 hours'
       OR (lease_until < clock_timestamp() AND answer IS NULL)
""")


async def claim(connection: Connection, request: Request, job_id: UUID) -> bool:
    """Take the key for this job, which the transaction has inserted; False when another request has it."""
    values = {**asdict(request), "job_id": job_id, "token": None, "lease": None}
    return (await connection.execute(_TAKE, values)).rowcount == 1


async def begin(connection: Connection, request: Request, token: UUID, *, lease: float) -> bool:
    """Take the key for a request that is worked on now, for so many seconds; False when another has it."""
    values = {**asdict(request), "job_id": None, "token": token, "lease": lease}
    return (await connection.execute(_TAKE, values)).rowcount == 1


async def known(connection: Connection, request: Request) -> KnownRequest | None:
    """Return what is known of the request's key, if it was used within the last day."""
    values = {"account_id": request.account_id, "key": request.key}
    return await row_as(KnownRequest, connection, _FOUND, values)


async def mark(connection: Connection, request: Request, token: UUID) -> None:
    """Say, as the end of a transaction, that the request changes something, if this one has done so."""
    await connection.execute(_MARK, {**asdict(request), "token": token})


async def renew(connection: Connection, request: Request, token: UUID, *, lease: float) -> None:
    """Keep the key for so many seconds from now on."""
    await connection.execute(_RENEW, {**asdict(request), "token": token, "lease": lease})


async def finish(
    connection: Connection, request: Request, token: UUID, answer: bytes, job_id: UUID | None
) -> None:
    """Store the answer, with the job it is about if there is one."""
    values = {**asdict(request), "token": token, "answer": answer, "job_id": job_id}
    await connection.execute(_FINISH, values)


async def free(connection: Connection, request: Request, token: UUID) -> None:
    """Give the key back, unless something was changed under it."""
    await connection.execute(_FREE, {**asdict(request), "token": token})


async def purge(connection: Connection) -> int:
    """Forget keys older than a day and those of requests that died and did nothing; returns how many."""
    return (await connection.execute(_PURGE)).rowcount
