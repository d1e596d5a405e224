"""Jobs in SQL: their steps, states, counts and blobs; every change of state is a compare-and-swap.

The blobs of a job are noted before they can exist, so that no crash leaves one for ever. Every list is stored
before its job is inserted, and a worker may write a last segment after its job was deleted. A row of
`leftover` says: what lies under this job's prefix goes at `due_at`, unless the job comes; where it is
`sealed`, that is being deleted, and the job comes too late.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Text, cast, delete, exists, func, or_, select, text, update
from sqlalchemy.exc import IntegrityError

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Connection, Row, row_as, rows_as, statement
from mailsift.storage.sql.chunks import SHARED_KEYS
from mailsift.storage.sql.tables import S, account, job, newest_first
from mailsift.storage.states import ENDED, JobState, JobTransition

SMALL_BYTES: Final = 256 * 1024
"""Lists up to this size are taken in before bigger ones."""
_STEP_COST: Final = 3_000
"""What a step costs an account beside the list's size, in addresses validated: about what it takes in all
processes, the database's and the reading one's, too."""
CROWD: Final = 100
"""More unread lists of one account are a crowd: they wait for each other most of the time."""
CROWD_PRICE: Final = 2
"""What is paid for a small list of a crowd, in small lists. The last of them ends no later for it, and a big
list beside them has two thirds of the machine, not half of it."""
_SHARED: Final = {"shared_keys": list(SHARED_KEYS)}
STEP_TERMS: Final = {
    **_SHARED,
    "small_bytes": SMALL_BYTES,
    "cost": _STEP_COST,
    "crowd": CROWD,
    "crowd_price": CROWD_PRICE,
    # How long a step of a big job may take for each of what it costs, twice what it does alone: so long
    # nobody who is ahead of its account has lists read beside it.
    "unit_s": 40e-6,
    "busy": 2,  # processors of such a step; who has more processes does other things beside it
}
"""What CLAIM_STEP goes by, whoever asks."""
_FREED: Final = {"step_token": None, "step_owner": None, "step_until": None, "step_attempt": 0}
"""Of a job whose step nobody has leased, and which is tried afresh."""
_COUNTED: Final = ("processed", "valid", "invalid", "risky", "send", "review", "remove")
_SHARDS: Final = 8
"""Of the minute that runs: jobs do not wait for each other's commit, those of one do anyway."""


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


_TRANSFERS: Final = "(j.delivers OR j.state IN {take_in} AND j.source_bytes = 0)"
"""Of a job `j`: what it needs next is the place its list comes from or its results go to."""
_IN_WORK: Final = "(SELECT job_id FROM chunk WHERE state = 'leased' AND lane = ANY(:shared_keys))"
"""Jobs that are worked on, but for those that ask a provider."""
_READY: Final = """(SELECT lane = ANY(:shared_keys) FROM chunk
            WHERE job_id = j.id AND state = 'ready' AND ready_at <= statement_timestamp()
            ORDER BY ready_at, n LIMIT 1)"""
"""Of a job `j`: its oldest chunk waits for no provider, but for a slot."""
_PIECES: Final = {"transfers": _TRANSFERS, "in_work": _IN_WORK, "ready": _READY}

# Where an account begins in virtual time that starts or resumes a job: beside those who are served or could
# be, not before them: an idle past earns no priority, and who waits for providers and places alone is no
# measure, for what they take it stays behind for ever. Where all do, it begins beside the one furthest
# behind; where all were idle, nobody begins behind. An account whose lists are being read is not idle.
_FLOOR: Final = """
    WITH accounts AS (SELECT coalesce((
        SELECT j.vtime FROM (
            SELECT j.id, j.state, j.delivers, j.source_bytes, a.vtime
            FROM job j JOIN account a ON a.id = j.account_id
            WHERE j.state IN {unpaused} AND j.id <> :job_id ORDER BY a.vtime OFFSET 0
        ) j WHERE CASE WHEN j.state IN {claimable} THEN j.id IN {in_work} OR {ready} ELSE NOT {transfers} END
        ORDER BY j.vtime LIMIT 1
    ), (
        SELECT min(a.vtime) FROM job j JOIN account a ON a.id = j.account_id
        WHERE j.state IN {unpaused} AND j.id <> :job_id
    ), (SELECT max(vtime) FROM account)) AS floor),
"""
_NEW_JOB: Final = """
    due AS ({due}),
    raised AS (UPDATE account SET vtime = accounts.floor FROM accounts, due
        WHERE account.id = :account_id AND account.vtime < accounts.floor)
    INSERT INTO job (id, account_id, parent_id, name, state, options, source_name, source_sha256,
                     source_bytes, test, deadline_at, expires_at)
    SELECT :job_id, :account_id, (SELECT id FROM job WHERE id = :parent_id FOR KEY SHARE), :name,
            'uploading', CAST(:options AS jsonb) || CASE
                WHEN CAST(:options AS jsonb)->>'policy' IS NULL THEN coalesce((
                    SELECT jsonb_build_object('policy', a.policy->'tiers') FROM account a
                    WHERE a.id = :account_id AND a.policy ? 'tiers'), '{{}}') ELSE '{{}}' END,
            :source_name,
            :source_sha256, :source_bytes,
            EXISTS (SELECT FROM account a WHERE a.id = :account_id AND a.test_of IS NOT NULL),
            CASE WHEN :deadline_s > 0 THEN clock_timestamp() + make_interval(secs => :deadline_s) END,
            (SELECT clock_timestamp()
                    + make_interval(secs => coalesce(nullif(:retention_s, 0), a.retention_s))
             FROM account a WHERE a.id = :account_id AND (:retention_s > 0 OR a.retention_s > 0))
    FROM due
"""
_EXPECTED: Final = "DELETE FROM leftover WHERE job_id = :job_id AND NOT sealed"
_INSERT = statement(_FLOOR + _NEW_JOB, due="SELECT", **_PIECES)
_INSERT_EXPECTED = statement(_FLOOR + _NEW_JOB, due=f"{_EXPECTED} RETURNING job_id", **_PIECES)


