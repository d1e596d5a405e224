"""Accounts in SQL: by name, what they have set, use and keep, what of it is erased, and the end."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any, Final
from unicodedata import normalize
from uuid import UUID, uuid4

from sqlalchemy import select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert

from mailsift.storage.database import Connection, Row, rows_as, statement
from mailsift.storage.sql.tables import account


def normalized_name(name: str) -> str:
    """Return the name as accounts are known by: one line, and each letter written in one way (NFC).

    What one system sends as `é` and another as `e` with an accent is one name.
    """
    return normalize("NFC", " ".join(name.split()))


_FIND = text("""
    SELECT id FROM account WHERE name = ANY(CAST(:names AS text[]))
    ORDER BY array_position(CAST(:names AS text[]), name::text) LIMIT 1
""")


async def find(connection: Connection, name: str) -> UUID | None:
    """Return the id of the account with this name; one from before names were normalised is found, too."""
    one = normalized_name(name)
    return (
        await connection.execute(_FIND, {"names": [name, one, normalize("NFD", one)]})
    ).scalar_one_or_none()


async def get(connection: Connection, account_id: UUID, *, lock: bool = False) -> Row | None:
    """Return the account; `lock`: of two changes to what it has, and may have so much of, one waits."""
    wanted = select(account).where(account.c.id == account_id)
    found = await connection.execute(wanted.with_for_update(key_share=True) if lock else wanted)
    return found.mappings().one_or_none()


async def change(connection: Connection, account_id: UUID, **values: Any) -> None:
    """Set columns of the account."""
    await connection.execute(update(account).where(account.c.id == account_id).values(**values))


async def names(connection: Connection, *, limit: int) -> list[str]:
    """Return names of accounts, oldest first."""
    statement = select(account.c.name).order_by(account.c.created_at, account.c.id).limit(limit)
    return list((await connection.execute(statement)).scalars())


async def ensure_account(connection: Connection, name: str) -> UUID:
    """Return the id of the account with this name, made when it does not exist."""
    if (known := await find(connection, name)) is not None:
        return known
    made = upsert(account).values(id=uuid4(), name=normalized_name(name)).on_conflict_do_nothing()
    await connection.execute(made)
    found = await connection.execute(select(account.c.id).where(account.c.name == normalized_name(name)))
    return UUID(str(found.scalar_one()))


async def ensure_test_account(connection: Connection, account_id: UUID) -> UUID:
    """Return the test account of an account, made when it does not exist."""
    made = upsert(account).values(id=uuid4(), name=f"test:{account_id}", test_of=account_id)
    await connection.execute(made.on_conflict_do_nothing())
    found = await connection.execute(select(account.c.id).where(account.c.test_of == account_id))
    return UUID(str(found.scalar_one()))


async def test_account(connection: Connection, account_id: UUID) -> UUID | None:
    """Return the test account of an account, if it has one."""
    found = await connection.execute(select(account.c.id).where(account.c.test_of == account_id))
    return found.scalar_one_or_none()


# An account's own, and its test account's.
_OWNER_OF_JOB = text("""
    SELECT j.account_id FROM job j JOIN account o ON o.id = j.account_id
    WHERE j.id = :job_id AND :account_id IN (o.id, o.test_of)
""")


async def owner_of_job(connection: Connection, account_id: UUID, job_id: UUID) -> UUID | None:
    """Return whose a job is, the account's or its test account's; None when it is neither's."""
    found = await connection.execute(_OWNER_OF_JOB, {"account_id": account_id, "job_id": job_id})
    return found.scalar_one_or_none()


@dataclass(frozen=True, slots=True)
class StepsRow:
    """What is known of an account.

    Attributes:
        new: it was made within the last days asked for, or has no list.
        dismissed: the steps it does not want to see.
        sample: a job of its test account, None without one.
        has_list, has_key, has_webhook: of its own, whatever became of them.
    """

    new: bool
    dismissed: tuple[str, ...]
    sample: UUID | None
    has_list: bool
    has_key: bool
    has_webhook: bool


