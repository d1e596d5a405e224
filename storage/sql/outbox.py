"""What is mailed later, in SQL: the tables `notice` and `job_mail` are both outboxes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection

MAIL_RETRY_S: Final = (60.0, 300.0, 1_800.0, 7_200.0, 21_600.0, 43_200.0)
"""Seconds after try 1, 2, … of a mail; after the last of them it is given up."""

MAIL_LEASE_S: Final = 600.0
"""A mail whose sender died is sent by another after so long; sending takes less."""


class MailTable(StrEnum):
    """A table of mail to send; each has id, kind, state, tries and next_try_at."""

    NOTICES = "notice"
    JOB_MAIL = "job_mail"


@dataclass(frozen=True, slots=True)
class ClaimedMail:
    """A mail that is this caller's to send; `tries` counts this one."""

    id: UUID
    kind: str
    tries: int


def claim_cte(table: MailTable) -> str:
    """Return the head of the statement that claims: `WITH taken AS (…)`, the mail that is due first.

    A try is counted when it begins, and the next one is set then: whoever dies leaves nothing to clean up.
    """
    return f"""
        WITH taken AS (
            UPDATE {table} SET tries = tries + 1, next_try_at = :again
            WHERE id = (
                SELECT id FROM {table} WHERE state = 'pending' AND next_try_at <= :now
                ORDER BY next_try_at LIMIT 1 FOR UPDATE SKIP LOCKED)
            RETURNING *
        )
    """  # noqa: S608 - names of this module


_RECORD_TRY: Final = {
    table: text(f"""
        UPDATE {table} SET state = :state, next_try_at = coalesce(CAST(:again AS timestamptz), next_try_at)
        WHERE id = :id AND state = 'pending' AND tries = :tries
    """)  # noqa: S608 - same
    for table in MailTable
}


async def record_try(
    connection: Connection, table: MailTable, claimed: ClaimedMail, *, state: str, again: datetime | None
) -> None:
    """Write down what became of a mail, unless somebody else has tried it meanwhile."""
    values = {"id": claimed.id, "tries": claimed.tries, "state": state, "again": again}
    await connection.execute(_RECORD_TRY[table], values)


_MAILS: Final = " UNION ALL ".join(f"SELECT state, tries, next_try_at FROM {one}" for one in MailTable)  # noqa: S608 - names of this module

# A mail that was sent keeps the time of its claim, plus the lease; one that waits, when it is tried again.
# What went out within the last lease counts as later than any failure: a try under way looks like one.
_FAILING: Final = text(f"""
    WITH mail AS NOT MATERIALIZED ({_MAILS})
    SELECT count(*) FROM mail failing WHERE state = 'pending' AND tries > 1 AND NOT EXISTS (
        SELECT FROM mail sent WHERE sent.state = :sent AND sent.next_try_at - make_interval(secs => :lease)
            > least(failing.next_try_at - make_interval(secs => (CAST(:waits AS float8[]))[failing.tries]),
                    clock_timestamp() - make_interval(secs => :lease)))
""")  # noqa: S608 - same


async def count_failing(connection: Connection) -> int:
    """Count the mails that are tried again and again while none has gone out since."""
    return int((await connection.execute(_FAILING, _HOW_TRIED)).scalar_one())


_HOW_TRIED: Final = {"sent": "sent", "lease": MAIL_LEASE_S, "waits": list(MAIL_RETRY_S)}
