"""What was done, minute by minute: counted by the commits themselves, read by operators."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import text

from storage.database import Connection

_SHARDS: Final = 8

# The job's counters and what was done in this minute, in one statement.
COUNT_CHUNK: Final = text("""
    WITH counted AS (
        UPDATE job SET processed = processed + :processed, valid = valid + :valid,
            invalid = invalid + :invalid, risky = risky + :risky, chunks = chunks + :added,
            chunks_open = chunks_open - 1 + :added, warning = coalesce(nullif(:warning, ''), warning)
        WHERE id = :job_id AND state IN ('queued', 'running', 'paused')
        RETURNING chunks - :added AS first_free, chunks_open
    ), told AS (
        INSERT INTO throughput AS t (minute, shard, chunks, addresses, valid, invalid, risky)
        SELECT date_trunc('minute', clock_timestamp()), :shard, 1, :addresses, :valid, :invalid, :risky
        FROM counted
        ON CONFLICT (minute, shard) DO UPDATE SET chunks = t.chunks + 1,
            addresses = t.addresses + excluded.addresses, valid = t.valid + excluded.valid,
            invalid = t.invalid + excluded.invalid, risky = t.risky + excluded.risky
    )
    SELECT first_free, chunks_open FROM counted
""")


@dataclass(frozen=True, slots=True)
class Minute:
    """What was done in one minute; the verdicts count rows."""

    minute: datetime
    chunks: int
    addresses: int
    valid: int
    invalid: int
    risky: int
    leases_expired: int


# Minutes in which nothing was done are there too.
_LAST = text("""
    SELECT m.minute, coalesce(sum(t.chunks), 0)::bigint AS chunks,
        coalesce(sum(t.addresses), 0)::bigint AS addresses, coalesce(sum(t.valid), 0)::bigint AS valid,
        coalesce(sum(t.invalid), 0)::bigint AS invalid, coalesce(sum(t.risky), 0)::bigint AS risky,
        coalesce(sum(t.leases_expired), 0)::bigint AS leases_expired
    FROM generate_series(date_trunc('minute', clock_timestamp()) - make_interval(mins => :minutes - 1),
                         date_trunc('minute', clock_timestamp()), interval '1 minute') AS m(minute)
    LEFT JOIN throughput t ON t.minute = m.minute
    GROUP BY m.minute ORDER BY m.minute
""")

# A table of at most two days: the day in UTC is in it.
_TODAY = text("""
    SELECT coalesce(sum(valid), 0)::bigint AS valid, coalesce(sum(invalid), 0)::bigint AS invalid,
        coalesce(sum(risky), 0)::bigint AS risky
    FROM throughput WHERE minute >= date_trunc('day', clock_timestamp(), 'UTC')
""")

# The minute that runs counts for as much of it as is over.
_RATE = text("""
    SELECT coalesce(sum(addresses), 0) / greatest(extract(epoch FROM clock_timestamp()
        - (date_trunc('minute', clock_timestamp()) - make_interval(mins => :minutes))), 1)
    FROM throughput
    WHERE minute >= date_trunc('minute', clock_timestamp()) - make_interval(mins => :minutes)
""")

_PURGE = text("DELETE FROM throughput WHERE minute < clock_timestamp() - interval '2 days'")


def shard(job_id: UUID) -> int:
    """Return the shard a job's commits count in: those of one job wait for each other anyway."""
    return job_id.int % _SHARDS


async def last(connection: Connection, *, minutes: int) -> list[Minute]:
    """Return the last minutes, the oldest first and the one that runs last."""
    return [Minute(**row) for row in (await connection.execute(_LAST, {"minutes": minutes})).mappings()]


async def rate(connection: Connection, *, minutes: int) -> float:
    """Return the addresses a second that got a verdict in this minute and the `minutes` before it."""
    return float((await connection.execute(_RATE, {"minutes": minutes})).scalar_one())


async def today(connection: Connection) -> tuple[int, int, int]:
    """Return the rows that got a verdict since midnight UTC: valid, invalid, risky."""
    row = (await connection.execute(_TODAY)).one()
    return row.valid, row.invalid, row.risky


async def purge(connection: Connection) -> None:
    """Forget what is older than two days."""
    await connection.execute(_PURGE)