async def insert(connection: Connection, new: NewJob, *, expected: bool = False) -> bool:
    """Insert a job whose source lies ready for intake; an account that was idle starts beside the others.

    One whose parent has been deleted by now has none. Where it is `expected`, do what `claim_blobs` does in
    the same statement, and return False, with nothing inserted, when it is too late.
    """
    values = {one.name: getattr(new, one.name) for one in fields(new)}
    values |= {"job_id": values.pop("id"), "options": json.dumps(dict(new.options)), **_SHARED}
    done = await connection.execute(_INSERT_EXPECTED if expected else _INSERT, values)
    return done.rowcount == 1


async def insert_once(connection: Connection, new: NewJob) -> bool:
    """Insert the job; False when a job with this id exists."""
    savepoint = await connection.begin_nested()
    try:
        await insert(connection, new)
    except IntegrityError:
        await savepoint.rollback()
        return False
    await savepoint.commit()
    return True


@dataclass(frozen=True, slots=True)
class ClaimedStep:
    """Intake or finish of one job, leased to one worker.

    Attributes:
        abandoned: whether the lease before this one ran out: who held it died, or its work broke.
    """

    job_id: UUID
    account_id: UUID
    parent_id: UUID | None
    state: str
    attempt: int
    token: UUID
    options: dict[str, Any]
    source_name: str
    source_bytes: int
    delivers: bool
    test: bool
    abandoned: bool = False
    source_sha256: str = ""

    @property
    def fetches(self) -> bool:
        """Whether its list is still to be fetched from its place: nobody knows how long it is."""
        return self.state == JobTransition.TAKE_IN.target and not self.source_bytes

    @property
    def is_transfer(self) -> bool:
        """Whether it fetches a list from its place or delivers results: that takes what the place takes."""
        return self.fetches or self.delivers

    @property
    def small(self) -> bool:
        """Whether it goes before bigger ones of its account."""
        return self.source_bytes <= SMALL_BYTES and not self.is_transfer


@dataclass(frozen=True, slots=True)
class StepClaim:
    """What came of asking for a step.

    Attributes:
        step: the one that was leased, if any.
        is_due: whether there was one to lease, be it leased or left for its turn.
    """

    step: ClaimedStep | None
    is_due: bool


