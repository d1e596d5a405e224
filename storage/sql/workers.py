"""Worker processes in SQL: what they tell with every heartbeat, and which are to claim nothing more."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any, Final

from sqlalchemy import text

from mailsift.storage.database import Connection, from_row, in_our_words, statement
from mailsift.storage.schema import connected

ACTIVE: Final = "active"
"""The state of a worker that claims."""
_MOST_LISTED: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessHealth:
    """What one process sees of what it depends on.

    Attributes:
        port25: `open`, `closed` (since this process began), `away` (it was open before), "" = not looked at.
        resolvers, distrusted: name servers it has, and those whose canaries do not hold.
        disk_free, disk_size: bytes where it keeps its files; 0 = nobody can say.
        store: the code of what the blob store failed with last, "" since it works.
    """

    port25: str = ""
    resolvers: int = 0
    distrusted: int = 0
    disk_free: int = 0
    disk_size: int = 0
    store: str = ""

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> ProcessHealth:
        """Return what was stored; what an older or newer release says beside it is left alone."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in known})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """What a process tells of itself, and operators see of it.

    Attributes:
        owner: names it in its leases.
        worker_id: names the worker whose pool it is in.
        slots: chunks and steps it takes at a time; 0 = a sweeper.
        in_hand: slots that are taken; of a process that is drained, all it works on.
        lag_s: the longest its event loop came late since the heartbeat before.
        sources: the identities it asks mail servers from.
    """

    owner: str
    worker_id: str
    host: str
    pid: int
    version: str
    slots: int
    in_hand: int
    lag_s: float
    rss_bytes: int
    health: ProcessHealth = field(default_factory=ProcessHealth)
    sources: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessReport(_Process):
    """What a process tells of itself.

    Attributes:
        beat_s: seconds between its heartbeats.
        claimed_ago, swept_ago: seconds since it last claimed something and last looked after the dead's
            leases; None = never.
    """

    beat_s: float
    claimed_ago: float | None
    swept_ago: float | None


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    """What a process hears with its heartbeat.

    Attributes:
        draining: it is to claim nothing more.
        clock_set_back: the database's clock is behind the process's heartbeat before this one.
    """

    draining: bool
    clock_set_back: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker(_Process):
    """A process as operators see it; ages in seconds.

    Attributes:
        chunks: chunks that are leased to it, by the database.
        draining: an operator wants it to claim nothing more.
        drain_seen: it has read that since.
        gone: it has missed its heartbeats and never said goodbye.
    """

    chunks: int
    started_at: datetime
    up_s: float
    beat_age: float
    claim_age: float | None
    sweep_age: float | None
    draining: bool
    drain_seen: bool
    gone: bool

    @property
    def state(self) -> str:
        """One word: active, draining, drained (nothing is left in its hands) or gone."""
        if self.gone:
            return "gone"
        if self.draining:
            return "drained" if self.drain_seen and not self.in_hand and not self.chunks else "draining"
        return ACTIVE


# A process that takes the place of another one in the pool of a drained worker is drained too.
_BEAT = text("""
    WITH before AS (SELECT beat_at FROM worker WHERE owner = :owner)
    INSERT INTO worker AS w (owner, crew, host, pid, version, slots, in_hand, lag_s, rss_bytes, beat_s,
        claimed_at, swept_at, health, sources, drain_since)
    VALUES (:owner, :worker_id, :host, :pid, :version, :slots, :in_hand, :lag_s, :rss_bytes, :beat_s,
        clock_timestamp() - make_interval(secs => :claimed_ago),
        clock_timestamp() - make_interval(secs => :swept_ago), CAST(:health AS jsonb),
        :sources,
        (SELECT min(drain_since) FROM worker WHERE crew = :worker_id))
    ON CONFLICT (owner) DO UPDATE SET in_hand = excluded.in_hand, lag_s = excluded.lag_s,
        rss_bytes = excluded.rss_bytes, beat_at = clock_timestamp(), stopped_at = NULL,
        claimed_at = excluded.claimed_at, swept_at = excluded.swept_at, health = excluded.health,
        sources = excluded.sources
    RETURNING drain_since IS NOT NULL AS draining,
        coalesce((SELECT beat_at FROM before) > w.beat_at, false) AS clock_set_back
