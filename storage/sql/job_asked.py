"""What a job asked of each provider since it last stopped there, in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy import text

from mailsift.pipeline.throttle import AskedBefore, AskedCounts, ListStop, StopRule, ThrottleKey
from mailsift.storage.database import Connection

_COUNT = text("""
    INSERT INTO job_asked AS a (job_id, provider, source, asked, missing)
    VALUES (:job_id, :provider, :source, :asked, :missing)
    ON CONFLICT (job_id, provider, source) DO UPDATE
        SET asked = a.asked + excluded.asked, missing = a.missing + excluded.missing
        WHERE a.stops = :stops
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
_BEFORE = text("""
    SELECT provider, source, asked, missing, stops,
        greatest(0, coalesce(extract(epoch FROM stopped_until - clock_timestamp()), 0))::float8 AS seconds
    FROM job_asked
    WHERE job_id = :job_id AND (provider = :provider OR :provider = '') AND (stops > 0 OR asked >= :worth)
""")
_WORTH = 0.5  # of the recipients after which a list may stop: where it asked fewer need not be known


async def before(connection: Connection, job_id: UUID, rule: StopRule, *, provider: str = "") -> ListStop:
    """Return what is known of a job where it may stop soon, or has; at one provider, or at all."""
    values = {"job_id": job_id, "provider": provider, "worth": _WORTH * rule.least}
    found = {}
    for row in await connection.execute(_BEFORE, values):
        counts = AskedCounts(row.asked, row.missing)
        found[ThrottleKey(row.provider, row.source)] = AskedBefore(counts, row.stops, row.seconds)
    return ListStop(str(job_id), rule, found)


async def count(
    connection: Connection, job_id: UUID, asked: Mapping[ThrottleKey, AskedCounts], stop: ListStop
) -> list[ThrottleKey]:
    """Add to what a job asked; returns where it stops with this, and begins to count anew.

    What was asked before a stop belongs to that one, whenever it is told.
    """
    stopped = []
    for place in sorted(asked):
        values = {"job_id": job_id, **place._asdict(), "stops": stop.stops(place)}
        row = (await connection.execute(_COUNT, values | asked[place]._asdict())).one_or_none()
        if row is not None and stop.rule.stops(AskedCounts(row.asked, row.missing)):
            await connection.execute(_STOP, values | {"seconds": stop.rule.seconds})
            stopped.append(place)
    return stopped


async def stopped(connection: Connection, job_id: UUID) -> dict[str, float]:
    """Return the providers that the job leaves alone now, and for how many more seconds."""
    found = await connection.execute(_STOPPED, {"job_id": job_id})
    return {row.provider: row.seconds for row in found}
