"""The ledger: however many write, nothing is counted twice or lost, and the pace follows from it."""

from __future__ import annotations

import asyncio

from sqlalchemy import text

from mailsift.pipeline.providers import Providers
from mailsift.pipeline.throttle import GROW_PROBES, Ask, LedgerCounts, LedgerKind, Report, SessionOutcome
from mailsift.storage.database import Database
from mailsift.storage.sql import throttles
from mailsift.storage.sql.throttles import EditBook, LedgerBook, keep_edits_refreshed

PROVIDERS = Providers()
GOOGLE = Ask("google", "192.0.2.1", "203.0.113.1", 10)
OWN_HOST = Ask("customer.example", "192.0.2.1", "203.0.113.2", 10)


def report(ask: Ask, **kinds: int) -> Report:
    counts = LedgerCounts({LedgerKind(kind): count for kind, count in kinds.items()})
    return Report(ask, "", SessionOutcome.CLEAN, ledger=counts)


async def test_what_many_processes_count_adds_up_and_names_no_customer(database_url: str) -> None:
    database = Database(database_url, pool_size=8)
    try:
        books = [LedgerBook(PROVIDERS.knows) for _ in range(8)]
        for book in books:
            book.count([report(GOOGLE, probes=10, unknown=3), report(OWN_HOST, probes=2, rate=1)])
            book.count([report(GOOGLE, probes=5, random=1)])
        await asyncio.gather(*(book.flush(database) for book in books))
        await asyncio.gather(*(book.flush(database) for book in books))  # nothing is written twice
        async with database.begin() as connection:
            by_place = await throttles.ledger_totals(connection, hours=1)
            standings = await throttles.standings(connection)
        by_provider = {provider: counts for (provider, _), counts in by_place.items()}
        assert set(by_provider) == {"google", "other"}
        assert by_provider["google"].counts == {
            LedgerKind.PROBES: 120,
            LedgerKind.UNKNOWN: 24,
            LedgerKind.RANDOM: 8,
        }
        assert by_provider["other"].of(LedgerKind.RATE) == 8
        assert {place: one.clean for place, one in standings.items()} == {("google", "192.0.2.1"): 120}
    finally:
        await database.aclose()


async def test_no_more_is_earned_than_the_providers_ceiling(database_url: str) -> None:
    database = Database(database_url)
    try:
        book = LedgerBook(PROVIDERS.knows, PROVIDERS.row)
        for _ in range(6):
            book.count([report(GOOGLE, probes=100 * GROW_PROBES)])
            await book.flush(database)
            async with database.begin() as connection:
                await connection.execute(
                    text("UPDATE source_standing SET stepped_at = stepped_at - interval '4 days'")
                )
        async with database.begin() as connection:
            assert await throttles.steps(connection) == {("google", "192.0.2.1"): 3}
    finally:
        await database.aclose()


async def test_what_could_not_be_written_comes_with_the_next_flush(database_url: str) -> None:
    away, database = Database("postgresql://127.0.0.1:1/gone"), Database(database_url)
    try:
        book = LedgerBook(PROVIDERS.knows)
        book.count([report(GOOGLE, probes=10)])
        await book.flush(away)
        await book.flush(database)
        async with database.begin() as connection:
            [counts] = (await throttles.ledger_totals(connection, hours=1)).values()
        assert counts.of(LedgerKind.PROBES) == 10
    finally:
        await away.aclose()
        await database.aclose()


async def test_an_earned_pace_reaches_the_throttle_and_hours_are_forgotten(database_url: str) -> None:
    database = Database(database_url)
    try:
        book = LedgerBook(PROVIDERS.knows)
        book.count([report(GOOGLE, probes=1)])
        await book.flush(database)
        async with database.begin() as connection:
            await connection.execute(
                text("UPDATE source_standing SET stepped_at = stepped_at - interval '4 days'")
            )
        book.count([report(GOOGLE, probes=GROW_PROBES)])
        await book.flush(database)
        edits = EditBook()
        async with keep_edits_refreshed(database, edits):
            assert edits.row(PROVIDERS.row("google"), GOOGLE).rate == 4.0
            assert edits.row(PROVIDERS.row("outlook"), GOOGLE).rate == 1.0
        async with database.begin() as connection:
            await connection.execute(text("UPDATE source_ledger SET hour = hour - interval '91 days'"))
            await throttles.purge_ledger(connection)
            assert not await throttles.ledger_totals(connection, hours=10_000)
    finally:
        await database.aclose()