_STEPS = text("""
    WITH known AS (
        SELECT a.id, a.created_at, a.steps_dismissed,
            (SELECT j.id FROM job j JOIN account t ON t.id = j.account_id
             WHERE t.test_of = a.id ORDER BY j.created_at, j.id LIMIT 1) AS sample,
            EXISTS (SELECT FROM job WHERE account_id = a.id) AS has_list,
            EXISTS (SELECT FROM api_key k JOIN account o ON o.id = k.account_id
                    WHERE a.id IN (o.id, o.test_of)) AS has_key,
            EXISTS (SELECT FROM endpoint e JOIN account o ON o.id = e.account_id
                    WHERE a.id IN (o.id, o.test_of)) AS has_webhook
        FROM account a WHERE a.id = :account_id
    )
    SELECT NOT has_list OR created_at > clock_timestamp() - make_interval(days => :days) AS new,
        steps_dismissed AS dismissed, sample, has_list, has_key, has_webhook
    FROM known
""")


async def steps_of(connection: Connection, account_id: UUID, *, days: int) -> StepsRow | None:
    """Return what is known of an account; new is what was made in the last `days`, or has no list."""
    row = (await connection.execute(_STEPS, {"account_id": account_id, "days": days})).mappings().first()
    return StepsRow(**{**row, "dismissed": tuple(row["dismissed"])}) if row else None


_DISMISS_STEP = text("""
    UPDATE account SET steps_dismissed = array_append(steps_dismissed, :step)
    WHERE id = :account_id AND NOT :step = ANY(steps_dismissed)
""")


async def dismiss_step(connection: Connection, account_id: UUID, step: str) -> None:
    """Note that an account does not want to see a step any more."""
    await connection.execute(_DISMISS_STEP, {"account_id": account_id, "step": step})


@dataclass(frozen=True, slots=True)
class Amounts:
    """What was used.

    Attributes:
        rows: rows of lists, or addresses as they were sent, that got a verdict.
        addresses: distinct ones among them.
        probes: mailboxes about which a mail server was asked and answered.
    """

    rows: int = 0
    addresses: int = 0
    probes: int = 0

    def __add__(self, other: Amounts) -> Amounts:
        """Return both together."""
        return Amounts(self.rows + other.rows, self.addresses + other.addresses, self.probes + other.probes)


@dataclass(frozen=True, slots=True)
class DayUsage:
    """What an account used on one day (UTC) in one mode."""

    day: date
    mode: str
    amounts: Amounts


# An account that was deleted meanwhile has used nothing.
_ADD_USAGE = text("""
    INSERT INTO usage AS u (account_id, day, mode, rows, addresses, probes)
    SELECT id, (clock_timestamp() AT TIME ZONE 'UTC')::date, :mode, :rows, :addresses, :probes
    FROM account WHERE id = :account_id
    ON CONFLICT (account_id, day, mode) DO UPDATE SET rows = u.rows + excluded.rows,
        addresses = u.addresses + excluded.addresses, probes = u.probes + excluded.probes
""")


async def add_usage(connection: Connection, account_id: UUID, amounts: Mapping[str, Amounts]) -> None:
    """Add to what the account used today, by mode."""
    for mode, used in sorted(amounts.items()):
        await connection.execute(_ADD_USAGE, {"account_id": account_id, "mode": mode, **asdict(used)})


_USAGE_BY_DAY = text("""
    SELECT day, mode, rows, addresses, probes FROM usage
    WHERE account_id = :account_id AND day BETWEEN :first AND :last ORDER BY day, mode
""")


async def usage_by_day(
    connection: Connection, account_id: UUID, first: date, last: date
) -> Sequence[DayUsage]:
    """Return what the account used from the first to the last day, the oldest first."""
    found = await connection.execute(_USAGE_BY_DAY, {"account_id": account_id, "first": first, "last": last})
    return [DayUsage(row.day, row.mode, Amounts(row.rows, row.addresses, row.probes)) for row in found]


