"""Around a job: its events, and the runs of its list, which are jobs made of each other or of one file."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import or_, select, text

from storage.database import Connection, Row
from storage.tables import job

_EVENTS = text("""
    SELECT e.id, e.type, e.created_at, (
        SELECT coalesce(jsonb_object_agg(d.state, d.count), '{}') FROM (
            SELECT state, count(*) FROM delivery WHERE event_id = e.id GROUP BY state) d) AS deliveries
    FROM event e WHERE e.job_id = :job_id ORDER BY e.created_at
""")


async def same_list(connection: Connection, of: Row, limit: int) -> Sequence[Row]:
    """Return other jobs of the account over the same list, newest first.

    Args:
        connection: an open transaction.
        of: the job's row.
        limit: how many.
    """
    family: list[UUID] = [of["id"], *([of["parent_id"]] if of["parent_id"] else [])]
    related = [job.c.id.in_(family), job.c.parent_id.in_(family)]
    if of["source_sha256"]:
        related.append(job.c.source_sha256 == of["source_sha256"])
    statement = (
        select(job)
        .where(job.c.account_id == of["account_id"], job.c.id != of["id"], or_(*related))
        .order_by(job.c.created_at.desc(), job.c.id.desc())
        .limit(limit)
    )
    return (await connection.execute(statement)).mappings().all()


async def events(connection: Connection, job_id: UUID) -> Sequence[Row]:
    """Return the job's events, oldest first, each with the number of its deliveries by state."""
    return (await connection.execute(_EVENTS, {"job_id": job_id})).mappings().all()
