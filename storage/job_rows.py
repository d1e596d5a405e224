"""Jobs and accounts in SQL; every change of state is a compare-and-swap."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import delete, func, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert as upsert

from storage import throughput_rows
from storage.database import Connection, Row
from storage.tables import account, job


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to insert; its source is already stored."""

    id: UUID
    account_id: UUID
    name: str
    options: Mapping[str, Any]
    source_name: str
    source_sha256: str
    source_bytes: int
    parent_id: UUID | None = None
    deadline_s: float = 0.0
    retention_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ClaimedStep:
    """Intake or finish of one job, leased to one worker."""

    job_id: UUID
    account_id: UUID
    parent_id: UUID | None
    state: str
    attempt: int
    token: UUID
    options: dict[str, Any]
    source_name: str
    source_bytes: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows by status, and how many addresses they share."""

    valid: int = 0
    invalid: int = 0
    risky: int = 0
    addresses: int = 0

    @property
    def processed(self) -> int:
        """All rows that have a verdict."""
        return self.valid + self.invalid + self.risky


_INSERT = text("""
    INSERT INTO job (id, account_id, parent_id, name, state, options, source_name, source_sha256,
                     source_bytes, deadline_at, expires_at)
    VALUES (:id, :account_id, :parent_id, :name, 'uploading', CAST(:options AS jsonb), :source_name,
            :source_sha256, :source_bytes,
            CASE WHEN :deadline_s > 0 THEN clock_timestamp() + make_interval(secs => :deadline_s) END,
            (SELECT clock_timestamp()
                    + make_interval(secs => coalesce(nullif(:retention_s, 0), a.retention_s))
             FROM account a WHERE a.id = :account_id AND (:retention_s > 0 OR a.retention_s > 0)))
