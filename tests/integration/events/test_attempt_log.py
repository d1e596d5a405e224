"""The log of attempts is kept for thirty days; deliveries and what they count stay."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from sqlalchemy import func, select, update

from events.delivery import DeliveryConfig
from events.moments import moment
from events.retry import DeliveryState
from storage import attempt_rows, notice_rows
from storage.notice_rows import NewNotice
from storage.notice_tables import notice
from storage.tables import attempt
from tests.receiver import receiving, status
from tests.webhook_house import House, opened

DAY = 86_400.0


@pytest.fixture
async def house(database_url: str) -> AsyncIterator[House]:
    async with opened(database_url) as house:
        yield house


async def logged(house: House) -> int:
    async with house.database.begin() as connection:
        return int((await connection.execute(select(func.count()).select_from(attempt))).scalar_one())


async def remembered(house: House) -> list[tuple[UUID, str]]:
    async with house.database.begin() as connection:
        found = await connection.execute(select(notice.c.subject_id, notice.c.state))
        return [(row.subject_id, row.state) for row in found]


async def test_attempts_are_forgotten_after_thirty_days_and_their_deliveries_are_not(house: House) -> None:
    async with receiving(status(500, body=b"<script>what the receiver said</script>")) as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        await house.happen()
        for _ in range(3):
            assert await house.work() == 1
            house.now += DAY
        receiver.answer = status(200, body=b"well")
        assert await house.work() == 1
        assert await house.deliverer.purge() == 0
        house.now += 28 * DAY - 1
        assert await house.deliverer.purge() == 1
        assert [made.n for made in await house.log(endpoint.id)] == [2, 3, 4]
        house.now += 2 * DAY
        assert await house.deliverer.purge() == 2
        view = await house.newest(endpoint.id)
        assert (view.state, view.attempts) == (DeliveryState.SUCCEEDED, 4)
        assert [made.response for made in await house.log(endpoint.id)] == ["well"]
        await house.service.redeliver(house.account, view.id)
        house.now += DAY
        assert await house.deliverer.purge() == 1
        assert await house.work() == 1
        assert [made.n for made in await house.log(endpoint.id)] == [5]


async def test_they_are_forgotten_some_at_a_time(house: House) -> None:
    async with receiving() as receiver:
        for n in range(4):
            await house.service.create(house.account, f"{receiver.url}/{n}")
        await house.happen(3)
        assert await house.work() == 12
    house.now += 31 * DAY
    before = moment(house.now - 30 * DAY)
    for left in (7, 2, 0, 0):
        async with house.database.begin() as connection:
            await attempt_rows.purge(connection, before=before, limit=5)
        assert await logged(house) == left


def test_a_sweep_forgets_a_thousand_attempts_at_most() -> None:
    assert (DeliveryConfig().log_kept_s, DeliveryConfig().purged) == (30 * DAY, 1_000)


async def test_notices_that_are_over_are_forgotten_too_but_for_those_of_a_streak_that_goes_on(
    house: House,
) -> None:
    async with receiving(status(500)) as receiver:
        failing, _ = await house.service.create(house.account, receiver.url)
        gone, _ = await house.service.create(house.account, f"{receiver.url}/gone")
        await house.happen()
        assert await house.work() == 2
    since = (await house.service.get(house.account, failing.id)).failing_since
    assert since is not None
    async with house.database.begin() as connection:
        for subject, streak, state in (
            (failing.id, since, "sent"),
            (failing.id, moment(house.now - DAY), "sent"),
            (gone.id, moment(house.now - DAY), "given_up"),
            (gone.id, moment(house.now - 2 * DAY), "pending"),
        ):
            new = NewNotice(house.account, "webhook_failing", subject, streak, "", moment(house.now))
            assert await notice_rows.insert(connection, new)
            await connection.execute(
                update(notice)
                .where(notice.c.since == streak, notice.c.subject_id == subject)
                .values(state=state)
            )
    house.now += 29 * DAY
    await house.deliverer.purge()
    assert len(await remembered(house)) == 4
    house.now += 2 * DAY
    await house.deliverer.purge()
    assert sorted(await remembered(house)) == sorted([(failing.id, "sent"), (gone.id, "pending")])
