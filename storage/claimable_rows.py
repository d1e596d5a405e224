"""How much work waits for a worker, as far as a sweeper wants to know."""

from __future__ import annotations

from sqlalchemy import text

from storage.database import Connection

# Not quite what a claim would find: a lane that is being served counts here. A wake-up too many is harmless.
_CLAIMABLE = text("""
    SELECT count(*) FROM (
        (SELECT FROM job
         WHERE state IN ('uploading', 'intake', 'finalizing')
           AND (step_token IS NULL OR step_until < clock_timestamp()) LIMIT :most)
        UNION ALL
        (SELECT FROM job j JOIN chunk c ON c.job_id = j.id
         WHERE j.state IN ('queued', 'running') AND c.state = 'ready' AND c.ready_at <= clock_timestamp()
         LIMIT :most)
    ) waiting
""")


async def claimable(connection: Connection, *, most: int) -> int:
    """Return how many steps and chunks wait for a worker now, counting no further than `most`."""
    return min(most, int((await connection.execute(_CLAIMABLE, {"most": most})).scalar_one()))
