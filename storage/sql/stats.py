"""How work stands, in numbers: read when somebody looks, never stored.

`snapshot` is what metrics, alarms, operators' pages and terminal have in common: a figure is asked for once,
and all of them show the same. After it come the lists that some page shows beside it; then what is to be done
and how it gets on, by which the time left is told (mailsift.jobs.forecasts); then the course of one job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import text

from mailsift.pipeline.facts import WaitReason
from mailsift.storage.database import Connection, Row, rows_as, statement
from mailsift.storage.sql import chunks, throttles, workers
from mailsift.storage.sql.chunks import JOB_CAP, MIXED_KEY, SHARED_KEYS, SLOW_KEY, TRIAGE_KEY
from mailsift.storage.sql.jobs import SMALL_BYTES
from mailsift.storage.sql.outbox import count_failing
from mailsift.storage.sql.schedules import waits_for_run as schedule_waits
from mailsift.storage.sql.workers import ACTIVE, Worker

CHUNK_STATES: Final = ("ready", "waiting", "leased", "paused")
"""Of chunks that are not done; `waiting` is ready later, `paused` belongs to a paused job."""
KEY_CLASSES: Final = ("survey", "mixed", "slow", "provider")
OUTBOX_STATES: Final = ("due", "queued", "waiting", "held")
"""Of deliveries that are not over; `queued` stands behind another one to the same endpoint, `waiting` is
tried again later, `held` is for an endpoint that is left alone or waits for its rate."""
ENDPOINT_STATES: Final = ("healthy", "failing", "disabled")
MINUTES: Final = 61
"""Of a snapshot: an hour, and the minute that runs."""


@dataclass(frozen=True, slots=True)
class ChunkLevel:
    """Chunks with one kind of throttle key in one state.

    Attributes:
        state: one of CHUNK_STATES.
        key_class: one of KEY_CLASSES.
        chunks, addresses: how many.
        oldest_s: seconds the oldest has been ready; 0 where none is.
        claimable_s: the same of those that a claim would not pass over.
    """

    state: str
    key_class: str
    chunks: int
    addresses: int
    oldest_s: float = 0.0
    claimable_s: float = 0.0


@dataclass(frozen=True, slots=True)
class OutboxLevel:
    """Deliveries in one of OUTBOX_STATES, and for how many seconds one of them could have been sent."""

    state: str
    deliveries: int
    oldest_s: float


@dataclass(frozen=True, slots=True)
class Outbox:
    """Deliveries of all accounts.

    Attributes:
        levels: those that wait, by state.
        delivering: those on their way.
        exhausted, succeeded: of the last 24 hours; tests do not count.
    """

    levels: Sequence[OutboxLevel] = ()
    delivering: int = 0
    exhausted: int = 0
    succeeded: int = 0

    @property
    def pending(self) -> int:
        """How many wait, for whatever reason."""
        return sum(level.deliveries for level in self.levels)

    @property
    def due(self) -> int:
        """How many could be sent now, one after the other to each endpoint."""
        return sum(level.deliveries for level in self._due)

    @property
    def oldest_due_s(self) -> float:
        """For how many seconds one of these could have been sent."""
        return max((level.oldest_s for level in self._due), default=0.0)

    @property
    def _due(self) -> list[OutboxLevel]:
        return [level for level in self.levels if level.state in {"due", "queued"}]


@dataclass(frozen=True, slots=True)
class CounterDrift:
    """A job whose counters differ from what they count, and by how much; this must not happen."""

    job_id: UUID
    chunks: int
    chunks_open: int
    rows: int


@dataclass(frozen=True, slots=True)
class Interval:
    """What was done in an interval that began `at`; the verdicts count rows."""

    at: datetime
    chunks: int
    addresses: int
    valid: int
    invalid: int
    risky: int
    leases_expired: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What the database says of the whole installation at one moment.

    Attributes:
        jobs: how many are in each state.
        oldest_jobs: age in seconds of the oldest job that nobody has begun, of `small` and of `large` lists.
        steps: lists to take in and jobs to finish that nobody works on.
        chunks: those that are not done.
        waits: addresses that wait, by why they do (WaitReason).
        failing_chunks: open chunks that were tried more than twice.
        drift: jobs whose counters are wrong.
        outbox: webhook deliveries.
        endpoints: how many are in each of ENDPOINT_STATES, without those of test accounts.
        failing_lately: webhooks that began to fail within the last hour.
        failing_mail: mails of our own that are tried again and again while none goes out.
        late_schedules: by how many seconds each one that is late is so.
        held_sources: why nothing is asked from these sources, as far as somebody said.
        workers: every process that did not say goodbye.
        minutes: the last ones, the oldest first and the one that runs last.
        rate: addresses a second that got a verdict in the last minutes.
        today: rows that got a verdict since the day began: valid, invalid, risky.
    """

    jobs: Mapping[str, int] = field(default_factory=dict)
    oldest_jobs: Mapping[str, float] = field(default_factory=dict)
    steps: int = 0
    chunks: Sequence[ChunkLevel] = ()
    waits: Mapping[str, int] = field(default_factory=dict)
    failing_chunks: int = 0
    drift: Sequence[CounterDrift] = ()
    outbox: Outbox = field(default_factory=Outbox)
    endpoints: Mapping[str, int] = field(default_factory=dict)
    failing_lately: int = 0
    failing_mail: int = 0
    late_schedules: Sequence[float] = ()
    held_sources: Mapping[str, str] = field(default_factory=dict)
    workers: Sequence[Worker] = ()
    minutes: Sequence[Interval] = ()
    rate: float = 0.0
    today: tuple[int, int, int] = (0, 0, 0)

    def addresses(self, *states: str) -> int:
        """Return the addresses in chunks of these states."""
        return sum(level.addresses for level in self.chunks if level.state in states)

    def chunk_count(self, *states: str) -> int:
        """Return how many chunks are in these states."""
        return sum(level.chunks for level in self.chunks if level.state in states)

    @property
    def backlog(self) -> int:
        """Addresses without a verdict, but for those of jobs that are paused."""
        return self.addresses("ready", "waiting", "leased")

    @property
    def oldest_ready_s(self) -> float:
        """For how many seconds the oldest chunk has been ready; 0 when none is."""
        return max((level.oldest_s for level in self.chunks if level.state == "ready"), default=0.0)

    @property
    def oldest_claimable_s(self) -> float:
        """The same of those that a claim would not pass over."""
        return max((level.claimable_s for level in self.chunks if level.state == "ready"), default=0.0)

    @property
    def live(self) -> list[Worker]:
        """The processes that are heard of and may claim; a sweeper does not."""
        return [worker for worker in self.workers if worker.state == ACTIVE and worker.slots]

    @property
    def slots(self) -> int:
        """How many chunks can be worked on at a time."""
        return sum(worker.slots for worker in self.live)

    @property
    def free_slots(self) -> int:
        """How many more chunks could be claimed now."""
        return sum(max(0, worker.slots - worker.in_hand) for worker in self.live)

    @property
    def ordinary_slots(self) -> int:
        """How many of these a large list may have: each process keeps one for small ones."""
        return sum(max(0, worker.slots - 1 - worker.in_hand) for worker in self.live)


