"""Accounts in SQL: by name, what they have set, what was done of the first things to do, and the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from unicodedata import normalize
from uuid import UUID, uuid4

from sqlalchemy import select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert

from mailsift.storage.database import Connection, Row
from mailsift.storage.sql.tables import account


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


# An account's own, and its test account's.
_OWNER_OF_JOB = text("""
    SELECT j.account_id FROM job j JOIN account o ON o.id = j.account_id
    WHERE j.id = :job_id AND :account_id IN (o.id, o.test_of)
""")

_LOCK = text("SELECT FROM account WHERE id = :account_id FOR UPDATE")
_PEOPLE = text("SELECT person_id FROM member WHERE account_id = :account_id")
_JOBS = text("DELETE FROM job WHERE account_id = :account_id RETURNING id")

# Chunks, deliveries, attempts, idempotency keys go with what they belong to, and with the account whatever
# the tables of people and notices hold of it.
_REST: Final = tuple(
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


_FIND = text("""
    SELECT id FROM account WHERE name = ANY(CAST(:names AS text[]))
    ORDER BY array_position(CAST(:names AS text[]), name::text) LIMIT 1
""")


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

_DISMISS_STEP = text("""
    UPDATE account SET steps_dismissed = array_append(steps_dismissed, :step)
    WHERE id = :account_id AND NOT :step = ANY(steps_dismissed)
""")


def normalized_name(name: str) -> str:
    """Return the name as accounts are known by: one line, and each letter written in one way (NFC).

    What one system sends as `é` and another as `e` with an accent is one name.
    """
    return normalize("NFC", " ".join(name.split()))


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


async def remove(connection: Connection, account_id: UUID) -> list[UUID]:
    """Delete the account, every row of it and its people, and return the jobs it had.

    Nothing is added to it meanwhile: whatever belongs to an account waits for its row.
    """
    values = {"account_id": account_id}
    await connection.execute(_LOCK, values)
    people = list((await connection.execute(_PEOPLE, values)).scalars())
    jobs = list((await connection.execute(_JOBS, values)).scalars())
    for statement in _REST:
        await connection.execute(statement, values)
    await connection.execute(_FORGET_PEOPLE, {"people": people})
    return jobs


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


async def owner_of_job(connection: Connection, account_id: UUID, job_id: UUID) -> UUID | None:
    """Return whose a job is, the account's or its test account's; None when it is neither's."""
    found = await connection.execute(_OWNER_OF_JOB, {"account_id": account_id, "job_id": job_id})
    return found.scalar_one_or_none()


async def ensure_account(connection: Connection, name: str) -> UUID:
    """Return the id of the account with this name, made when it does not exist."""
    if (known := await find(connection, name)) is not None:
        return known
    made = upsert(account).values(id=uuid4(), name=normalized_name(name)).on_conflict_do_nothing()
    await connection.execute(made)
    found = await connection.execute(select(account.c.id).where(account.c.name == normalized_name(name)))
    return UUID(str(found.scalar_one()))


async def steps_of(connection: Connection, account_id: UUID, *, days: int) -> StepsRow | None:
    """Return what is known of an account; new is what was made in the last `days`, or has no list."""
    row = (await connection.execute(_STEPS, {"account_id": account_id, "days": days})).mappings().first()
    return StepsRow(**{**row, "dismissed": tuple(row["dismissed"])}) if row else None


async def dismiss_step(connection: Connection, account_id: UUID, step: str) -> None:
    """Note that an account does not want to see a step any more."""
    await connection.execute(_DISMISS_STEP, {"account_id": account_id, "step": step})
