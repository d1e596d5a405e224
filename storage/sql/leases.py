"""Leases in SQL: who holds what, which have run out, and how to take one back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection, rows_as, statement

LEASE_EXPIRED: Final = "lease_expired"
TAKEN_BACK: Final = "taken_back"
"""What `chunk.last_error` says beside the names of errors."""
LEASE_SECONDS: Final = 60.0
"""How long a lease lasts that nobody renews."""


class LeaseLostError(Exception):
    """Another process holds the work now, or nobody may do it any more: what was done is thrown away."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A chunk or a step (intake, finish) that a worker holds.

    Attributes:
        n: of the chunk; None for a step.
        what: the chunk's throttle key, or the job's state.
        held_s: seconds since it was claimed, None when an older release claimed it.
        left_s: seconds until it ends; negative when it has run out.
    """

    token: UUID
    job_id: UUID
    job_name: str
    account: str
    n: int | None
    what: str
    addresses: int
    attempt: int
    owner: str
    held_s: float | None
    left_s: float


@dataclass(frozen=True, slots=True)
class TroubledChunk:
    """A chunk that was tried more than twice, or is a half of one.

    Attributes:
        state: ready, leased, done or cancelled.
        last_error: what the worker said, LEASE_EXPIRED when it said nothing; "" when it went well then.
        ready_at: when it may be tried again.
    """

    job_id: UUID
    job_name: str
    account: str
    n: int
    state: str
    throttle_key: str
    attempt: int
    addresses: int
    last_error: str
    ready_at: datetime
    owner: str | None


# Counted in a shard of its own: a commit that holds another one may wait for a chunk that is locked here.
_FREE_EXPIRED = text("""
    WITH freed AS (
        UPDATE chunk SET state = 'ready', ready_at = least(ready_at, clock_timestamp()), waits_for = '',
            lease_token = NULL, lease_owner = NULL, lease_until = NULL, last_error = :error
        WHERE (job_id, n) IN (
            SELECT job_id, n FROM chunk
            WHERE state = 'leased' AND lease_until < clock_timestamp() FOR UPDATE SKIP LOCKED)
        RETURNING n
    ), recorded AS (
        INSERT INTO throughput AS t (minute, shard, leases_expired)
        SELECT date_trunc('minute', clock_timestamp()), -1, count(*) FROM freed HAVING count(*) > 0
        ON CONFLICT (minute, shard) DO UPDATE SET leases_expired = t.leases_expired + excluded.leases_expired
    )
    SELECT count(*) FROM freed
""")

_LEASED = statement("""
    SELECT * FROM (
        SELECT c.lease_token AS token, c.job_id, j.name AS job_name, a.name AS account, c.n, c.lane AS what,
            c.addresses, c.attempt, c.lease_owner AS owner,
            extract(epoch FROM clock_timestamp() - c.leased_at)::float8 AS held_s,
            extract(epoch FROM c.lease_until - clock_timestamp())::float8 AS left_s
        FROM chunk c JOIN job j ON j.id = c.job_id JOIN account a ON a.id = j.account_id
        WHERE c.state = 'leased' AND (CAST(:job_id AS uuid) IS NULL OR c.job_id = :job_id)
        UNION ALL
        SELECT j.step_token, j.id, j.name, a.name, NULL, j.state, j.addresses, j.step_attempt, j.step_owner,
            extract(epoch FROM clock_timestamp() - j.step_at)::float8,
            extract(epoch FROM j.step_until - clock_timestamp())::float8
        FROM job j JOIN account a ON a.id = j.account_id
        WHERE j.state IN {step_held} AND j.step_token IS NOT NULL
          AND (CAST(:job_id AS uuid) IS NULL OR j.id = :job_id)
    ) held ORDER BY left_s, token LIMIT :limit
""")

# The fence does the rest: who still works on it finds the token gone.
_TAKE_CHUNK = text("""
    UPDATE chunk SET state = 'ready', ready_at = least(ready_at, clock_timestamp()), waits_for = '',
        lease_token = NULL, lease_owner = NULL, lease_until = NULL, last_error = :error
    WHERE state = 'leased' AND lease_token = ANY(:tokens)
    RETURNING job_id, n
""")
_TAKE_STEP = statement("""
    UPDATE job SET step_token = NULL, step_owner = NULL, step_until = NULL
    WHERE state IN {step_held} AND step_token = ANY(:tokens)
    RETURNING id AS job_id, CAST(NULL AS integer) AS n
