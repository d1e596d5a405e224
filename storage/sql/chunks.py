"""Chunks in SQL: plan, claim, renew, commit, release; who holds what, and where a job's list stops.

A lease is of a chunk or of a step (intake, finish): leases that have run out are freed, and operators can end
others. What a job asked of each provider is counted since it last stopped there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text

from mailsift.pipeline.probe.config import subnet_of
from mailsift.pipeline.throttle import AskedBefore, AskedCounts, ListStop, StopRule, ThrottleKey
from mailsift.storage.database import Connection, row_as, rows_as, statement

TRIAGE_KEY = ""  # not looked at yet
MIXED_KEY = "*"  # few addresses at each of many providers
SLOW_KEY = "~"  # hosts that need more patience than most
SHARED_KEYS = (TRIAGE_KEY, MIXED_KEY, SLOW_KEY)
"""Keys whose chunks many workers may hold at once; every other key is a provider's. The column is `lane`."""
JOB_CAP = 64
"""Chunks of one job that may be leased at once, everywhere."""
LEASE_SECONDS: Final = 60.0
"""How long a lease lasts that nobody renews."""
_CLAIM_COST: Final = 500
"""What a claim costs an account beside the addresses in it, in addresses: a list of one row is not free."""
TURN_COST: Final = 50
"""What a turn at a provider costs there beside its recipients, in these: a session takes time by itself."""
_STRAY_SECONDS: Final = 60.0
"""How long a chunk that a greylisting server expects from a source waits for a worker with that source."""
WORKER_GONE: Final = "worker_gone"
"""Why addresses wait whose worker is not heard of any more: until its lease ends."""
MAX_ATTEMPTS: Final = 4
"""A chunk that more workers gave up than this is split, so that one address cannot hold the others."""
LEASE_EXPIRED: Final = "lease_expired"
TAKEN_BACK: Final = "taken_back"
"""What `chunk.last_error` says beside the names of errors."""


class LeaseLostError(Exception):
    """Another process holds the work now, or nobody may do it any more: what was done is thrown away."""


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk to insert.

    Attributes:
        addresses: how many addresses it holds.
        source_key, source_offset: the blob that holds them and the first one's place in it.
        throttle_key: one of SHARED_KEYS, else that of the provider its addresses wait for.
        waits_for: why it is not ready now, for people; "" when it is. It stays when the chunk is claimed, for
            what is left over to know how often it has waited (storage.sql.stats).
        delay: seconds until it is ready.
        attempt: how often its addresses have already been given up by a worker.
        subnet: of the source that a greylisting server expects (pipeline.probe.config), "" for any.
        free_mail: of addresses that nobody has looked at, those at free-mail domains, by provider.
        domains: of addresses that wait for a provider: each of them is asked for a random recipient, too.
    """

    addresses: int
    source_key: str
    source_offset: int = 0
    throttle_key: str = TRIAGE_KEY
    waits_for: str = ""
    delay: float = 0.0
    attempt: int = 0
    subnet: str = ""
    free_mail: Mapping[str, int] = field(default_factory=dict)
    domains: int = 0


_INSERT = text("""
    INSERT INTO chunk (job_id, n, lane, waits_for, ready_at, attempt, addresses, source_key, source_offset,
        subnet, free_mail, domains)
    SELECT :job_id, :n, :throttle_key, :waits_for,
           least(clock_timestamp() + make_interval(secs => :delay), deadline_at),
           :attempt, :addresses, :source_key, :source_offset,
           CASE WHEN deadline_at < clock_timestamp() + make_interval(secs => :delay) THEN ''
                ELSE CAST(:subnet AS text) END,
           nullif(CAST(:free_mail AS jsonb), '{}'), :domains
    FROM job WHERE id = :job_id
""")


async def insert(connection: Connection, job_id: UUID, first: int, chunks: Sequence[NewChunk]) -> None:
    """Insert chunks numbered from `first`; none becomes ready later than the job's deadline."""
    if chunks:
        rows = [
            asdict(new) | {"free_mail": json.dumps(dict(new.free_mail)), "job_id": job_id, "n": n}
            for n, new in enumerate(chunks, first)
        ]
        await connection.execute(_INSERT, rows)


