"""How verdicts held, in SQL: those that were put to the test, their sums, and who counts when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection, Row, row_as, rows_as

FATES: Final = ("delivered", "gone", "refused")
JUDGED, SAME, CHANGED = "judged", "same", "changed"
OTHER_PROVIDERS: Final = "other"
"""Stands for the many small ones."""
MOST_PROVIDERS: Final = 100
"""So many have sums of their own, of a list or of an account's outcomes."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The right to count up an account.

    Attributes:
        token: must still be held by who writes.
        counted_at: outcomes that arrived until then have been counted.
    """

    account_id: UUID
    token: UUID
    claimed_at: datetime
    counted_at: datetime


@dataclass(frozen=True, slots=True)
class AccuracySum:
    """How many addresses of a kind: judged, judged again (same, changed), or sent to (see FATES).

    `known` ones were decided by an outcome and tell nothing about the checks; `held_out` ones are kept for
    measuring chances that rest on the others.
    """

    day: date
    mode: str
    provider: str
    status: str
    result: str
    score: int
    what: str
    known: bool
    held_out: bool
    n: int


# An account without `due_at` has nothing new. Nothing is written while it was just told: webhooks of one
# account do not wait for each other.
_TOLD = text("""
    INSERT INTO measurement AS m (account_id, due_at, told_at)
    SELECT id, clock_timestamp() + interval '30 s', clock_timestamp() FROM account
    WHERE id = :account_id AND NOT EXISTS (
        SELECT FROM measurement o WHERE o.account_id = :account_id AND o.due_at IS NOT NULL
            AND o.told_at > clock_timestamp() - interval '5 s')
    ON CONFLICT (account_id) DO UPDATE SET told_at = excluded.told_at,
        due_at = coalesce(m.due_at, clock_timestamp() + make_interval(secs => m.rest_s))
""")

_JOBS_DUE = text("""
    INSERT INTO measurement AS m (account_id, due_at)
    SELECT account_id, clock_timestamp() FROM job
    WHERE state = 'completed' AND NOT measured
      AND finished_at BETWEEN clock_timestamp() - interval '90 days'
          AND clock_timestamp() - make_interval(secs => :rest_s)
    GROUP BY account_id
    ON CONFLICT (account_id) DO UPDATE SET due_at = excluded.due_at WHERE m.due_at IS NULL
