"""What waits, in SQL: ready and leased work, lanes, and whether the counters agree with the chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from storage.database import Connection


@dataclass(frozen=True, slots=True)
class Backlog:
    """Open work of jobs that run; of those that are paused nothing counts.

    Attributes:
        ready_chunks, ready_addresses: may be claimed now.
        oldest_ready_s: for how many seconds the oldest of them has been ready; 0 when there is none.
        waiting_chunks, waiting_addresses: wait for a time: a provider's limit, greylisting.
        leased_chunks, leased_addresses: being worked on.
        steps: lists to take in and jobs to finish that nobody works on.
        steps_leased: those somebody works on.
    """

    ready_chunks: int = 0
    ready_addresses: int = 0
    oldest_ready_s: float = 0.0
    waiting_chunks: int = 0
    waiting_addresses: int = 0
    leased_chunks: int = 0
    leased_addresses: int = 0
    steps: int = 0
    steps_leased: int = 0

    @property
    def addresses(self) -> int:
        """All that have no verdict yet."""
        return self.ready_addresses + self.waiting_addresses + self.leased_addresses


@dataclass(frozen=True, slots=True)
class LaneRow:
    """The open chunks of one lane.

    Attributes:
        ready, waiting, leased: addresses by state.
        chunks: open ones.
        waits_for: why most of what waits does, "" when nothing does.
        until: when the first of it may be tried; None when nothing waits.
        jobs: how many have chunks in it.
    """

    lane: str
    ready: int
    waiting: int
    leased: int
    chunks: int
    waits_for: str
    until: datetime | None
    jobs: int

    @property
    def remaining(self) -> int:
        """Addresses without a verdict."""
        return self.ready + self.waiting + self.leased


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """A run of chunks of a job, for its strip: how many are in which state."""

    first: int
    last: int
    done: int
    leased: int
    ready: int
    waiting: int
    cancelled: int


@dataclass(frozen=True, slots=True)
class Drift:
    """A job whose counter of open chunks is wrong; this must not happen."""

    job_id: UUID
    counted: int
    found: int


# Both partial indexes are used; chunks that are done are not looked at.
_BACKLOG = text("""
    WITH open_chunk AS (
        SELECT job_id, state, ready_at, addresses FROM chunk WHERE state = 'ready'
        UNION ALL
        SELECT job_id, state, ready_at, addresses FROM chunk WHERE state = 'leased'
    ), placed AS (
        SELECT c.addresses, c.ready_at, CASE WHEN c.state = 'leased' THEN 'leased'
            WHEN c.ready_at <= clock_timestamp() THEN 'ready' ELSE 'waiting' END AS place
        FROM open_chunk c JOIN job j ON j.id = c.job_id WHERE j.state IN ('queued', 'running')
    ), steps AS (
        SELECT count(*) FILTER (WHERE step_token IS NULL) AS steps,
            count(*) FILTER (WHERE step_token IS NOT NULL) AS steps_leased
        FROM job WHERE state IN ('uploading', 'intake', 'finalizing')
    ), counted AS (
        SELECT count(*) FILTER (WHERE place = 'ready') AS ready_chunks,
            coalesce(sum(addresses) FILTER (WHERE place = 'ready'), 0)::bigint AS ready_addresses,
            coalesce(extract(epoch FROM clock_timestamp()
                - min(ready_at) FILTER (WHERE place = 'ready')), 0)::float8 AS oldest_ready_s,
            count(*) FILTER (WHERE place = 'waiting') AS waiting_chunks,
            coalesce(sum(addresses) FILTER (WHERE place = 'waiting'), 0)::bigint AS waiting_addresses,
            count(*) FILTER (WHERE place = 'leased') AS leased_chunks,
            coalesce(sum(addresses) FILTER (WHERE place = 'leased'), 0)::bigint AS leased_addresses
        FROM placed
    )
    SELECT * FROM counted, steps
