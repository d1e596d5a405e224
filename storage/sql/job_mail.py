"""Mail about jobs in SQL: what members want to hear of, and the outbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection, row_as, statement
from mailsift.storage.sql.outbox import ClaimedMail, MailTable, claim_cte


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


_CHOSEN = text("SELECT mail FROM member WHERE account_id = :account_id AND person_id = :person_id")

_CHOOSE = text("""
    UPDATE member SET mail = :kinds WHERE account_id = :account_id AND person_id = :person_id
""")

# In the transaction that ends the job: who is to be told is who wants it then. Who is removed at that moment
# is waited for, and nobody any more.
_REMEMBER = text("""
    INSERT INTO job_mail (job_id, person_id, kind, next_try_at)
    SELECT job.id, member.person_id, :kind, job.finished_at
    FROM job JOIN member ON member.account_id = job.account_id AND :kind = ANY(member.mail)
    JOIN person ON person.id = member.person_id
    WHERE job.id = :job_id FOR KEY SHARE OF person
    ON CONFLICT DO NOTHING
""")

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

_CLAIM = statement(f"""
    {claim_cte(MailTable.JOB_MAIL)}
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


async def chosen(connection: Connection, account_id: UUID, person_id: UUID) -> list[str]:
    """Return what a member wants to hear of."""
    values = {"account_id": account_id, "person_id": person_id}
    return list((await connection.execute(_CHOSEN, values)).scalar_one_or_none() or ())


async def choose(connection: Connection, account_id: UUID, person_id: UUID, kinds: Sequence[str]) -> None:
    """Set what a member wants to hear of."""
    values = {"account_id": account_id, "person_id": person_id, "kinds": list(kinds)}
    await connection.execute(_CHOOSE, values)


async def remember(connection: Connection, job_id: UUID, kind: str) -> None:
    """Put mail about a job that has ended into the outbox, for every member who wants it."""
    await connection.execute(_REMEMBER, {"job_id": job_id, "kind": kind})


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


async def claim(
    connection: Connection, *, now: datetime, again: datetime, before: datetime, after: datetime
) -> ClaimedJobMail | None:
    """Take a mail that is due; `again` is when another may take it if nothing is heard of it."""
    values = {"now": now, "again": again, "before": before, "after": after}
    return await row_as(ClaimedJobMail, connection, _CLAIM, values)
