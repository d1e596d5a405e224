"""The course of one job in SQL: its chunks, what waits, and who was told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection, rows_as, statement


@dataclass(frozen=True, slots=True)
class Failure:
    """Chunks that were tried again for one reason: the most tries of one, and when one was last begun."""

    error: str
    chunks: int
    attempts: int
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class ChunkHistory:
    """When the first and the last chunk was begun, how many are done, and why others were tried again."""

    first_at: datetime | None
    last_at: datetime | None
    done: int
    failures: Sequence[Failure] = ()


@dataclass(frozen=True, slots=True)
class ObservedWait:
    """Addresses that wait, why, and until when the first of them does."""

    reason: str
    addresses: int
    until: datetime


@dataclass(frozen=True, slots=True)
class DeliveryHistory:
    """An event of the job and one endpoint: `at` is when that was over, or when it is tried next."""

    type: str
    host: str
    state: str
    attempts: int
    at: datetime


_CHUNKS = text("""
    SELECT min(leased_at) AS first_at, max(leased_at) AS last_at,
        count(*) FILTER (WHERE state = 'done') AS done
    FROM chunk WHERE job_id = :job_id
""")

_FAILURES = text("""
    SELECT last_error AS error, count(*) AS chunks, max(attempt) AS attempts, max(leased_at) AS last_at
    FROM chunk WHERE job_id = :job_id AND last_error <> '' GROUP BY last_error
    ORDER BY chunks DESC, last_error LIMIT :limit
""")

_WAITS = statement("""
    SELECT c.waits_for AS reason, sum(c.addresses)::bigint AS addresses, min(c.ready_at) AS until
    FROM chunk c JOIN job j ON j.id = c.job_id
    WHERE c.state = 'ready' AND c.waits_for <> '' AND c.ready_at > clock_timestamp() AND j.state IN {worked}
      AND (CAST(:job_id AS uuid) IS NULL OR c.job_id = :job_id)
    GROUP BY c.waits_for ORDER BY until
""")

_DELIVERIES = text("""
    SELECT e.type, coalesce(substring(p.url from '^[a-z]+://([^/?#]+)'), p.url) AS host, d.state, d.attempts,
        coalesce(d.finished_at, d.next_attempt_at, d.created_at) AS at
    FROM event e JOIN delivery d ON d.event_id = e.id JOIN endpoint p ON p.id = d.endpoint_id
    WHERE e.job_id = :job_id ORDER BY d.created_at DESC, d.id LIMIT :limit
""")


async def chunks(connection: Connection, job_id: UUID, *, limit: int) -> ChunkHistory:
    """Return what happened to a job's chunks, with at most so many reasons why some were tried again."""
    row = (await connection.execute(_CHUNKS, {"job_id": job_id})).mappings().one()
    failures = await rows_as(Failure, connection, _FAILURES, {"job_id": job_id, "limit": limit})
    return ChunkHistory(**row, failures=failures)


async def waits(connection: Connection, job_id: UUID | None = None) -> list[ObservedWait]:
    """Return what waits of a job, or of all of them; what goes on first comes first."""
    return await rows_as(ObservedWait, connection, _WAITS, {"job_id": job_id})


async def deliveries(connection: Connection, job_id: UUID, *, limit: int) -> list[DeliveryHistory]:
    """Return who was told of a job, the latest first."""
    return await rows_as(DeliveryHistory, connection, _DELIVERIES, {"job_id": job_id, "limit": limit})
