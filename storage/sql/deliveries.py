"""Deliveries in SQL: what happened, which endpoints are to be told of it, and each attempt to do so.

An event is stored with the very bytes that tell of it. A delivery that is due is claimed, fairly, and how it
went is written down; the attempts are a log.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import delete, func, insert, select, text, update

from mailsift.storage.database import Connection, Row, row_as, rows_as
from mailsift.storage.sql.tables import attempt, delivery, endpoint, event, newest_first


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event.

    Attributes:
        body: the envelope as bytes, made once: these are signed and sent at every attempt.
        once: what may happen only once, e.g. the end of a job; None for what may happen often.
    """

    id: UUID
    account_id: UUID
    job_id: UUID | None
    type: str
    body: bytes
    created_at: datetime
    once: str | None


# The outbox: who is to be told is decided in the transaction that makes it happen. An endpoint that is
# deleted at that moment is waited for, and is none any more.
_FAN_OUT = text("""
    INSERT INTO delivery (event_id, endpoint_id, next_attempt_at)
    SELECT :event_id, id, :created_at FROM endpoint
    WHERE account_id = :account_id AND enabled AND (types = '{}' AND NOT :asked_only OR :type = ANY(types))
    FOR KEY SHARE
""")


async def insert_event(connection: Connection, row: EventRow, *, asked_only: bool = False) -> None:
    """Remember an event and one delivery for every enabled endpoint that wants it.

    An event with the same `once` is an IntegrityError and undoes the transaction. With `asked_only` an
    endpoint that wants all events does not want this one: it has to name its type.
    """
    await remember_event(connection, row)
    values = asdict(row) | {"event_id": row.id, "asked_only": asked_only}
    await connection.execute(_FAN_OUT, values)


_IS_ASKED_FOR = text("""
    SELECT EXISTS (SELECT FROM endpoint WHERE account_id = :account_id AND enabled AND :type = ANY(types))
""")


async def is_asked_for(connection: Connection, account_id: UUID, type_: str) -> bool:
    """Say whether an enabled endpoint of the account names this type of event."""
    return bool(
        (await connection.execute(_IS_ASKED_FOR, {"account_id": account_id, "type": type_})).scalar_one()
    )


async def remember_event(connection: Connection, row: EventRow) -> None:
    """Remember an event that is told to nobody by itself."""
    await connection.execute(insert(event).values(asdict(row)))


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events; what is empty or None does not narrow.

    Attributes:
        types: of one of these.
        since: that happened then or later.
        job_id: of this job.
        after: behind this place: time and id.
    """

    types: Sequence[str]
    since: datetime | None
    job_id: UUID | None
    after: tuple[datetime, UUID] | None


_EVENTS_OF_ACCOUNT = text("""
    SELECT id, account_id, job_id, type, body, created_at, once FROM event
    WHERE account_id = :account_id
      AND (cardinality(CAST(:types AS text[])) = 0 OR type = ANY(CAST(:types AS text[])))
      AND created_at >= coalesce(CAST(:since AS timestamptz), '-infinity')
      AND (CAST(:job_id AS uuid) IS NULL OR job_id = CAST(:job_id AS uuid))
      AND (created_at, id) > (coalesce(CAST(:after_at AS timestamptz), '-infinity'),
                              coalesce(CAST(:after_id AS uuid), '00000000-0000-0000-0000-000000000000'))
    ORDER BY created_at, id LIMIT :limit
""")


async def events_of_account(
    connection: Connection, account_id: UUID, wanted: EventFilter, limit: int
) -> list[EventRow]:
    """Return the account's events, oldest first."""
    at, event_id = wanted.after or (None, None)
    values = {
        "types": list(wanted.types),
        "since": wanted.since,
        "job_id": wanted.job_id,
        "after_at": at,
        "after_id": event_id,
    }
    return await rows_as(
        EventRow, connection, _EVENTS_OF_ACCOUNT, {"account_id": account_id, "limit": limit, **values}
    )