@dataclass(frozen=True, slots=True)
class ClaimedChunk:
    """A chunk leased to one worker, with what its work needs to know of the job.

    Attributes:
        sources: the worker's identities that may ask the chunk's provider now; all where it has none.
        live_sources: identities of all workers that claim.
    """

    job_id: UUID
    n: int
    throttle_key: str
    attempt: int
    addresses: int
    source_key: str
    source_offset: int
    lease_token: UUID
    account_id: UUID
    options: dict[str, Any]
    small: bool
    deadline_passed: bool
    subnet: str = ""
    sources: Sequence[str] = ()
    live_sources: int = 1
    test: bool = False
    job_addresses: int = 0

    @property
    def share(self) -> float:
        """Of its job's addresses while nobody has looked at them: the others will be alike."""
        is_part = self.throttle_key == TRIAGE_KEY and self.addresses < self.job_addresses
        return self.addresses / self.job_addresses if is_part else 1.0


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How a worker leases: its name, for how long (the database's seconds), from which sources it asks."""

    owner: str
    lease_s: float
    sources: Collection[str] = ("",)


_WEIGHT: Final = "CASE job.options->>'priority' WHEN 'high' THEN 0.1 WHEN 'low' THEN 10 ELSE 1 END"
"""By how much faster or slower a job's virtual time goes than its account's."""

_LEASE: Final = """    ), leased AS (
        UPDATE chunk c
        SET state = 'leased', attempt = attempt + 1,
            lease_token = coalesce(CAST(:token AS uuid), gen_random_uuid()),
            lease_owner = :owner, leased_at = clock_timestamp(),
            lease_sources = CASE WHEN lane = ANY(:shared_keys) THEN CAST(ARRAY[] AS text[]) ELSE ARRAY(
                SELECT unnest(CAST(:sources AS text[]))
                EXCEPT SELECT source FROM closed
                WHERE closed.lane = c.lane AND NOT (rests AND c.lane IN (SELECT lane FROM shut))) END,
            lease_until = clock_timestamp() + make_interval(secs => :lease)
        FROM picked WHERE c.job_id = picked.job_id AND c.n = picked.n
        RETURNING c.*
    ), charged AS (
        UPDATE job SET state = 'running', started_at = coalesce(started_at, clock_timestamp()),
            vtime = vtime + (leased.addresses + :cost) * {weight}
        FROM leased WHERE job.id = leased.job_id AND job.state IN {claimable}
        RETURNING job.account_id
    ), billed AS (
        UPDATE account SET vtime = vtime + leased.addresses + :cost
        FROM charged CROSS JOIN leased WHERE account.id = charged.account_id AND CAST(:token AS uuid) IS NULL
        RETURNING account.id
    ), turn AS (
        INSERT INTO provider_turn AS t (account_id, lane, starts, ends)
        SELECT billed.id, lane, line.at, line.at + addresses + domains + :turn_cost
        FROM billed CROSS JOIN leased CROSS JOIN LATERAL (
            SELECT coalesce(max(CASE o.account_id WHEN billed.id THEN o.ends ELSE o.starts END), 0) AS at
            FROM provider_turn o WHERE o.lane = leased.lane) line
        WHERE lane <> ALL(:shared_keys)
        ON CONFLICT (lane, account_id) DO UPDATE SET starts = greatest(t.ends, EXCLUDED.starts),
            ends = greatest(t.ends, EXCLUDED.starts) + EXCLUDED.ends - EXCLUDED.starts,
            taken_at = clock_timestamp()
    )
    SELECT leased.job_id, leased.n, leased.lane AS throttle_key, leased.attempt, leased.addresses,
           leased.source_key, leased.source_offset, leased.lease_token, job.account_id, job.options,
           job.small, job.test, coalesce(job.deadline_at <= clock_timestamp(), false) AS deadline_passed,
           job.addresses AS job_addresses, leased.subnet, leased.lease_sources AS sources,
           (SELECT count(DISTINCT identity) FROM worker CROSS JOIN LATERAL unnest(sources) s(identity)
            WHERE {live_worker}) AS live_sources
    FROM leased JOIN job ON job.id = leased.job_id
"""
"""Leases the chunk that was `picked`; in front of it stand that, `closed` and `shut`. What is leased under
the token of its intake has been paid for with that. A turn at a provider starts where the account's last
one there ended, or where the last of any account there started: who has not asked it for a while owes and
is owed nothing (start-time fair queueing)."""

_TAKEABLE: Final = """c.job_id = o.id AND c.state = 'ready' AND c.ready_at <= statement_timestamp()
              AND (:triage OR o.small OR c.lane <> :triage_key)
              AND (c.lane = ANY(:shared_keys) OR c.lane NOT IN (SELECT lane FROM shut)
                   OR (o.late AND c.lane NOT IN (SELECT lane FROM shut WHERE taken)))
              AND (c.subnet = '' OR c.subnet = ANY(:subnets)
                   OR c.ready_at <= statement_timestamp() - make_interval(secs => :stray))"""
"""Of a chunk `c`: who claims may take it for the job `o`.

The time is one that stands still, so that an index ends at it: with the clock's each claim would look at
30,000 deferred chunks of ten jobs (15 ms, not 3)."""

# Fair by virtual time: the account that is furthest behind, in it small jobs and then the job that is
# furthest behind. Where that waits for a provider, the turn there goes to the account that is furthest
# behind at this provider: who waits for one alone would else have all the turns there beside who waits for
# ten. A provider is asked from each source by one worker at a time, and not while its budget there is used
# up; the throttle itself is the hard limit. What names no sources was leased by a former release, and takes
# all of them. A lane is shut to a worker all of whose sources are taken or rest there; to one who holds a
# chunk of it alone it stays open where the caller says that a second one is of use, and in its job that
# goes first: a long queue at one provider is what ends last. What a greylisting server expects from a
# source waits for that a while. Beyond its deadline a job waits for no source to have rested: nothing more
# is found out, and its addresses get their verdicts. What is leased is looked at once, not for every job;
# and jobs are ordered before their chunks are looked for, so that the search ends at the first jobs which
# have one to take.
_PICK_NEXT: Final = """
    WITH held AS MATERIALIZED (
        SELECT job_id, lane, coalesce(lease_sources, CAST(:sources AS text[])) AS sources,
            lease_owner = :owner AND lane = ANY(:shared_here) AS shares
        FROM chunk WHERE state = 'leased'
    ), closed AS MATERIALIZED (
        SELECT lane, source, false AS rests
        FROM (SELECT DISTINCT lane, sources FROM held WHERE NOT shares) h
            CROSS JOIN LATERAL unnest(sources) AS s(source)
        WHERE source = ANY(:sources)
        UNION
        SELECT provider, source, true FROM source_rest
        WHERE rests_until > clock_timestamp() AND source = ANY(:sources)
    ), shut AS MATERIALIZED (
        SELECT lane, count(*) FILTER (WHERE NOT rests) >= cardinality(CAST(:sources AS text[])) AS taken
        FROM closed GROUP BY lane HAVING count(DISTINCT source) >= cardinality(CAST(:sources AS text[]))
    ), active AS MATERIALIZED (
        SELECT j.id, j.account_id, j.small, j.vtime, a.vtime AS account_vtime,
            coalesce(j.deadline_at <= clock_timestamp(), false) AS late
        FROM job j JOIN account a ON a.id = j.account_id
        WHERE j.state IN {claimable} AND (j.small OR NOT :small_only)
          AND j.id NOT IN (SELECT job_id FROM held GROUP BY job_id HAVING count(*) >= :job_cap)
    ), candidate AS MATERIALIZED (
        SELECT o.* FROM (
            SELECT * FROM active ORDER BY account_vtime, small DESC, vtime, id
        ) o CROSS JOIN LATERAL (
            SELECT FROM chunk c WHERE {takeable} LIMIT 1
        ) takeable ORDER BY o.account_vtime, o.small DESC, o.vtime, o.id LIMIT 32
    ), behind AS MATERIALIZED (
        SELECT c.job_id, c.n, c.lane FROM candidate o CROSS JOIN LATERAL (
            SELECT * FROM (
                SELECT c.job_id, c.n, c.lane FROM chunk c
                WHERE {takeable} AND c.lane <> '' AND c.lane = ANY(:shared_here)
                ORDER BY c.ready_at, c.n LIMIT 1 FOR UPDATE SKIP LOCKED) shared
            UNION ALL
            SELECT * FROM (
                SELECT c.job_id, c.n, c.lane FROM chunk c WHERE {takeable}
                ORDER BY c.ready_at, c.n LIMIT 1 FOR UPDATE SKIP LOCKED) oldest
            LIMIT 1
        ) c ORDER BY o.account_vtime, o.small DESC, o.vtime, o.id LIMIT 1
    ), in_turn AS MATERIALIZED (
        SELECT c.job_id, c.n FROM (
            SELECT active.*, coalesce(t.ends, 0) AS ends FROM active LEFT JOIN provider_turn t
                ON t.lane = (SELECT lane FROM behind) AND t.account_id = active.account_id
            WHERE (SELECT lane FROM behind) <> ALL(:shared_keys)
            ORDER BY ends, account_vtime, small DESC, vtime, id
        ) o CROSS JOIN LATERAL (
            SELECT FROM chunk c WHERE {takeable} AND {in_line} LIMIT 1
        ) takeable CROSS JOIN LATERAL (
            SELECT c.job_id, c.n FROM chunk c WHERE {takeable} AND {in_line}
            ORDER BY c.ready_at, c.n LIMIT 1 FOR UPDATE SKIP LOCKED
        ) c ORDER BY o.ends, o.account_vtime, o.small DESC, o.vtime, o.id LIMIT 1
    ), picked AS MATERIALIZED (
        SELECT job_id, n FROM in_turn
        UNION ALL
        SELECT job_id, n FROM behind WHERE NOT EXISTS (SELECT FROM in_turn)
"""
_IN_LINE: Final = "c.lane <> '' AND c.lane = (SELECT lane FROM behind)"
CLAIM = statement(_PICK_NEXT + _LEASE, takeable=_TAKEABLE, in_line=_IN_LINE, weight=_WEIGHT)


async def claim(
    connection: Connection,
    terms: LeaseTerms,
    *,
    job_cap: int,
    small_only: bool,
    triage: bool,
    shared: Collection[str] = (),
) -> ClaimedChunk | None:
    """Lease the next chunk, if one is ready, of a job of which fewer than `job_cap` are leased.

    `small_only`: of small jobs; `triage`: also chunks of big jobs that nobody has looked at yet; `shared`:
    throttle keys whose chunks the worker may hold beside those it has.
    """
    wanted = {"job_cap": job_cap, "small_only": small_only, "triage": triage, "shared_here": sorted(shared)}
    return await row_as(ClaimedChunk, connection, CLAIM, lease_values(terms) | wanted)


_PICK_FIRST: Final = """
    WITH closed AS (
        SELECT CAST('' AS text) AS lane, CAST('' AS text) AS source, false AS rests WHERE false
    ), shut AS (
        SELECT lane FROM closed
    ), picked AS (
        SELECT job_id, n FROM chunk
        WHERE job_id = :job_id AND lane = :triage_key AND state = 'ready' AND ready_at <= clock_timestamp()
        ORDER BY n LIMIT 1
"""
_LEASE_FIRST = statement(_PICK_FIRST + _LEASE, weight=_WEIGHT)


async def lease_first(
    connection: Connection, job_id: UUID, terms: LeaseTerms, *, token: UUID
) -> ClaimedChunk | None:
    """Lease a chunk of this job that nobody has looked at yet, out of turn, to who holds its intake."""
    values = lease_values(terms, token) | {"job_id": job_id}
    return await row_as(ClaimedChunk, connection, _LEASE_FIRST, values)


def lease_values(terms: LeaseTerms, token: UUID | None = None) -> dict[str, object]:
    """Return what CLAIM wants to know of who leases; under a token that has been paid for."""
    known = sorted(set(terms.sources))
    return {
        "owner": terms.owner,
        "lease": terms.lease_s,
        "token": token,
        "sources": known,
        "subnets": sorted({subnet for source in known if (subnet := subnet_of(source))}),
        "stray": _STRAY_SECONDS,
        "cost": _CLAIM_COST,
        "turn_cost": TURN_COST,
        "triage_key": TRIAGE_KEY,
        "shared_keys": list(SHARED_KEYS),
    }


# Waits are short where a rate decides, and long where a server said "later".
_NEXT_READY = statement("""
    SELECT extract(epoch FROM least(
        (SELECT min(c.ready_at) FROM job j CROSS JOIN LATERAL (
            SELECT ready_at FROM chunk
            WHERE job_id = j.id AND state = 'ready' AND ready_at > statement_timestamp()
            ORDER BY ready_at LIMIT 1) c
         WHERE j.state IN {claimable}),
        (SELECT min(rests_until) FROM source_rest
         WHERE rests_until > clock_timestamp() AND source = ANY(:sources))
    ) - clock_timestamp())::float8
""")


async def next_ready(connection: Connection, sources: Collection[str]) -> float:
    """Return in how many seconds a chunk gets ready or one of these sources may ask again; never: inf."""
    found = await connection.execute(_NEXT_READY, {"sources": sorted(set(sources))})
    seconds = found.scalar_one()
    return math.inf if seconds is None else max(0.0, float(seconds))


_RENEW = text("""
    UPDATE chunk SET lease_until = clock_timestamp() + make_interval(secs => :lease)
    WHERE state = 'leased' AND lease_token = ANY(:tokens)
    RETURNING lease_token
""")


async def renew(connection: Connection, tokens: Collection[UUID], *, lease: float) -> set[UUID]:
    """Extend the leases; the tokens that are missing from the answer are lost, or no chunk's."""
    values = {"tokens": list(tokens), "lease": lease}
    return set((await connection.execute(_RENEW, values)).scalars())


_CLOSE = text("""
    UPDATE chunk SET state = 'done', segment_key = :segment_key,
        lease_token = NULL, lease_owner = NULL, lease_until = NULL
    WHERE job_id = :job_id AND n = :n AND state = 'leased' AND lease_token = :token
""")


async def close(connection: Connection, chunk: ClaimedChunk, segment_key: str | None) -> bool:
    """Mark the chunk done and point to its segment; False when its lease was lost meanwhile."""
    values = {
        "job_id": chunk.job_id,
        "n": chunk.n,
        "token": chunk.lease_token,
        "segment_key": segment_key,
    }
    return (await connection.execute(_CLOSE, values)).rowcount == 1


# The names of both have the lease's token in them.
_IS_CLOSED = text("""
    SELECT EXISTS (SELECT FROM chunk WHERE job_id = :job_id
        AND (segment_key = :segment_key OR source_key = :left_key AND source_key <> :source_key))
""")


async def is_closed(
    connection: Connection, chunk: ClaimedChunk, segment_key: str | None, left: Sequence[NewChunk]
) -> bool:
    """Say whether the chunk was closed before with this very segment, and what it left for later."""
    values = {
        "job_id": chunk.job_id,
        "segment_key": segment_key,
        "left_key": left[0].source_key if left else None,
        "source_key": chunk.source_key,
    }
    return bool((await connection.execute(_IS_CLOSED, values)).scalar_one())


_RELEASE = text("""
    UPDATE chunk SET state = 'ready', waits_for = :waits_for, attempt = attempt - :untried,
        last_error = coalesce(nullif(:error, ''), last_error),
        ready_at = clock_timestamp() + make_interval(secs => :delay),
        lease_token = NULL, lease_owner = NULL, lease_until = NULL
    WHERE job_id = :job_id AND n = :n AND state = 'leased' AND lease_token = :token
""")


async def release(
    connection: Connection,
    chunk: ClaimedChunk,
    *,
    delay: float = 0.0,
    waits_for: str = "",
    tried: bool = True,
    error: str = "",
) -> None:
    """Give the chunk back undone, ready again in `delay` seconds; nothing happens when its lease was lost.

    `waits_for` tells people why it is not ready now, `error` tells operators what went wrong ("" leaves what
    is known). `tried`: it counts as an attempt, that is, its addresses may be to blame.
    """
    values = {
        "job_id": chunk.job_id,
        "n": chunk.n,
        "token": chunk.lease_token,
        "delay": delay,
        "waits_for": waits_for,
        "untried": int(not tried),
        "error": error,
    }
    await connection.execute(_RELEASE, values)


# What is already being claimed is left alone: its worker will hear the same from the throttle.
_HOLD = text("""
    UPDATE chunk SET waits_for = :waits_for,
        ready_at = greatest(ready_at, least(clock_timestamp() + make_interval(secs => :delay),
            (SELECT deadline_at FROM job WHERE id = :job_id)))
    WHERE (job_id, n) IN (
        SELECT job_id, n FROM chunk
        WHERE job_id = :job_id AND state = 'ready' AND lane = :throttle_key FOR UPDATE SKIP LOCKED)
""")


async def hold(
    connection: Connection, job_id: UUID, *, throttle_key: str, delay: float, waits_for: str
) -> None:
    """Make the job's ready chunks of one throttle key wait `delay` seconds or to the deadline."""
    values = {"job_id": job_id, "throttle_key": throttle_key, "delay": delay, "waits_for": waits_for}
    await connection.execute(_HOLD, values)


# Of what was paid for at the claim; job, account and turn are locked in the order of a claim.
_GIVE_BACK = text(f"""
    WITH of_job AS (
        UPDATE job SET vtime = vtime - CAST(:addresses AS float8) * {_WEIGHT}
        WHERE id = :job_id RETURNING account_id
    ), of_account AS (
        UPDATE account SET vtime = vtime - CAST(:addresses AS float8) FROM of_job
        WHERE id = of_job.account_id RETURNING id
    )
    UPDATE provider_turn SET ends = greatest(starts, ends - CAST(:recipients AS float8))
    FROM of_account WHERE lane = :throttle_key AND account_id = of_account.id
""")  # noqa: S608 - of this file


async def give_back(connection: Connection, chunk: ClaimedChunk, left: Sequence[NewChunk]) -> None:
    """Let account and job not pay for what a turn at a provider leaves of a chunk, to be paid for again."""
    addresses = sum(new.addresses for new in left)
    values = {
        "job_id": chunk.job_id,
        "throttle_key": chunk.throttle_key,
        "addresses": addresses,
        "recipients": addresses + sum(new.domains for new in left),
    }
    await connection.execute(_GIVE_BACK, values)


_PURGE_TURNS = text("DELETE FROM provider_turn WHERE taken_at < clock_timestamp() - interval '1 day'")


async def purge_turns(connection: Connection) -> None:
    """Forget when accounts had their turns at providers that they have not asked for a day."""
    await connection.execute(_PURGE_TURNS)


_CANCEL = statement("""
    UPDATE chunk SET state = 'cancelled', lease_token = NULL, lease_owner = NULL, lease_until = NULL
    WHERE job_id = :job_id AND state IN {open_chunk}
""")


async def cancel(connection: Connection, job_id: UUID) -> None:
    """End every open chunk of a job; a worker that holds one will find its lease lost."""
    await connection.execute(_CANCEL, {"job_id": job_id})


@dataclass(frozen=True, slots=True)
class Waiting:
    """Addresses of a job that wait for one throttle key: why and until when (UTC)."""

    throttle_key: str
    reason: str
    addresses: int
    until: datetime


_WAITS = statement("""
    WITH {open_chunks}, waiting AS (
        SELECT lane, waits_for, addresses, ready_at AS until FROM open_chunk
        WHERE job_id = :job_id AND state = 'ready' AND waits_for <> ''
        UNION ALL
        SELECT lane, :worker_gone, addresses, lease_until FROM open_chunk c
        WHERE job_id = :job_id AND state = 'leased'
            AND NOT EXISTS (SELECT FROM worker w WHERE w.owner = c.lease_owner AND {heard_of})
    )
    SELECT lane AS throttle_key, waits_for AS reason, sum(addresses)::bigint AS addresses, min(until) AS until
    FROM waiting WHERE until > clock_timestamp() GROUP BY lane, waits_for ORDER BY until
""")


async def waits(connection: Connection, job_id: UUID) -> list[Waiting]:
    """Return what the job waits for, soonest first."""
    return await rows_as(Waiting, connection, _WAITS, {"job_id": job_id, "worker_gone": WORKER_GONE})


_SEGMENTS = text(
    "SELECT segment_key FROM chunk WHERE job_id = :job_id AND segment_key IS NOT NULL ORDER BY n"
)


async def segments(connection: Connection, job_id: UUID) -> list[str]:
    """Return the blob keys of the job's verdicts so far."""
    return list((await connection.execute(_SEGMENTS, {"job_id": job_id})).scalars())


_REDONE = text("""
    SELECT count(DISTINCT source_key) FROM chunk
    WHERE job_id = :job_id AND source_key LIKE '%/residual/redone-%'
""")


async def redone(connection: Connection, job_id: UUID) -> int:
    """Return how often the job's lost verdicts were looked for again."""
    return int((await connection.execute(_REDONE, {"job_id": job_id})).scalar_one())


# What a chunk left for later lies in one blob of its own, whose name begins with its number, without gaps.
_JUDGED_IN_LOST = text("""
    WITH later AS (
        SELECT split_part(split_part(source_key, '/residual/', 2), '-', 1) AS left_by,
            max(source_offset + addresses) AS addresses
        FROM chunk WHERE job_id = :job_id GROUP BY left_by
    )
    SELECT coalesce(sum(c.addresses - coalesce(later.addresses, 0)), 0)::bigint
    FROM chunk c LEFT JOIN later ON later.left_by = c.n::text
    WHERE c.job_id = :job_id AND c.segment_key <> ALL(:sound)
""")
_FORGET_LOST = text("""
    UPDATE chunk SET segment_key = NULL WHERE job_id = :job_id AND segment_key <> ALL(:sound)
""")


async def forget_lost(connection: Connection, job_id: UUID, sound: Sequence[str]) -> int:
    """Point to no other segments of the job than these; returns how many addresses the others had judged."""
    values = {"job_id": job_id, "sound": list(sound)}
    judged = int((await connection.execute(_JUDGED_IN_LOST, values)).scalar_one())
    await connection.execute(_FORGET_LOST, values)
    return judged


_UNJUDGED = text("""
    SELECT coalesce(sum(addresses), 0)::bigint FROM chunk WHERE job_id = :job_id AND state <> 'done'
""")


async def unjudged(connection: Connection, job_id: UUID) -> int:
    """Return how many of the job's addresses have no verdict."""
    return int((await connection.execute(_UNJUDGED, {"job_id": job_id})).scalar_one())


# Counted in a shard of its own: a commit that holds another one may wait for a chunk that is locked here.
_FREE_EXPIRED = text("""
    WITH freed AS (
        UPDATE chunk SET state = 'ready', ready_at = least(ready_at, clock_timestamp()), waits_for = '',
            lease_token = NULL, lease_owner = NULL, lease_until = NULL, last_error = :error
        WHERE (job_id, n) IN (
            SELECT job_id, n FROM chunk
            WHERE state = 'leased' AND lease_until < clock_timestamp() FOR UPDATE SKIP LOCKED)
        RETURNING n
    ), recorded AS (
        INSERT INTO throughput AS t (minute, shard, leases_expired)
        SELECT date_trunc('minute', clock_timestamp()), -1, count(*) FROM freed HAVING count(*) > 0
        ON CONFLICT (minute, shard) DO UPDATE SET leases_expired = t.leases_expired + excluded.leases_expired
    )
    SELECT count(*) FROM freed
""")


async def free_expired_leases(connection: Connection) -> int:
    """Make the chunks of dead workers ready again; returns how many."""
    return int((await connection.execute(_FREE_EXPIRED, {"error": LEASE_EXPIRED})).scalar_one())


@dataclass(frozen=True, slots=True)
class Lease:
    """A chunk or a step (intake, finish) that a worker holds.

    Attributes:
        n: of the chunk; None for a step.
        what: the chunk's throttle key, or the job's state.
        held_s: seconds since it was claimed, None when an older release claimed it.
        left_s: seconds until it ends; negative when it has run out.
    """

    token: UUID
    job_id: UUID
    job_name: str
    account: str
    n: int | None
    what: str
    addresses: int
    attempt: int
    owner: str
    held_s: float | None
    left_s: float


_LEASED = statement("""
    SELECT * FROM (
        SELECT c.lease_token AS token, c.job_id, j.name AS job_name, a.name AS account, c.n, c.lane AS what,
            c.addresses, c.attempt, c.lease_owner AS owner,
            extract(epoch FROM clock_timestamp() - c.leased_at)::float8 AS held_s,
            extract(epoch FROM c.lease_until - clock_timestamp())::float8 AS left_s
        FROM chunk c JOIN job j ON j.id = c.job_id JOIN account a ON a.id = j.account_id
        WHERE c.state = 'leased' AND (CAST(:job_id AS uuid) IS NULL OR c.job_id = :job_id)
        UNION ALL
        SELECT j.step_token, j.id, j.name, a.name, NULL, j.state, j.addresses, j.step_attempt, j.step_owner,
            extract(epoch FROM clock_timestamp() - j.step_at)::float8,
            extract(epoch FROM j.step_until - clock_timestamp())::float8
        FROM job j JOIN account a ON a.id = j.account_id
        WHERE j.state IN {step_held} AND j.step_token IS NOT NULL
          AND (CAST(:job_id AS uuid) IS NULL OR j.id = :job_id)
    ) held ORDER BY left_s, token LIMIT :limit
""")


async def held_leases(connection: Connection, *, limit: int, job_id: UUID | None = None) -> list[Lease]:
    """Return the leases of chunks and steps (of one job, or of all), those that end first come first."""
    return await rows_as(Lease, connection, _LEASED, {"limit": limit, "job_id": job_id})


_EXPIRED_TOKENS = statement("""
    SELECT lease_token FROM chunk WHERE state = 'leased' AND lease_until < clock_timestamp()
    UNION ALL
    SELECT step_token FROM job
    WHERE state IN {step_held} AND step_until < clock_timestamp() AND step_token IS NOT NULL
""")


async def expired_leases(connection: Connection) -> list[UUID]:
    """Return the tokens of the leases that have run out and were not freed yet."""
    return list((await connection.execute(_EXPIRED_TOKENS)).scalars())


# The fence does the rest: who still works on it finds the token gone.
_TAKE_CHUNK = text("""
    UPDATE chunk SET state = 'ready', ready_at = least(ready_at, clock_timestamp()), waits_for = '',
        lease_token = NULL, lease_owner = NULL, lease_until = NULL, last_error = :error
    WHERE state = 'leased' AND lease_token = ANY(:tokens)
    RETURNING job_id, n
""")
_TAKE_STEP = statement("""
    UPDATE job SET step_token = NULL, step_owner = NULL, step_until = NULL
    WHERE state IN {step_held} AND step_token = ANY(:tokens)
    RETURNING id AS job_id, CAST(NULL AS integer) AS n
""")


async def take_back_leases(connection: Connection, tokens: Sequence[UUID]) -> list[tuple[UUID, int | None]]:
    """End these leases now, so that the next claim takes the work.

    Returns:
        The job and the number of the chunk (None for a step) of every lease that was still held.
    """
    values = {"tokens": list(tokens), "error": TAKEN_BACK}
    taken = [*await connection.execute(_TAKE_CHUNK, values), *await connection.execute(_TAKE_STEP, values)]
    return [(row.job_id, row.n) for row in taken]


# What waits for a reason goes on waiting: nobody knows how much of that is the clock's.
_UNLOCK_READY = statement("""
    UPDATE chunk SET ready_at = clock_timestamp()
    WHERE (job_id, n) IN (
        SELECT c.job_id, c.n FROM job j JOIN chunk c ON c.job_id = j.id
        WHERE j.state IN {claimable} AND c.state = 'ready' AND c.waits_for = ''
          AND c.ready_at > clock_timestamp() FOR UPDATE OF c SKIP LOCKED)
""")
_SHORTEN_CHUNKS = text("""
    UPDATE chunk SET lease_until = clock_timestamp() + make_interval(secs => :lease)
    WHERE (job_id, n) IN (
        SELECT job_id, n FROM chunk
        WHERE state = 'leased' AND lease_until > clock_timestamp() + make_interval(secs => :lease)
        FOR UPDATE SKIP LOCKED)
""")
_SHORTEN_STEPS = statement("""
    UPDATE job SET step_until = clock_timestamp() + make_interval(secs => :lease)
    WHERE id IN (
        SELECT id FROM job
        WHERE state IN {step_due} AND step_until > clock_timestamp() + make_interval(secs => :lease)
        FOR UPDATE SKIP LOCKED)
""")


async def follow_clock(connection: Connection) -> None:
    """After the clock was set back: what was ready is ready, and a lease ends when it would from now on."""
    await connection.execute(_UNLOCK_READY)
    for shorten in (_SHORTEN_CHUNKS, _SHORTEN_STEPS):
        await connection.execute(shorten, {"lease": LEASE_SECONDS})


@dataclass(frozen=True, slots=True)
class FailingChunk:
    """A chunk that was tried more than twice, or is a half of one.

    Attributes:
        state: ready, leased, done or cancelled.
        last_error: what the worker said, LEASE_EXPIRED when it said nothing; "" when it went well then.
        ready_at: when it may be tried again.
    """

    job_id: UUID
    job_name: str
    account: str
    n: int
    state: str
    throttle_key: str
    attempt: int
    addresses: int
    last_error: str
    ready_at: datetime
    owner: str | None


_FAILING = statement("""
    SELECT c.job_id, j.name AS job_name, a.name AS account, c.n, c.state, c.lane AS throttle_key,
        c.attempt, c.addresses, c.last_error, c.ready_at, c.lease_owner AS owner
    FROM chunk c JOIN job j ON j.id = c.job_id JOIN account a ON a.id = j.account_id
    WHERE c.attempt > 2 AND (CAST(:job_id AS uuid) IS NULL OR c.job_id = :job_id)
    ORDER BY c.state IN {open_chunk} DESC, c.ready_at DESC, c.job_id, c.n LIMIT :limit
""")


async def failing(connection: Connection, *, limit: int, job_id: UUID | None = None) -> list[FailingChunk]:
    """Return chunks that were tried more than twice (of one job, or of all), open ones first."""
    return await rows_as(FailingChunk, connection, _FAILING, {"limit": limit, "job_id": job_id})


_COUNT_FAILING = statement("SELECT count(*) FROM chunk WHERE attempt > 2 AND state IN {open_chunk}")


async def count_failing(connection: Connection) -> int:
    """Return how many open chunks were tried more than twice."""
    return int((await connection.execute(_COUNT_FAILING)).scalar_one())


_FRESH = text("""
    UPDATE chunk SET attempt = 0, ready_at = clock_timestamp(), waits_for = ''
    WHERE job_id = :job_id AND n = :n AND state = 'ready'
""")


async def start_afresh(connection: Connection, job_id: UUID, n: int) -> bool:
    """Let a chunk that waits be tried again now, with all its attempts; False when it does not wait."""
    return (await connection.execute(_FRESH, {"job_id": job_id, "n": n})).rowcount == 1


_ASKED_WORTH = 0.5  # of the recipients after which a list may stop: where it asked fewer need not be known

_ASKED_BEFORE = text("""
    SELECT provider, source, asked, missing, stops,
        greatest(0, coalesce(extract(epoch FROM stopped_until - clock_timestamp()), 0))::float8 AS seconds
    FROM job_asked
    WHERE job_id = :job_id AND (provider = :provider OR :provider = '') AND (stops > 0 OR asked >= :worth)
""")


async def asked_before(
    connection: Connection, job_id: UUID, rule: StopRule, *, provider: str = ""
) -> ListStop:
    """Return what is known of a job where it may stop soon, or has; at one provider, or at all."""
    values = {"job_id": job_id, "provider": provider, "worth": _ASKED_WORTH * rule.least}
    found = {}
    for row in await connection.execute(_ASKED_BEFORE, values):
        counts = AskedCounts(row.asked, row.missing)
        found[ThrottleKey(row.provider, row.source)] = AskedBefore(counts, row.stops, row.seconds)
    return ListStop(str(job_id), rule, found)


_COUNT_ASKED = text("""
    INSERT INTO job_asked AS a (job_id, provider, source, asked, missing)
    VALUES (:job_id, :provider, :source, :asked, :missing)
    ON CONFLICT (job_id, provider, source) DO UPDATE
        SET asked = a.asked + excluded.asked, missing = a.missing + excluded.missing
        WHERE a.stops = :stops
    RETURNING asked, missing
""")

_STOP_ASKING = text("""
    UPDATE job_asked SET asked = 0, missing = 0, stops = stops + 1,
        stopped_until = clock_timestamp() + make_interval(secs => :seconds)
    WHERE job_id = :job_id AND provider = :provider AND source = :source
""")


async def count_asked(
    connection: Connection, job_id: UUID, asked: Mapping[ThrottleKey, AskedCounts], stop: ListStop
) -> list[ThrottleKey]:
    """Add to what a job asked; returns where it stops with this, and begins to count anew.

    What was asked before a stop belongs to that one, whenever it is told.
    """
    stopped = []
    for place in sorted(asked):
        values = {"job_id": job_id, **place._asdict(), "stops": stop.stops(place)}
        row = (await connection.execute(_COUNT_ASKED, values | asked[place]._asdict())).one_or_none()
        if row is not None and stop.rule.stops(AskedCounts(row.asked, row.missing)):
            await connection.execute(_STOP_ASKING, values | {"seconds": stop.rule.seconds})
            stopped.append(place)
    return stopped


_STOPPED_PROVIDERS = text("""
    SELECT provider, max(extract(epoch FROM stopped_until - clock_timestamp()))::float8 AS seconds
    FROM job_asked WHERE job_id = :job_id AND stopped_until > clock_timestamp() GROUP BY provider
""")


async def stopped_providers(connection: Connection, job_id: UUID) -> dict[str, float]:
    """Return the providers that the job leaves alone now, and for how many more seconds."""
    found = await connection.execute(_STOPPED_PROVIDERS, {"job_id": job_id})
    return {row.provider: row.seconds for row in found}
