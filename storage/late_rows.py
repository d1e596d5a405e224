"""What should have happened by now, in SQL: deliveries and schedules that are late, endpoints that fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from storage.database import Connection


@dataclass(frozen=True, slots=True)
class Outbox:
    """Deliveries of all accounts.

    Attributes:
        pending, delivering: by state.
        due: pending ones whose time has come, at endpoints that may be asked now.
        oldest_due_s: for how many seconds the oldest of these is due.
        exhausted, succeeded: of the last 24 hours.
    """

    pending: int
    delivering: int
    due: int
    oldest_due_s: float
    exhausted: int
    succeeded: int


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


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule and how it keeps its time.

    Attributes:
        late_s: seconds since its slot was due; 0 when it is not, or may wait for the run before it.
        last_error: why the last slot was not run, or a run failed; "" when all went well.
        blocked: its slot is due and waits for the run before it (overlap `queue`).
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


_OUTBOX = text("""
    WITH due AS (
        SELECT d.next_attempt_at FROM delivery d JOIN endpoint e ON e.id = d.endpoint_id
        WHERE d.state = 'pending' AND d.next_attempt_at <= clock_timestamp()
          AND e.enabled AND (e.probe_at IS NULL OR e.probe_at <= clock_timestamp())
          AND (e.paced_until IS NULL OR e.paced_until <= clock_timestamp())
    )
    SELECT (SELECT count(*) FROM delivery WHERE state = 'pending') AS pending,
        (SELECT count(*) FROM delivery WHERE state = 'delivering') AS delivering,
        (SELECT count(*) FROM due) AS due,
        coalesce((SELECT extract(epoch FROM clock_timestamp() - min(next_attempt_at)) FROM due), 0)::float8
            AS oldest_due_s,
        ended.exhausted, ended.succeeded
    FROM (
        SELECT count(*) FILTER (WHERE state = 'exhausted') AS exhausted,
            count(*) FILTER (WHERE state = 'succeeded') AS succeeded
        FROM delivery WHERE finished_at > clock_timestamp() - interval '1 day') ended
""")

_ENDPOINTS = text("""
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

_LATENESS = text("""
    SELECT extract(epoch FROM clock_timestamp() - coalesce(starts_at, next_run_at))::float8
    FROM schedule s
    WHERE enabled AND next_run_at <= clock_timestamp()
      AND (starts_at IS NULL OR starts_at <= clock_timestamp())
      AND (overlap <> 'queue' OR NOT EXISTS (
          SELECT FROM job j WHERE j.schedule_id = s.id AND j.finished_at IS NULL))
""")

_SCHEDULES = text("""
    SELECT * FROM (
        SELECT s.id, a.name AS account, s.name, s.cron, s.zone, s.enabled, s.next_run_at, s.last_run_at,
            s.last_error, s.failures, due AND busy AS blocked,
            CASE WHEN due AND NOT busy
                THEN extract(epoch FROM clock_timestamp() - coalesce(s.starts_at, s.next_run_at)) ELSE 0
            END::float8 AS late_s
        FROM schedule s JOIN account a ON a.id = s.account_id CROSS JOIN LATERAL (
            SELECT s.enabled AND coalesce(s.starts_at, s.next_run_at) <= clock_timestamp() AS due,
                s.overlap = 'queue' AND EXISTS (
                    SELECT FROM job j WHERE j.schedule_id = s.id AND j.finished_at IS NULL) AS busy) d
    ) seen
    ORDER BY late_s DESC, last_error <> '' DESC, enabled DESC, next_run_at, id LIMIT :limit
""")


async def lateness(connection: Connection) -> list[float]:
    """Return how many seconds every schedule that is late is so."""
    return list((await connection.execute(_LATENESS)).scalars())


async def outbox(connection: Connection) -> Outbox:
    """Return how the deliveries of all accounts stand."""
    return Outbox(**(await connection.execute(_OUTBOX)).mappings().one())


async def endpoints(connection: Connection, *, limit: int) -> Sequence[EndpointRow]:
    """Return endpoints that need a look, those that fail most first."""
    return [EndpointRow(**row) for row in (await connection.execute(_ENDPOINTS, {"limit": limit})).mappings()]


async def schedules(connection: Connection, *, limit: int) -> Sequence[ScheduleRow]:
    """Return the schedules of all accounts: late ones first, then those that had trouble."""
    return [ScheduleRow(**row) for row in (await connection.execute(_SCHEDULES, {"limit": limit})).mappings()]
