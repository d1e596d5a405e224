"""What a receiver may ask for in its answer: never this event again, or nothing any more."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mailsift.events.payloads import SimulatedEvent
from mailsift.events.retry import DeliveryState, DisabledReason, ReceiverDirective
from mailsift.storage.sql.deliveries import EndpointLimits
from tests.support.receiver import receiving, status
from tests.support.webhooks import Webhooks, open_webhooks


@pytest.fixture
async def hooks(database_url: str) -> AsyncIterator[Webhooks]:
    async with open_webhooks(database_url, limits=EndpointLimits(in_flight=1, rate=1e6)) as hooks:
        yield hooks


@pytest.mark.parametrize(
    ("code", "first"), [(200, DeliveryState.SUCCEEDED), (500, DeliveryState.EXHAUSTED)], ids=["2xx", "5xx"]
)
async def test_disable_disables_the_endpoint_whatever_the_status_says(
    hooks: Webhooks, code: int, first: DeliveryState
) -> None:
    async with receiving(status(code, "Webhook-Delivery: Disable")) as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen(3)
        assert await hooks.work() == 1
        view = await hooks.service.get(hooks.account, endpoint.id)
        assert (view.enabled, view.disabled_reason) == (False, DisabledReason.BY_RECEIVER)
        deliveries = await hooks.service.deliveries(hooks.account, endpoint.id)
        assert sorted(one.state for one in deliveries) == sorted([first, *[DeliveryState.SKIPPED] * 2])
        (attempted,) = [one for one in deliveries if one.attempts]
        (made,) = await hooks.service.attempts(hooks.account, attempted.id)
        assert (made.directive, made.status_code) == (ReceiverDirective.DISABLE, code)
        receiver.answer = status(200)
        await hooks.service.update(hooks.account, endpoint.id, enabled=True)
        await hooks.happen()
        assert await hooks.work() == 1
    assert receiver.connections == 2


async def test_abort_ends_this_delivery_only_and_is_no_failure_of_the_endpoint(hooks: Webhooks) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen()
        assert await hooks.work() == 1
        assert (await hooks.service.get(hooks.account, endpoint.id)).failing_since is not None
        receiver.answer = status(422, "webhook-delivery: abort-message")
        await hooks.happen(20)
        assert await hooks.work() == 20
        view = await hooks.service.get(hooks.account, endpoint.id)
        assert (view.enabled, view.failing_since, view.paused_until) == (True, None, None)
        deliveries = await hooks.service.deliveries(hooks.account, endpoint.id, limit=100)
        ended = [one for one in deliveries if one.state is DeliveryState.EXHAUSTED]
        assert (len(ended), {one.attempts for one in ended}) == (20, {1})
        assert all(one.next_attempt_at is None and one.finished_at for one in ended)
        receiver.answer = status(200)
        hooks.now += 86_400
        assert await hooks.work() == 1  # the first one, which nobody wanted dropped


@pytest.mark.parametrize("word", ["", "abort", "disable!", "abort-message, disable", "\u00e4"])
async def test_a_word_nobody_knows_says_nothing(hooks: Webhooks, word: str) -> None:
    answer = status(500).replace(
        b"\r\n\r\n", b"\r\nwebhook-delivery: " + word.encode("latin-1") + b"\r\n\r\n"
    )
    async with receiving(answer) as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen()
        assert await hooks.work() == 1
    assert (await hooks.newest(endpoint.id)).state is DeliveryState.PENDING
    assert (await hooks.service.get(hooks.account, endpoint.id)).enabled


async def test_the_answer_to_a_test_disables_nothing(hooks: Webhooks) -> None:
    async with receiving(status(410, "webhook-delivery: disable")) as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.service.test(hooks.account, endpoint.id, SimulatedEvent.WEBHOOK)
    assert (await hooks.service.get(hooks.account, endpoint.id)).enabled
    (made,) = await hooks.log(endpoint.id)
    assert made.directive is ReceiverDirective.DISABLE


@pytest.mark.parametrize("answer", [status(410), status(200, "webhook-delivery: disable"), status(500)])
async def test_what_a_place_says_that_the_webhook_has_left_counts_for_its_delivery_alone(
    hooks: Webhooks, answer: bytes
) -> None:
    async with receiving(answer) as before, receiving() as after:
        endpoint, _ = await hooks.service.create(hooks.account, before.url)
        await hooks.happen()
        (claimed,) = await hooks.deliverer.claim(1)
        await hooks.service.update(hooks.account, endpoint.id, url=after.url)
        await hooks.deliverer.deliver(claimed)
        view = await hooks.service.get(hooks.account, endpoint.id)
        assert (view.enabled, view.failing_since) == (True, None)
        hooks.now += 10
        await hooks.work()
    assert (await hooks.newest(endpoint.id)).state is DeliveryState.SUCCEEDED


async def test_a_webhook_that_moves_is_not_left_alone_for_what_its_place_before_did(hooks: Webhooks) -> None:
    async with receiving(status(500)) as before, receiving() as after:
        endpoint, _ = await hooks.service.create(hooks.account, before.url)
        await hooks.happen(20)
        tried = await hooks.work()
        assert (await hooks.service.get(hooks.account, endpoint.id)).paused_until is not None
        same = await hooks.service.update(hooks.account, endpoint.id, url=before.url)
        assert same.paused_until is not None
        moved = await hooks.service.update(hooks.account, endpoint.id, url=after.url)
        assert (moved.paused_until, moved.failing_since) == (None, None)
        assert await hooks.work() == 20 - tried
