"""People in SQL: persons, the accounts they are members of, and the audit log of what they did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, delete, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Connection, Row, rows_as
from mailsift.storage.sql.tables import account, member, person
from mailsift.storage.sql.tables import audit as audit_log

_ROLES: Final = ("viewer", "member", "owner")


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member of an account."""

    person_id: UUID
    email: str
    role: str
    operator: bool
    created_at: datetime
    last_sign_in: datetime | None


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One line of the audit log.

    `actor` is an address, `key:` with the beginning of a key's id and its name, or `cli`.
    """

    id: int
    account_id: UUID | None
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]
    at: datetime


async def add_person(
    connection: Connection, *, email: str, password: str, operator: bool = False
) -> UUID | None:
    """Insert a person; None when there is one of this address, who may have come just now."""
    statement = upsert(person).values(email=email, password=password, operator=operator)
    made: UUID | None = (
        await connection.execute(statement.on_conflict_do_nothing().returning(person.c.id))
    ).scalar_one_or_none()
    return made


async def person_of(connection: Connection, email: str) -> Row | None:
    """Return the person with this address (lower-case)."""
    return (await connection.execute(select(person).where(person.c.email == email))).mappings().one_or_none()


async def lock_person(connection: Connection, person_id: UUID) -> Row | None:
    """Return the person, whom nobody else changes until the transaction ends."""
    statement = select(person).where(person.c.id == person_id).with_for_update(key_share=True)
    return (await connection.execute(statement)).mappings().one_or_none()


async def change_person(connection: Connection, /, person_id: UUID, **values: Any) -> None:
    """Set columns of the person."""
    await connection.execute(update(person).where(person.c.id == person_id).values(**values))


async def replace_password(connection: Connection, person_id: UUID, stored: str, fresh: str) -> None:
    """Store the same password hashed anew, unless another one is stored by now."""
    statement = update(person).where(person.c.id == person_id, person.c.password == stored)
    await connection.execute(statement.values(password=fresh))


async def remove_person(connection: Connection, person_id: UUID) -> None:
    """Delete the person, what they are a member of and their sessions."""
    await connection.execute(delete(person).where(person.c.id == person_id))


async def everybody(connection: Connection) -> Sequence[Row]:
    """Return every membership with the person and the account's name; persons without one come last."""
    statement = (
        select(person.c.id, person.c.email, person.c.operator, person.c.created_at, person.c.last_sign_in)
        .add_columns(member.c.role, account.c.name.label("account"))
        .outerjoin(member, member.c.person_id == person.c.id)
        .outerjoin(account, account.c.id == member.c.account_id)
        .order_by(account.c.name.nulls_last(), person.c.email)
    )
    return (await connection.execute(statement)).mappings().all()


async def lock_people(connection: Connection) -> None:
    """Let nobody else add or change a person until the transaction ends."""
    await connection.execute(text("LOCK TABLE person IN SHARE ROW EXCLUSIVE MODE"))


async def anybody(connection: Connection) -> bool:
    """Say whether there is a person at all."""
    return (await connection.execute(select(person.c.id).limit(1))).first() is not None


async def put_member(connection: Connection, account_id: UUID, person_id: UUID, role: str) -> None:
    """Make a person a member with this role, or give a member this role."""
    values = {"account_id": account_id, "person_id": person_id, "role": role}
    statement = upsert(member).values(values)
    await connection.execute(
        statement.on_conflict_do_update(index_elements=["account_id", "person_id"], set_={"role": role})
    )


async def remove_member(connection: Connection, account_id: UUID, person_id: UUID) -> bool:
    """End a membership and its sessions; False when there was none."""
    statement = delete(member).where(member.c.account_id == account_id, member.c.person_id == person_id)
    return (await connection.execute(statement)).rowcount == 1


async def members(connection: Connection, account_id: UUID) -> list[MemberRow]:
    """Return the account's members, those who may most first."""
    statement = (
        select(member.c.person_id, person.c.email, member.c.role, person.c.operator)
        .add_columns(member.c.created_at, person.c.last_sign_in)
        .join(person, person.c.id == member.c.person_id)
        .where(member.c.account_id == account_id)
        .order_by(person.c.email)
    )
    found = await rows_as(MemberRow, connection, statement)
    return sorted(found, key=lambda one: -_ROLES.index(one.role))


