"""What a receiver may ask for in its answer: never this event again, or nothing any more."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from events.outcome import Wish
from events.retry import DeliveryState, Disabled
from events.samples import Sample
from storage.delivery_rows import Pace
from tests.receiver import receiving, status
from tests.webhook_house import House, opened


@pytest.fixture
async def house(database_url: str) -> AsyncIterator[House]:
    async with opened(database_url, pace=Pace(in_flight=1, rate=1e6)) as house:
        yield house


@pytest.mark.parametrize(
    ("code", "first"), [(200, DeliveryState.SUCCEEDED), (500, DeliveryState.EXHAUSTED)], ids=["2xx", "5xx"]
)
async def test_disable_disables_the_endpoint_whatever_the_status_says(
    house: House, code: int, first: DeliveryState
) -> None:
    async with receiving(status(code, "Webhook-Delivery: Disable")) as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        await house.happen(3)
        assert await house.work() == 1
        view = await house.service.get(house.account, endpoint.id)
        assert (view.enabled, view.disabled_reason) == (False, Disabled.BY_RECEIVER)
        deliveries = await house.service.deliveries(house.account, endpoint.id)
        assert sorted(one.state for one in deliveries) == sorted([first, *[DeliveryState.SKIPPED] * 2])
        (attempted,) = [one for one in deliveries if one.attempts]
        (made,) = await house.service.attempts(house.account, attempted.id)
        assert (made.wish, made.status_code) == (Wish.DISABLE, code)
        receiver.answer = status(200)
        await house.service.update(house.account, endpoint.id, enabled=True)
        await house.happen()
        assert await house.work() == 1
    assert receiver.connections == 2


async def test_abort_ends_this_delivery_only_and_is_no_failure_of_the_endpoint(house: House) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        await house.happen()
        assert await house.work() == 1
        assert (await house.service.get(house.account, endpoint.id)).failing_since is not None
        receiver.answer = status(422, "webhook-delivery: abort-message")
        await house.happen(20)
        assert await house.work() == 20
        view = await house.service.get(house.account, endpoint.id)
        assert (view.enabled, view.failing_since, view.paused_until) == (True, None, None)
        deliveries = await house.service.deliveries(house.account, endpoint.id, limit=100)
        ended = [one for one in deliveries if one.state is DeliveryState.EXHAUSTED]
        assert (len(ended), {one.attempts for one in ended}) == (20, {1})
        assert all(one.next_attempt_at is None and one.finished_at for one in ended)
        receiver.answer = status(200)
        house.now += 86_400
        assert await house.work() == 1  # the first one, which nobody wanted dropped


@pytest.mark.parametrize("word", ["", "abort", "disable!", "abort-message, disable", "\u00e4"])
async def test_a_word_nobody_knows_says_nothing(house: House, word: str) -> None:
    answer = status(500).replace(
        b"\r\n\r\n", b"\r\nwebhook-delivery: " + word.encode("latin-1") + b"\r\n\r\n"
    )
    async with receiving(answer) as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        await house.happen()
        assert await house.work() == 1
    assert (await house.newest(endpoint.id)).state is DeliveryState.PENDING
    assert (await house.service.get(house.account, endpoint.id)).enabled


async def test_the_answer_to_a_test_disables_nothing(house: House) -> None:
    async with receiving(status(410, "webhook-delivery: disable")) as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        await house.service.test(house.account, endpoint.id, Sample.WEBHOOK)
    assert (await house.service.get(house.account, endpoint.id)).enabled
    (made,) = await house.log(endpoint.id)
    assert made.wish is Wish.DISABLE