# `step_until` ends the lease of a step that is worked on, so that a crashed one is claimed again,
# and the wait of one that was given back. Finishing goes before reading; then the account that is furthest
# behind, in it small lists first. `rival` is the account furthest behind of those whose chunks are ready or
# whose work is in hand, but for what waits for a provider, asks one, or goes from or to places: that may take
# for ever, and little of a machine. With :in_turn a step is left alone while its own account is ahead of that
# one, but for the finish of a big job, which had its turn when it was validated. A small list pays for all
# its steps with the first, a big one for its delivery with its finish.
CLAIM_STEP = statement(
    """
    WITH rivals AS MATERIALIZED (
        (SELECT j.vtime FROM (
            SELECT j.id, a.vtime FROM job j JOIN account a ON a.id = j.account_id
            WHERE j.state IN {claimable} AND :in_turn ORDER BY a.vtime OFFSET 0
        ) j WHERE {ready} ORDER BY j.vtime LIMIT 1)
        UNION ALL
        SELECT a.vtime FROM (
            SELECT DISTINCT j.account_id FROM (SELECT DISTINCT job_id FROM {in_work} w) c
            CROSS JOIN LATERAL (SELECT account_id FROM job WHERE id = c.job_id OFFSET 0) j
            UNION
            SELECT account_id FROM job j WHERE state IN {step_held} AND step_until > clock_timestamp()
              AND NOT {transfers}
        ) o CROSS JOIN LATERAL (SELECT vtime FROM account WHERE id = o.account_id OFFSET 0) a
        WHERE :in_turn
        UNION ALL
        SELECT a.vtime FROM job j JOIN account a ON a.id = j.account_id
        WHERE NOT :in_turn AND j.state IN {step_held} AND j.step_until > clock_timestamp()
          AND j.source_bytes > :small_bytes AND NOT j.delivers
          AND split_part(j.step_owner, ':', 1) = split_part(:owner, ':', 1)
          AND (SELECT count(*) FROM worker w
               WHERE w.host = split_part(:owner, ':', 1) AND w.stopped_at IS NULL AND w.slots > 0
                 AND w.beat_at > clock_timestamp() - make_interval(secs => 3 * w.beat_s)) <= :busy
          AND j.step_at > clock_timestamp() - make_interval(secs => :unit_s * (:cost + CASE j.state
                  WHEN 'intake' THEN j.source_bytes / 100 ELSE j.total / 4 END))
    ), due AS MATERIALIZED (
        SELECT j.id, j.account_id, j.step_token IS NOT NULL AS abandoned,
               (j.state NOT IN {take_in} AND NOT j.small)
               OR a.vtime <= coalesce((SELECT min(vtime) FROM rivals), 'infinity') AS turn
        FROM job j JOIN account a ON a.id = j.account_id
        WHERE j.state IN {step_due} AND (j.step_until IS NULL OR j.step_until < clock_timestamp())
          AND (j.source_bytes <= :small_bytes OR j.delivers OR NOT :small_only)
          AND CASE WHEN j.delivers OR j.state IN {take_in} AND j.source_bytes = 0
                       THEN :transferring AND j.account_id <> ALL(CAST(:transferring_for AS uuid[]))
                   WHEN j.state IN {take_in} THEN :reading ELSE :finishing END
        ORDER BY turn DESC, j.state IN {take_in}, a.vtime, j.source_bytes > :small_bytes, j.created_at
        LIMIT 1 FOR UPDATE OF j SKIP LOCKED
    ), claimed AS (
        UPDATE job SET state = CASE WHEN state IN {take_in} THEN 'intake' ELSE state END,
            step_token = gen_random_uuid(), step_owner = :owner, step_attempt = step_attempt + 1,
            step_at = clock_timestamp(),
            step_until = clock_timestamp() + make_interval(secs => :lease)
        FROM due WHERE job.id = due.id AND due.turn
        RETURNING job.*, due.abandoned
    ), charged AS (
        UPDATE account SET vtime = account.vtime + CASE
            WHEN claimed.delivers THEN 0
            WHEN claimed.source_bytes > :small_bytes THEN :cost
                + CASE claimed.state WHEN 'intake' THEN claimed.source_bytes / 100 ELSE claimed.total / 4 END
            WHEN claimed.state = 'intake' AND claimed.source_bytes = 0 THEN :cost
            WHEN claimed.state = 'intake' THEN (2 * :cost + claimed.source_bytes / 25)
                * CASE WHEN (SELECT count(*) FROM (
                    SELECT FROM job j WHERE j.account_id = claimed.account_id AND j.state IN {take_in}
                    LIMIT :crowd) unread) < :crowd THEN 1 ELSE :crowd_price END
            ELSE 0 END
        FROM claimed WHERE account.id = claimed.account_id
    )
    SELECT EXISTS (SELECT FROM due) AS is_due, id AS job_id, account_id, parent_id, state,
           step_attempt AS attempt, step_token AS token, options, source_name, source_bytes,
           source_sha256, delivers, test, abandoned
    FROM (VALUES (1)) AS one LEFT JOIN claimed ON true
""",
    **_PIECES,
)


async def claim_step(  # noqa: PLR0913 - what there is room for
    connection: Connection,
    *,
    owner: str,
    lease: float,
    small_only: bool,
    finishing: bool = True,
    reading: bool = True,
    transferring: bool = True,
    transferring_for: Collection[UUID] = (),
    in_turn: bool = False,
) -> StepClaim:
    """Lease the next intake or finish, if one is due: finishing first, then the account furthest behind.

    Args:
        connection: an open transaction.
        owner: names the worker process: its host, a colon and more.
        lease: seconds.
        small_only: only of lists up to SMALL_BYTES, which go first within an account.
        finishing: also the finish of a job.
        reading: also the intake of a list that is here.
        transferring: also what fetches a list from its place or delivers results to theirs.
        transferring_for: not for these accounts, though.
        in_turn: only when no account that is further behind has a chunk ready or work in hand; else only
            when this machine is not busy with a big list of one of them, in the time that is paid for.
    """
    values = {
        **STEP_TERMS,
        "owner": owner,
        "lease": lease,
        "small_only": small_only,
        "finishing": finishing,
        "reading": reading,
        "transferring": transferring,
        "transferring_for": list(transferring_for),
        "in_turn": in_turn,
    }
    row = dict((await connection.execute(CLAIM_STEP, values)).mappings().one())
    is_due = row.pop("is_due")
    return StepClaim(ClaimedStep(**row) if row["token"] else None, is_due=is_due)


# Whoever did the last chunk of a small job finishes it at once. Its account has paid for that with the
# intake: where it sends many small lists they would wait for each other over its row.
_LEASE_FINISH = statement("""
    UPDATE job SET step_token = :token, step_owner = :owner,
        step_attempt = step_attempt + CASE WHEN step_token IS NULL THEN 1 ELSE 0 END,
        step_at = clock_timestamp(),
        step_until = clock_timestamp() + make_interval(secs => :lease)
    WHERE id = :job_id AND state IN {finish_due} AND (step_token IS NULL OR step_token = :token)
    RETURNING id AS job_id, account_id, parent_id, state, step_attempt AS attempt, step_token AS token,
        options, source_name, source_bytes, delivers, test
""")


