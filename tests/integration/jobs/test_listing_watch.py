"""A source that is listed rests within the hour and goes on by itself; what operators hold stays held."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text

from mailsift.jobs.engine.heartbeat import LISTING_CHECK_SECONDS, ListingWatch
from mailsift.pipeline.dns.rules import DnsAnswer, DnsOutcome
from mailsift.storage.database import Database
from mailsift.storage.sql import throttles
from mailsift.storage.sql.throttles import ANY_PROVIDER, ThrottleEdit

US, OTHER = "203.0.113.7", "203.0.113.8"
TEST = "2.0.0.127.bl.example"


class World:
    """A block list, a clock and a resolver that a test moves."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.entries = {TEST: "127.0.0.2"}
        self.now = 0.0
        self.trusted = True
        self.woken = 0
        self.watch = self.watcher("bl.example")

    def watcher(self, *zones: str) -> ListingWatch:
        return ListingWatch(
            database=self.database,
            zones=zones,
            sources=[US, OTHER, ""],
            ask=self.ask,
            trusted=self.is_trusted,
            wake=self.wake,
            steady=lambda: self.now,
        )

    async def ask(self, name: str) -> DnsAnswer:
        entry = self.entries.get(name)
        return DnsAnswer(DnsOutcome.FOUND, addresses=(entry,)) if entry else DnsAnswer(DnsOutcome.NO_NAME)

    async def is_trusted(self) -> bool:
        return self.trusted

    async def wake(self, count: int) -> None:
        self.woken += count

    async def an_hour_later(self) -> dict[str, str]:
        """Let an hour pass and look; returns who is held, and why."""
        self.now += LISTING_CHECK_SECONDS
        async with self.database.begin() as connection:
            await connection.execute(
                text("UPDATE source_listing SET looked_at = looked_at - interval '1 hour'")
            )
        await self.watch.sweep()
        return await self.held()

    async def held(self) -> dict[str, str]:
        async with self.database.begin() as connection:
            return await throttles.held_sources(connection)


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    database = Database(database_url)
    yield World(database)
    await database.aclose()


async def test_a_listed_source_rests_and_comes_back_by_itself(world: World) -> None:
    world.entries["7.113.0.203.bl.example"] = "127.0.0.4"
    await world.watch.sweep()  # at start
    assert await world.held() == {US: "listed in bl.example"}
    assert await world.an_hour_later() == {US: "listed in bl.example"}
    world.entries.clear()  # the zone is gone: nothing is known
    assert await world.an_hour_later() == {US: "listed in bl.example"}
    world.entries[TEST] = "127.0.0.2"
    assert world.woken == 0
    assert await world.an_hour_later() == {}
    assert world.woken == 1
    world.entries["7.113.0.203.bl.example"] = "127.0.0.4"
    await world.watch.sweep()
    assert await world.held() == {}  # not before its time
    assert await world.an_hour_later() == {US: "listed in bl.example"}


async def test_what_an_operator_holds_is_not_let_go_of(world: World) -> None:
    async with world.database.begin() as connection:
        edit = ThrottleEdit(ANY_PROVIDER, US, note="mine", edited_by="ada@acme.example")
        await throttles.hold(connection, edit, seconds=0)
    assert await world.an_hour_later() == {US: "mine"}


async def test_a_hold_that_is_over_keeps_no_listed_source_from_resting(world: World) -> None:
    world.entries["7.113.0.203.bl.example"] = "127.0.0.4"
    async with world.database.begin() as connection:
        edit = ThrottleEdit(ANY_PROVIDER, US, note="mine", edited_by="ada@acme.example")
        await throttles.hold(connection, edit, seconds=3_600)
    assert await world.an_hour_later() == {US: "mine"}
    async with world.database.begin() as connection:
        await connection.execute(text("UPDATE throttle_edit SET held_until = clock_timestamp()"))
    assert await world.an_hour_later() == {US: "listed in bl.example"}
    world.entries.pop("7.113.0.203.bl.example")
    assert await world.an_hour_later() == {}


async def test_a_source_is_let_go_of_where_no_list_is_looked_into_any_more(world: World) -> None:
    world.entries["7.113.0.203.bl.example"] = "127.0.0.4"
    await world.watch.sweep()
    assert await world.held() == {US: "listed in bl.example"}
    world.trusted = False  # nobody needs to be asked
    await world.watcher().sweep()
    assert (await world.held(), world.woken) == ({}, 1)


async def test_another_process_looked_just_now_and_an_untrusted_resolver_says_nothing(world: World) -> None:
    world.trusted = False
    world.entries["7.113.0.203.bl.example"] = "127.0.0.4"
    await world.watch.sweep()
    assert await world.held() == {}
    world.trusted = True
    await world.watch.sweep()  # it is still due
    assert await world.held() == {US: "listed in bl.example"}
    del world.entries["7.113.0.203.bl.example"]
    await world.watcher("bl.example").sweep()
    assert await world.held() == {US: "listed in bl.example"}
