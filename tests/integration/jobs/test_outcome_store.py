"""Outcomes and suppressions that several tell at the same time, each in an order of his own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest
from sqlalchemy import text

from mailsift.container import Container
from mailsift.jobs.outcomes.service import ImportCounts
from mailsift.jobs.outcomes.suppressions import Suppression, SuppressionReason
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.facts import Answer
from mailsift.pipeline.outcomes.outcome import ACCEPTED, Outcome, OutcomeKind
from mailsift.storage.database import Connection
from mailsift.storage.sql import outcomes
from tests.support.ready_jobs import Planter

_GONE: Final = "550 5.1.1 User unknown"
NAMES = ("ann@example.com", "bob@example.com")


async def cross(
    container: Container,
    planter: Planter,
    add: Callable[[Connection, int], Awaitable[int]],
    transaction: Awaitable[ImportCounts],
) -> ImportCounts:
    """Store the second row, let somebody store both, and then the first: he has to give way and try again."""
    async with container.database.begin() as connection:
        await connection.execute(text("SET LOCAL deadlock_timeout = '10min'"))  # the other one finds it out
        await add(connection, 1)
        other = asyncio.ensure_future(transaction)
        waits = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        while not await planter.sql(waits) and not other.done():  # noqa: ASYNC110 - a lock sets no event
            await asyncio.sleep(0.01)
        await add(connection, 0)
    return await other


async def test_outcomes_that_two_tell_in_another_order_are_stored_once(
    container: Container, planter: Planter
) -> None:
    account = UUID(str(await container.jobs.account("ann")))
    reported = [Outcome(name, OutcomeKind.DELIVERED, system_clock() - 60, ACCEPTED, "file") for name in NAMES]
    await container.outcomes.record(account, reported)
    digest = await container.outcomes.digester(account)
    async with container.database.begin() as connection:
        rows = await outcomes.of_addresses(connection, account, [digest(name) for name in NAMES])
    by_address = {bytes(row.address): row for row in rows}
    await planter.sql("DELETE FROM outcome")

    async def add(connection: Connection, place: int) -> int:
        return await outcomes.add_outcomes(connection, account, [by_address[digest(NAMES[place])]])

    found = await cross(container, planter, add, container.outcomes.record(account, reported))
    assert found == ImportCounts(repeated=2)


async def test_a_table_without_times_makes_nobody_gone_who_has_a_delivery_in_it(
    container: Container, tmp_path: Path
) -> None:
    account = UUID(str(await container.jobs.account("ann")))
    rows = (
        "ann@example.com,delivered,",
        f"ann@example.com,bounced,{_GONE}",
        f"bob@example.com,bounced,{_GONE}",
    )
    path = tmp_path / "told.csv"
    path.write_text("\n".join(("email,event,reason", *rows)), "utf-8")

    await container.outcomes.import_file(account, path)

    known = await container.outcomes.facts_of(account, NAMES)
    assert {address: fact.answer for address, fact in known.sent.items()} == {NAMES[1]: Answer.NOT_FOUND}


async def test_suppressions_that_two_tell_in_another_order_are_stored_once(
    container: Container, planter: Planter
) -> None:
    account = UUID(str(await container.jobs.account("ann")))
    suppressions = [Suppression(name, SuppressionReason.MANUAL) for name in NAMES]
    await container.suppressions.add(account, suppressions)
    digest = await container.outcomes.digester(account)
    async with container.database.begin() as connection:
        rows = {row.address: row for row in await outcomes.page_of_suppressions(connection, account, limit=2)}
    await planter.sql("DELETE FROM suppression")

    async def add(connection: Connection, place: int) -> int:
        return await outcomes.add_suppressions(connection, account, [rows[digest(NAMES[place])]])

    found = await cross(container, planter, add, container.suppressions.add(account, suppressions))
    assert found == ImportCounts(repeated=2)


async def test_a_suppression_that_is_told_twice_is_there_for_the_stronger_reason(
    container: Container,
) -> None:
    account = UUID(str(await container.jobs.account("ann")))
    reasons = (SuppressionReason.BOUNCED, SuppressionReason.COMPLAINED, SuppressionReason.MANUAL)
    suppressions = [Suppression(NAMES[0], reason) for reason in reasons]
    assert await container.suppressions.add(account, suppressions) == ImportCounts(taken=1, repeated=2)
    (kept,) = (await container.suppressions.page(account, limit=2)).suppressions
    assert kept.reason is SuppressionReason.COMPLAINED


@pytest.mark.parametrize("first", ["bounced", "complained"])
async def test_a_file_has_one_rule_for_an_address_with_two_reasons_however_far_apart_they_stand(
    container: Container, tmp_path: Path, first: str
) -> None:
    account = await container.jobs.account("acme")
    second = {"bounced": "complained", "complained": "bounced"}[first]
    rows = [f"ann@example.com,{first}", *(f"u{n}@example.com,bounced" for n in range(1_500))]
    rows += [
        f"ann@example.com,{second}",
        f"bob@example.com,{first}",
        f"bob@example.com,{second}",
        "x,bounced",
    ]
    (path := tmp_path / "list.csv").write_text("\n".join(["email,reason", *rows]))
    counts = await container.suppressions.import_file(account, path)
    assert counts == ImportCounts(taken=1_502, repeated=2, malformed=1)
    kept = await container.suppressions.page(account, limit=9, reason="complained")
    assert {one.email for one in kept.suppressions} == {"ann@example.com", "bob@example.com"}
