"""Idempotency keys in SQL: which request made which job, for a day."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection


@dataclass(frozen=True, slots=True)
class Request:
    """A request that shall happen once: whose, under which key, and a digest of what it asks."""

    account_id: UUID
    key: str
    fingerprint: str


# A key older than a day is free again. A second request with the same key waits here for the first one's
# transaction.
_CLAIM = text("""
    INSERT INTO idempotency (account_id, key, fingerprint, job_id)
    VALUES (:account_id, :key, :fingerprint, :job_id)
    ON CONFLICT (account_id, key) DO UPDATE
        SET fingerprint = excluded.fingerprint, job_id = excluded.job_id, created_at = clock_timestamp()
        WHERE idempotency.created_at < clock_timestamp() - interval '24 hours'
""")

_FOUND = text(
    "SELECT fingerprint, job_id FROM idempotency WHERE account_id = :account_id AND key = :key"
    " AND created_at >= clock_timestamp() - interval '24 hours'"
)

_PURGE = text("DELETE FROM idempotency WHERE created_at < clock_timestamp() - interval '24 hours'")


async def claim(connection: Connection, request: Request, job_id: UUID) -> bool:
    """Take the key for this job, which the transaction has inserted; False when another job has it."""
    values = {
        "account_id": request.account_id,
        "key": request.key,
        "fingerprint": request.fingerprint,
        "job_id": job_id,
    }
    return (await connection.execute(_CLAIM, values)).rowcount == 1


async def find(connection: Connection, account_id: UUID, key: str) -> tuple[str, UUID] | None:
    """Return the fingerprint and the job of a key that was used within the last day."""
    row = (await connection.execute(_FOUND, {"account_id": account_id, "key": key})).one_or_none()
    return (row.fingerprint, row.job_id) if row else None


async def purge(connection: Connection) -> int:
    """Forget keys older than a day; returns how many."""
    return (await connection.execute(_PURGE)).rowcount