async def get_event(connection: Connection, account_id: UUID, event_id: UUID) -> EventRow | None:
    """Return the account's event."""
    wanted = select(event).where(event.c.account_id == account_id, event.c.id == event_id)
    return await row_as(EventRow, connection, wanted)


@dataclass(frozen=True, slots=True)
class NewEndpoint:
    """An endpoint to insert; its secret is sealed, and without a rate it has the usual one."""

    id: UUID
    account_id: UUID
    url: str
    types: list[str]
    secret: bytes
    created_at: datetime
    rate_per_second: float | None


@dataclass(frozen=True, slots=True)
class EndpointHealth:
    """How an endpoint fares.

    Attributes:
        failures: attempts that failed in a row.
        failing_since: when the first of them was made.
        exhausted: deliveries given up since then.
        probe_at: the breaker is open and one attempt may be made then; None = closed.
    """

    failures: int = 0
    failing_since: datetime | None = None
    exhausted: int = 0
    probe_at: datetime | None = None


async def insert_endpoint(connection: Connection, new: NewEndpoint) -> None:
    """Insert an endpoint, enabled."""
    await connection.execute(insert(endpoint).values(asdict(new)))


async def get_endpoint(connection: Connection, endpoint_id: UUID, *, lock: bool = False) -> Row | None:
    """Return the endpoint's row; `lock` keeps others from changing it until the transaction ends."""
    statement = select(endpoint).where(endpoint.c.id == endpoint_id)
    if lock:  # events may still refer to it meanwhile
        statement = statement.with_for_update(key_share=True)
    return (await connection.execute(statement)).mappings().one_or_none()


async def endpoints_of_account(connection: Connection, account_id: UUID) -> Sequence[Row]:
    """Return the account's endpoints, oldest first."""
    statement = (
        select(endpoint)
        .where(endpoint.c.account_id == account_id)
        .order_by(endpoint.c.created_at, endpoint.c.id)
    )
    return (await connection.execute(statement)).mappings().all()


async def count_endpoints(connection: Connection, account_id: UUID) -> int:
    """Return how many endpoints the account has."""
    statement = select(func.count()).select_from(endpoint).where(endpoint.c.account_id == account_id)
    return int((await connection.execute(statement)).scalar_one())


async def change_endpoint(connection: Connection, endpoint_id: UUID, **values: Any) -> None:
    """Set columns of the endpoint."""
    await connection.execute(update(endpoint).where(endpoint.c.id == endpoint_id).values(**values))


async def set_health(connection: Connection, endpoint_id: UUID, health: EndpointHealth) -> None:
    """Write down how the endpoint fares."""
    await change_endpoint(connection, endpoint_id, **asdict(health))


async def disable_endpoint(connection: Connection, endpoint_id: UUID, *, reason: str, now: datetime) -> None:
    """Disable the endpoint; what waits for it is skipped."""
    await change_endpoint(connection, endpoint_id, enabled=False, disabled_reason=reason)
    waiting = update(delivery).where(delivery.c.endpoint_id == endpoint_id, delivery.c.state == "pending")
    await connection.execute(waiting.values(state="skipped", next_attempt_at=None, finished_at=now))


async def delete_endpoint(connection: Connection, endpoint_id: UUID) -> None:
    """Delete the endpoint with its deliveries and their attempts."""
    await connection.execute(delete(endpoint).where(endpoint.c.id == endpoint_id))


# A webhook that is deleted takes its deliveries along; the events stay. One of no job was simulated for a
# test, or is a line of the audit log.
_TESTS_MADE = text("""
    SELECT (SELECT count(*) FROM delivery WHERE endpoint_id = :endpoint_id AND trigger = 'test'
                AND created_at > :minute_ago) AS endpoint,
           (SELECT count(*) FROM event WHERE account_id = :account_id AND job_id IS NULL
                AND type <> 'audit.recorded' AND created_at > :hour_ago) AS account
""")


