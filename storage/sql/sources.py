"""Sources in SQL: which identities live workers ask from, and where asking makes no sense for a while."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import text

from mailsift.storage.database import Connection, statement


@dataclass(frozen=True, slots=True)
class LiveSource:
    """An identity that probes leave from, and who uses it.

    Attributes:
        identity: the address as the world sees it; "" for default routes that nobody has named.
        processes: worker processes that ask from it.
        beat_age: seconds since the last of them was heard of.
        resting: providers that are not asked from it now because its budget there is used up.
    """

    identity: str
    processes: int
    hosts: tuple[str, ...]
    beat_age: float
    resting: int


_LIVE = statement("""
    SELECT s.identity, count(*) AS processes, array_agg(DISTINCT w.host ORDER BY w.host) AS hosts,
        min(extract(epoch FROM clock_timestamp() - w.beat_at))::float8 AS beat_age,
        (SELECT count(*) FROM source_rest r
         WHERE r.source = s.identity AND r.rests_until > clock_timestamp()) AS resting
    FROM worker w CROSS JOIN LATERAL unnest(w.sources) AS s(identity)
    WHERE {live_worker} GROUP BY s.identity ORDER BY s.identity
""")

_REST = text("""
    INSERT INTO source_rest (provider, source, rests_until)
    VALUES (:provider, :source, clock_timestamp() + make_interval(secs => :seconds))
    ON CONFLICT (provider, source) DO UPDATE SET rests_until = excluded.rests_until
""")

_OPENS = statement("""
    SELECT p.provider, min(greatest(0, coalesce(
        extract(epoch FROM r.rests_until - clock_timestamp()), 0)))::float8 AS seconds
    FROM unnest(CAST(:providers AS text[])) AS p(provider)
    CROSS JOIN (
        SELECT DISTINCT unnest(sources) AS identity FROM worker WHERE {live_worker}
    ) s
    LEFT JOIN source_rest r ON r.provider = p.provider AND r.source = s.identity
    GROUP BY p.provider
""")

_WAKE = text("""
    UPDATE source_rest SET rests_until = clock_timestamp() + make_interval(secs => :seconds)
    WHERE :provider IN ('*', provider) AND :source IN ('*', source)
""")
_PURGE = text("DELETE FROM source_rest WHERE rests_until < clock_timestamp() - interval '1 hour'")


async def live(connection: Connection) -> list[LiveSource]:
    """Return the sources of the workers that claim, each once."""
    found = await connection.execute(_LIVE)
    return [LiveSource(**{**row, "hosts": tuple(row["hosts"])}) for row in found.mappings()]


async def rest(connection: Connection, rests: Mapping[tuple[str, str], float]) -> None:
    """Write down for how many seconds a provider (first) need not be asked from a source (second)."""
    if rests:
        rows = [
            {"provider": provider, "source": source, "seconds": seconds}
            for (provider, source), seconds in sorted(rests.items())  # in one order, or two commits deadlock
        ]
        await connection.execute(_REST, rows)


async def opens(connection: Connection, providers: Collection[str]) -> dict[str, float]:
    """Return in how many seconds the first live source may ask each provider; nothing when none is live."""
    if not providers:
        return {}
    found = await connection.execute(_OPENS, {"providers": sorted(providers)})
    return {row.provider: row.seconds for row in found}


async def wake(connection: Connection, *, provider: str, source: str, after: float = 0.0) -> None:
    """Let a provider be asked from a source again after so many seconds; `*` stands for all of them."""
    await connection.execute(_WAKE, {"provider": provider, "source": source, "seconds": after})


async def purge(connection: Connection) -> None:
    """Forget rests that are long over."""
    await connection.execute(_PURGE)


def identities(sources: Sequence[LiveSource]) -> tuple[str, ...]:
    """Return the identities alone."""
    return tuple(source.identity for source in sources)
