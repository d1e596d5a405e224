"""Sessions, one-time links and tries to sign in, in SQL; of all only hashes are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import delete, insert, select, text, update

from mailsift.storage.database import Connection, Row
from mailsift.storage.sql.tables import account, link, session

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


_FIND = text("""
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


async def insert_session(connection: Connection, new: NewSession) -> None:
    """Insert a session, and forget those that have ended by themselves."""
    await connection.execute(delete(session).where(session.c.expires_at < new.created_at))
    await connection.execute(insert(session).values(asdict(new)))


async def find_session(
    connection: Connection, session_id: bytes, *, now: datetime, idle: timedelta
) -> SessionRow | None:
    """Return the session unless it has ended or slept for longer than `idle`; notes that it is used."""
    values = {"id": session_id, "now": now, "idle_since": now - idle}
    row = (await connection.execute(_FIND, values)).mappings().one_or_none()
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


async def find_link(connection: Connection, digest: bytes, *, now: datetime) -> Row | None:
    """Return the link, unless it is used or over."""
    statement = select(link).where(link.c.hash == digest, link.c.expires_at > now)
    return (await connection.execute(statement)).mappings().one_or_none()


async def use_link(connection: Connection, digest: bytes, *, now: datetime) -> Row | None:
    """Take the link out of the world and return it; of two who try, one gets it."""
    statement = delete(link).where(link.c.hash == digest, link.c.expires_at > now).returning(link)
    return (await connection.execute(statement)).mappings().one_or_none()


async def forget_links(connection: Connection, email: str, **only: object) -> None:
    """Delete the links of a person: all of them, or those of a `kind` or into an account (`account_id`)."""
    await connection.execute(delete(link).where(link.c.email == email).filter_by(**only))


async def links_of(connection: Connection, account_id: UUID, *, now: datetime) -> Sequence[Row]:
    """Return the account's open invitations, newest first."""
    statement = (
        select(link)
        .where(link.c.account_id == account_id, link.c.expires_at > now)
        .order_by(link.c.created_at.desc())
    )
    return (await connection.execute(statement)).mappings().all()


async def invitations_of(connection: Connection, email: str, *, now: datetime) -> Sequence[Row]:
    """Return the open invitations of somebody, each with the name of its `account`."""
    statement = (
        select(link, account.c.name.label("account"))
        .join(account, account.c.id == link.c.account_id)
        .where(link.c.kind == "invite", link.c.email == email, link.c.expires_at > now)
    )
    return (await connection.execute(statement)).mappings().all()


async def is_invited(connection: Connection, email: str, *, now: datetime) -> bool:
    """Say whether an invitation is open for somebody."""
    for_them = select(link).where(link.c.kind == "invite", link.c.email == email, link.c.expires_at > now)
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