""")

_CLAIM = text("""
    UPDATE measurement SET token = gen_random_uuid(),
        until = clock_timestamp() + make_interval(secs => :lease_s)
    WHERE account_id = (
        SELECT account_id FROM measurement
        WHERE due_at <= clock_timestamp() AND (until IS NULL OR until < clock_timestamp())
        ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING account_id, token, clock_timestamp() AS claimed_at, counted_at
""")

_HOLD = text("""
    UPDATE measurement SET until = clock_timestamp() + make_interval(secs => :lease_s)
    WHERE account_id = :account_id AND token = :token RETURNING account_id
""")

_RELEASE = text("""
    UPDATE measurement SET token = NULL, until = NULL, counted_at = :counted_at, rest_s = :rest_s,
        due_at = CASE WHEN told_at > :claimed_at - interval '5 s'
                      THEN clock_timestamp() + make_interval(secs => :rest_s) END
    WHERE account_id = :account_id AND token = :token
""")

_JOBS = text("""
    SELECT j.id, j.finished_at, j.addresses, j.small, j.options->>'mode' AS mode, p.id AS parent
    FROM job j LEFT JOIN job p ON p.id = j.parent_id AND p.account_id = j.account_id AND p.state = 'completed'
        AND j.finished_at < p.finished_at + interval '7 days'
    WHERE j.account_id = :account_id AND j.state = 'completed' AND NOT j.measured
      AND j.finished_at BETWEEN clock_timestamp() - interval '90 days'
          AND clock_timestamp() - make_interval(secs => :rest_s)
    ORDER BY j.finished_at
""")

_MEASURED = text("UPDATE job SET measured = true WHERE id = :job_id AND NOT measured RETURNING id")

_KIND: Final = "day, mode, provider, status, result, score, what, known, held_out"
"""What is counted up by itself in an account."""

_ADD = text(f"""
    INSERT INTO accuracy AS a (account_id, {_KIND}, n)
    SELECT id, new.* FROM account, unnest(CAST(:day AS date[]), CAST(:mode AS text[]),
        CAST(:provider AS text[]), CAST(:status AS text[]), CAST(:result AS text[]),
        CAST(:score AS smallint[]), CAST(:what AS text[]), CAST(:known AS boolean[]),
        CAST(:held_out AS boolean[]), CAST(:n AS bigint[])) AS new
    WHERE id = :account_id
    ON CONFLICT (account_id, {_KIND}) DO UPDATE SET n = a.n + excluded.n
""")  # noqa: S608 - names of this file

_NEW_OUTCOMES = text("""
    SELECT address, min(happened_at) AS first, max(happened_at) AS last, max(received_at) AS received
    FROM (
        SELECT address, happened_at, received_at FROM outcome
        WHERE account_id = :account_id AND received_at > :since
        ORDER BY received_at FETCH FIRST :most ROWS WITH TIES
    ) new GROUP BY address
""")

_JUDGED = text("""
    SELECT id, finished_at, addresses, options->>'mode' AS mode FROM job
    WHERE account_id = :account_id AND state = 'completed'
      AND finished_at BETWEEN :first - make_interval(days => :days) AND :last
    ORDER BY finished_at DESC
""")

_KEEP = text("""
    INSERT INTO measured_verdict
        (account_id, address, judged_at, mode, provider, status, result, score, known)
    SELECT :account_id, new.address, :judged_at, :mode, new.provider, new.status, new.result, new.score,
        new.known
    FROM unnest(CAST(:address AS bytea[]), CAST(:provider AS text[]), CAST(:status AS text[]),
        CAST(:result AS text[]), CAST(:score AS smallint[]), CAST(:known AS boolean[]))
        AS new(address, provider, status, result, score, known)
    ON CONFLICT DO NOTHING
""")

_VERDICTS_ON = text("""
    SELECT address, judged_at FROM measured_verdict
    WHERE account_id = :account_id AND address = ANY(:addresses) ORDER BY address, judged_at
""")

_SET_FATES = text("""
    UPDATE measured_verdict v SET fate = new.fate
    FROM unnest(CAST(:address AS bytea[]), CAST(:judged_at AS timestamptz[]), CAST(:fate AS text[]))
        AS new(address, judged_at, fate)
    WHERE v.account_id = :account_id AND v.address = new.address AND v.judged_at = new.judged_at
      AND v.fate <> new.fate
""")

_FORGET_SUMS = text("DELETE FROM accuracy WHERE account_id = :account_id AND what = ANY(:fates)")

# A quarter of the addresses, by their digest, is kept for measuring.
_SUM_UP = text(f"""
    INSERT INTO accuracy (account_id, {_KIND}, n)
    SELECT :account_id, (judged_at AT TIME ZONE 'UTC')::date AS day, mode,
        CASE WHEN provider IN (
            SELECT provider FROM measured_verdict WHERE account_id = :account_id AND fate <> ''
            GROUP BY provider ORDER BY count(*) DESC, provider LIMIT :most
        ) THEN provider ELSE :other END AS named, status, result, score, fate, known,
        get_byte(address, 0) & 3 = 0 AS held_out, count(*)
    FROM measured_verdict WHERE account_id = :account_id AND fate <> ''
    GROUP BY day, mode, named, status, result, score, fate, known, held_out
""")  # noqa: S608 - same

_SUMS, _ALL_SUMS = (
    text(f"""
        SELECT {_KIND}, sum(n)::bigint AS n FROM accuracy s JOIN account a ON a.id = s.account_id
        WHERE {whose} AND day BETWEEN :first AND :last GROUP BY {_KIND}
    """)  # noqa: S608 - same
    for whose in ("s.account_id = :account_id", "a.test_of IS NULL")
)

# Of one other account alone nothing is given away.
_OTHERS = text("""
    SELECT s.status, s.result, s.provider, s.score, s.what, sum(s.n)::bigint AS n
    FROM accuracy s JOIN account a ON a.id = s.account_id
    WHERE s.account_id <> :account_id AND a.test_of IS NULL AND s.what = ANY(:fates)
      AND NOT s.known AND NOT s.held_out AND s.day >= :first
      AND (SELECT a.test_of IS NULL FROM account a WHERE a.id = :account_id)
      AND (s.result, s.provider) IN (
        SELECT o.result, o.provider FROM accuracy o JOIN account b ON b.id = o.account_id
        WHERE o.account_id <> :account_id AND b.test_of IS NULL AND o.what = ANY(:fates)
          AND NOT o.known AND NOT o.held_out AND o.day >= :first
        GROUP BY o.result, o.provider HAVING count(DISTINCT o.account_id) >= 2)
    GROUP BY s.status, s.result, s.provider, s.score, s.what
""")

_OLD = (
    text("DELETE FROM measured_verdict WHERE judged_at < clock_timestamp() - make_interval(days => :days)"),
    text("DELETE FROM accuracy WHERE day < CAST(clock_timestamp() - make_interval(days => :days) AS date)"),
)


async def note_news(connection: Connection, account_id: UUID) -> None:
    """Note that an account has told something new: it is counted up soon."""
    await connection.execute(_TOLD, {"account_id": account_id})


async def claim(connection: Connection, *, rest_s: float, lease_s: float) -> Measurement | None:
    """Claim an account with new outcomes, or with jobs that ended `rest_s` seconds ago or earlier."""
    await connection.execute(_JOBS_DUE, {"rest_s": rest_s})
    return await row_as(Measurement, connection, _CLAIM, {"lease_s": lease_s})


async def hold(connection: Connection, lease: Measurement, *, lease_s: float) -> bool:
    """Prolong the right to count; False when somebody else has it."""
    values = {"account_id": lease.account_id, "token": lease.token, "lease_s": lease_s}
    return (await connection.execute(_HOLD, values)).first() is not None


async def release(connection: Connection, lease: Measurement, *, counted_at: datetime, rest_s: float) -> None:
    """Give the right back; the account's turn comes again after `rest_s` seconds where more was told."""
    await connection.execute(_RELEASE, {**asdict(lease), "counted_at": counted_at, "rest_s": rest_s})


async def unmeasured(connection: Connection, account_id: UUID, *, rest_s: float) -> Sequence[Row]:
    """Return the account's ended jobs that were not counted: id, finished_at, addresses, small, mode, parent.

    The parent is named where it ended less than a week before.
    """
    found = await connection.execute(_JOBS, {"account_id": account_id, "rest_s": rest_s})
    return found.mappings().all()


async def count_job(
    connection: Connection, account_id: UUID, job_id: UUID, sums: Sequence[AccuracySum]
) -> None:
    """Add what a job came to, unless that was done or the job is gone."""
    if (await connection.execute(_MEASURED, {"job_id": job_id})).first() and sums:
        values = {name: [getattr(one, name) for one in sums] for name in AccuracySum.__dataclass_fields__}
        await connection.execute(_ADD, {"account_id": account_id, **values})


async def new_outcomes(
    connection: Connection, account_id: UUID, since: datetime, *, most: int
) -> Sequence[Row]:
    """Return addresses (digests) whose outcomes arrived after `since`: address, first, last, received."""
    values = {"account_id": account_id, "since": since, "most": most}
    return (await connection.execute(_NEW_OUTCOMES, values)).mappings().all()


async def jobs_before(
    connection: Connection, account_id: UUID, first: datetime, last: datetime, *, days: int
) -> Sequence[Row]:
    """Return the account's jobs that ended up to `days` before `first`, and until `last`."""
    values = {"account_id": account_id, "first": first, "last": last, "days": days}
    return (await connection.execute(_JUDGED, values)).mappings().all()


async def keep_verdicts(
    connection: Connection, account_id: UUID, job: Row, columns: Mapping[str, Sequence[Any]]
) -> None:
    """Keep a job's verdicts on addresses that were sent to; those that are there stay as they are."""
    values = {"account_id": account_id, "judged_at": job["finished_at"], "mode": job["mode"], **columns}
    await connection.execute(_KEEP, values)


async def verdicts_on(connection: Connection, account_id: UUID, addresses: Sequence[bytes]) -> Sequence[Row]:
    """Return when these addresses (digests) were judged: address, judged_at, rising."""
    values = {"account_id": account_id, "addresses": list(addresses)}
    return (await connection.execute(_VERDICTS_ON, values)).mappings().all()


async def set_fates(
    connection: Connection, account_id: UUID, found: Sequence[tuple[bytes, datetime, str]]
) -> None:
    """Note what became of verdicts: address, when it was judged, and the fate or ""."""
    columns = dict(zip(("address", "judged_at", "fate"), map(list, zip(*found, strict=True)), strict=True))
    await connection.execute(_SET_FATES, {"account_id": account_id, **columns})


async def sum_up(connection: Connection, account_id: UUID) -> None:
    """Count anew what became of the account's verdicts."""
    await connection.execute(_FORGET_SUMS, {"account_id": account_id, "fates": list(FATES)})
    values = {"account_id": account_id, "most": MOST_PROVIDERS, "other": OTHER_PROVIDERS}
    await connection.execute(_SUM_UP, values)


async def sums(
    connection: Connection, account_id: UUID | None, first: date, last: date
) -> Sequence[AccuracySum]:
    """Return the sums of these days, of an account or (None) of all but test accounts."""
    values = {"account_id": account_id, "first": first, "last": last}
    return await rows_as(AccuracySum, connection, _ALL_SUMS if account_id is None else _SUMS, values)


async def of_others(connection: Connection, account_id: UUID, first: date) -> Sequence[Row]:
    """Return what became of the others' verdicts from a day on: status, result, provider, score, what, n.

    Left out are results at a provider that fewer than two others know of, and all for a test account.
    """
    values = {"account_id": account_id, "fates": list(FATES), "first": first}
    return (await connection.execute(_OTHERS, values)).mappings().all()


async def purge(connection: Connection, *, days: int) -> None:
    """Delete what is older than so many days."""
    for old in _OLD:
        await connection.execute(old, {"days": days})