async def lease_finish(
    connection: Connection, job_id: UUID, *, owner: str, lease: float, token: UUID
) -> ClaimedStep | None:
    """Lease this job's finish, out of turn, to who has closed it; None when it is not due, or another's."""
    values = {"job_id": job_id, "owner": owner, "lease": lease, "token": token}
    return await row_as(ClaimedStep, connection, _LEASE_FINISH, values)


_RENEW_STEPS = statement("""
    UPDATE job SET step_until = clock_timestamp() + make_interval(secs => :lease)
    WHERE step_token = ANY(:tokens) AND state IN {step_held}
    RETURNING step_token
""")


async def renew_steps(connection: Connection, tokens: Collection[UUID], *, lease: float) -> set[UUID]:
    """Extend the leases; the tokens that are missing from the answer are lost, or no step's."""
    values = {"tokens": list(tokens), "lease": lease}
    return set((await connection.execute(_RENEW_STEPS, values)).scalars())


_RELEASE_STEP = text("""
    UPDATE job SET step_token = NULL, step_owner = NULL,
        step_attempt = step_attempt - CASE WHEN :tried THEN 0 ELSE 1 END, step_waits_for = :waits_for,
        step_until = CASE WHEN :delay > 0 THEN clock_timestamp() + make_interval(secs => :delay) END
    WHERE id = :job_id AND step_token = :token
""")


async def release_step(
    connection: Connection,
    step: ClaimedStep,
    *,
    delay: float = 0.0,
    waits_for: str = "",
    tried: bool = False,
) -> None:
    """Give the step back undone; nothing happens when its lease was lost meanwhile.

    It may be claimed in `delay` seconds, and waits for what `waits_for` tells people. `tried`: it counts as
    an attempt.
    """
    values = {
        "job_id": step.job_id,
        "token": step.token,
        "delay": delay,
        "waits_for": waits_for,
        "tried": tried,
    }
    await connection.execute(_RELEASE_STEP, values)


async def record_fetched(connection: Connection, step: ClaimedStep, size: int) -> bool:
    """Give the step back whose list was fetched, and has so many bytes; False when its lease is lost."""
    return await _hand_on(connection, step, source_bytes=size)


async def record_written(connection: Connection, step: ClaimedStep) -> bool:
    """Give the finish back whose results are written, to be delivered; False when its lease is lost."""
    return await _hand_on(connection, step, delivers=True)


async def _hand_on(connection: Connection, step: ClaimedStep, **values: object) -> bool:
    mine = update(job).where(job.c.id == step.job_id, job.c.step_token == step.token)
    return (await connection.execute(mine.values(**_FREED, **values))).rowcount == 1


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What intake found out about a job: columns of its row.

    Attributes:
        address_column: its name in the list.
        total, addresses: rows and distinct addresses to validate.
        list_rows, list_addresses: of the whole list, which is more than a preview validates.
        small: never waits behind big jobs.
    """

    address_column: str
    total: int
    addresses: int
    list_rows: int
    list_addresses: int
    small: bool


async def plan(connection: Connection, job_id: UUID, planned: JobPlan, *, chunks: int, token: UUID) -> bool:
    """PLAN: the job has so many chunks; False when its intake is not leased under `token` (any more)."""
    columns = {**asdict(planned), "chunks": chunks, "chunks_open": chunks}
    return await _move(connection, job_id, JobTransition.PLAN, job.c.step_token == token, **columns)


async def pause(connection: Connection, job_id: UUID) -> bool:
    """PAUSE: none of its chunks is claimed any more; False when its state forbids it."""
    return await _move(connection, job_id, JobTransition.PAUSE)


async def resume(connection: Connection, job_id: UUID) -> bool:
    """RESUME: go on beside the other jobs, not before them; False when its state forbids it."""
    if not await _move(connection, job_id, JobTransition.RESUME):
        return False
    await catch_up(connection, job_id)
    return True


async def close(connection: Connection, job_id: UUID) -> bool:
    """CLOSE: let its finish be claimed; False when its state forbids it."""
    return await _move(connection, job_id, JobTransition.CLOSE)


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """Rows by status and by tier, their addresses, and about how many mailboxes a server answered."""

    valid: int = 0
    invalid: int = 0
    risky: int = 0
    send: int = 0
    review: int = 0
    remove: int = 0
    addresses: int = 0
    probes: int = 0

    @property
    def processed(self) -> int:
        """All rows that have a verdict."""
        return self.valid + self.invalid + self.risky


async def redo(
    connection: Connection, job_id: UUID, counts: VerdictCounts, *, added: int, token: UUID
) -> int | None:
    """REDO: count only the verdicts that are left, and open so many new chunks.

    Returns:
        The number of the first of them; None when its finish is not leased under `token` (any more).
    """
    left = {name: getattr(counts, name) for name in _COUNTED}
    opened = {"chunks": job.c.chunks + added, "chunks_open": added}
    held = job.c.step_token == token
    if not await _move(connection, job_id, JobTransition.REDO, held, **left, **opened):
        return None
    await catch_up(connection, job_id)
    chunks = await connection.execute(select(job.c.chunks).where(job.c.id == job_id))
    return int(chunks.scalar_one()) - added


async def _move(
    connection: Connection,
    job_id: UUID,
    transition: JobTransition,
    *conditions: ColumnElement[bool],
    **values: object,
) -> bool:
    """Change the state if it may be, and free the lease of its step; False when nothing has changed."""
    changed = update(job).where(job.c.id == job_id, job.c.state.in_(transition.sources), *conditions)
    moved = await connection.execute(changed.values(state=transition.target, **_FREED, **values))
    return moved.rowcount == 1


# A list may take longer than it is to be kept: then its results, and whoever is to be told, have a day still.
_END = text("""
    UPDATE job SET state = :state, finished_at = clock_timestamp(), error_code = :error_code,
        expires_at = CASE WHEN expires_at IS NOT NULL THEN greatest(expires_at,
            clock_timestamp() + least(expires_at - created_at, interval '1 day')) END,
        error_detail = :error_detail, step_token = NULL, step_owner = NULL, step_until = NULL,
        started_at = coalesce(started_at, clock_timestamp())
    WHERE id = :job_id AND state = ANY(:allowed) AND (CAST(:token AS uuid) IS NULL OR step_token = :token)
    RETURNING *