""")

_LANES = text("""
    WITH open_chunk AS (
        SELECT job_id, lane, state, waits_for, ready_at, addresses FROM chunk WHERE state = 'ready'
        UNION ALL
        SELECT job_id, lane, state, waits_for, ready_at, addresses FROM chunk WHERE state = 'leased'
    ), mine AS (
        SELECT c.*, c.state = 'ready' AND c.ready_at > clock_timestamp() AS waits
        FROM open_chunk c JOIN job j ON j.id = c.job_id
        WHERE j.state IN ('queued', 'running', 'paused')
          AND (CAST(:job_id AS uuid) IS NULL OR c.job_id = :job_id)
    )
    SELECT lane, count(*) AS chunks, count(DISTINCT job_id) AS jobs,
        coalesce(sum(addresses) FILTER (WHERE state = 'ready' AND NOT waits), 0)::bigint AS ready,
        coalesce(sum(addresses) FILTER (WHERE waits), 0)::bigint AS waiting,
        coalesce(sum(addresses) FILTER (WHERE state = 'leased'), 0)::bigint AS leased,
        coalesce(mode() WITHIN GROUP (ORDER BY waits_for) FILTER (WHERE waits), '') AS waits_for,
        min(ready_at) FILTER (WHERE waits) AS until
    FROM mine GROUP BY lane ORDER BY sum(addresses) DESC, lane LIMIT :limit
""")

_STRIP = text("""
    WITH mine AS (
        SELECT n, state, state = 'ready' AND ready_at > clock_timestamp() AS waits,
            ntile(:cells) OVER (ORDER BY n) AS cell
        FROM chunk WHERE job_id = :job_id
    )
    SELECT min(n) AS first, max(n) AS last, count(*) FILTER (WHERE state = 'done') AS done,
        count(*) FILTER (WHERE state = 'leased') AS leased,
        count(*) FILTER (WHERE state = 'ready' AND NOT waits) AS ready,
        count(*) FILTER (WHERE waits) AS waiting, count(*) FILTER (WHERE state = 'cancelled') AS cancelled
    FROM mine GROUP BY cell ORDER BY cell
""")

# One statement sees one state of the database: while chunks are committed the two always agree.
_DRIFT = text("""
    SELECT j.id AS job_id, j.chunks_open AS counted, coalesce(o.found, 0) AS found
    FROM job j LEFT JOIN (
        SELECT job_id, count(*) AS found FROM (
            SELECT job_id FROM chunk WHERE state = 'ready'
            UNION ALL SELECT job_id FROM chunk WHERE state = 'leased') c
        GROUP BY job_id) o ON o.job_id = j.id
    WHERE j.state IN ('queued', 'running', 'paused') AND j.chunks_open <> coalesce(o.found, 0)
    LIMIT 20
""")


async def backlog(connection: Connection) -> Backlog:
    """Return what waits everywhere."""
    return Backlog(**(await connection.execute(_BACKLOG)).mappings().one())


async def lanes(connection: Connection, *, job_id: UUID | None = None, limit: int = 200) -> Sequence[LaneRow]:
    """Return the lanes with open chunks (of one job, or of all that have not ended), the fullest first."""
    found = await connection.execute(_LANES, {"job_id": job_id, "limit": limit})
    return [LaneRow(**row) for row in found.mappings()]


async def strip(connection: Connection, job_id: UUID, *, cells: int) -> Sequence[ChunkSpan]:
    """Return the job's chunks in their order, cut into at most so many spans of about the same length."""
    found = await connection.execute(_STRIP, {"job_id": job_id, "cells": cells})
    return [ChunkSpan(**row) for row in found.mappings()]


async def drift(connection: Connection) -> Sequence[Drift]:
    """Return jobs whose counter of open chunks disagrees with the chunks, at most twenty."""
    return [Drift(**row) for row in (await connection.execute(_DRIFT)).mappings()]