_COUNT_HOLDINGS = text("""
    SELECT jobs.*, outcomes.*, measured.*, keys.*, log.*, kept.* FROM
    (SELECT count(*) AS lists, coalesce(sum(source_bytes), 0)::bigint AS list_bytes,
            coalesce(sum(total), 0)::bigint AS list_rows, coalesce(sum(processed), 0)::bigint AS results,
            coalesce(sum(processed) FILTER (WHERE options->>'evidence' = 'true'), 0)::bigint AS evidence,
            count(*) FILTER (WHERE finished_at IS NULL) AS open_lists, min(expires_at) AS first_end,
            count(*) FILTER (WHERE expires_at IS NULL) AS for_ever
     FROM job WHERE account_id = ANY(:ids)) jobs,
    (SELECT count(*) AS outcomes, min(happened_at) + make_interval(days => :outcome_days) AS outcomes_end
     FROM outcome WHERE account_id = ANY(:ids)) outcomes,
    (SELECT count(*) AS measured FROM measured_verdict WHERE account_id = ANY(:ids)) measured,
    (SELECT count(*) AS keys FROM api_key WHERE account_id = ANY(:ids)) keys,
    (SELECT count(*) AS log FROM audit WHERE account_id = ANY(:ids)) log,
    (SELECT count(*) AS suppressions FROM suppression WHERE account_id = ANY(:ids)) kept
""")


async def count_holdings(connection: Connection, ids: Sequence[UUID], *, outcome_days: int) -> Row:
    """Return how much is kept of these accounts (of one, and of its test account)."""
    values = {"ids": list(ids), "outcome_days": outcome_days}
    return (await connection.execute(_COUNT_HOLDINGS, values)).mappings().one()


@dataclass(frozen=True, slots=True)
class EndingList:
    """A list whose time to be kept is nearly over."""

    id: UUID
    name: str
    expires_at: datetime


_LISTS_ENDING = text("""
    SELECT id, coalesce(nullif(name, ''), source_name) AS name, expires_at
    FROM job WHERE account_id = :account_id AND finished_at IS NOT NULL AND expires_at < :before
    ORDER BY expires_at LIMIT :limit
""")


async def lists_ending(
    connection: Connection, account_id: UUID, *, before: datetime, limit: int
) -> list[EndingList]:
    """Return lists that are deleted before then, the first one first."""
    values = {"account_id": account_id, "before": before, "limit": limit}
    return await rows_as(EndingList, connection, _LISTS_ENDING, values)


_ERASE_LISTS = statement(
    "DELETE FROM job WHERE account_id = ANY(:ids) AND state IN {ended} RETURNING id, total"
)

# What the log and its events say of lists, and answers that are kept for requests that are repeated.
_ERASE_TRACES: Final = tuple(
    text(line)
    for line in (
        "DELETE FROM idempotency WHERE account_id = ANY(:ids)",
        "DELETE FROM event WHERE account_id = ANY(:ids) AND type = 'audit.recorded'",
        "UPDATE audit SET detail = detail - 'list' WHERE account_id = ANY(:ids) AND action LIKE 'job.%'",
    )
)


async def erase_lists(connection: Connection, ids: Sequence[UUID]) -> tuple[list[UUID], int]:
    """Delete every list that has ended, and what else tells of lists; returns them, and their rows."""
    gone = (await connection.execute(_ERASE_LISTS, {"ids": list(ids)})).all()
    for trace in _ERASE_TRACES:
        await connection.execute(trace, {"ids": list(ids)})
    return [row.id for row in gone], sum(row.total for row in gone)


# Who counts outcomes up just now has read some of them: with its right to count it loses that to write.
_STOP_COUNTING = text("UPDATE measurement SET token = NULL, until = NULL WHERE account_id = ANY(:ids)")