_JOBS = text("SELECT state, count(*) AS jobs FROM job GROUP BY state")

# How large a list is that is still to be fetched from its place, nobody knows.
_OLDEST_JOBS = statement("""
    SELECT CASE WHEN source_bytes BETWEEN 1 AND :small_bytes THEN 'small' ELSE 'large' END AS size,
        max(extract(epoch FROM clock_timestamp() - created_at))::float8 AS oldest_s
    FROM job WHERE state IN {unstarted} AND started_at IS NULL GROUP BY 1
""")

_STEPS = statement("""
    SELECT count(*) FROM job WHERE state IN {step_due} AND step_token IS NULL
""")

# What a claim would pass over is not claimable: keys that are being served or may be asked from no source
# now, and jobs that have as many leases as one job may have.
_CHUNKS = statement("""
    WITH {open_chunks}, live AS (
        SELECT DISTINCT unnest(sources) AS source FROM worker WHERE {live_worker}
    ), busy AS (
        SELECT lane FROM chunk WHERE state = 'leased' AND lane <> ALL(:shared_keys)
        UNION
        SELECT r.provider FROM source_rest r JOIN live ON live.source = r.source
        WHERE r.rests_until > clock_timestamp() GROUP BY r.provider
        HAVING count(*) = (SELECT count(*) FROM live)
    ), full_up AS (
        SELECT job_id FROM chunk WHERE state = 'leased' GROUP BY job_id HAVING count(*) >= :job_cap
    ), levels AS (
        SELECT c.addresses, c.lane, busy.lane IS NULL AND full_up.job_id IS NULL AS claimable,
            extract(epoch FROM clock_timestamp() - c.ready_at)::float8 AS age_s,
            CASE WHEN c.state = 'leased' THEN 'leased' WHEN j.state = 'paused' THEN 'paused'
                 WHEN c.ready_at > clock_timestamp() THEN 'waiting' ELSE 'ready' END AS state
        FROM open_chunk c JOIN job j ON j.id = c.job_id
            LEFT JOIN busy ON busy.lane = c.lane LEFT JOIN full_up ON full_up.job_id = c.job_id
        WHERE j.state IN {worked}
    )
    SELECT state,
        CASE lane WHEN :survey THEN 'survey' WHEN :mixed THEN 'mixed' WHEN :slow THEN 'slow'
             ELSE 'provider' END AS key_class,
        count(*) AS chunks, sum(addresses)::bigint AS addresses,
        coalesce(max(age_s) FILTER (WHERE state = 'ready'), 0) AS oldest_s,
        coalesce(max(age_s) FILTER (WHERE state = 'ready' AND claimable), 0) AS claimable_s
    FROM levels GROUP BY 1, 2
""")

