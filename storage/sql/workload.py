"""What is to be done, and how it gets on: by what the time left is told (mailsift.jobs.forecasts)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from sqlalchemy import text

from mailsift.pipeline.facts import WaitReason
from mailsift.storage.database import Connection, Row, rows_as, statement
from mailsift.storage.sql.chunks import TRIAGE_KEY

_RATE_MINUTES: Final = 5
"""How far back the rate of the installation looks."""
BYTES_AN_ADDRESS: Final = 30
"""What an address takes of a list that nobody has read: with a few other columns."""
_LATER: Final = [WaitReason.GREYLISTED.value, WaitReason.DEFERRED.value]
"""Why addresses wait whom a mail server has put off."""
_LEFT_BY: Final = "/residual/([0-9]+)-"
"""The number of the chunk that left a blob over is in its name (storage.blobs.store.JobBlobs.deferred)."""
_PROGRESS_WINDOW: Final = 120.0
"""How many seconds back the measured rate of one job looks."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """Addresses of a job that wait for one throttle key and may go on in `ready_s` seconds (0 = now).

    Attributes:
        domains: at how many they are; each is asked for a random recipient, too.
        tries: how often in a row mail servers have put them off.
        in_hand: recipients among these that workers are asking for.
        in_hand_s: for how many seconds, all workers together.
    """

    job_id: UUID
    account_id: UUID
    throttle_key: str
    small: bool
    addresses: int
    ready_s: float
    domains: int = 0
    tries: int = 0
    in_hand: int = 0
    in_hand_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Queues:
    """What every job waits for.

    Attributes:
        rows: of all jobs that may be worked on.
        unread_bytes: of lists that nobody has read, by mode; of a preview's, what its sample takes.
        slots: how many chunks can be worked on at a time; 0: no worker is there.
        rate: addresses a second that got a verdict in the last minutes, everywhere.
    """

    rows: Sequence[QueueRow] = ()
    unread_bytes: Mapping[str, int] = field(default_factory=dict)
    slots: int = 0
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class ProgressRow:
    """How a job got on with one throttle key.

    Attributes:
        worked: addresses in its chunks that are done.
        from_triage: addresses that triage found to be this key's.
        domains: at how many these are.
        recent: addresses that left the key in the last `recent_s` seconds, _PROGRESS_WINDOW at most.
        named, named_ahead: addresses at free-mail domains of this provider, in chunks that triage is done
            with and in those it is not.
    """

    throttle_key: str
    worked: int
    from_triage: int
    recent: int
    recent_s: float
    named: int = 0
    named_ahead: int = 0
    domains: int = 0


# The minute that runs counts for as much of it as is over.
_RATE = text("""
    SELECT coalesce(sum(addresses), 0) / greatest(extract(epoch FROM clock_timestamp()
        - (date_trunc('minute', clock_timestamp()) - make_interval(mins => :minutes))), 1)
    FROM throughput
    WHERE minute >= date_trunc('minute', clock_timestamp()) - make_interval(mins => :minutes)
""")

# In steps of half a minute: greylisting and "later" have their times, and so has what a worker that is gone
# holds: the end of its lease. Such a worker has no slots.
_QUEUES = statement("""
    WITH {open_chunks}, heard AS (
        SELECT owner FROM worker WHERE {heard_of}
    ), timed AS (
        SELECT c.job_id, j.account_id, c.lane, j.small, c.addresses, c.domains,
            CASE WHEN c.waits_for = ANY(:later) THEN (
                WITH RECURSIVE wait AS (
                    SELECT c.source_key, 1 AS tries
                    UNION ALL
                    SELECT before.source_key, wait.tries + 1 FROM wait JOIN chunk before
                        ON before.job_id = c.job_id AND before.waits_for = ANY(:later)
                        AND before.n = substring(wait.source_key from CAST(:left_by AS text))::int
                )
                SELECT max(tries) FROM wait
            ) ELSE 0 END AS tries,
            greatest(0, extract(epoch FROM CASE
                WHEN c.state = 'ready' THEN c.ready_at WHEN h.owner IS NULL THEN c.lease_until
                END - clock_timestamp()))::float8 AS ready_s,
            CASE WHEN h.owner IS NULL THEN 0 ELSE c.addresses + c.domains END AS in_hand,
            CASE WHEN h.owner IS NULL THEN 0
                ELSE greatest(0, extract(epoch FROM clock_timestamp() - c.leased_at)) END AS in_hand_s
        FROM open_chunk c JOIN job j ON j.id = c.job_id
            LEFT JOIN heard h ON c.state = 'leased' AND h.owner = c.lease_owner
        WHERE j.state IN {claimable} AND (CAST(:job_id AS uuid) IS NULL OR c.job_id = :job_id)
    )
    SELECT job_id, account_id, lane AS throttle_key, small, sum(addresses)::bigint AS addresses,
        max(ready_s) AS ready_s, sum(domains)::bigint AS domains, tries, sum(in_hand)::bigint AS in_hand,
        sum(in_hand_s)::float8 AS in_hand_s
    FROM timed GROUP BY job_id, account_id, lane, small, tries, ceil(ready_s / 30)