""")

# What waits for a reason goes on waiting: nobody knows how much of that is the clock's.
_UNLOCK_READY = statement("""
    UPDATE chunk SET ready_at = clock_timestamp()
    WHERE (job_id, n) IN (
        SELECT c.job_id, c.n FROM job j JOIN chunk c ON c.job_id = j.id
        WHERE j.state IN {claimable} AND c.state = 'ready' AND c.waits_for = ''
          AND c.ready_at > clock_timestamp() FOR UPDATE OF c SKIP LOCKED)
""")
_SHORTEN_CHUNKS = text("""
    UPDATE chunk SET lease_until = clock_timestamp() + make_interval(secs => :lease)
    WHERE (job_id, n) IN (
        SELECT job_id, n FROM chunk
        WHERE state = 'leased' AND lease_until > clock_timestamp() + make_interval(secs => :lease)
        FOR UPDATE SKIP LOCKED)
""")
_SHORTEN_STEPS = statement("""
    UPDATE job SET step_until = clock_timestamp() + make_interval(secs => :lease)
    WHERE id IN (
        SELECT id FROM job
        WHERE state IN {step_due} AND step_until > clock_timestamp() + make_interval(secs => :lease)
        FOR UPDATE SKIP LOCKED)
""")

_EXPIRED_TOKENS = statement("""
    SELECT lease_token FROM chunk WHERE state = 'leased' AND lease_until < clock_timestamp()
    UNION ALL
    SELECT step_token FROM job
    WHERE state IN {step_held} AND step_until < clock_timestamp() AND step_token IS NOT NULL
""")

_TROUBLED = statement("""
    SELECT c.job_id, j.name AS job_name, a.name AS account, c.n, c.state, c.lane AS throttle_key,
        c.attempt, c.addresses, c.last_error, c.ready_at, c.lease_owner AS owner
    FROM chunk c JOIN job j ON j.id = c.job_id JOIN account a ON a.id = j.account_id
    WHERE c.attempt > 2 AND (CAST(:job_id AS uuid) IS NULL OR c.job_id = :job_id)
    ORDER BY c.state IN {open_chunk} DESC, c.ready_at DESC, c.job_id, c.n LIMIT :limit
""")

_COUNT_TROUBLED = statement("SELECT count(*) FROM chunk WHERE attempt > 2 AND state IN {open_chunk}")

_FRESH = text("""
    UPDATE chunk SET attempt = 0, ready_at = clock_timestamp(), waits_for = ''
    WHERE job_id = :job_id AND n = :n AND state = 'ready'
""")


async def free_expired(connection: Connection) -> int:
    """Make the chunks of dead workers ready again; returns how many."""
    return int((await connection.execute(_FREE_EXPIRED, {"error": LEASE_EXPIRED})).scalar_one())


async def follow_clock(connection: Connection) -> None:
    """After the clock was set back: what was ready is ready, and a lease ends when it would from now on."""
    await connection.execute(_UNLOCK_READY)
    for shorten in (_SHORTEN_CHUNKS, _SHORTEN_STEPS):
        await connection.execute(shorten, {"lease": LEASE_SECONDS})


async def held(connection: Connection, *, limit: int, job_id: UUID | None = None) -> list[Lease]:
    """Return the leases of chunks and steps (of one job, or of all), those that end first come first."""
    return await rows_as(Lease, connection, _LEASED, {"limit": limit, "job_id": job_id})


async def expired(connection: Connection) -> list[UUID]:
    """Return the tokens of the leases that have run out and were not freed yet."""
    return list((await connection.execute(_EXPIRED_TOKENS)).scalars())


async def take_back(connection: Connection, tokens: Sequence[UUID]) -> list[tuple[UUID, int | None]]:
    """End these leases now, so that the next claim takes the work.

    Returns:
        The job and the number of the chunk (None for a step) of every lease that was still held.
    """
    values = {"tokens": list(tokens), "error": TAKEN_BACK}
    taken = [*await connection.execute(_TAKE_CHUNK, values), *await connection.execute(_TAKE_STEP, values)]
    return [(row.job_id, row.n) for row in taken]


async def troubled(connection: Connection, *, limit: int, job_id: UUID | None = None) -> list[TroubledChunk]:
    """Return chunks that were tried more than twice (of one job, or of all), open ones first."""
    return await rows_as(TroubledChunk, connection, _TROUBLED, {"limit": limit, "job_id": job_id})


async def count_troubled(connection: Connection) -> int:
    """Return how many open chunks were tried more than twice."""
    return int((await connection.execute(_COUNT_TROUBLED)).scalar_one())


async def start_afresh(connection: Connection, job_id: UUID, n: int) -> bool:
    """Let a chunk that waits be tried again now, with all its attempts; False when it does not wait."""
    return (await connection.execute(_FRESH, {"job_id": job_id, "n": n})).rowcount == 1