# One statement sees one moment: a chunk is closed and its job is counted up in one transaction.
_DRIFT = statement("""
    SELECT * FROM (
        SELECT j.id AS job_id, abs(j.chunks - count(c.n)) AS chunks,
            abs(j.chunks_open - count(c.n) FILTER (WHERE c.state IN {open_chunk})) AS chunks_open,
            CASE j.state WHEN 'finalizing' THEN j.total - j.processed ELSE 0 END AS rows
        FROM job j LEFT JOIN chunk c ON c.job_id = j.id
        WHERE j.state IN {unfinished} GROUP BY j.id
    ) open WHERE chunks <> 0 OR chunks_open <> 0 OR rows <> 0
""")

# An endpoint is served one attempt after the other, at its rate: what is behind in that line is not late.
_OUTBOX = text("""
    SELECT state, count(*) AS deliveries, greatest(max(due_s), 0) AS oldest_s FROM (
        SELECT extract(epoch FROM clock_timestamp() - greatest(
                d.next_attempt_at, e.served_at, e.probe_at, e.paced_until))::float8 AS due_s,
            CASE WHEN NOT e.enabled OR greatest(e.probe_at, e.paced_until) > clock_timestamp() THEN 'held'
                 WHEN d.next_attempt_at > clock_timestamp() THEN 'waiting'
                 WHEN EXISTS (SELECT FROM delivery b WHERE b.endpoint_id = e.id AND b.state = 'delivering')
                     THEN 'queued'
                 ELSE 'due' END AS state
        FROM delivery d JOIN endpoint e ON e.id = d.endpoint_id WHERE d.state = 'pending'
    ) pending GROUP BY state
""")

_DELIVERED = text("""
    SELECT (SELECT count(*) FROM delivery WHERE state = 'delivering') AS delivering,
        count(*) FILTER (WHERE state = 'exhausted') AS exhausted,
        count(*) FILTER (WHERE state = 'succeeded') AS succeeded
    FROM delivery WHERE finished_at > clock_timestamp() - interval '1 day' AND trigger <> 'test'
""")

_ENDPOINTS = text("""
    SELECT CASE WHEN NOT enabled THEN 'disabled' WHEN failures > 0 THEN 'failing' ELSE 'healthy' END AS state,
        count(*) AS endpoints,
        count(*) FILTER (WHERE enabled AND failing_since > clock_timestamp() - interval '1 hour') AS lately
    FROM endpoint e JOIN account a ON a.id = e.account_id WHERE a.test_of IS NULL GROUP BY 1
""")

# A slot that may wait for the run before it is late from the end of that on.
_DUE_SCHEDULES: Final = f"""
    SELECT s.*, due, due AND busy AS blocked, CASE WHEN due AND NOT busy
            THEN extract(epoch FROM clock_timestamp() - greatest(s.starts_at, s.next_run_at,
                CASE WHEN s.overlap = 'queue' OR s.catch_up = 'all'
                    THEN (SELECT max(j.finished_at) FROM job j WHERE j.schedule_id = s.id) END)) ELSE 0
        END::float8 AS late_s
    FROM schedule s CROSS JOIN LATERAL (
        SELECT s.enabled AND greatest(s.starts_at, s.next_run_at) <= clock_timestamp() AS due,
            {schedule_waits("clock_timestamp()")} AS busy) d
"""  # noqa: S608 - a condition of storage/sql/schedules.py