async def accounts_of(connection: Connection, person_id: UUID, *, lock: bool = False) -> Sequence[Row]:
    """Return the accounts a person is a member of: id, name, role; by name.

    With `lock`: those whose member they stay until the transaction ends.
    """
    statement = (
        select(account.c.id, account.c.name, member.c.role)
        .join(member, member.c.account_id == account.c.id)
        .where(member.c.person_id == person_id)
        .order_by(account.c.name)
    )
    if lock:
        statement = statement.with_for_update(read=True, key_share=True, of=member)
    return (await connection.execute(statement)).mappings().all()


# The detail is bound as text: what the driver makes of a mapping is its business.
_AUDIT = text("""
    INSERT INTO audit (account_id, actor, action, subject, detail)
    VALUES (:account_id, :actor, :action, :subject, CAST(:detail AS jsonb))
    RETURNING id, at
""")

_LIST_NAMED = text("""
    SELECT coalesce(nullif(name, ''), source_name) AS list, options->>'mode' AS mode, addresses
    FROM job WHERE id = :id AND account_id = :account_id
""")


async def audit(
    connection: Connection,
    account_id: UUID | None,
    actor: str,
    action: str,
    subject: str = "",
    /,
    **detail: Any,
) -> AuditRow:
    """Write down what somebody did, in the transaction of the change; returns the line.

    Args:
        connection: the transaction.
        account_id: whose owners may read it; None = of the installation, read by operators.
        actor: the address of the person, `key:`, the beginning of a key's id and its name, or `cli`.
        action: `<thing>.<verb>`, e.g. `key.create`.
        subject: what it was done to: an id or a name.
        detail: JSON types only, never a secret.
    """
    values = {"account_id": account_id, "actor": actor, "action": action, "subject": subject}
    made = (await connection.execute(_AUDIT, {**values, "detail": json.dumps(detail)})).one()
    return AuditRow(made.id, account_id, actor, action, subject, detail, made.at)


async def audit_operation(
    connection: Connection, actor: str, action: str, subject: str = "", /, **detail: Any
) -> None:
    """Write down what was done to the installation, or to a person of any account: operators read it."""
    await audit(connection, None, actor, action, subject, **detail)


async def list_named(connection: Connection, account_id: UUID, job_id: str) -> dict[str, Any]:
    """Return of a job of the account what its list is called, its mode and how many addresses it has."""
    try:
        values = {"id": UUID(job_id), "account_id": account_id}
    except ValueError:
        return {}
    row = (await connection.execute(_LIST_NAMED, values)).mappings().one_or_none()
    return {name: value for name, value in row.items() if value} if row else {}


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which lines of the log; what is empty or None does not narrow.

    Attributes:
        words: actor, action or subject have them.
        actor: what one did.
        subject: done to this.
        things: done to one of these: the part of the action before its dot.
        since: then or later.
        until: before then.
    """

    words: str = ""
    actor: str = ""
    subject: str = ""
    things: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None


NO_FILTER: Final = AuditFilter()


async def actors(connection: Connection, account_id: UUID) -> list[str]:
    """Return who did anything in the account."""
    statement = select(audit_log.c.actor).where(audit_log.c.account_id == account_id).distinct()
    return sorted((await connection.execute(statement)).scalars())


async def audited(
    connection: Connection,
    account_id: UUID | None,
    *,
    limit: int,
    before: int | None = None,
    wanted: AuditFilter = NO_FILTER,
) -> list[AuditRow]:
    """Return lines of the log, newest first; `before` is the id of the last one seen.

    With `account_id` None: those of every account and of the installation.
    """
    statement = select(audit_log).order_by(audit_log.c.id.desc()).limit(limit).where(*_conditions(wanted))
    if account_id is not None:
        statement = statement.where(audit_log.c.account_id == account_id)
    if before is not None:
        statement = statement.where(audit_log.c.id < before)
    return await rows_as(AuditRow, connection, statement)


def person_not_found() -> MailsiftError:
    """Return the error of a person who is not there."""
    return MailsiftError("person_not_found", "There is no such person.")


def _conditions(wanted: AuditFilter) -> Iterator[ColumnElement[bool]]:
    log = audit_log.c
    if wanted.words:
        yield or_(
            *(one.icontains(wanted.words, autoescape=True) for one in (log.actor, log.action, log.subject))
        )
    if wanted.actor:
        yield log.actor == wanted.actor
    if wanted.subject:
        yield log.subject == wanted.subject
    if wanted.things:
        yield func.split_part(log.action, ".", 1).in_(wanted.things)
    if wanted.since is not None:
        yield log.at >= wanted.since
    if wanted.until is not None:
        yield log.at < wanted.until