async def tests_made(
    connection: Connection, *, account_id: UUID, endpoint_id: UUID, minute_ago: datetime, hour_ago: datetime
) -> tuple[int, int]:
    """Return how many tests the endpoint had in the last minute and the account in the last hour."""
    values = {
        "account_id": account_id,
        "endpoint_id": endpoint_id,
        "minute_ago": minute_ago,
        "hour_ago": hour_ago,
    }
    row = (await connection.execute(_TESTS_MADE, values)).one()
    return row.endpoint, row.account


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery leased to one worker, with everything its attempt needs; secrets are sealed.

    Attributes:
        attempts: made so far.
        round: made since it was last asked for.
        body: the very bytes that are signed and sent.
    """

    id: UUID
    event_id: UUID
    endpoint_id: UUID
    attempts: int
    round: int
    trigger: str
    lease_token: UUID
    url: str
    secret: bytes
    previous_secret: bytes | None
    previous_until: datetime | None
    body: bytes
    test_mode: bool


@dataclass(frozen=True, slots=True)
class EndpointLimits:
    """How many attempts an endpoint takes: a bucket that holds those of `burst_s` seconds, at least one.

    Attributes:
        in_flight: at once, from all workers together.
        rate: attempts a second of an endpoint that has no rate of its own.
        burst_s: seconds.
    """

    in_flight: int = 2
    rate: float = 10.0
    burst_s: float = 2.0


_PLACES_LEFT: Final = """(
    CASE WHEN e.probe_at IS NULL THEN :in_flight ELSE 1 END - (
        SELECT count(*) FROM delivery d WHERE d.endpoint_id = e.id AND d.state = 'delivering'))"""
"""How many more attempts endpoint `e` takes at once; one alone while its breaker is open."""

_IS_DUE: Final = """
    e.enabled AND (e.probe_at IS NULL OR e.probe_at <= :now)
    AND (e.paced_until IS NULL OR e.paced_until <= :now)
    AND EXISTS (SELECT FROM delivery d
                WHERE d.endpoint_id = e.id AND d.state = 'pending' AND d.next_attempt_at <= :now)
"""
"""Endpoint `e` may be sent something now, and there is something to send."""

# The rows of the endpoints stay locked until the claim commits, so that the count of what is in flight is
# exact then. Of those who have a place left the account comes first that has fewest attempts under way, as
# many webhooks as it may have, and of one account who was served longest ago.
_ENDPOINTS_DUE = text(f"""
    WITH busy AS (
        SELECT e.account_id, count(*) AS attempts
        FROM delivery d JOIN endpoint e ON e.id = d.endpoint_id WHERE d.state = 'delivering' GROUP BY 1
    ), turns AS (
        SELECT e.id, coalesce(busy.attempts, 0) + row_number() OVER (
            PARTITION BY e.account_id ORDER BY e.served_at NULLS FIRST) AS turn
        FROM endpoint e LEFT JOIN busy ON busy.account_id = e.account_id
        WHERE {_IS_DUE} AND {_PLACES_LEFT} > 0
    )
    SELECT e.id FROM turns JOIN endpoint e ON e.id = turns.id WHERE {_IS_DUE} AND {_PLACES_LEFT} > 0
    ORDER BY turns.turn, e.served_at NULLS FIRST LIMIT :limit FOR NO KEY UPDATE OF e SKIP LOCKED
