"""Mail of our own in SQL, remembered with what it tells of and sent later: notices, and mail about jobs.

The tables `notice` (to owners of an account) and `job_mail` (to members, as each chose) are both outboxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert as upsert

from mailsift.storage.database import Connection, row_as, statement
from mailsift.storage.sql.tables import notice

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


def _claim_cte(table: MailTable) -> str:
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
_HOW_TRIED: Final = {"sent": "sent", "lease": MAIL_LEASE_S, "waits": list(MAIL_RETRY_S)}

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


async def insert_notice(connection: Connection, new: NewNotice) -> bool:
    """Remember a notice, due at once; False when there is one of its kind about this streak."""
    values = {**asdict(new), "next_try_at": new.created_at}
    new_one = upsert(notice).values(values).on_conflict_do_nothing().returning(notice.c.id)
    return (await connection.execute(new_one)).first() is not None


_CLAIM_NOTICE = text(f"""
    {_claim_cte(MailTable.NOTICES)}
    SELECT taken.id, account.name AS account, account.zone, taken.kind, taken.subject_id, taken.since,
           taken.reason, taken.created_at, taken.tries, e.url, e.enabled,
           coalesce(e.failing_since = taken.since, false) AS failing,
           ARRAY(SELECT person.email FROM member JOIN person ON person.id = member.person_id
                 WHERE member.account_id = taken.account_id AND member.role = 'owner'
                 ORDER BY person.email) AS owners
    FROM taken JOIN account ON account.id = taken.account_id LEFT JOIN endpoint e ON e.id = taken.subject_id
""")  # noqa: S608 - names of this module


async def claim_notice(connection: Connection, *, now: datetime, again: datetime) -> ClaimedNotice | None:
    """Take a notice that is due; `again` is when another may take it if nothing is heard of it."""
    return await row_as(ClaimedNotice, connection, _CLAIM_NOTICE, {"now": now, "again": again})


_PURGE_NOTICES = text("""
    DELETE FROM notice WHERE state <> 'pending' AND created_at < :before AND NOT EXISTS (
        SELECT FROM endpoint e WHERE e.id = subject_id AND e.failing_since = notice.since)
""")


async def purge_notices(connection: Connection, *, before: datetime) -> None:
    """Delete notices from before then that are over and about a streak of failures that is over too."""
    await connection.execute(_PURGE_NOTICES, {"before": before})


_CHOSEN_MAIL = text("SELECT mail FROM member WHERE account_id = :account_id AND person_id = :person_id")


async def chosen_mail(connection: Connection, account_id: UUID, person_id: UUID) -> list[str]:
    """Return what a member wants to hear of."""
    values = {"account_id": account_id, "person_id": person_id}
    return list((await connection.execute(_CHOSEN_MAIL, values)).scalar_one_or_none() or ())


_CHOOSE_MAIL = text("""
    UPDATE member SET mail = :kinds WHERE account_id = :account_id AND person_id = :person_id
""")


async def choose_mail(
    connection: Connection, account_id: UUID, person_id: UUID, kinds: Sequence[str]
) -> None:
    """Set what a member wants to hear of."""
    values = {"account_id": account_id, "person_id": person_id, "kinds": list(kinds)}
    await connection.execute(_CHOOSE_MAIL, values)


@dataclass(frozen=True, slots=True)
class ClaimedJobMail(ClaimedMail):
    """A mail that is this caller's to send, with how its job is now.

    Attributes:
        email: of whom it is for.
        is_wanted: they still are a member who wants it, and it is still so.
        ready_at: when the first address that waits is asked again.
        expires_at: when the job is deleted.
        repeated: a schedule runs its list, which goes with it.
        zone: in which they read times.
    """

    email: str
    is_wanted: bool
    job_id: UUID
    name: str
    account: str
    total: int
    processed: int
    valid: int
    risky: int
    invalid: int
    error: str
    ready_at: datetime | None
    expires_at: datetime | None
    repeated: bool
    zone: str


_IDLE = """
    job.state IN {claimable} AND (
        (job.started_at IS NULL AND job.created_at < :before)
        OR (EXISTS (SELECT FROM chunk WHERE chunk.job_id = job.id AND chunk.state = 'ready')
            AND NOT EXISTS (
                SELECT FROM chunk WHERE chunk.job_id = job.id
                  AND (chunk.state = 'leased' OR (chunk.state = 'ready' AND chunk.ready_at < :after)))))
