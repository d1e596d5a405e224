"""People in SQL: who they are, what they are members of, how they come in, and the log of what they did.

Of sessions, one-time links and recovery codes only hashes are stored; secrets and tokens are sealed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, func, insert, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Connection, Row, row_as, rows_as
from mailsift.storage.sql.tables import account, link, member, person, session
from mailsift.storage.sql.tables import audit as audit_log


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


async def list_all(connection: Connection) -> Sequence[Row]:
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


async def any_exist(connection: Connection) -> bool:
    """Say whether there is a person at all."""
    return (await connection.execute(select(person.c.id).limit(1))).first() is not None


def person_not_found() -> MailsiftError:
    """Return the error of a person who is not there."""
    return MailsiftError("person_not_found", "There is no such person.")


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


@dataclass(frozen=True, slots=True)
class SecondFactorRow:
    """A person's second factor; until it is confirmed it guards nothing."""

    secret: bytes = field(repr=False)
    recovery_left: int
    confirmed_at: datetime | None


_PUT_FACTOR = text("""
    INSERT INTO second_factor (person_id, secret) VALUES (:person_id, :secret)
    ON CONFLICT (person_id) DO UPDATE SET secret = :secret, last_step = 0
    WHERE second_factor.confirmed_at IS NULL
    RETURNING person_id
""")


async def put_second_factor(connection: Connection, person_id: UUID, secret: bytes) -> bool:
    """Note a secret that is to be confirmed; False when a confirmed one is there already."""
    values = {"person_id": person_id, "secret": secret}
    return (await connection.execute(_PUT_FACTOR, values)).first() is not None


_GET_FACTOR = text("""
    SELECT secret, cardinality(recovery) AS recovery_left, confirmed_at FROM second_factor
    WHERE person_id = :person_id
""")


async def get_second_factor(connection: Connection, person_id: UUID) -> SecondFactorRow | None:
    """Return the person's second factor."""
    return await row_as(SecondFactorRow, connection, _GET_FACTOR, {"person_id": person_id})


_CONFIRM_FACTOR = text("""
    UPDATE second_factor SET confirmed_at = :now, recovery = :recovery, last_step = :step
    WHERE person_id = :person_id AND confirmed_at IS NULL AND secret = :secret
""")


async def confirm_second_factor(
    connection: Connection,
    person_id: UUID,
    secret: bytes,
    *,
    recovery: Sequence[bytes],
    step: int,
    now: datetime,
) -> bool:
    """Let this secret guard from now on; False when one does already, or another one is to be confirmed."""
    values = {"person_id": person_id, "secret": secret, "recovery": list(recovery), "step": step, "now": now}
    return (await connection.execute(_CONFIRM_FACTOR, values)).rowcount == 1


# Of two who come with one code, one gets in.
_USE_ONE_TIME_CODE = text("""
    UPDATE second_factor SET last_step = :step
    WHERE person_id = :person_id AND confirmed_at IS NOT NULL AND secret = :secret AND last_step < :step
""")


async def use_one_time_code(connection: Connection, person_id: UUID, secret: bytes, step: int) -> bool:
    """Use the code of a step; False when that or a later one was used, or another secret guards by now."""
    values = {"person_id": person_id, "secret": secret, "step": step}
    return (await connection.execute(_USE_ONE_TIME_CODE, values)).rowcount == 1


_USE_RECOVERY_CODE = text("""
    UPDATE second_factor SET recovery = array_remove(recovery, :digest)
    WHERE person_id = :person_id AND confirmed_at IS NOT NULL AND :digest = ANY(recovery)
""")


async def use_recovery_code(connection: Connection, person_id: UUID, digest: bytes) -> bool:
    """Use up a recovery code; False when there is no such one."""
    values = {"person_id": person_id, "digest": digest}
    return (await connection.execute(_USE_RECOVERY_CODE, values)).rowcount == 1


_DELETE_FACTOR = text("DELETE FROM second_factor WHERE person_id = :person_id")


async def delete_second_factor(connection: Connection, person_id: UUID) -> bool:
    """Forget the second factor; False when there is none."""
    return (await connection.execute(_DELETE_FACTOR, {"person_id": person_id})).rowcount == 1


@dataclass(frozen=True, slots=True)
class SsoSessionRow:
    """A session that a provider has opened; `tokens` are sealed.

    Attributes:
        known_at: when the provider last said who this is.
    """

    session_id: bytes
    person_id: UUID
    issuer: str
    subject: str
    tokens: bytes = field(repr=False)
    known_at: datetime


_PERSON_OF_IDENTITY = text("SELECT person_id FROM sso_identity WHERE issuer = :issuer AND subject = :subject")


async def person_of_identity(connection: Connection, issuer: str, subject: str) -> UUID | None:
    """Return whose identity this is."""
    found: UUID | None = (
        await connection.execute(_PERSON_OF_IDENTITY, {"issuer": issuer, "subject": subject})
    ).scalar_one_or_none()
    return found


_LINK_IDENTITY = text("""
    INSERT INTO sso_identity (issuer, subject, person_id) VALUES (:issuer, :subject, :person_id)
    ON CONFLICT DO NOTHING RETURNING person_id
""")