""")  # noqa: S608 - conditions of this file

# First the oldest of every endpoint, then the second of every endpoint. An endpoint whose breaker is open
# gets one attempt at a time; the next may be made a minute later at the earliest, whatever comes of this one.
#
# The bucket is one moment, as in GCRA (ITU-T I.371): paced_until is when the next attempt may be made, and
# each attempt moves it on by 1 / rate. It lies in the past by what the bucket holds; what a full one holds is
# how far back it may lie, and paced_from heeds that.
_CLAIM = text(f"""
    WITH rates AS (
        SELECT e.id, e.probe_at, e.paced_until, coalesce(e.rate_per_second, :rate) AS rate
        FROM endpoint e WHERE e.id = ANY(:endpoints)
    ), buckets AS (
        SELECT id, probe_at, rate, greatest(paced_until, :now - make_interval(
            secs => greatest(:burst_s * rate - 1, 0) / rate)) AS paced_from
        FROM rates
    ), free AS (
        SELECT id, rate, paced_from, least(
            1 + floor(extract(epoch FROM :now - paced_from) * rate + 1e-6), {_PLACES_LEFT})::bigint AS slots
        FROM buckets e
    ), ranked AS (
        SELECT due.id, due.place, due.next_attempt_at FROM free, LATERAL (
            SELECT d.id, d.next_attempt_at, row_number() OVER (ORDER BY d.created_at, d.id) AS place
            FROM delivery d
            WHERE d.endpoint_id = free.id AND d.state = 'pending' AND d.next_attempt_at <= :now
            ORDER BY d.created_at, d.id LIMIT greatest(free.slots, 0)) due
    ), taken AS (
        UPDATE delivery SET state = 'delivering', lease_token = gen_random_uuid(), lease_until = :until
        WHERE state = 'pending'
          AND id IN (SELECT id FROM ranked ORDER BY place, next_attempt_at LIMIT :limit)
        RETURNING *
    ), served AS (
        UPDATE endpoint SET served_at = :now,
            probe_at = CASE WHEN probe_at IS NOT NULL THEN :next_probe END,
            paced_until = free.paced_from + make_interval(secs => counted.n / free.rate)
        FROM free JOIN (SELECT endpoint_id, count(*) AS n FROM taken GROUP BY 1) counted
            ON counted.endpoint_id = free.id
        WHERE endpoint.id = free.id
    )
    SELECT taken.id, taken.event_id, taken.endpoint_id, taken.attempts, taken.round, taken.trigger,
           taken.lease_token, e.url, e.secret, e.previous_secret, e.previous_until, event.body,
           EXISTS (SELECT FROM account a WHERE a.id = e.account_id AND a.test_of IS NOT NULL) AS test_mode
    FROM taken JOIN endpoint e ON e.id = taken.endpoint_id JOIN event ON event.id = taken.event_id
    ORDER BY taken.created_at, taken.id
""")  # noqa: S608 - same


async def claim(
    connection: Connection,
    *,
    limit: int,
    limits: EndpointLimits,
    now: datetime,
    until: datetime,
    next_probe: datetime,
) -> list[ClaimedDelivery]:
    """Lease deliveries that are due, so many at most, within the limits of each endpoint.

    The leases end at `until`; an endpoint whose breaker is open may be tried again at `next_probe`.
    """
    due = await connection.execute(
        _ENDPOINTS_DUE, {"limit": limit, "now": now, "in_flight": limits.in_flight}
    )
    endpoints = list(due.scalars())
    if not endpoints:
        return []
    values = {
        "endpoints": endpoints,
        **asdict(limits),
        "limit": limit,
        "now": now,
        "until": until,
        "next_probe": next_probe,
    }
    return await rows_as(ClaimedDelivery, connection, _CLAIM, values)


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """One HTTP request that was made; `ms` is how long it took, `error` is "" when it arrived.

    `directive` is what the receiver asked for beside its answer, "" for nothing.
    """

    delivery_id: UUID
    n: int
    at: datetime
    trigger: str
    ms: int
    status_code: int
    error: str
    response: str
    directive: str = ""


async def record_attempt(
    connection: Connection,
    claimed: ClaimedDelivery,
    made: NewAttempt,
    *,
    state: str,
    next_attempt_at: datetime | None,
) -> bool:
    """Write down an attempt and what follows; False when the lease was lost: nothing is written then."""
    if not await _give_back(connection, claimed, state, again=next_attempt_at, now=made.at, made=1):
        return False
    await add_attempt(connection, made)
    return True


async def postpone(
    connection: Connection, claimed: ClaimedDelivery, *, until: datetime | None, now: datetime
) -> bool:
    """Give back a delivery that was not attempted; None: it is skipped. False when the lease was lost."""
    state = "pending" if until else "skipped"
    return await _give_back(connection, claimed, state, again=until, now=now, made=0)


_GIVE_BACK = text("""
    UPDATE delivery SET state = :state, next_attempt_at = :next_attempt_at, finished_at = :finished_at,
        attempts = attempts + :made, round = round + :made, lease_token = NULL, lease_until = NULL
    WHERE id = :id AND state = 'delivering' AND lease_token = :token