""")

_IN_LINE = text("SELECT id, state, options, started_at, deadline_at FROM job WHERE id = ANY(:job_ids)")

_UNREAD = statement("""
    SELECT options->>'mode',
        sum(least(source_bytes, nullif((options->>'preview')::bigint, 0) * :each))::bigint
    FROM job WHERE state IN {take_in} GROUP BY 1
""")

_SLOTS = statement("SELECT coalesce(sum(slots), 0)::bigint FROM worker WHERE {live_worker}")

# Addresses that went back to the key they came from did not get on.
_PROGRESS = text("""
    WITH mine AS (
        SELECT n, lane, state = 'done' AS done, addresses, domains, leased_at, free_mail,
            substring(source_key from CAST(:left_by AS text))::int AS parent
        FROM chunk WHERE job_id = :job_id
    ), recent AS (
        SELECT lane, sum(addresses)::bigint AS addresses,
            extract(epoch FROM clock_timestamp() - min(leased_at))::float8 AS seconds
        FROM mine WHERE done AND leased_at > clock_timestamp() - make_interval(secs => :window)
        GROUP BY lane
    ), came_from AS (
        SELECT m.lane, sum(m.addresses) FILTER (WHERE p.lane = :triage)::bigint AS triage,
            sum(m.domains) FILTER (WHERE p.lane = :triage)::bigint AS domains,
            sum(m.addresses) FILTER (WHERE p.lane = m.lane
                AND p.leased_at > clock_timestamp() - make_interval(secs => :window))::bigint AS back
        FROM mine m JOIN mine p ON p.n = m.parent GROUP BY m.lane
    ), worked AS (
        SELECT lane, sum(addresses)::bigint AS addresses FROM mine WHERE done GROUP BY lane
    ), named AS (
        SELECT provider AS lane, coalesce(sum(count::bigint) FILTER (WHERE done), 0)::bigint AS seen,
            coalesce(sum(count::bigint) FILTER (WHERE NOT done), 0)::bigint AS ahead
        FROM mine CROSS JOIN LATERAL jsonb_each_text(free_mail) AS f(provider, count) GROUP BY provider
    )
    SELECT lane AS throttle_key, coalesce(w.addresses, 0) AS worked, coalesce(c.triage, 0) AS from_triage,
        greatest(0, coalesce(r.addresses, 0) - coalesce(c.back, 0)) AS recent,
        coalesce(r.seconds, 0) AS recent_s, coalesce(f.seen, 0) AS named, coalesce(f.ahead, 0) AS named_ahead,
        coalesce(c.domains, 0) AS domains
    FROM worked w FULL JOIN came_from c USING (lane) FULL JOIN recent r USING (lane)
        FULL JOIN named f USING (lane)
""")


async def rate(connection: Connection) -> float:
    """Return how many addresses a second got a verdict in the last minutes, everywhere."""
    return float((await connection.execute(_RATE, {"minutes": _RATE_MINUTES})).scalar_one())


async def queues(connection: Connection) -> Queues:
    """Return what all jobs wait for, for the time they will take."""
    slots = await connection.execute(_SLOTS)
    unread = await connection.execute(_UNREAD, {"each": BYTES_AN_ADDRESS})
    return Queues(
        rows=await queue_rows(connection),
        unread_bytes={mode: size or 0 for mode, size in unread},
        slots=slots.scalar_one(),
        rate=await rate(connection),
    )


async def queue_rows(connection: Connection, job_id: UUID | None = None) -> list[QueueRow]:
    """Return what a job waits for, or what all of them do."""
    return await rows_as(
        QueueRow, connection, _QUEUES, {"job_id": job_id, "later": _LATER, "left_by": _LEFT_BY}
    )


async def jobs_in_line(connection: Connection, job_ids: Sequence[UUID]) -> Sequence[Row]:
    """Return what a forecast needs of these jobs: id, state, options, started_at, deadline_at."""
    return list((await connection.execute(_IN_LINE, {"job_ids": list(job_ids)})).mappings())


async def progress(connection: Connection, job_id: UUID) -> Sequence[ProgressRow]:
    """Return how a job got on, by throttle key."""
    values = {
        "job_id": job_id,
        "window": _PROGRESS_WINDOW,
        "triage": TRIAGE_KEY,
        "left_by": _LEFT_BY,
    }
    return await rows_as(ProgressRow, connection, _PROGRESS, values)