_LATE_SCHEDULES = text(f"SELECT late_s FROM ({_DUE_SCHEDULES} WHERE s.enabled) s WHERE due AND NOT blocked")  # noqa: S608 - as above

# A table of some days: the day of every zone is in it.
_TODAY = text("""
    SELECT coalesce(sum(valid), 0)::bigint AS valid, coalesce(sum(invalid), 0)::bigint AS invalid,
        coalesce(sum(risky), 0)::bigint AS risky
    FROM throughput
    WHERE minute >= coalesce(CAST(:today AS timestamptz), date_trunc('day', clock_timestamp(), 'UTC'))
""")


_LIMIT_TIME = text("SELECT set_config('statement_timeout', :ms, true)")


async def limit_time(connection: Connection, seconds: float) -> None:
    """Let no statement of this transaction take longer."""
    await connection.execute(_LIMIT_TIME, {"ms": str(int(seconds * 1000))})


async def snapshot(
    connection: Connection,
    *,
    small_bytes: int = SMALL_BYTES,
    job_cap: int = JOB_CAP,
    today: datetime | None = None,
) -> Snapshot:
    """Ask for everything that metrics, alarms, pages and terminal show.

    Lists of up to `small_bytes` are small, and `job_cap` chunks of one job may be leased at once. Verdicts of
    the day that began at `today` are counted; None = in UTC.
    """
    counted = (await connection.execute(_TODAY, {"today": today})).one()
    oldest = await connection.execute(_OLDEST_JOBS, {"small_bytes": small_bytes})
    endpoints = list(await connection.execute(_ENDPOINTS))
    return Snapshot(
        jobs={row.state: row.jobs for row in await connection.execute(_JOBS)},
        oldest_jobs={row.size: row.oldest_s for row in oldest},
        steps=(await connection.execute(_STEPS)).scalar_one(),
        chunks=await _chunk_levels(connection, job_cap),
        waits={one.reason: one.addresses for one in await waits(connection)},
        failing_chunks=await chunks.count_failing(connection),
        drift=await rows_as(CounterDrift, connection, _DRIFT),
        outbox=await outbox(connection),
        endpoints={row.state: row.endpoints for row in endpoints},
        failing_lately=sum(row.lately for row in endpoints),
        failing_mail=await count_failing(connection),
        late_schedules=list((await connection.execute(_LATE_SCHEDULES)).scalars()),
        held_sources=await throttles.held_sources(connection),
        workers=await workers.known(connection),
        minutes=await throughput(connection, seconds=60, count=MINUTES),
        rate=await rate(connection),
        today=(counted.valid, counted.invalid, counted.risky),
    )


async def _chunk_levels(connection: Connection, job_cap: int) -> list[ChunkLevel]:
    values = {
        "shared_keys": list(SHARED_KEYS),
        "job_cap": job_cap,
        "survey": TRIAGE_KEY,
        "mixed": MIXED_KEY,
        "slow": SLOW_KEY,
    }
    return await rows_as(ChunkLevel, connection, _CHUNKS, values)


async def outbox(connection: Connection) -> Outbox:
    """Return how the deliveries of all accounts stand."""
    levels = await rows_as(OutboxLevel, connection, _OUTBOX)
    return Outbox(levels, **(await connection.execute(_DELIVERED)).mappings().one())


