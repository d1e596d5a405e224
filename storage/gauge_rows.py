"""The state of the whole installation in numbers: read when somebody looks, never stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import text

from storage.chunk_rows import FREE_LANES, MIXED_LANE, SLOW_LANE, SURVEY_LANE
from storage.database import Connection

CHUNK_STATES: Final = ("ready", "waiting", "leased", "paused")
"""Of chunks that are not done; `waiting` is ready later, `paused` belongs to a paused job."""
LANE_CLASSES: Final = ("survey", "mixed", "slow", "provider")
OUTBOX_STATES: Final = ("due", "queued", "waiting", "held")
"""Of deliveries that are not over; `queued` stands behind others to the same endpoint or waits for its pace,
`waiting` is tried again later, `held` is for an endpoint that is left alone."""
ENDPOINT_STATES: Final = ("healthy", "failing", "disabled")


@dataclass(frozen=True, slots=True)
class ChunkLevel:
    """Chunks of one kind of lane in one state.

    Attributes:
        state: one of CHUNK_STATES.
        lane_class: one of LANE_CLASSES.
        chunks, addresses: how many.
        oldest_s: seconds the oldest could have been claimed by now; 0 where none can be.
    """

    state: str
    lane_class: str
    chunks: int
    addresses: int
    oldest_s: float


@dataclass(frozen=True, slots=True)
class Outbox:
    """Deliveries in one of OUTBOX_STATES, and seconds since the oldest of them was due."""

    state: str
    deliveries: int
    oldest_s: float


@dataclass(frozen=True, slots=True)
class Drift:
    """By how much the counters of open jobs differ from what they count; all 0, always."""

    chunks: int
    chunks_open: int
    rows: int


_LIMIT_TIME = text("SELECT set_config('statement_timeout', :ms, true)")

_JOBS = text("""
    SELECT state, count(*) AS jobs FROM job
    WHERE state NOT IN ('completed', 'failed', 'cancelled') GROUP BY state
""")

_OLDEST_JOBS = text("""
    SELECT CASE WHEN source_bytes <= :small_bytes THEN 'small' ELSE 'large' END AS size,
        max(extract(epoch FROM clock_timestamp() - created_at))::float8 AS oldest_s
    FROM job WHERE state IN ('uploading', 'intake', 'queued') AND started_at IS NULL GROUP BY 1
""")

# What a claim would pass over does not count as waiting for one: lanes that are being served, and jobs that
# have as many leases as one job may have.
_CHUNKS = text("""
    WITH busy AS (
        SELECT DISTINCT lane FROM chunk WHERE state = 'leased' AND lane <> ALL(:free_lanes)
    ), full_up AS (
        SELECT job_id FROM chunk WHERE state = 'leased' GROUP BY job_id HAVING count(*) >= :job_cap
    ), levels AS (
        SELECT c.addresses, c.lane,
            CASE WHEN c.state = 'leased' THEN 'leased' WHEN j.state = 'paused' THEN 'paused'
                 WHEN c.ready_at > clock_timestamp() THEN 'waiting' ELSE 'ready' END AS state,
            CASE WHEN busy.lane IS NULL AND full_up.job_id IS NULL
                 THEN extract(epoch FROM clock_timestamp() - c.ready_at)::float8 END AS age_s
        FROM chunk c JOIN job j ON j.id = c.job_id
            LEFT JOIN busy ON busy.lane = c.lane LEFT JOIN full_up ON full_up.job_id = c.job_id
        WHERE c.state IN ('ready', 'leased') AND j.state IN ('queued', 'running', 'paused')
    )
    SELECT state,
        CASE lane WHEN :survey THEN 'survey' WHEN :mixed THEN 'mixed' WHEN :slow THEN 'slow'
             ELSE 'provider' END AS lane_class,
        count(*) AS chunks, sum(addresses)::bigint AS addresses,
        coalesce(max(age_s) FILTER (WHERE state = 'ready'), 0) AS oldest_s
    FROM levels GROUP BY 1, 2