""")


async def end(
    connection: Connection,
    job_id: UUID,
    transition: JobTransition,
    *,
    token: UUID | None = None,
    error: tuple[str, str] = ("", ""),
) -> Row | None:
    """COMPLETE, FAIL or CANCEL: end the job; returns its row, or None when it may not end so.

    A step that ends it gives the `token` of its lease; `error` is a stable code and a sentence.
    """
    values = {
        "job_id": job_id,
        "state": transition.target,
        "allowed": list(transition.sources),
        "token": token,
        "error_code": error[0],
        "error_detail": error[1],
    }
    return (await connection.execute(_END, values)).mappings().one_or_none()


# A job whose chunks may be claimed from now on starts beside the others of its account, too.
_RAISED_JOB: Final = """
    mine AS (SELECT id, account_id FROM job WHERE id = :job_id),
    jobs AS (SELECT min(j.vtime) AS floor FROM job j, mine
        WHERE j.account_id = mine.account_id AND j.state IN {claimable} AND j.id <> :job_id),
    raised AS (UPDATE account SET vtime = greatest(vtime, accounts.floor) FROM accounts, mine
        WHERE account.id = mine.account_id AND account.vtime < accounts.floor)
    UPDATE job SET vtime = greatest(vtime, jobs.floor) FROM jobs
    WHERE job.id = :job_id AND job.vtime < jobs.floor
"""
_CATCH_UP = statement(_FLOOR + _RAISED_JOB, **_PIECES)


async def catch_up(connection: Connection, job_id: UUID) -> None:
    """Raise the virtual time of a job (and its account) that starts or resumes to the lowest active one."""
    await connection.execute(_CATCH_UP, {"job_id": job_id, **_SHARED})


_COUNT_CHUNK = statement("""
    UPDATE job SET processed = processed + :processed, valid = valid + :valid,
        invalid = invalid + :invalid, risky = risky + :risky, send = send + :send,
        review = review + :review, remove = remove + :remove, chunks = chunks + :added,
        chunks_open = chunks_open - 1 + :added, warning = coalesce(nullif(:warning, ''), warning)
    WHERE id = :job_id AND state IN {worked}
        AND EXISTS (SELECT FROM chunk WHERE job_id = :job_id AND n = :n AND lease_token = :token)
    RETURNING chunks - :added AS first_free, chunks_open
""")


async def count(  # noqa: PLR0913 - whose rows, and what else changes with them
    connection: Connection,
    job_id: UUID,
    counts: VerdictCounts,
    *,
    n: int,
    token: UUID,
    added: int,
    warning: str = "",
) -> tuple[int, int] | None:
    """Add the rows of a chunk that is about to be closed to the job; `warning` stays unless "".

    `counts` are those of the chunk `n`, leased under `token`; it has left `added` deferred chunks. Rows that
    another worker may have counted are not counted: there could be more than the list has, which the database
    refuses.

    Returns:
        The number of the first deferred chunk and how many chunks are open; None when the job has ended or
        the lease is lost.
    """
    values = {
        **asdict(counts),
        "job_id": job_id,
        "n": n,
        "token": token,
        "processed": counts.processed,
        "added": added,
        "warning": warning,
    }
    row = (await connection.execute(_COUNT_CHUNK, values)).one_or_none()
    return (row.first_free, row.chunks_open) if row else None


# What the account used today and what was done in this minute. Other jobs' commits wait for these rows.
_RECORD_USE = text("""
    WITH counted AS (SELECT account_id, options->>'mode' AS mode, test FROM job WHERE id = :job_id),
    used AS (
        INSERT INTO usage AS u (account_id, day, mode, rows, addresses, probes)
        SELECT account_id, (clock_timestamp() AT TIME ZONE 'UTC')::date, mode, :processed, :addresses, :probes
        FROM counted WHERE :processed > 0 OR :probes > 0
        ON CONFLICT (account_id, day, mode) DO UPDATE SET rows = u.rows + excluded.rows,
            addresses = u.addresses + excluded.addresses, probes = u.probes + excluded.probes
    )
    INSERT INTO throughput AS t (minute, shard, chunks, addresses, valid, invalid, risky)
    SELECT date_trunc('minute', clock_timestamp()), :shard, 1, :addresses, :valid, :invalid, :risky
    FROM counted WHERE NOT test
    ON CONFLICT (minute, shard) DO UPDATE SET chunks = t.chunks + 1,
        addresses = t.addresses + excluded.addresses, valid = t.valid + excluded.valid,
        invalid = t.invalid + excluded.invalid, risky = t.risky + excluded.risky