# Intervals of the same length, those in which nothing was done too; the one that runs is the last.
_THROUGHPUT = text("""
    WITH edge AS (
        SELECT date_bin(make_interval(secs => :seconds), clock_timestamp(), 'epoch') AS last
    )
    SELECT s.at, coalesce(t.chunks, 0)::bigint AS chunks, coalesce(t.addresses, 0)::bigint AS addresses,
        coalesce(t.valid, 0)::bigint AS valid, coalesce(t.invalid, 0)::bigint AS invalid,
        coalesce(t.risky, 0)::bigint AS risky, coalesce(t.leases_expired, 0)::bigint AS leases_expired
    FROM edge, generate_series(edge.last - make_interval(secs => :seconds * (:count - 1)), edge.last,
        make_interval(secs => :seconds)) AS s(at)
    LEFT JOIN (
        SELECT date_bin(make_interval(secs => :seconds), minute, 'epoch') AS at, sum(chunks) AS chunks,
            sum(addresses) AS addresses, sum(valid) AS valid, sum(invalid) AS invalid, sum(risky) AS risky,
            sum(leases_expired) AS leases_expired
        FROM throughput, edge WHERE minute >= edge.last - make_interval(secs => :seconds * :count) GROUP BY 1
    ) t ON t.at = s.at
    ORDER BY s.at
""")


async def throughput(connection: Connection, *, seconds: float, count: int) -> Sequence[Interval]:
    """Return what was done in each of so many intervals, the last of which is not over."""
    values = {"seconds": float(seconds), "count": count}
    return await rows_as(Interval, connection, _THROUGHPUT, values)


@dataclass(frozen=True, slots=True)
class KeyBacklog:
    """The open chunks of one throttle key.

    Attributes:
        ready, waiting, leased: addresses by state; those of a paused job wait.
        chunks: open ones.
        waits_for: why most of what waits does, `paused` for its job to be resumed, "" when nothing does.
        until: when the first of it may be tried; None when nothing waits for a time.
        jobs: how many have chunks in it.
        domains: at how many the addresses are; each is asked for a random recipient, too.
    """

    throttle_key: str
    ready: int
    waiting: int
    leased: int
    chunks: int
    waits_for: str
    until: datetime | None
    jobs: int
    domains: int

    @property
    def remaining(self) -> int:
        """Addresses without a verdict."""
        return self.ready + self.waiting + self.leased


_BACKLOGS = statement("""
    WITH {open_chunks}, mine AS (
        SELECT c.*, j.state = 'paused' AS paused,
            c.state = 'ready' AND (j.state = 'paused' OR c.ready_at > clock_timestamp()) AS waits
        FROM open_chunk c JOIN job j ON j.id = c.job_id
        WHERE j.state IN {worked}
          AND (CAST(:job_id AS uuid) IS NULL OR c.job_id = :job_id)
    )
    SELECT lane AS throttle_key, count(*) AS chunks, count(DISTINCT job_id) AS jobs,
        coalesce(sum(addresses) FILTER (WHERE state = 'ready' AND NOT waits), 0)::bigint AS ready,
        coalesce(sum(addresses) FILTER (WHERE waits), 0)::bigint AS waiting,
        coalesce(sum(addresses) FILTER (WHERE state = 'leased'), 0)::bigint AS leased,
        coalesce(mode() WITHIN GROUP (ORDER BY CASE WHEN paused THEN 'paused' ELSE waits_for END)
            FILTER (WHERE waits), '') AS waits_for,
        min(ready_at) FILTER (WHERE waits AND NOT paused) AS until, sum(domains)::bigint AS domains
    FROM mine GROUP BY lane ORDER BY sum(addresses) DESC, lane LIMIT :limit
""")


async def backlogs(
    connection: Connection, *, job_id: UUID | None = None, limit: int = 200
) -> Sequence[KeyBacklog]:
    """Return open chunks by throttle key (of one job, or of all that have not ended), the fullest first."""
    return await rows_as(KeyBacklog, connection, _BACKLOGS, {"job_id": job_id, "limit": limit})


@dataclass(frozen=True, slots=True)
class ObservedWait:
    """Addresses that wait, why, and until when the first of them does."""

    reason: str
    addresses: int
    until: datetime


_WAITS = statement("""
    SELECT c.waits_for AS reason, sum(c.addresses)::bigint AS addresses, min(c.ready_at) AS until
    FROM chunk c JOIN job j ON j.id = c.job_id
    WHERE c.state = 'ready' AND c.waits_for <> '' AND c.ready_at > clock_timestamp() AND j.state IN {worked}
      AND (CAST(:job_id AS uuid) IS NULL OR c.job_id = :job_id)
    GROUP BY c.waits_for ORDER BY until
""")


async def waits(connection: Connection, job_id: UUID | None = None) -> list[ObservedWait]:
    """Return what waits of a job, or of all of them; what goes on first comes first."""
    return await rows_as(ObservedWait, connection, _WAITS, {"job_id": job_id})


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


