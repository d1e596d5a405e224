"""The ledger in SQL: what each source asked of each provider by hour, and what its name is worth there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Final

from sqlalchemy import text

from mailsift.pipeline.background import record_failure, repeating
from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import (
    NO_COUNTS,
    LedgerCounts,
    LedgerKind,
    Report,
    Standing,
    decay_after_silence,
    highest_step,
    update_standing,
)
from mailsift.storage.database import Connection, Database, from_row

FLUSH_SECONDS: Final = 5.0
KEPT_DAYS: Final = 90
OTHERS: Final = "other"
"""All providers outside the table together: their keys are domains of customers' mail hosts."""

Place = tuple[str, str]
"""Provider and source."""


class LedgerBook:
    """Counts in memory what a process asks and writes it down every few seconds; a kill loses that much."""

    def __init__(
        self, knows: Callable[[str], bool] = lambda _: False, row: Callable[[str], Provider] = Provider
    ) -> None:
        self._knows = knows
        self._row = row
        self._counts: dict[Place, LedgerCounts] = {}

    def count(self, reports: Iterable[Report]) -> None:
        """Add what these sessions amount to."""
        for report in reports:
            if report.ledger.counts:
                provider = report.ask.provider if self._knows(report.ask.provider) else OTHERS
                self._add((provider, report.ask.source), report.ledger)

    def drain(self) -> dict[Place, LedgerCounts]:
        """Return what was counted since the last time, and begin anew."""
        drained, self._counts = self._counts, {}
        return drained

    async def flush(self, database: Database) -> None:
        """Write down what was counted; it never raises, and what could not be written comes the next time."""
        drained = self.drain()
        if not drained:
            return
        try:
            await database.run(write, drained, self._row)
        except Exception as error:  # noqa: BLE001 - whatever it was, the counts are kept
            record_failure("ledger", error)
            for key, counts in drained.items():
                self._add(key, counts)

    def _add(self, key: Place, counts: LedgerCounts) -> None:
        self._counts[key] = self._counts.get(key, NO_COUNTS) + counts


@asynccontextmanager
async def kept_written(database: Database, book: LedgerBook) -> AsyncIterator[None]:
    """Write the book down every few seconds and at the end of the block."""
    try:
        async with repeating(lambda: book.flush(database), every=FLUSH_SECONDS, task="ledger"):
            yield
    finally:
        await book.flush(database)


# Two flushes write in the same order, or they deadlock.
_ADD = text("""
    INSERT INTO source_ledger AS l (hour, provider, source, kind, count)
    VALUES (date_trunc('hour', clock_timestamp()), :provider, :source, :kind, :count)
    ON CONFLICT (hour, provider, source, kind) DO UPDATE SET count = l.count + excluded.count
""")
_MEET = text("""
    INSERT INTO source_standing (provider, source, stepped_at, asked_at)
    VALUES (:provider, :source, clock_timestamp(), clock_timestamp())
    ON CONFLICT (provider, source) DO NOTHING
""")
_STANDING = """
    SELECT provider, source, step, clean, refused, extract(epoch FROM stepped_at)::float8 AS stepped_at,
        extract(epoch FROM asked_at)::float8 AS asked_at,
        extract(epoch FROM clock_timestamp())::float8 AS now
    FROM source_standing
"""
_LOCK = text(_STANDING + " WHERE provider = :provider AND source = :source FOR UPDATE")
_ALL = text(_STANDING + " ORDER BY provider, source")
_SET = text("""
    UPDATE source_standing SET step = :step, clean = :clean, refused = :refused,
        stepped_at = to_timestamp(:stepped_at), asked_at = to_timestamp(:asked_at)
    WHERE provider = :provider AND source = :source
""")
_TOTALS = text("""
    SELECT provider, source, kind, sum(count)::bigint AS count
    FROM source_ledger WHERE hour > clock_timestamp() - make_interval(hours => :hours)
    GROUP BY provider, source, kind
""")
_PURGE = text("DELETE FROM source_ledger WHERE hour < clock_timestamp() - make_interval(days => :days)")


async def write(
    connection: Connection, counts: Mapping[Place, LedgerCounts], row_of: Callable[[str], Provider] = Provider
) -> None:
    """Add to this hour's ledger, and let each name be worth what it now is."""
    for key in sorted(counts):
        values = {"provider": key[0], "source": key[1]}
        for kind in sorted(counts[key].counts):
            await connection.execute(_ADD, values | {"kind": kind.value, "count": counts[key].of(kind)})
        if key[0] != OTHERS:
            await connection.execute(_MEET, values)
            row = (await connection.execute(_LOCK, values)).mappings().one()
            highest = highest_step(row_of(key[0]))
            standing = update_standing(from_row(Standing, row), counts[key], row["now"], highest)
            await connection.execute(_SET, values | asdict(standing))


async def standings(connection: Connection) -> dict[Place, Standing]:
    """Return what each source's name is worth at each provider now."""
    found = (await connection.execute(_ALL)).mappings()
    return {
        (row["provider"], row["source"]): decay_after_silence(from_row(Standing, row), row["now"])
        for row in found
    }


async def steps(connection: Connection) -> dict[Place, int]:
    """Return by how many doublings the pace of a source at a provider is off the table's, where it is."""
    return {key: one.step for key, one in (await standings(connection)).items() if one.step}


async def totals(connection: Connection, *, hours: int) -> dict[Place, LedgerCounts]:
    """Return what each source asked of each provider in the last hours."""
    counted: dict[Place, dict[LedgerKind, int]] = {}
    known = set(LedgerKind)
    for provider, source, kind, count in await connection.execute(_TOTALS, {"hours": hours}):
        counts = counted.setdefault((provider, source), {})
        if kind in known:  # a later release may know more of them
            counts[LedgerKind(kind)] = count
    return {place: LedgerCounts(counts) for place, counts in counted.items()}


async def purge(connection: Connection) -> None:
    """Forget hours that are long over."""
    await connection.execute(_PURGE, {"days": KEPT_DAYS})