""")

_REPORT_EXIT = text("""
    UPDATE worker SET stopped_at = clock_timestamp(), beat_at = clock_timestamp(), in_hand = 0
    WHERE owner = :owner
""")

_LIST = statement("""
    SELECT w.owner, w.crew AS worker_id, w.host, w.pid, w.version, w.slots, w.in_hand, w.lag_s, w.rss_bytes,
        w.started_at, w.health, extract(epoch FROM clock_timestamp() - w.started_at)::float8 AS up_s,
        coalesce(leased.chunks, 0) AS chunks, w.drain_since IS NOT NULL AS draining,
        coalesce(w.beat_at > w.drain_since, false) AS drain_seen,
        extract(epoch FROM clock_timestamp() - w.beat_at)::float8 AS beat_age,
        extract(epoch FROM clock_timestamp() - w.claimed_at)::float8 AS claim_age,
        extract(epoch FROM clock_timestamp() - w.swept_at)::float8 AS sweep_age,
        NOT {heard_of} AS gone, w.sources
    FROM worker w LEFT JOIN (
        SELECT lease_owner, count(*) AS chunks FROM chunk WHERE state = 'leased' GROUP BY lease_owner
    ) leased ON leased.lease_owner = w.owner
    WHERE w.stopped_at IS NULL
    ORDER BY gone, w.host, w.started_at, w.owner LIMIT :limit
""")

_DRAIN = text("""
    UPDATE worker SET drain_since = CASE WHEN :drain THEN clock_timestamp() END
    WHERE crew IN (SELECT crew FROM worker WHERE owner = ANY(:owners) OR host = ANY(:hosts) OR :all)
      AND (drain_since IS NOT NULL) <> :drain
    RETURNING owner
""")

_PURGE = text("DELETE FROM worker WHERE beat_at < clock_timestamp() - interval '1 day'")
_PURGE_MINUTES = text("DELETE FROM throughput WHERE minute < clock_timestamp() - interval '8 days'")


async def report(connection: Connection, process: ProcessReport) -> BeatAnswer:
    """Write down what a process tells; returns what it is to know."""
    values = {**asdict(process), "sources": list(process.sources)}
    values["health"] = json.dumps(values["health"])
    return BeatAnswer(*(await connection.execute(_BEAT, values)).one())


async def report_exit(connection: Connection, owner: str) -> None:
    """Record that a process ends, so that it is not reported as gone."""
    await connection.execute(_REPORT_EXIT, {"owner": owner})


async def known(connection: Connection) -> Sequence[Worker]:
    """Return the processes that did not say goodbye, those that are gone last."""
    rows = await connection.execute(_LIST, {"limit": _MOST_LISTED})
    return [from_row(Worker, row, health=ProcessHealth.load(row["health"])) for row in rows.mappings()]


_CLAIMING = statement("SELECT host, pid FROM worker WHERE {live_worker} AND slots > 0")


def claiming(url: str) -> list[tuple[str, int]]:
    """Return host and process id of every process that claims work in the database behind the URL.

    Raises:
        MailsiftError: `database_unavailable`, `database_not_migrated`, `database_refused`.
    """
    with in_our_words(), connected(url) as connection:
        return [(row.host, row.pid) for row in connection.execute(_CLAIMING)]


async def drain(
    connection: Connection,
    *,
    drain: bool,
    owners: Collection[str] = (),
    hosts: Collection[str] = (),
    everywhere: bool = False,
) -> list[str]:
    """Tell workers to claim nothing more, or to claim again: a whole pool at a time.

    Returns:
        The processes that were told something new.
    """
    values = {"drain": drain, "owners": list(owners), "hosts": list(hosts), "all": everywhere}
    return list((await connection.execute(_DRAIN, values)).scalars())


async def purge(connection: Connection) -> None:
    """Forget processes that were last heard of a day ago, and minutes of eight days ago."""
    await connection.execute(_PURGE)
    await connection.execute(_PURGE_MINUTES)