async def strip(connection: Connection, job_id: UUID, *, cells: int) -> Sequence[ChunkSpan]:
    """Return the job's chunks in their order, cut into at most so many spans of about the same length."""
    return await rows_as(ChunkSpan, connection, _STRIP, {"job_id": job_id, "cells": cells})


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """An endpoint that fails, is disabled, or has something pending or given up.

    Attributes:
        failures: attempts that failed in a row.
        given_up: deliveries that can be replayed (exhausted or skipped).
        probe_at: its breaker is open until then; None = closed.
    """

    id: UUID
    account: str
    url: str
    enabled: bool
    disabled_reason: str
    failures: int
    failing_since: datetime | None
    probe_at: datetime | None
    pending: int
    oldest_pending: datetime | None
    given_up: int


_ENDPOINTS_TO_LOOK_AT = text("""
    SELECT e.id, a.name AS account, e.url, e.enabled, e.disabled_reason, e.failures, e.failing_since,
        e.probe_at, d.pending, d.oldest_pending, d.given_up
    FROM endpoint e JOIN account a ON a.id = e.account_id CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE state IN ('pending', 'delivering')) AS pending,
            min(created_at) FILTER (WHERE state IN ('pending', 'delivering')) AS oldest_pending,
            count(*) FILTER (WHERE state IN ('exhausted', 'skipped') AND trigger <> 'test') AS given_up
        FROM delivery WHERE endpoint_id = e.id) d
    WHERE e.failures > 0 OR NOT e.enabled OR d.pending > 0 OR d.given_up > 0
    ORDER BY e.failures DESC, d.oldest_pending NULLS LAST, a.name, e.id LIMIT :limit
""")


async def endpoints(connection: Connection, *, limit: int) -> Sequence[EndpointRow]:
    """Return endpoints that need a look, those that fail most first."""
    return await rows_as(EndpointRow, connection, _ENDPOINTS_TO_LOOK_AT, {"limit": limit})


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule and how it keeps its time.

    Attributes:
        late_s: seconds since its slot was due; 0 when it is not, or may wait for the run before it.
        last_error: why the last slot was not run, or a run failed; "" when all went well.
        blocked: its slot is due and waits for the run before it (storage.sql.schedules.waits_for_run).
    """

    id: UUID
    account: str
    name: str
    cron: str
    zone: str
    enabled: bool
    next_run_at: datetime
    last_run_at: datetime | None
    last_error: str
    failures: int
    blocked: bool
    late_s: float


_SCHEDULES = text(f"""
    SELECT s.id, a.name AS account, s.name, s.cron, s.zone, s.enabled, s.next_run_at, s.last_run_at,
        s.last_error, s.failures, s.blocked, s.late_s
    FROM ({_DUE_SCHEDULES}) s JOIN account a ON a.id = s.account_id
    ORDER BY s.late_s DESC, s.last_error <> '' DESC, s.enabled DESC, s.next_run_at, s.id LIMIT :limit
""")  # noqa: S608 - see above


async def schedules(connection: Connection, *, limit: int) -> Sequence[ScheduleRow]:
    """Return the schedules of all accounts: late ones first, then those that had trouble."""
    return await rows_as(ScheduleRow, connection, _SCHEDULES, {"limit": limit})


# Not quite what a claim would find: a key that is being served counts here. A wake-up too many is harmless.
_CLAIMABLE = statement("""
    SELECT count(*) FROM (
        (SELECT FROM job
         WHERE state IN {step_due}
           AND (step_until IS NULL OR step_until < clock_timestamp()) LIMIT :most)
        UNION ALL
        (SELECT FROM job j JOIN chunk c ON c.job_id = j.id
         WHERE j.state IN {claimable} AND c.state = 'ready' AND c.ready_at <= clock_timestamp()
         LIMIT :most)
    ) waiting
""")


async def claimable(connection: Connection, *, most: int) -> int:
    """Return how many steps and chunks wait for a worker now, counting no further than `most`."""
    return min(most, int((await connection.execute(_CLAIMABLE, {"most": most})).scalar_one()))


_RATE_MINUTES: Final = 5
"""How far back the rate of the installation looks."""

# The minute that runs counts for as much of it as is over.
_RATE = text("""
    SELECT coalesce(sum(addresses), 0) / greatest(extract(epoch FROM clock_timestamp()
        - (date_trunc('minute', clock_timestamp()) - make_interval(mins => :minutes))), 1)
    FROM throughput
    WHERE minute >= date_trunc('minute', clock_timestamp()) - make_interval(mins => :minutes)