""")


async def _give_back(
    connection: Connection,
    claimed: ClaimedDelivery,
    state: str,
    *,
    again: datetime | None,
    now: datetime,
    made: int,
) -> bool:
    """Give back a delivery after so many attempts more; it is over now unless there is another one."""
    values = {"id": claimed.id, "token": claimed.lease_token, "state": state, "made": made}
    values |= {"next_attempt_at": again, "finished_at": None if again else now}
    return (await connection.execute(_GIVE_BACK, values)).rowcount == 1


_RELEASE = text("""
    UPDATE delivery SET state = 'pending', lease_token = NULL, lease_until = NULL
    WHERE state = 'delivering' AND lease_token = ANY(:tokens)
""")


async def release(connection: Connection, tokens: Collection[UUID]) -> None:
    """Give deliveries back untried."""
    await connection.execute(_RELEASE, {"tokens": list(tokens)})


_FREE_EXPIRED = text("""
    UPDATE delivery SET state = 'pending', lease_token = NULL, lease_until = NULL
    WHERE id IN (
        SELECT id FROM delivery
        WHERE state = 'delivering' AND lease_until < :now FOR UPDATE SKIP LOCKED)
""")

# An endpoint that is disabled skips what waits for it; what was in hand, or came, at that moment waits since.
_SKIP_UNWANTED = text("""
    UPDATE delivery SET state = 'skipped', next_attempt_at = NULL, finished_at = :now
    WHERE id IN (
        SELECT d.id FROM endpoint e JOIN delivery d ON d.endpoint_id = e.id
        WHERE NOT e.enabled AND d.state = 'pending' FOR UPDATE OF d SKIP LOCKED)
""")


async def free_expired(connection: Connection, *, now: datetime) -> int:
    """Make the deliveries of dead workers due again, or skip those nobody wants; returns how many."""
    freed = (await connection.execute(_FREE_EXPIRED, {"now": now})).rowcount
    await connection.execute(_SKIP_UNWANTED, {"now": now})
    return freed


async def insert_test(
    connection: Connection, *, delivery_id: UUID, event_id: UUID, endpoint_id: UUID, at: datetime
) -> None:
    """Insert a delivery that is a test: it is over, whoever sends it once, and did not arrive yet."""
    values = {
        "id": delivery_id,
        "event_id": event_id,
        "endpoint_id": endpoint_id,
        "state": "exhausted",
        "trigger": "test",
        "created_at": at,
        "finished_at": at,
    }
    await connection.execute(insert(delivery).values(values))


async def record_test(connection: Connection, made: NewAttempt) -> None:
    """Write down the attempt of a test."""
    values = {"attempts": made.n, "state": "exhausted" if made.error else "succeeded"}
    await connection.execute(update(delivery).where(delivery.c.id == made.delivery_id).values(values))
    await add_attempt(connection, made)


_SHOWN = (
    select(delivery, event.c.type, endpoint.c.account_id, endpoint.c.enabled)
    .join(event, event.c.id == delivery.c.event_id)
    .join(endpoint, endpoint.c.id == delivery.c.endpoint_id)
)


async def get(connection: Connection, delivery_id: UUID) -> Row | None:
    """Return a delivery with its event's type, its account and whether its endpoint is enabled."""
    return (await connection.execute(_SHOWN.where(delivery.c.id == delivery_id))).mappings().one_or_none()