""")


async def record_use(connection: Connection, job_id: UUID, counts: VerdictCounts) -> None:
    """Add a closed chunk's rows to its account's usage and to what the service does.

    Other jobs of the account wait for that until the transaction ends: this is the last thing to do in it.
    """
    values = {
        **asdict(counts),
        "job_id": job_id,
        "processed": counts.processed,
        "shard": job_id.int % _SHARDS,
    }
    await connection.execute(_RECORD_USE, values)


# From the days on which it may have been counted, the last ones first, and never more than they have.
_TAKE_BACK_USE = text("""
    WITH counted AS (
        SELECT u.account_id, u.day, u.mode, sum(u.rows) OVER later - u.rows AS rows,
            sum(u.addresses) OVER later - u.addresses AS addresses
        FROM usage u JOIN job j ON j.account_id = u.account_id AND j.options->>'mode' = u.mode
        WHERE j.id = :job_id AND u.day >= (j.created_at AT TIME ZONE 'UTC')::date
        WINDOW later AS (ORDER BY u.day DESC)
    )
    UPDATE usage u SET rows = u.rows - least(u.rows, greatest(0, :rows - counted.rows)),
        addresses = u.addresses - least(u.addresses, greatest(0, :addresses - counted.addresses))
    FROM counted WHERE (u.account_id, u.day, u.mode) = (counted.account_id, counted.day, counted.mode)
""")


async def take_back_use(connection: Connection, job_id: UUID, *, rows: int, addresses: int) -> None:
    """Take what was lost out of its account's usage: it is counted when it is found again.

    Mail servers were really asked, and are again: probes stay.
    """
    values = {"job_id": job_id, "rows": rows, "addresses": addresses}
    await connection.execute(_TAKE_BACK_USE, values)


_SET_TIERS = text("""
    UPDATE job SET send = :send, review = :review, remove = :remove,
        options = CASE WHEN CAST(:policy AS jsonb) IS NULL THEN options
            ELSE jsonb_set(options, '{policy}', CAST(:policy AS jsonb)) END
    WHERE id = :job_id AND finished_at IS NOT NULL
""")


async def set_tiers(
    connection: Connection,
    job_id: UUID,
    tiers: Mapping[str, int],
    *,
    policy: Mapping[str, Any] | None = None,
) -> bool:
    """Store what the rows of an ended job come to by its policy, or by another one that it gets with them.

    False when it has not ended.
    """
    values = {"job_id": job_id, "policy": None if policy is None else json.dumps(dict(policy)), **tiers}
    return (await connection.execute(_SET_TIERS, values)).rowcount == 1


_SET_PRIORITY = text("""
    UPDATE job SET options = jsonb_set(options, '{priority}', to_jsonb(CAST(:priority AS text)))
    WHERE id = :job_id AND finished_at IS NULL AND options->>'priority' IS DISTINCT FROM :priority
""")


async def set_priority(connection: Connection, job_id: UUID, priority: str) -> bool:
    """Give a job that has not ended another priority; False when it has it already or has ended."""
    values = {"job_id": job_id, "priority": priority}
    return (await connection.execute(_SET_PRIORITY, values)).rowcount == 1


async def get(connection: Connection, job_id: UUID, *, stays: bool = False) -> Row | None:
    """Return the job's row; `stays`: nobody deletes it until the transaction ends."""
    wanted = select(job).where(job.c.id == job_id)
    found = await connection.execute(wanted.with_for_update(read=True, key_share=True) if stays else wanted)
    return found.mappings().one_or_none()


async def has_stored(connection: Connection) -> bool:
    """Say whether there is a job whose list has been stored: one from a place is once it is fetched."""
    stored = select(job.c.id).where(or_(job.c.source_bytes > 0, job.c.total > 0))
    return bool((await connection.execute(select(stored.exists()))).scalar_one())


async def owned(connection: Connection, account_id: UUID, job_id: UUID, *, stays: bool = False) -> Row:
    """Return the account's job; `stays`: nobody deletes it until the transaction ends.

    Raises:
        MailsiftError: `job_not_found`, also when it belongs to somebody else.
    """
    row = await get(connection, job_id, stays=stays)
    if row is None or row["account_id"] != account_id:
        raise job_not_found()
    return row


def job_not_found() -> MailsiftError:
    """Return the error of a job that is not there, or is somebody else's."""
    return MailsiftError("job_not_found", "There is no such job.")


NUMBER_BITS: Final = 52
"""Of an id that make its number: random ones, and few enough for JavaScript."""


def number_of(job_id: UUID) -> int:
    """Return the number of a job, for those who know no other ids; within an account it is its own."""
    return job_id.int & ((1 << NUMBER_BITS) - 1)


_DIGITS = f"right(replace(CAST(id AS text), '-', ''), {NUMBER_BITS // 4})"
_NUMBERED = text(f"""
    SELECT id FROM job
    WHERE account_id = :account_id AND ('x' || {_DIGITS})::bit({NUMBER_BITS})::bigint = :number
    ORDER BY created_at DESC LIMIT 1
""")  # noqa: S608 - lengths


