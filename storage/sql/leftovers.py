"""Blobs that no job points to, in SQL: noted before they can exist, so that no crash leaves one for ever.

Every list is stored before its job is inserted, and a worker may write a last segment after its job was
deleted. A row here says: what lies under this job's prefix goes at `due_at`, unless the job comes; where
it is `sealed`, that is being deleted, and the job comes too late.
"""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection

_EXPECT = text("""
    INSERT INTO leftover (job_id, due_at)
    VALUES (:job_id, clock_timestamp() + make_interval(secs => :seconds))
    ON CONFLICT (job_id) DO NOTHING
""")

_CLAIM = text("DELETE FROM leftover WHERE job_id = :job_id AND NOT sealed")

_LEAVE = text("""
    INSERT INTO leftover (job_id, due_at, sealed)
    SELECT job_id, clock_timestamp() + make_interval(secs => :seconds), true
    FROM unnest(CAST(:job_ids AS uuid[])) AS job_id
    ON CONFLICT (job_id) DO UPDATE SET due_at = excluded.due_at, sealed = true
""")

# Whoever dies over it leaves the row for the next one.
_SEAL = text("""
    WITH due AS MATERIALIZED (
        SELECT job_id FROM leftover WHERE due_at <= clock_timestamp()
        ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED
    )
    UPDATE leftover SET sealed = true, due_at = clock_timestamp() + interval '1 minute'
    FROM due WHERE leftover.job_id = due.job_id
    RETURNING leftover.job_id
""")

_FORGET = text("DELETE FROM leftover WHERE job_id = :job_id AND sealed")


async def expect(connection: Connection, job_id: UUID, *, seconds: float) -> None:
    """Note that blobs of a job are about to be stored whose job must follow within so many seconds.

    Where they are being deleted, it waits until that is noted; then `claim` says that it is too late.
    """
    await connection.execute(_EXPECT, {"job_id": job_id, "seconds": seconds})


async def claim(connection: Connection, job_id: UUID) -> bool:
    """Say that the job comes, in the transaction that inserts it; False when it is too late."""
    return (await connection.execute(_CLAIM, {"job_id": job_id})).rowcount == 1


async def leave(connection: Connection, job_ids: list[UUID], *, seconds: float) -> None:
    """Note jobs that are being deleted: what is still written for them goes after so many seconds."""
    await connection.execute(_LEAVE, {"job_ids": job_ids, "seconds": seconds})


async def seal(connection: Connection, *, limit: int) -> list[UUID]:
    """Return jobs whose blobs are to go now; nobody else is given them for a minute."""
    return list((await connection.execute(_SEAL, {"limit": limit})).scalars())


async def forget(connection: Connection, job_id: UUID) -> None:
    """Say that nothing is left under the job's prefix."""
    await connection.execute(_FORGET, {"job_id": job_id})