_ERASE_OUTCOMES: Final = tuple(
    text(f"DELETE FROM {table} WHERE account_id = ANY(:ids)")  # noqa: S608 - names of this file
    for table in ("outcome", "measured_verdict", "accuracy")
)


async def erase_outcomes(connection: Connection, ids: Sequence[UUID]) -> int:
    """Delete every outcome and what was counted by them; returns how many outcomes."""
    await connection.execute(_STOP_COUNTING, {"ids": list(ids)})
    outcomes, *_ = [(await connection.execute(one, {"ids": list(ids)})).rowcount for one in _ERASE_OUTCOMES]
    return outcomes


_ERASE_SUPPRESSIONS = text("DELETE FROM suppression WHERE account_id = ANY(:ids)")


async def erase_suppressions(connection: Connection, ids: Sequence[UUID]) -> int:
    """Delete every suppression; returns how many."""
    return (await connection.execute(_ERASE_SUPPRESSIONS, {"ids": list(ids)})).rowcount


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was erased: how many of what, by whom and when."""

    id: UUID
    person_id: UUID
    erased: dict[str, int]
    at: datetime


_WRITE_RECEIPT = text("""
    INSERT INTO erasure_receipt (account_id, person_id, erased)
    VALUES (:account_id, :person_id, CAST(:erased AS jsonb)) RETURNING id
""")


async def write_receipt(
    connection: Connection, account_id: UUID, person_id: UUID, erased: Mapping[str, Any]
) -> UUID:
    """Write down what was erased, in the transaction that erases it; returns the receipt's id."""
    values = {"account_id": account_id, "person_id": person_id, "erased": json.dumps(dict(erased))}
    made: UUID = (await connection.execute(_WRITE_RECEIPT, values)).scalar_one()
    return made


_RECEIPTS = text("""
    SELECT id, person_id, erased, at FROM erasure_receipt
    WHERE account_id = :account_id AND (CAST(:id AS uuid) IS NULL OR id = CAST(:id AS uuid))
    ORDER BY at DESC LIMIT 100
""")


async def receipts(
    connection: Connection, account_id: UUID, *, receipt_id: UUID | None = None
) -> list[Receipt]:
    """Return the account's receipts, newest first, or the one with this id."""
    values = {"account_id": account_id, "id": receipt_id}
    return await rows_as(Receipt, connection, _RECEIPTS, values)


_LOCK = text("SELECT FROM account WHERE id = :account_id FOR UPDATE")
_PEOPLE = text("SELECT person_id FROM member WHERE account_id = :account_id")
_REMOVE_JOBS = text("DELETE FROM job WHERE account_id = :account_id RETURNING id")

# Chunks, deliveries, attempts, idempotency keys go with what they belong to, and with the account whatever
# the tables of people and notices hold of it.
_REMOVE_REST: Final = tuple(
    text(f"DELETE FROM {table} WHERE {column} = :account_id")  # noqa: S608 - names of this file
    for table, column in (
        ("schedule", "account_id"),
        ("event", "account_id"),
        ("endpoint", "account_id"),
        ("idempotency", "account_id"),
        ("api_key", "account_id"),
        ("account", "id"),
    )
)

# Who is a member nowhere any more has nothing here; operators look after the installation.
_FORGET_PEOPLE = text("""
    DELETE FROM person WHERE id = ANY(:people) AND NOT operator
        AND NOT EXISTS (SELECT FROM member WHERE person_id = person.id)
""")


async def remove(connection: Connection, account_id: UUID) -> list[UUID]:
    """Delete the account, every row of it and its people, and return the jobs it had.

    Nothing is added to it meanwhile: whatever belongs to an account waits for its row.
    """
    values = {"account_id": account_id}
    await connection.execute(_LOCK, values)
    people = list((await connection.execute(_PEOPLE, values)).scalars())
    jobs = list((await connection.execute(_REMOVE_JOBS, values)).scalars())
    for rest in _REMOVE_REST:
        await connection.execute(rest, values)
    await connection.execute(_FORGET_PEOPLE, {"people": people})
    return jobs