""")

_OUTBOX = text("""
    SELECT state, count(*) AS deliveries, greatest(max(due_s), 0) AS oldest_s FROM (
        SELECT extract(epoch FROM clock_timestamp() - d.next_attempt_at)::float8 AS due_s,
            CASE WHEN NOT e.enabled OR greatest(e.probe_at, e.paced_until) > clock_timestamp() THEN 'held'
                 WHEN d.next_attempt_at > clock_timestamp() THEN 'waiting'
                 WHEN e.paced_until > clock_timestamp() OR EXISTS (
                     SELECT FROM delivery b WHERE b.endpoint_id = e.id AND b.state = 'delivering')
                     THEN 'queued'
                 ELSE 'due' END AS state
        FROM delivery d JOIN endpoint e ON e.id = d.endpoint_id WHERE d.state = 'pending'
    ) pending GROUP BY state
""")

_ENDPOINTS = text("""
    SELECT CASE WHEN NOT enabled THEN 'disabled' WHEN failures > 0 THEN 'failing' ELSE 'healthy' END AS state,
        count(*) AS endpoints
    FROM endpoint GROUP BY 1
""")

# One statement sees one moment: a chunk is closed and its job is counted up in one transaction.
_DRIFT = text("""
    SELECT coalesce(sum(abs(chunks - counted)), 0)::bigint AS chunks,
        coalesce(sum(abs(chunks_open - counted_open)), 0)::bigint AS chunks_open,
        coalesce(sum(CASE state WHEN 'finalizing' THEN total - processed ELSE 0 END), 0)::bigint AS rows
    FROM (
        SELECT j.id, j.state, j.chunks, j.chunks_open, j.total, j.processed, count(c.n) AS counted,
            count(c.n) FILTER (WHERE c.state IN ('ready', 'leased')) AS counted_open
        FROM job j LEFT JOIN chunk c ON c.job_id = j.id
        WHERE j.state IN ('queued', 'running', 'paused', 'finalizing') GROUP BY j.id
    ) open
""")


async def limit_time(connection: Connection, seconds: float) -> None:
    """Let no statement of this transaction take longer."""
    await connection.execute(_LIMIT_TIME, {"ms": str(int(seconds * 1000))})


async def jobs(connection: Connection) -> dict[str, int]:
    """Return how many jobs are in which state; those that have ended are not counted."""
    return {row.state: row.jobs for row in await connection.execute(_JOBS)}


async def oldest_jobs(connection: Connection, *, small_bytes: int) -> dict[str, float]:
    """Return the age in seconds of the oldest job that nobody has begun, of `small` and of `large` lists."""
    found = await connection.execute(_OLDEST_JOBS, {"small_bytes": small_bytes})
    return {row.size: row.oldest_s for row in found}


async def chunks(connection: Connection, *, job_cap: int) -> list[ChunkLevel]:
    """Count the open chunks; `job_cap` is how many of one job may be leased at once."""
    values = {
        "free_lanes": list(FREE_LANES),
        "job_cap": job_cap,
        "survey": SURVEY_LANE,
        "mixed": MIXED_LANE,
        "slow": SLOW_LANE,
    }
    return [ChunkLevel(**row) for row in (await connection.execute(_CHUNKS, values)).mappings()]


async def outbox(connection: Connection) -> list[Outbox]:
    """Count the deliveries that are not over."""
    return [Outbox(**row) for row in (await connection.execute(_OUTBOX)).mappings()]


async def endpoints(connection: Connection) -> dict[str, int]:
    """Return how many webhook endpoints are in which of ENDPOINT_STATES."""
    return {row.state: row.endpoints for row in await connection.execute(_ENDPOINTS)}


async def drift(connection: Connection) -> Drift:
    """Compare the counters of open jobs with their chunks, and of those being finished with their list."""
    return Drift(**(await connection.execute(_DRIFT)).mappings().one())