async def numbered(connection: Connection, account_id: UUID, number: int) -> UUID | None:
    """Return the account's job with this number."""
    values = {"account_id": account_id, "number": number}
    return (await connection.execute(_NUMBERED, values)).scalar_one_or_none()


async def beginning_with(connection: Connection, account_id: UUID, text: str, limit: int) -> Sequence[UUID]:
    """Return at most so many of the account's jobs whose id, written in small letters, begins with this."""
    begins = cast(job.c.id, Text).startswith(text, autoescape=True)
    found = await connection.execute(
        select(job.c.id).where(job.c.account_id == account_id, begins).limit(limit)
    )
    return found.scalars().all()


async def newest(  # noqa: PLR0913 - what a list of jobs can be narrowed by
    connection: Connection,
    account_id: UUID,
    limit: int,
    *,
    before: tuple[datetime, UUID] | None = None,
    states: Collection[str] = (),
    name: str = "",
    days: tuple[datetime | None, datetime | None] = (None, None),
) -> Sequence[Row]:
    """Return the account's newest jobs behind (created_at, id) `before`, in these states if any are named.

    Only those whose name has `name` in it, upper or lower case alike, and that were created at or after the
    first of the `days` and before the second.
    """
    statement = newest_first(select(job).where(job.c.account_id == account_id), job, limit, before)
    if states:
        statement = statement.where(job.c.state.in_(states))
    first, end = days
    if first is not None:
        statement = statement.where(job.c.created_at >= first)
    if end is not None:
        statement = statement.where(job.c.created_at < end)
    if name:
        statement = statement.where(job.c.name.icontains(name, autoescape=True))
    return (await connection.execute(statement)).mappings().all()


async def same_list(connection: Connection, of: Row | Mapping[str, Any], limit: int) -> Sequence[Row]:
    """Return other jobs of the account over the same list, newest first.

    `of` is the job's row, or its id, parent_id, source_sha256 and account_id.
    """
    family: list[UUID] = [of["id"], *([of["parent_id"]] if of["parent_id"] else [])]
    related = [job.c.id.in_(family), job.c.parent_id.in_(family)]
    if of["source_sha256"]:
        related.append(job.c.source_sha256 == of["source_sha256"])
    others = select(job).where(job.c.account_id == of["account_id"], job.c.id != of["id"], or_(*related))
    return (await connection.execute(newest_first(others, job, limit))).mappings().all()


async def was_repeated(connection: Connection, job_id: UUID) -> bool:
    """Say whether another job repeats this one."""
    found = await connection.execute(select(job.c.id).where(job.c.parent_id == job_id).limit(1))
    return found.first() is not None


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event of a job, and how its deliveries to webhooks stand: how many by state."""

    id: UUID
    type: str
    created_at: datetime
    deliveries: dict[str, int]


_EVENTS_OF_JOB = text("""
    SELECT e.id, e.type, e.created_at, (
        SELECT coalesce(jsonb_object_agg(d.state, d.count), '{}') FROM (
            SELECT state, count(*) FROM delivery WHERE event_id = e.id GROUP BY state) d) AS deliveries
    FROM event e WHERE e.job_id = :job_id ORDER BY e.created_at