""")

# A job that has waited for nothing yet goes first; the lease makes a crashed step claimable again.
_CLAIM_STEP = text("""
    UPDATE job SET state = CASE state WHEN 'uploading' THEN 'intake' ELSE state END,
        step_token = gen_random_uuid(), step_owner = :owner, step_attempt = step_attempt + 1,
        step_at = clock_timestamp(),
        step_until = clock_timestamp() + make_interval(secs => :lease)
    WHERE id = (
        SELECT id FROM job
        WHERE state IN ('uploading', 'intake', 'finalizing')
          AND (step_token IS NULL OR step_until < clock_timestamp())
          AND (source_bytes <= :small_bytes OR NOT :small_only)
        ORDER BY source_bytes > :small_bytes, created_at LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id AS job_id, account_id, parent_id, state, step_attempt AS attempt, step_token AS token,
              options, source_name, source_bytes
""")

_RENEW_STEPS = text("""
    UPDATE job SET step_until = clock_timestamp() + make_interval(secs => :lease)
    WHERE step_token = ANY(:tokens) AND state IN ('intake', 'finalizing')
    RETURNING step_token
""")

_RELEASE_STEP = text("""
    UPDATE job SET step_token = NULL, step_owner = NULL, step_until = NULL, step_attempt = step_attempt - 1
    WHERE id = :job_id AND step_token = :token
""")

# A new or resumed job starts beside the others, not before them: an idle past earns no priority.
_CATCH_UP = text("""
    WITH mine AS (SELECT id, account_id FROM job WHERE id = :job_id),
    accounts AS (SELECT min(a.vtime) AS floor FROM account a WHERE EXISTS (
        SELECT FROM job j
        WHERE j.account_id = a.id AND j.state IN ('queued', 'running') AND j.id <> :job_id)),
    jobs AS (SELECT min(j.vtime) AS floor FROM job j, mine
        WHERE j.account_id = mine.account_id AND j.state IN ('queued', 'running') AND j.id <> :job_id),
    raised AS (UPDATE account SET vtime = greatest(vtime, accounts.floor) FROM accounts, mine
        WHERE account.id = mine.account_id AND accounts.floor IS NOT NULL)
    UPDATE job SET vtime = greatest(vtime, jobs.floor) FROM jobs
    WHERE job.id = :job_id AND jobs.floor IS NOT NULL
""")

_END = text("""
    UPDATE job SET state = :state, finished_at = clock_timestamp(), error_code = :error_code,
        error_detail = :error_detail, step_token = NULL, step_owner = NULL, step_until = NULL,
        started_at = coalesce(started_at, clock_timestamp())
    WHERE id = :job_id AND state = ANY(:allowed) AND (CAST(:token AS uuid) IS NULL OR step_token = :token)
    RETURNING *
""")


async def ensure_account(connection: Connection, name: str) -> UUID:
    """Return the id of the account with this name, made when it does not exist."""
    await connection.execute(upsert(account).values(id=uuid4(), name=name).on_conflict_do_nothing())
    found = await connection.execute(select(account.c.id).where(account.c.name == name))
    return UUID(str(found.scalar_one()))


async def insert(connection: Connection, new: NewJob) -> None:
    """Insert a job in state `uploading`: its source lies ready for intake."""
    await connection.execute(
        _INSERT,
        {
            "id": new.id,
            "account_id": new.account_id,
            "parent_id": new.parent_id,
            "name": new.name,
            "options": json.dumps(dict(new.options)),
            "source_name": new.source_name,
            "source_sha256": new.source_sha256,
            "source_bytes": new.source_bytes,
            "deadline_s": new.deadline_s,
            "retention_s": new.retention_s,
        },
    )


async def claim_step(
    connection: Connection, *, owner: str, lease: float, small_bytes: int, small_only: bool
) -> ClaimedStep | None:
    """Lease the next intake or finish, small sources first; None when none waits."""
    values = {"owner": owner, "lease": lease, "small_bytes": small_bytes, "small_only": small_only}
    row = (await connection.execute(_CLAIM_STEP, values)).mappings().one_or_none()
    return ClaimedStep(**row) if row else None


async def renew_steps(connection: Connection, tokens: Collection[UUID], *, lease: float) -> set[UUID]:
    """Extend the leases; the tokens that are missing from the answer are lost, or no step's."""
    values = {"tokens": list(tokens), "lease": lease}
    return set((await connection.execute(_RENEW_STEPS, values)).scalars())


async def release_step(connection: Connection, step: ClaimedStep) -> None:
    """Give the step back undone; it does not count as an attempt."""
    await connection.execute(_RELEASE_STEP, {"job_id": step.job_id, "token": step.token})


async def move(
    connection: Connection,
    job_id: UUID,
    *,
    to: str,
    allowed: Collection[str],
    token: UUID | None = None,
    **values: object,
) -> bool:
    """Change the state when it is one of `allowed` (and the step's lease is still `token`'s).

    Returns:
        False when somebody else was faster; nothing has changed then.
    """
    statement = update(job).where(job.c.id == job_id, job.c.state.in_(allowed))
    if token is not None:
        statement = statement.where(job.c.step_token == token)
    freed = {"step_token": None, "step_owner": None, "step_until": None, "step_attempt": 0}
    return (await connection.execute(statement.values(state=to, **freed, **values))).rowcount == 1


async def end(
    connection: Connection,
    job_id: UUID,
    *,
    state: str,
    allowed: Collection[str],
    token: UUID | None = None,
    error: tuple[str, str] = ("", ""),
) -> Row | None:
    """Move the job to a terminal state; returns its row, or None when it may not end so."""
    values = {
        "job_id": job_id,
        "state": state,
        "allowed": list(allowed),
        "token": token,
        "error_code": error[0],
        "error_detail": error[1],
    }
    return (await connection.execute(_END, values)).mappings().one_or_none()


async def catch_up(connection: Connection, job_id: UUID) -> None:
    """Raise the virtual time of a job (and its account) that starts or resumes to the lowest active one."""
    await connection.execute(_CATCH_UP, {"job_id": job_id})


async def count(
    connection: Connection, job_id: UUID, counts: Counts, *, added: int, warning: str = ""
) -> tuple[int, int] | None:
    """Add one closed chunk's rows and its `added` residual chunks to the job; `warning` stays unless "".

    Returns:
        The number of the first residual chunk and how many chunks are open; None when the job has ended.
    """
    values = {
        "job_id": job_id,
        "processed": counts.processed,
        "valid": counts.valid,
        "invalid": counts.invalid,
        "risky": counts.risky,
        "addresses": counts.addresses,
        "shard": throughput_rows.shard(job_id),
        "added": added,
        "warning": warning,
    }
    row = (await connection.execute(throughput_rows.COUNT_CHUNK, values)).one_or_none()
    return (row.first_free, row.chunks_open) if row else None


async def get(connection: Connection, job_id: UUID) -> Row | None:
    """Return the job's row."""
    return (await connection.execute(select(job).where(job.c.id == job_id))).mappings().one_or_none()


async def newest(
    connection: Connection,
    account_id: UUID,
    limit: int,
    *,
    before: tuple[datetime, UUID] | None = None,
    states: Collection[str] = (),
    name: str = "",
) -> Sequence[Row]:
    """Return the account's newest jobs, in these states if any are named.

    Args:
        connection: an open transaction.
        account_id: whose.
        limit: how many.
        before: only those after this one (created_at, id) in the order of the list.
        states: all, when empty.
        name: only those whose name has this in it, upper or lower case alike.
    """
    statement = (
        select(job)
        .where(job.c.account_id == account_id)
        .order_by(job.c.created_at.desc(), job.c.id.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(tuple_(job.c.created_at, job.c.id) < tuple_(*before))
    if states:
        statement = statement.where(job.c.state.in_(states))
    if name:
        statement = statement.where(job.c.name.icontains(name, autoescape=True))
    return (await connection.execute(statement)).mappings().all()


async def remove(connection: Connection, job_id: UUID, allowed: Collection[str]) -> bool:
    """Delete the job with its chunks and events when its state is one of `allowed`."""
    statement = delete(job).where(job.c.id == job_id, job.c.state.in_(allowed))
    return (await connection.execute(statement)).rowcount == 1


async def expired(connection: Connection, states: Collection[str], limit: int) -> list[UUID]:
    """Return jobs in these states whose time to be kept is over."""
    over = job.c.expires_at < func.clock_timestamp()
    statement = select(job.c.id).where(over, job.c.state.in_(states)).order_by(job.c.expires_at).limit(limit)
    return list((await connection.execute(statement)).scalars())
