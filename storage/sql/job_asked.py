"""What a job asked of each provider since it last stopped there, in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy import text

from mailsift.pipeline.stop import AskedCounts, StopRule, ThrottleKey
from mailsift.storage.database import Connection

_COUNT = text("""
    INSERT INTO job_asked AS a (job_id, provider, source, asked, missing)
    VALUES (:job_id, :provider, :source, :asked, :missing)
    ON CONFLICT (job_id, provider, source) DO UPDATE
        SET asked = a.asked + excluded.asked, missing = a.missing + excluded.missing
    RETURNING asked, missing
""")
_STOP = text("""
    UPDATE job_asked SET asked = 0, missing = 0, stops = stops + 1,
        stopped_until = clock_timestamp() + make_interval(secs => :seconds)
    WHERE job_id = :job_id AND provider = :provider AND source = :source
""")
_STOPPED = text("""
    SELECT provider, max(extract(epoch FROM stopped_until - clock_timestamp()))::float8 AS seconds
    FROM job_asked WHERE job_id = :job_id AND stopped_until > clock_timestamp() GROUP BY provider
""")
_EVER = text("SELECT DISTINCT provider FROM job_asked WHERE job_id = :job_id AND stops > 0")


async def count(
    connection: Connection, job_id: UUID, asked: Mapping[ThrottleKey, AskedCounts], rule: StopRule
) -> list[ThrottleKey]:
    """Add to what a job asked; returns where it stops with this, and begins to count anew."""
    stopped = []
    for place in sorted(asked):
        values = {"job_id": job_id, **place._asdict()}
        row = (await connection.execute(_COUNT, values | asked[place]._asdict())).one()
        if rule.stops(AskedCounts(row.asked, row.missing)):
            await connection.execute(_STOP, values | {"seconds": rule.seconds})
            stopped.append(place)
    return stopped


async def stopped(connection: Connection, job_id: UUID) -> dict[str, float]:
    """Return the providers that the job leaves alone now, and for how many more seconds."""
    found = await connection.execute(_STOPPED, {"job_id": job_id})
    return {row.provider: row.seconds for row in found}


async def ever_stopped(connection: Connection, job_id: UUID) -> frozenset[str]:
    """Return the providers where the job has stopped."""
    return frozenset((await connection.execute(_EVER, {"job_id": job_id})).scalars())