async def link_identity(connection: Connection, issuer: str, subject: str, person_id: UUID) -> bool:
    """Make it the identity of a person; False when they have another one at this provider."""
    values = {"issuer": issuer, "subject": subject, "person_id": person_id}
    return (await connection.execute(_LINK_IDENTITY, values)).first() is not None


_INSERT_SSO_SESSION = text("""
    INSERT INTO sso_session (session_id, person_id, issuer, subject, tokens, asked_at, known_at)
    VALUES (:session_id, :person_id, :issuer, :subject, :tokens, :known_at, :known_at)
""")


async def insert_sso_session(connection: Connection, new: SsoSessionRow) -> None:
    """Note that the provider has opened this session."""
    await connection.execute(_INSERT_SSO_SESSION, asdict(new))


# Of many requests of one session one asks; who dies over it leaves the next to ask again.
_CLAIM_SSO_SESSION = text("""
    UPDATE sso_session SET asked_at = :now WHERE session_id = :session_id AND asked_at <= :before
    RETURNING session_id, person_id, issuer, subject, tokens, known_at
""")


async def claim_sso_session(
    connection: Connection, session_id: bytes, *, now: datetime, before: datetime
) -> SsoSessionRow | None:
    """Take the asking about a session that was last asked about before then; None: another one does."""
    values = {"session_id": session_id, "now": now, "before": before}
    return await row_as(SsoSessionRow, connection, _CLAIM_SSO_SESSION, values)


_RENEW_SSO_SESSION = text(
    "UPDATE sso_session SET tokens = :tokens, known_at = :now WHERE session_id = :session_id"
)


async def renew_sso_session(
    connection: Connection, session_id: bytes, *, tokens: bytes, now: datetime
) -> None:
    """Note that the provider has said who it is, now."""
    await connection.execute(_RENEW_SSO_SESSION, {"session_id": session_id, "tokens": tokens, "now": now})


_TOUCH_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to insert; `id` is a hash."""

    id: bytes
    person_id: UUID
    account_id: UUID
    created_at: datetime
    seen_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A living session, who it is of and what they may.

    Attributes:
        sso_asked_at: None where a password opened it.
        zone: the time zone they have chosen, "" for the account's.
    """

    person_id: UUID
    email: str
    operator: bool
    account_id: UUID
    account_name: str
    role: str
    seen_at: datetime
    sso_asked_at: datetime | None
    zone: str
    account_zone: str


@dataclass(frozen=True, slots=True)
class LinkTerms:
    """What a one-time link is to give, and by whom; `account_id` is None unless it is an invitation."""

    kind: str
    role: str
    made_by: str
    account_id: UUID | None = None
    email: str = ""
    operator: bool = False


async def insert_session(connection: Connection, new: NewSession) -> None:
    """Insert a session, and forget those that have ended by themselves."""
    await connection.execute(delete(session).where(session.c.expires_at < new.created_at))
    await connection.execute(insert(session).values(asdict(new)))


_FIND_SESSION = text("""
    SELECT p.id AS person_id, p.email, p.operator, a.id AS account_id, a.name AS account_name,
           m.role, s.seen_at, sso.asked_at AS sso_asked_at,
           p.zone, a.zone AS account_zone
    FROM session s
    LEFT JOIN sso_session sso ON sso.session_id = s.id
    JOIN person p ON p.id = s.person_id
    JOIN account a ON a.id = s.account_id
    JOIN member m ON m.account_id = s.account_id AND m.person_id = s.person_id
    WHERE s.id = :id AND s.expires_at > :now AND s.seen_at > :idle_since
""")


async def find_session(
    connection: Connection, session_id: bytes, *, now: datetime, idle: timedelta
) -> SessionRow | None:
    """Return the session unless it has ended or slept for longer than `idle`; notes that it is used."""
    values = {"id": session_id, "now": now, "idle_since": now - idle}
    row = (await connection.execute(_FIND_SESSION, values)).mappings().one_or_none()
    if row is None:
        return None
    if row["seen_at"] < now - _TOUCH_EVERY:
        await connection.execute(update(session).where(session.c.id == session_id).values(seen_at=now))
    return SessionRow(**row)


async def choose_account(connection: Connection, session_id: bytes, account_id: UUID) -> None:
    """Let the session look at another account of its person."""
    await connection.execute(update(session).where(session.c.id == session_id).values(account_id=account_id))


async def end_session(connection: Connection, session_id: bytes) -> None:
    """End a session."""
    await connection.execute(delete(session).where(session.c.id == session_id))


async def end_sessions(connection: Connection, person_id: UUID) -> int:
    """End the sessions of a person; returns how many."""
    return (await connection.execute(delete(session).where(session.c.person_id == person_id))).rowcount


async def insert_link(
    connection: Connection, digest: bytes, terms: LinkTerms, *, now: datetime, expires_at: datetime
) -> None:
    """Insert a one-time link, and forget those that are over."""
    await connection.execute(delete(link).where(link.c.expires_at < now))
    times = {"created_at": now, "expires_at": expires_at}
    await connection.execute(insert(link).values(hash=digest, **times, **asdict(terms)))


