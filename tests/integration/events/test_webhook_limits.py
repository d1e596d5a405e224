"""What one endpoint takes: waiting for its bucket is no attempt, and nobody else waits with it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from events.delivery import DeliveryConfig
from events.retry import DeliveryState
from pipeline.errors import MailsiftError
from storage.delivery_rows import Pace
from tests.receiver import receiving, status
from tests.webhook_house import House, opened


@pytest.fixture
async def house(database_url: str) -> AsyncIterator[House]:
    async with opened(database_url, pace=DeliveryConfig().pace) as house:
        yield house


def test_an_endpoint_gets_ten_a_second_twenty_at_once_and_two_in_flight() -> None:
    assert DeliveryConfig().pace == Pace(in_flight=2, rate=10.0, burst_s=2.0)


async def test_a_bucket_empties_fills_up_again_and_burns_no_attempt(house: House) -> None:
    async with receiving() as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        await house.happen(60)
        assert await house.work() == 20
        assert await house.work() == 0
        waiting = await house.service.deliveries(house.account, endpoint.id, limit=100)
        pending = [one for one in waiting if one.state is DeliveryState.PENDING]
        assert (len(pending), {one.attempts for one in pending}) == (40, {0})
        for step, sent in ((0.05, 0), (0.06, 1), (1.0, 10), (0.25, 2), (0.05, 1)):
            house.now += step
            assert await house.work() == sent, step
        house.now += 3_600
        assert await house.work() == 20  # it holds no more, however long nobody came
        house.now += 1
        assert await house.work() == 6
    done = await house.service.deliveries(house.account, endpoint.id, limit=100)
    assert {(one.state, one.attempts) for one in done} == {(DeliveryState.SUCCEEDED, 1)}


async def test_a_rate_of_its_own_is_kept_changed_and_given_back(house: House) -> None:
    async with receiving() as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url, rate_per_second=0.5)
        assert endpoint.rate_per_second == 0.5
        await house.happen(80)
        assert await house.work() == 1
        house.now += 1.9
        assert await house.work() == 0
        house.now += 0.2
        assert await house.work() == 1
        view = await house.service.update(house.account, endpoint.id, rate_per_second=20.0)
        assert view.rate_per_second == 20.0
        house.now += 60
        assert await house.work() == 40
        view = await house.service.update(house.account, endpoint.id, enabled=True)
        assert view.rate_per_second == 20.0
        view = await house.service.update(house.account, endpoint.id, rate_per_second=0.0)
        assert view.rate_per_second is None
        house.now += 60
        assert await house.work() == 20
    for rate in (0.05, 101.0, float("inf"), float("nan")):
        with pytest.raises(MailsiftError, match="webhook_rate_invalid"):
            await house.service.update(house.account, endpoint.id, rate_per_second=rate)


async def test_many_workers_share_one_bucket(house: House) -> None:
    async with receiving() as receiver:
        await house.service.create(house.account, receiver.url)
        await house.happen(60)
        assert sum(await asyncio.gather(*(house.work(limit=3) for _ in range(4)))) == 20
    assert receiver.peak <= 2


async def test_an_endpoint_that_waits_takes_no_place_from_the_others(house: House) -> None:
    async with receiving() as hasty, receiving() as others:
        await house.service.create(house.account, hasty.url, rate_per_second=0.1)
        await house.happen(30)
        assert await house.work() == 1
        for _ in range(3):
            await house.service.create(house.account, others.url)
        house.now += 1
        await house.happen(3)
        assert await house.work(limit=3) == 9
        house.now += 1  # from here on the hasty one was served longest ago
        await house.happen(3)
        (alone,) = await house.deliverer.claim(1)
        claimed = [alone, *await house.deliverer.claim(4)]
        assert {one.url for one in claimed} == {others.url}
        assert sorted(Counter(one.endpoint_id for one in claimed).values()) == [1, 2, 2]
        await house.deliverer.release([one.lease_token for one in claimed])
        house.now += 8
        (first,) = await house.deliverer.claim(1)
        assert first.url == hasty.url


async def test_a_retry_waits_for_the_bucket_like_everything_else(house: House) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url, rate_per_second=0.1)
        await house.happen(2)
        assert await house.work() == 1
        receiver.answer = status(200)
        house.now += 10.1  # the retry was due after five seconds, and so was the other
        assert await house.work() == 1
        house.now += 10.1
        assert await house.work() == 1
    views = await house.service.deliveries(house.account, endpoint.id)
    assert sorted(view.attempts for view in views) == [1, 2]
    assert {view.state for view in views} == {DeliveryState.SUCCEEDED}
