"""Single sign-on in SQL: whose identity it is, and the sessions that a provider is asked about."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection, row_as


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


_PERSON = text("SELECT person_id FROM sso_identity WHERE issuer = :issuer AND subject = :subject")

_LINK = text("""
    INSERT INTO sso_identity (issuer, subject, person_id) VALUES (:issuer, :subject, :person_id)
    ON CONFLICT DO NOTHING RETURNING person_id
""")

_INSERT = text("""
    INSERT INTO sso_session (session_id, person_id, issuer, subject, tokens, asked_at, known_at)
    VALUES (:session_id, :person_id, :issuer, :subject, :tokens, :known_at, :known_at)
""")

# Of many requests of one session one asks; who dies over it leaves the next to ask again.
_CLAIM = text("""
    UPDATE sso_session SET asked_at = :now WHERE session_id = :session_id AND asked_at <= :before
    RETURNING session_id, person_id, issuer, subject, tokens, known_at
""")

_KNOWN = text("UPDATE sso_session SET tokens = :tokens, known_at = :now WHERE session_id = :session_id")


async def person_of(connection: Connection, issuer: str, subject: str) -> UUID | None:
    """Return whose identity this is."""
    found: UUID | None = (
        await connection.execute(_PERSON, {"issuer": issuer, "subject": subject})
    ).scalar_one_or_none()
    return found


async def link(connection: Connection, issuer: str, subject: str, person_id: UUID) -> bool:
    """Make it the identity of a person; False when they have another one at this provider."""
    values = {"issuer": issuer, "subject": subject, "person_id": person_id}
    return (await connection.execute(_LINK, values)).first() is not None


async def insert_session(connection: Connection, new: SsoSessionRow) -> None:
    """Note that the provider has opened this session."""
    await connection.execute(_INSERT, asdict(new))


async def claim(
    connection: Connection, session_id: bytes, *, now: datetime, before: datetime
) -> SsoSessionRow | None:
    """Take the asking about a session that was last asked about before then; None: another one does."""
    values = {"session_id": session_id, "now": now, "before": before}
    return await row_as(SsoSessionRow, connection, _CLAIM, values)


async def set_known(connection: Connection, session_id: bytes, *, tokens: bytes, now: datetime) -> None:
    """Note that the provider has said who it is, now."""
    await connection.execute(_KNOWN, {"session_id": session_id, "tokens": tokens, "now": now})