_BY_OWNER: Final = (
    select(member)
    .join(person, person.c.id == member.c.person_id)
    .where(member.c.account_id == link.c.account_id, member.c.role == "owner")
    .where(person.c.email == link.c.made_by)
    .correlate(link)
    .exists()
)


def _is_open(now: datetime) -> ColumnElement[bool]:
    """Say whether a link can be used: in its time, and while a person who made it may invite others."""
    by_person = link.c.made_by.contains("@")  # else an operator did, on the command line
    return and_(link.c.expires_at > now, or_(~by_person, _BY_OWNER))


async def find_link(connection: Connection, digest: bytes, *, now: datetime) -> Row | None:
    """Return the link, unless it is used or over."""
    statement = select(link).where(link.c.hash == digest, _is_open(now))
    return (await connection.execute(statement)).mappings().one_or_none()


async def use_link(connection: Connection, digest: bytes, *, now: datetime) -> Row | None:
    """Take the link out of the world and return it; of two who try, one gets it."""
    statement = delete(link).where(link.c.hash == digest, _is_open(now)).returning(link)
    return (await connection.execute(statement)).mappings().one_or_none()


async def forget_links(connection: Connection, email: str, **only: object) -> None:
    """Delete the links of a person: all of them, or those of a `kind` or into an account (`account_id`)."""
    await connection.execute(delete(link).where(link.c.email == email).filter_by(**only))


async def links_of(connection: Connection, account_id: UUID, *, now: datetime) -> Sequence[Row]:
    """Return the account's open invitations, newest first."""
    statement = (
        select(link).where(link.c.account_id == account_id, _is_open(now)).order_by(link.c.created_at.desc())
    )
    return (await connection.execute(statement)).mappings().all()


async def invitations_of(connection: Connection, email: str, *, now: datetime) -> Sequence[Row]:
    """Return the open invitations of somebody, each with the name of its `account`."""
    statement = (
        select(link, account.c.name.label("account"))
        .join(account, account.c.id == link.c.account_id)
        .where(link.c.kind == "invite", link.c.email == email, _is_open(now))
    )
    return (await connection.execute(statement)).mappings().all()


async def is_invited(connection: Connection, email: str, *, now: datetime) -> bool:
    """Say whether an invitation is open for somebody."""
    for_them = select(link).where(link.c.kind == "invite", link.c.email == email, _is_open(now))
    return bool((await connection.execute(select(for_them.exists()))).scalar_one())


async def delete_link(connection: Connection, account_id: UUID, link_id: UUID) -> str | None:
    """Withdraw an invitation of the account; returns for whom it was, None when there is none."""
    statement = delete(link).where(link.c.account_id == account_id, link.c.id == link_id)
    return (await connection.execute(statement.returning(link.c.email))).scalar_one_or_none()


_TRIES_KEPT: Final = timedelta(days=1)

_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(hashtextextended(encode(:holder, 'hex'), 0))")

# A try that is refused is none: who is locked out is not so for longer because somebody goes on trying.
_COUNT_TRY = text("""
    WITH mine AS (
        SELECT count(*) AS tries, min(tried_at) AS first FROM sign_in_try
        WHERE holder = :holder AND tried_at > :since
    ), counted AS (
        INSERT INTO sign_in_try (holder, tried_at) SELECT :holder, :now FROM mine WHERE tries < :quota
    )
    SELECT tries, first FROM mine
""")

_PURGE_TRIES = text("DELETE FROM sign_in_try WHERE tried_at < :before")


async def count_try(
    connection: Connection, holder: bytes, *, quota: int, window: timedelta, now: datetime
) -> tuple[int, datetime | None]:
    """Count a try, unless the quota of the window is used up.

    No other try of this holder, a hash of who tries, runs beside the transaction.

    Returns:
        How many there were in the window before, and the first of them.
    """
    await connection.execute(_ONE_AT_A_TIME, {"holder": holder})
    await connection.execute(_PURGE_TRIES, {"before": now - _TRIES_KEPT})
    values = {"holder": holder, "since": now - window, "now": now, "quota": quota}
    row = (await connection.execute(_COUNT_TRY, values)).one()
    return row.tries, row.first


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


# The detail is bound as text: what the driver makes of a mapping is its business.
_AUDIT = text("""
    INSERT INTO audit (account_id, actor, action, subject, detail)
    VALUES (:account_id, :actor, :action, :subject, CAST(:detail AS jsonb))
    RETURNING id, at
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


_LIST_NAMED = text("""
    SELECT coalesce(nullif(name, ''), source_name) AS list, options->>'mode' AS mode, addresses
    FROM job WHERE id = :id AND account_id = :account_id
""")


async def list_named(connection: Connection, account_id: UUID, job_id: str) -> dict[str, Any]:
    """Return of a job of the account what its list is called, its mode and how many addresses it has."""
    try:
        values = {"id": UUID(job_id), "account_id": account_id}
    except ValueError:
        return {}
    row = (await connection.execute(_LIST_NAMED, values)).mappings().one_or_none()
    return {name: value for name, value in row.items() if value} if row else {}


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