""")


async def events_of(connection: Connection, job_id: UUID) -> list[JobEvent]:
    """Return the job's events, oldest first."""
    return await rows_as(JobEvent, connection, _EVENTS_OF_JOB, {"job_id": job_id})


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs; what is empty or None matches every job.

    Attributes:
        states: in one of these.
        account: its account's whole name.
        text: part of its name or of its file's name, or the beginning of its id; in any case.
        after: made at this time or later.
        before: made before this time.
        broken_but: only what failed otherwise than with these codes and was not run again; None: whatever.
    """

    states: tuple[str, ...] = ()
    account: str = ""
    text: str = ""
    after: datetime | None = None
    before: datetime | None = None
    broken_but: Sequence[str] | None = None


SEARCH_ORDERS: Final[Mapping[str, ColumnElement[Any]]] = {
    "created": job.c.created_at,
    "ended": job.c.finished_at,
    "rows": job.c.total,
    "done": job.c.processed,
    "open": job.c.chunks_open,
    "list": job.c.name,
    "account": account.c.name,
    "state": job.c.state,
}
"""What jobs can be sorted by."""

SEARCH_NEWEST: Final = "-created"


async def matching(
    connection: Connection, wanted: JobFilter, *, limit: int, offset: int = 0, sort: str = SEARCH_NEWEST
) -> Sequence[Row]:
    """Return matching jobs with `account_name`.

    `sort` is one of SEARCH_ORDERS, descending with a minus before it.
    """
    statement = _matching(select(job, account.c.name.label("account_name")), wanted)
    column = SEARCH_ORDERS[sort.removeprefix("-")]
    first, then = (
        (column.desc().nulls_last(), job.c.id.desc()) if sort.startswith("-") else (column, job.c.id)
    )
    found = await connection.execute(statement.order_by(first, then).limit(limit).offset(offset))
    return found.mappings().all()


async def count_matching(connection: Connection, wanted: JobFilter, *, most: int) -> int:
    """Return how many jobs match; `most` when there are so many or more."""
    some = _matching(select(job.c.id), wanted).limit(most).subquery()
    return int((await connection.execute(select(func.count()).select_from(some))).scalar_one())


async def matching_ids(connection: Connection, wanted: JobFilter, *, limit: int) -> list[tuple[UUID, UUID]]:
    """Return id and account of matching jobs, oldest first."""
    statement = _matching(select(job.c.id, job.c.account_id), wanted)
    found = await connection.execute(statement.order_by(job.c.created_at, job.c.id).limit(limit))
    return [(row.id, row.account_id) for row in found]


async def with_account(connection: Connection, job_id: UUID) -> Row | None:
    """Return a job of whatever account, with `account_name`."""
    statement = (
        select(job, account.c.name.label("account_name"))
        .join(account, account.c.id == job.c.account_id)
        .where(job.c.id == job_id)
    )
    return (await connection.execute(statement)).mappings().one_or_none()


def _matching(statement: S, wanted: JobFilter) -> S:
    statement = statement.select_from(job).join(account, account.c.id == job.c.account_id)
    if wanted.states:
        statement = statement.where(job.c.state.in_(wanted.states))
    if wanted.account:
        statement = statement.where(account.c.name == wanted.account)
    if wanted.text:
        named = [column.icontains(wanted.text, autoescape=True) for column in (job.c.name, job.c.source_name)]
        begins = cast(job.c.id, Text).istartswith(wanted.text, autoescape=True)
        statement = statement.where(named[0] | named[1] | begins)
    if wanted.after is not None:
        statement = statement.where(job.c.created_at >= wanted.after)
    if wanted.before is not None:
        statement = statement.where(job.c.created_at < wanted.before)
    if wanted.broken_but is not None:
        again = job.alias("again")
        failed = job.c.state.in_([JobState.FAILED]) & job.c.error_code.not_in(wanted.broken_but)
        statement = statement.where(failed, ~exists().where(again.c.parent_id == job.c.id))
    return statement


async def remove(connection: Connection, job_id: UUID) -> bool:
    """Delete an ended job with its chunks and events; False when it is gone already or has not ended."""
    gone = delete(job).where(job.c.id == job_id, job.c.state.in_(ENDED))
    return (await connection.execute(gone)).rowcount == 1


async def expired(connection: Connection, limit: int) -> list[UUID]:
    """Return ended jobs whose time to be kept is over."""
    over = job.c.expires_at < func.clock_timestamp()
    found = select(job.c.id).where(over, job.c.state.in_(ENDED)).order_by(job.c.expires_at).limit(limit)
    return list((await connection.execute(found)).scalars())


_EXPECT_BLOBS = text("""
    INSERT INTO leftover (job_id, due_at)
    SELECT job_id, clock_timestamp() + make_interval(secs => :seconds)
    FROM unnest(CAST(:job_ids AS uuid[])) AS job_id
    ON CONFLICT (job_id) DO NOTHING
""")


async def expect_blobs(connection: Connection, *job_ids: UUID, seconds: float) -> None:
    """Note that blobs of jobs are about to be stored whose jobs must follow within so many seconds.

    Where they are being deleted, it waits until that is noted; then `claim_blobs` says that it is too late.
    """
    await connection.execute(_EXPECT_BLOBS, {"job_ids": list(job_ids), "seconds": seconds})


_CLAIM_BLOBS = text(_EXPECTED)


async def claim_blobs(connection: Connection, job_id: UUID) -> bool:
    """Say that the job comes, in the transaction that inserts it; False when it is too late."""
    return (await connection.execute(_CLAIM_BLOBS, {"job_id": job_id})).rowcount == 1


_LEAVE_BLOBS = text("""
    INSERT INTO leftover (job_id, due_at, sealed)
    SELECT job_id, clock_timestamp() + make_interval(secs => :seconds), true
    FROM unnest(CAST(:job_ids AS uuid[])) AS job_id
    ON CONFLICT (job_id) DO UPDATE SET due_at = excluded.due_at, sealed = true
""")


async def leave_blobs(connection: Connection, job_ids: list[UUID], *, seconds: float) -> None:
    """Note jobs that are being deleted: what is still written for them goes after so many seconds."""
    await connection.execute(_LEAVE_BLOBS, {"job_ids": job_ids, "seconds": seconds})


# Whoever dies over it leaves the row for the next one.
_SEAL_BLOBS = text("""
    WITH due AS MATERIALIZED (
        SELECT job_id FROM leftover WHERE due_at <= clock_timestamp()
        ORDER BY due_at LIMIT :limit FOR UPDATE SKIP LOCKED
    )
    UPDATE leftover SET sealed = true, due_at = clock_timestamp() + interval '1 minute'
    FROM due WHERE leftover.job_id = due.job_id
    RETURNING leftover.job_id
""")


async def seal_blobs(connection: Connection, *, limit: int) -> list[UUID]:
    """Return jobs whose blobs are to go now; nobody else is given them for a minute."""
    return list((await connection.execute(_SEAL_BLOBS, {"limit": limit})).scalars())


_FORGET_BLOBS = text("DELETE FROM leftover WHERE job_id = :job_id AND sealed")


async def forget_blobs(connection: Connection, job_id: UUID) -> None:
    """Say that nothing is left under the job's prefix."""
    await connection.execute(_FORGET_BLOBS, {"job_id": job_id})