"""

_ENDS_SOON = """
    job.state IN {ended}
      AND job.expires_at > :now AND job.expires_at < :before AND job.expires_at > job.created_at + :kept
"""

# Members who want it are few, and come first.
_REMEMBER_WAITING, _REMEMBER_EXPIRING = (
    statement(f"""
        INSERT INTO job_mail (job_id, person_id, kind, next_try_at)
        SELECT job.id, member.person_id, '{kind}', :now
        FROM member JOIN job ON job.account_id = member.account_id
        WHERE '{kind}' = ANY(member.mail) AND {condition}
        ON CONFLICT DO NOTHING
    """)  # noqa: S608 - conditions of this module
    for kind, condition in (("waiting", _IDLE), ("expiring", _ENDS_SOON))
)


# In the transaction that ends the job: who is to be told is who wants it then. Who is removed at that moment
# is waited for, and nobody any more.
_REMEMBER_ENDED = text("""
    INSERT INTO job_mail (job_id, person_id, kind, next_try_at)
    SELECT job.id, member.person_id, :kind, job.finished_at
    FROM job JOIN member ON member.account_id = job.account_id AND :kind = ANY(member.mail)
    JOIN person ON person.id = member.person_id
    WHERE job.id = :job_id FOR KEY SHARE OF person
    ON CONFLICT DO NOTHING
""")


async def remember_ended(connection: Connection, job_id: UUID, kind: str) -> None:
    """Put mail about a job that has ended into the outbox, for every member who wants it."""
    await connection.execute(_REMEMBER_ENDED, {"job_id": job_id, "kind": kind})


async def remember_waiting(
    connection: Connection, *, now: datetime, before: datetime, after: datetime
) -> None:
    """Put mail about jobs that wait into the outbox, once for each.

    One does that was made before `before` and has not begun, or whose addresses are all asked later than
    `after`.
    """
    await connection.execute(_REMEMBER_WAITING, {"now": now, "before": before, "after": after})


async def remember_expiring(
    connection: Connection, *, now: datetime, before: datetime, kept: timedelta
) -> None:
    """Put mail about jobs deleted before then into the outbox, once for each kept longer than `kept`."""
    await connection.execute(_REMEMBER_EXPIRING, {"now": now, "before": before, "kept": kept})


_CLAIM_JOB_MAIL = statement(f"""
    {_claim_cte(MailTable.JOB_MAIL)}
    SELECT taken.id, taken.kind, taken.tries, person.email, job.id AS job_id,
           coalesce(nullif(job.name, ''), job.source_name) AS name, account.name AS account,
           job.total, job.processed, job.valid, job.risky, job.invalid, job.error_detail AS error,
           (SELECT min(ready_at) FROM chunk
            WHERE chunk.job_id = job.id AND state = 'ready' AND ready_at > :now) AS ready_at,
           coalesce(nullif(person.zone, ''), account.zone) AS zone,
           job.expires_at, EXISTS (
               SELECT FROM schedule WHERE source_job_id = job.id AND enabled AND NOT fetches) AS repeated,
           member.person_id IS NOT NULL AND (taken.kind <> 'waiting' OR ({_IDLE}))
               AND (taken.kind <> 'expiring' OR job.expires_at > :now) AS is_wanted
    FROM taken JOIN job ON job.id = taken.job_id JOIN account ON account.id = job.account_id
    JOIN person ON person.id = taken.person_id
    LEFT JOIN member ON member.account_id = job.account_id AND member.person_id = taken.person_id
        AND taken.kind = ANY(member.mail)
""")  # noqa: S608 - same


async def claim_job_mail(
    connection: Connection, *, now: datetime, again: datetime, before: datetime, after: datetime
) -> ClaimedJobMail | None:
    """Take a mail that is due; `again` is when another may take it if nothing is heard of it."""
    values = {"now": now, "again": again, "before": before, "after": after}
    return await row_as(ClaimedJobMail, connection, _CLAIM_JOB_MAIL, values)
