"""Notices in SQL: mail to the owners of an account, remembered with what it tells of and sent later."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert as insert_into

from mailsift.storage.database import Connection, row_as
from mailsift.storage.sql.outbox import ClaimedMail, MailTable, claim_cte
from mailsift.storage.sql.tables import notice


@dataclass(frozen=True, slots=True)
class NewNotice:
    """A notice to remember; `since` names the streak of failures it is about."""

    account_id: UUID
    kind: str
    subject_id: UUID
    since: datetime
    reason: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ClaimedNotice(ClaimedMail):
    """A notice that is this caller's to send, with how its endpoint is now.

    Attributes:
        url, enabled: None when the endpoint was deleted.
        failing: nothing has arrived there since `since`.
        owners: addresses of those who are told.
    """

    account: str
    zone: str
    subject_id: UUID
    since: datetime
    reason: str
    created_at: datetime
    url: str | None
    enabled: bool | None
    failing: bool
    owners: list[str]


async def insert(connection: Connection, new: NewNotice) -> bool:
    """Remember a notice, due at once; False when there is one of its kind about this streak."""
    values = {**asdict(new), "next_try_at": new.created_at}
    statement = insert_into(notice).values(values).on_conflict_do_nothing().returning(notice.c.id)
    return (await connection.execute(statement)).first() is not None


_CLAIM = text(f"""
    {claim_cte(MailTable.NOTICES)}
    SELECT taken.id, account.name AS account, account.zone, taken.kind, taken.subject_id, taken.since,
           taken.reason, taken.created_at, taken.tries, e.url, e.enabled,
           coalesce(e.failing_since = taken.since, false) AS failing,
           ARRAY(SELECT person.email FROM member JOIN person ON person.id = member.person_id
                 WHERE member.account_id = taken.account_id AND member.role = 'owner'
                 ORDER BY person.email) AS owners
    FROM taken JOIN account ON account.id = taken.account_id LEFT JOIN endpoint e ON e.id = taken.subject_id
""")  # noqa: S608 - names of the module it comes from

_PURGE = text("""
    DELETE FROM notice WHERE state <> 'pending' AND created_at < :before AND NOT EXISTS (
        SELECT FROM endpoint e WHERE e.id = subject_id AND e.failing_since = notice.since)
""")


async def claim(connection: Connection, *, now: datetime, again: datetime) -> ClaimedNotice | None:
    """Take a notice that is due; `again` is when another may take it if nothing is heard of it."""
    return await row_as(ClaimedNotice, connection, _CLAIM, {"now": now, "again": again})


async def purge(connection: Connection, *, before: datetime) -> None:
    """Delete notices from before then that are over and about a streak of failures that is over too."""
    await connection.execute(_PURGE, {"before": before})
