"""Outcomes and suppressions that several tell at the same time, each in an order of his own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from sqlalchemy import text

from mailsift.container import Container
from mailsift.jobs.outcomes.service import ImportCounts
from mailsift.jobs.outcomes.suppressions import Suppression, SuppressionReason
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.outcomes.outcome import ACCEPTED, Outcome, OutcomeKind
from mailsift.storage.database import Connection
from mailsift.storage.sql import outcomes, suppressions
from tests.support.ready_jobs import Planter

NAMES = ("ann@example.com", "bob@example.com")


async def cross(
    container: Container,
    planter: Planter,
    add: Callable[[Connection, int], Awaitable[int]],
    told: Awaitable[ImportCounts],
) -> ImportCounts:
    """Store the second row, let somebody store both, and then the first: he has to give way and try again."""
    async with container.database.begin() as connection:
        await connection.execute(text("SET LOCAL deadlock_timeout = '10min'"))  # the other one finds it out
        await add(connection, 1)
        other = asyncio.ensure_future(told)
        waits = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        while not await planter.sql(waits) and not other.done():  # noqa: ASYNC110 - a lock sets no event
            await asyncio.sleep(0.01)
        await add(connection, 0)
    return await other


async def test_outcomes_that_two_tell_in_another_order_are_stored_once(
    container: Container, planter: Planter
) -> None:
    account = UUID(str(await container.jobs.account("ann")))
    told = [Outcome(name, OutcomeKind.DELIVERED, system_clock() - 60, ACCEPTED, "file") for name in NAMES]
    await container.outcomes.record(account, told)
    digest = await container.outcomes.digester(account)
    async with container.database.begin() as connection:
        rows = await outcomes.of_addresses(connection, account, [digest(name) for name in NAMES])
    by_address = {bytes(row.address): row for row in rows}
    await planter.sql("DELETE FROM outcome")

    async def add(connection: Connection, place: int) -> int:
        return await outcomes.add(connection, account, [by_address[digest(NAMES[place])]])

    found = await cross(container, planter, add, container.outcomes.record(account, told))
    assert found == ImportCounts(repeated=2)


async def test_suppressions_that_two_tell_in_another_order_are_stored_once(
    container: Container, planter: Planter
) -> None:
    account = UUID(str(await container.jobs.account("ann")))
    told = [Suppression(name, SuppressionReason.MANUAL) for name in NAMES]
    await container.suppressions.add(account, told)
    digest = await container.outcomes.digester(account)
    async with container.database.begin() as connection:
        rows = {row.address: row for row in await suppressions.page(connection, account, limit=2)}
    await planter.sql("DELETE FROM suppression")

    async def add(connection: Connection, place: int) -> int:
        return await suppressions.add(connection, account, [rows[digest(NAMES[place])]])

    found = await cross(container, planter, add, container.suppressions.add(account, told))
    assert found == ImportCounts(repeated=2)
