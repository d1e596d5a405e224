"""What one endpoint takes: waiting for its bucket is no attempt, and nobody else waits with it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from mailsift.events.retry import DeliveryState
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.sql import accounts
from mailsift.storage.sql.deliveries import EndpointLimits
from tests.support.receiver import receiving, status
from tests.support.webhooks import Webhooks, open_webhooks


@pytest.fixture
async def hooks(database_url: str) -> AsyncIterator[Webhooks]:
    async with open_webhooks(database_url, limits=EndpointLimits()) as hooks:
        yield hooks


def test_an_endpoint_gets_ten_a_second_twenty_at_once_and_two_in_flight() -> None:
    assert EndpointLimits() == EndpointLimits(in_flight=2, rate=10.0, burst_s=2.0)


async def test_a_bucket_empties_fills_up_again_and_burns_no_attempt(hooks: Webhooks) -> None:
    async with receiving() as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen(60)
        assert await hooks.work() == 20
        assert await hooks.work() == 0
        waiting = await hooks.service.deliveries(hooks.account, endpoint.id, limit=100)
        pending = [one for one in waiting if one.state is DeliveryState.PENDING]
        assert (len(pending), {one.attempts for one in pending}) == (40, {0})
        for step, sent in ((0.05, 0), (0.06, 1), (1.0, 10), (0.25, 2), (0.05, 1)):
            hooks.now += step
            assert await hooks.work() == sent, step
        hooks.now += 3_600
        assert await hooks.work() == 20  # it holds no more, however long nobody came
        hooks.now += 1
        assert await hooks.work() == 6
    done = await hooks.service.deliveries(hooks.account, endpoint.id, limit=100)
    assert {(one.state, one.attempts) for one in done} == {(DeliveryState.SUCCEEDED, 1)}


async def test_a_rate_of_its_own_is_kept_changed_and_given_back(hooks: Webhooks) -> None:
    async with receiving() as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url, rate_per_second=0.5)
        assert endpoint.rate_per_second == 0.5
        await hooks.happen(80)
        assert await hooks.work() == 1
        hooks.now += 1.9
        assert await hooks.work() == 0
        hooks.now += 0.2
        assert await hooks.work() == 1
        view = await hooks.service.update(hooks.account, endpoint.id, rate_per_second=20.0)
        assert view.rate_per_second == 20.0
        hooks.now += 60
        assert await hooks.work() == 40
        view = await hooks.service.update(hooks.account, endpoint.id, enabled=True)
        assert view.rate_per_second == 20.0
        view = await hooks.service.update(hooks.account, endpoint.id, rate_per_second=0.0)
        assert view.rate_per_second is None
        hooks.now += 60
        assert await hooks.work() == 20
    for rate in (0.05, 101.0, float("inf"), float("nan")):
        with pytest.raises(MailsiftError, match="webhook_rate_invalid"):
            await hooks.service.update(hooks.account, endpoint.id, rate_per_second=rate)


async def test_many_workers_share_one_bucket(hooks: Webhooks) -> None:
    async with receiving() as receiver:
        await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen(60)
        made = await asyncio.gather(*(hooks.work(limit=3) for _ in range(4)))
        assert sum(made) + await hooks.work() == 20  # claims at once may pass over the same last ones
    assert receiver.peak <= 2


async def test_an_endpoint_that_waits_takes_no_place_from_the_others(hooks: Webhooks) -> None:
    async with receiving() as hasty, receiving() as others:
        await hooks.service.create(hooks.account, hasty.url, rate_per_second=0.1)
        await hooks.happen(30)
        assert await hooks.work() == 1
        for _ in range(3):
            await hooks.service.create(hooks.account, others.url)
        hooks.now += 1
        await hooks.happen(3)
        assert await hooks.work(limit=3) == 9
        hooks.now += 1  # from here on the hasty one was served longest ago
        await hooks.happen(3)
        (alone,) = await hooks.deliverer.claim(1)
        claimed = [alone, *await hooks.deliverer.claim(4)]
        assert {one.url for one in claimed} == {others.url}
        assert sorted(Counter(one.endpoint_id for one in claimed).values()) == [1, 2, 2]
        await hooks.deliverer.release([one.lease_token for one in claimed])
        hooks.now += 8
        (first,) = await hooks.deliverer.claim(1)
        assert first.url == hasty.url


async def test_a_retry_waits_for_the_bucket_like_everything_else(hooks: Webhooks) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url, rate_per_second=0.1)
        await hooks.happen(2)
        assert await hooks.work() == 1
        receiver.answer = status(200)
        hooks.now += 10.1  # the retry was due after five seconds, and so was the other
        assert await hooks.work() == 1
        hooks.now += 10.1
        assert await hooks.work() == 1
    views = await hooks.service.deliveries(hooks.account, endpoint.id)
    assert sorted(view.attempts for view in views) == [1, 2]
    assert {view.state for view in views} == {DeliveryState.SUCCEEDED}


async def test_an_endpoint_whose_requests_are_under_way_takes_no_place_from_the_others(
    hooks: Webhooks,
) -> None:
    async with receiving() as receiver:
        slow = [(await hooks.service.create(hooks.account, receiver.url))[0].id for _ in range(3)]
        await hooks.happen(3)
        assert {one.endpoint_id for one in await hooks.deliverer.claim(6)} == set(slow)
        quick, _ = await hooks.service.create(hooks.account, receiver.url)
        hooks.now += 1
        await hooks.happen(4)
        for _ in range(2):
            hooks.now += 1
            claimed = await hooks.deliverer.claim(2)
            assert {one.endpoint_id for one in claimed} == {quick.id}
            await asyncio.gather(*map(hooks.deliverer.deliver, claimed))


async def test_many_webhooks_of_one_account_do_not_keep_those_of_another_waiting(hooks: Webhooks) -> None:
    async with receiving() as silent, receiving() as quick:
        for _ in range(20):
            await hooks.service.create(hooks.account, silent.url)
        await hooks.happen(2)
        busy = await hooks.deliverer.claim(8)
        async with hooks.database.begin() as connection:
            hooks.account = await accounts.ensure_account(connection, "b")
        await hooks.service.create(hooks.account, quick.url)
        await hooks.happen(4)
        await hooks.deliverer.deliver(busy.pop())
        for _ in range(3):  # one place is free, and the others stay taken
            hooks.now += 1
            (next_one,) = await hooks.deliverer.claim(1)
            assert next_one.url == quick.url
            await hooks.deliverer.deliver(next_one)
        for one in busy:
            await hooks.deliverer.deliver(one)
        hooks.now += 1
        claimed = await hooks.deliverer.claim(2)  # all are free, and twelve have never been served
        assert {one.url for one in claimed} == {silent.url, quick.url}