async def of_endpoint(
    connection: Connection, endpoint_id: UUID, *, limit: int, before: tuple[datetime, UUID] | None
) -> Sequence[Row]:
    """Return the endpoint's deliveries, newest first, those older than (created_at, id) `before`."""
    statement = newest_first(_SHOWN.where(delivery.c.endpoint_id == endpoint_id), delivery, limit, before)
    return (await connection.execute(statement)).mappings().all()


_AGAIN = {
    "state": "pending",
    "trigger": "manual",
    "round": 0,
    "finished_at": None,
}


async def redeliver(connection: Connection, delivery_id: UUID, *, now: datetime) -> bool:
    """Make a delivery due now, from the first of its attempts on; False while one is being made."""
    statement = update(delivery).where(
        delivery.c.id == delivery_id, delivery.c.state != "delivering", delivery.c.trigger != "test"
    )
    return (await connection.execute(statement.values(next_attempt_at=now, **_AGAIN))).rowcount == 1


async def redeliver_failed(
    connection: Connection, endpoint_id: UUID, *, since: datetime, now: datetime
) -> int:
    """Make due what was given up or skipped of the events since then; returns how many."""
    statement = update(delivery).where(
        delivery.c.endpoint_id == endpoint_id,
        delivery.c.state.in_(("exhausted", "skipped")),
        delivery.c.trigger != "test",
        delivery.c.created_at >= since,
    )
    return (await connection.execute(statement.values(next_attempt_at=now, **_AGAIN))).rowcount


# An event of no job was simulated for a test, or is a line of the audit log.
_ADD_MISSED = text("""
    INSERT INTO delivery (event_id, endpoint_id, trigger, next_attempt_at)
    SELECT event.id, e.id, 'manual', :now
    FROM endpoint e JOIN event ON event.account_id = e.account_id
    WHERE e.id = :endpoint_id AND event.job_id IS NOT NULL AND event.created_at >= :since
      AND (e.types = '{}' OR event.type = ANY(e.types))
    ORDER BY event.created_at FOR KEY SHARE OF event
    ON CONFLICT (event_id, endpoint_id) DO NOTHING
""")


async def add_missed(connection: Connection, endpoint_id: UUID, *, since: datetime, now: datetime) -> int:
    """Add deliveries of the events since then that the endpoint wants and has none of; returns how many."""
    values = {"endpoint_id": endpoint_id, "since": since, "now": now}
    return (await connection.execute(_ADD_MISSED, values)).rowcount


async def add_attempt(connection: Connection, made: NewAttempt) -> None:
    """Add an attempt to the log."""
    await connection.execute(insert(attempt).values(asdict(made)))


async def attempts_of(connection: Connection, delivery_id: UUID) -> Sequence[Row]:
    """Return the delivery's attempts in order."""
    statement = select(attempt).where(attempt.c.delivery_id == delivery_id).order_by(attempt.c.n)
    return (await connection.execute(statement)).mappings().all()


# Materialized, here and wherever rows are locked up to a limit: a subquery of IN may run again for every row,
# and then it passes over those just deleted and takes the next ones.
_PURGE_ATTEMPTS = text("""
    WITH old AS MATERIALIZED (
        SELECT delivery_id, n FROM attempt WHERE at < :before ORDER BY at LIMIT :limit FOR UPDATE SKIP LOCKED
    )
    DELETE FROM attempt USING old WHERE attempt.delivery_id = old.delivery_id AND attempt.n = old.n
""")


async def purge_attempts(connection: Connection, *, before: datetime, limit: int) -> int:
    """Delete attempts made before then, the oldest first, `limit` at most; returns how many."""
    return (await connection.execute(_PURGE_ATTEMPTS, {"before": before, "limit": limit})).rowcount
