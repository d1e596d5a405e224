"""The log of attempts is kept for thirty days; deliveries and what they count stay."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import func, select, update

from mailsift.events.retry import DeliveryState
from mailsift.pipeline.clock import utc_datetime
from mailsift.storage.sql import deliveries, outbox
from mailsift.storage.sql.outbox import NewNotice
from mailsift.storage.sql.tables import attempt, notice
from tests.support.receiver import receiving, status
from tests.support.webhooks import Webhooks

DAY = 86_400.0


async def logged(hooks: Webhooks) -> int:
    async with hooks.database.begin() as connection:
        return int((await connection.execute(select(func.count()).select_from(attempt))).scalar_one())


async def remembered(hooks: Webhooks) -> list[tuple[UUID, str]]:
    async with hooks.database.begin() as connection:
        found = await connection.execute(select(notice.c.subject_id, notice.c.state))
        return [(row.subject_id, row.state) for row in found]


async def test_attempts_are_forgotten_after_thirty_days_and_their_deliveries_are_not(
    hooks: Webhooks,
) -> None:
    async with receiving(status(500, body=b"<script>what the receiver said</script>")) as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen()
        for _ in range(3):
            assert await hooks.work() == 1
            hooks.now += DAY
        receiver.answer = status(200, body=b"well")
        assert await hooks.work() == 1
        assert await hooks.deliverer.purge() == 0
        hooks.now += 28 * DAY - 1
        assert await hooks.deliverer.purge() == 1
        assert [made.n for made in await hooks.log(endpoint.id)] == [2, 3, 4]
        hooks.now += 2 * DAY
        assert await hooks.deliverer.purge() == 2
        view = await hooks.newest(endpoint.id)
        assert (view.state, view.attempts) == (DeliveryState.SUCCEEDED, 4)
        assert [made.response for made in await hooks.log(endpoint.id)] == ["well"]
        await hooks.service.redeliver(hooks.account, view.id)
        hooks.now += DAY
        assert await hooks.deliverer.purge() == 1
        assert await hooks.work() == 1
        assert [made.n for made in await hooks.log(endpoint.id)] == [5]


async def test_they_are_forgotten_some_at_a_time(hooks: Webhooks) -> None:
    async with receiving() as receiver:
        for n in range(4):
            await hooks.service.create(hooks.account, f"{receiver.url}/{n}")
        await hooks.happen(3)
        assert await hooks.work() == 12
    hooks.now += 31 * DAY
    before = utc_datetime(hooks.now - 30 * DAY)
    for left in (7, 2, 0, 0):
        async with hooks.database.begin() as connection:
            await deliveries.purge_attempts(connection, before=before, limit=5)
        assert await logged(hooks) == left


async def test_notices_that_are_over_are_forgotten_too_but_for_those_of_a_streak_that_goes_on(
    hooks: Webhooks,
) -> None:
    async with receiving(status(500)) as receiver:
        failing, _ = await hooks.service.create(hooks.account, receiver.url)
        gone, _ = await hooks.service.create(hooks.account, f"{receiver.url}/gone")
        await hooks.happen()
        assert await hooks.work() == 2
    since = (await hooks.service.get(hooks.account, failing.id)).failing_since
    assert since is not None
    async with hooks.database.begin() as connection:
        for subject, streak, state in (
            (failing.id, since, "sent"),
            (failing.id, utc_datetime(hooks.now - DAY), "sent"),
            (gone.id, utc_datetime(hooks.now - DAY), "given_up"),
            (gone.id, utc_datetime(hooks.now - 2 * DAY), "pending"),
        ):
            new = NewNotice(hooks.account, "webhook_failing", subject, streak, "", utc_datetime(hooks.now))
            assert await outbox.insert_notice(connection, new)
            await connection.execute(
                update(notice)
                .where(notice.c.since == streak, notice.c.subject_id == subject)
                .values(state=state)
            )
    hooks.now += 29 * DAY
    await hooks.deliverer.purge()
    assert len(await remembered(hooks)) == 4
    hooks.now += 2 * DAY
    await hooks.deliverer.purge()
    assert sorted(await remembered(hooks)) == sorted([(failing.id, "sent"), (gone.id, "pending")])