""")


async def rate(connection: Connection) -> float:
    """Return how many addresses a second got a verdict in the last minutes, everywhere."""
    return float((await connection.execute(_RATE, {"minutes": _RATE_MINUTES})).scalar_one())


BYTES_AN_ADDRESS: Final = 30
"""What an address takes of a list that nobody has read: with a few other columns."""
_LATER: Final = [WaitReason.GREYLISTED.value, WaitReason.DEFERRED.value]
"""Why addresses wait whom a mail server has put off."""
_LEFT_BY: Final = "/residual/([0-9]+)-"
"""The number of the chunk that left a blob over is in its name (storage.blobs.JobBlobs.deferred)."""


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

_UNREAD = statement("""
    SELECT options->>'mode',
        sum(least(source_bytes, nullif((options->>'preview')::bigint, 0) * :each))::bigint
    FROM job WHERE state IN {take_in} GROUP BY 1
""")

_SLOTS = statement("SELECT coalesce(sum(slots), 0)::bigint FROM worker WHERE {live_worker}")


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


_IN_LINE = text("SELECT id, state, options, started_at, deadline_at FROM job WHERE id = ANY(:job_ids)")


async def jobs_in_line(connection: Connection, job_ids: Sequence[UUID]) -> Sequence[Row]:
    """Return what a forecast needs of these jobs: id, state, options, started_at, deadline_at."""
    return list((await connection.execute(_IN_LINE, {"job_ids": list(job_ids)})).mappings())


_PROGRESS_WINDOW: Final = 120.0
"""How many seconds back the measured rate of one job looks."""


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


async def progress(connection: Connection, job_id: UUID) -> Sequence[ProgressRow]:
    """Return how a job got on, by throttle key."""
    values = {
        "job_id": job_id,
        "window": _PROGRESS_WINDOW,
        "triage": TRIAGE_KEY,
        "left_by": _LEFT_BY,
    }
    return await rows_as(ProgressRow, connection, _PROGRESS, values)


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


_CHUNK_HISTORY = text("""
    SELECT min(leased_at) AS first_at, max(leased_at) AS last_at,
        count(*) FILTER (WHERE state = 'done') AS done
    FROM chunk WHERE job_id = :job_id
""")

_FAILURES = text("""
    SELECT last_error AS error, count(*) AS chunks, max(attempt) AS attempts, max(leased_at) AS last_at
    FROM chunk WHERE job_id = :job_id AND last_error <> '' GROUP BY last_error
    ORDER BY chunks DESC, last_error LIMIT :limit
""")


async def chunk_history(connection: Connection, job_id: UUID, *, limit: int) -> ChunkHistory:
    """Return what happened to a job's chunks, with at most so many reasons why some were tried again."""
    row = (await connection.execute(_CHUNK_HISTORY, {"job_id": job_id})).mappings().one()
    failures = await rows_as(Failure, connection, _FAILURES, {"job_id": job_id, "limit": limit})
    return ChunkHistory(**row, failures=failures)


@dataclass(frozen=True, slots=True)
class DeliveryHistory:
    """An event of the job and one endpoint: `at` is when that was over, or when it is tried next."""

    type: str
    host: str
    state: str
    attempts: int
    at: datetime


_DELIVERY_HISTORY = text("""
    SELECT e.type, coalesce(substring(p.url from '^[a-z]+://([^/?#]+)'), p.url) AS host, d.state, d.attempts,
        coalesce(d.finished_at, d.next_attempt_at, d.created_at) AS at
    FROM event e JOIN delivery d ON d.event_id = e.id JOIN endpoint p ON p.id = d.endpoint_id
    WHERE e.job_id = :job_id ORDER BY d.created_at DESC, d.id LIMIT :limit
""")


async def delivery_history(connection: Connection, job_id: UUID, *, limit: int) -> list[DeliveryHistory]:
    """Return who was told of a job, the latest first."""
    return await rows_as(DeliveryHistory, connection, _DELIVERY_HISTORY, {"job_id": job_id, "limit": limit})
