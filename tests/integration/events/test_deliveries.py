"""Deliveries from the outbox to a real receiver: PostgreSQL and sockets are real, the clock is moved."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from events.payloads import EventType
from events.retry import RETRY_S, DeliveryState, Disabled
from pipeline.errors import MailsiftError
from storage import event_rows
from storage.database import Connection
from storage.event_rows import EventRow
from tests.receiver import receiving, status
from tests.webhook_house import House, opened, verify

DAY = 86_400.0


@pytest.fixture
async def house(database_url: str) -> AsyncIterator[House]:
    async with opened(database_url) as house:
        yield house


async def test_an_event_arrives_signed_once_per_endpoint_that_wants_it(house: House) -> None:
    async with receiving() as all_events, receiving() as failures, receiving() as disabled:
        first, secret = await house.service.create(house.account, all_events.url)
        await house.service.create(house.account, failures.url, [EventType.FAILED])
        third, _ = await house.service.create(house.account, disabled.url)
        await house.service.update(house.account, third.id, enabled=False)
        (event_id,) = await house.happen()
        assert await house.work() == 1
        assert await house.work() == 0
    assert not await house.service.deliveries(house.account, third.id)
    (request,) = all_events.requests
    assert (failures.connections, disabled.connections) == (0, 0)
    verify(secret, request)
    assert request.headers["webhook-id"] == json.loads(request.body)["id"] == str(event_id)
    view, (made,) = await house.newest(first.id), await house.log(first.id)
    assert (view.state, view.attempts, view.next_attempt_at) == (DeliveryState.SUCCEEDED, 1, None)
    assert (made.n, made.status_code, made.error, made.trigger) == (1, 200, "", "automatic")


async def test_an_event_that_is_rolled_back_tells_nobody(house: House) -> None:
    async with receiving() as receiver:
        await house.service.create(house.account, receiver.url)
        moment = datetime.fromtimestamp(house.now, UTC)
        row = EventRow(uuid4(), house.account, None, EventType.TEST.value, b"{}", moment, None)

        async def broken(connection: Connection) -> None:
            await event_rows.insert(connection, row)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await house.database.run(broken)
        assert await house.work() == 0


async def test_a_receiver_that_is_down_for_hours_gets_the_same_bytes_and_id_in_the_end(house: House) -> None:
    async with receiving(status(500, body=b"broken")) as receiver:
        endpoint, secret = await house.service.create(house.account, receiver.url)
        await house.happen()
        for hours in range(1, 7):  # attempts at 0, 5 s, 5 m, 30 m, 2 h, 5 h
            assert await house.work() == 1, hours
            view = await house.newest(endpoint.id)
            assert view.next_attempt_at is not None
            wait = view.next_attempt_at.timestamp() - house.now
            assert 0.8 * RETRY_S[hours] <= wait <= 1.2 * RETRY_S[hours]
            house.now += wait - 1
            assert await house.work() == 0
            house.now += 1.5
        receiver.answer = status(200)
        assert await house.work() == 1
    assert {request.body for request in receiver.requests} == {receiver.requests[0].body}
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
    stamps = [int(request.headers["webhook-timestamp"]) for request in receiver.requests]
    assert len(stamps) == len(set(stamps)) == 7
    verify(secret, receiver.requests[0])
    log = await house.log(endpoint.id)
    assert [made.error for made in log] == ["http_5xx"] * 6 + [""]
    assert log[0].response == "broken"
    assert (await house.newest(endpoint.id)).state is DeliveryState.SUCCEEDED
    assert (await house.service.get(house.account, endpoint.id)).failing_since is None


async def test_an_answer_after_the_deadline_is_a_timeout_and_is_tried_again(house: House) -> None:
    async def slow(_writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(20)

    async with receiving(slow) as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        await house.happen()
        assert await house.work() == 1
    assert [made.error for made in await house.log(endpoint.id)] == ["timeout"]
    assert (await house.newest(endpoint.id)).state is DeliveryState.PENDING


async def test_after_ten_attempts_a_delivery_is_given_up_and_can_be_sent_again(house: House) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        started = house.now
        await house.happen()
        for _ in range(10):
            assert await house.work() == 1
            house.now += 1.3 * DAY
        assert await house.work() == 0
        view = await house.newest(endpoint.id)
        assert (view.state, view.attempts) == (DeliveryState.EXHAUSTED, 10)
        receiver.answer = status(200)
        since = datetime.fromtimestamp(started - 1, UTC)
        assert await house.service.redeliver_failed(house.account, endpoint.id, since=since) == 1
        assert await house.work() == 1
        assert await house.service.redeliver_failed(house.account, endpoint.id, since=since) == 0
        again = await house.service.redeliver(house.account, view.id)
        assert again.state is DeliveryState.PENDING
        assert await house.work() == 1
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
    log = await house.log(endpoint.id)
    assert [made.n for made in log] == list(range(1, 13))
    assert [made.trigger for made in log[-2:]] == ["manual", "manual"]
    assert house.woken == 2


async def test_gone_disables_the_endpoint_and_skips_what_waits(house: House) -> None:
    async with receiving(status(410)) as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        await house.happen(5)
        await house.deliverer.deliver((await house.deliverer.claim(1))[0])
        assert await house.work() == 0
        await house.happen()
    view = await house.service.get(house.account, endpoint.id)
    assert (view.enabled, view.disabled_reason) == (False, Disabled.GONE)
    states = [one.state.value for one in await house.service.deliveries(house.account, endpoint.id)]
    assert sorted(states) == ["exhausted"] + ["skipped"] * 4
    assert receiver.connections == 1
    with pytest.raises(MailsiftError, match="webhook_disabled"):
        await house.service.redeliver_failed(
            house.account, endpoint.id, since=datetime(2020, 1, 1, tzinfo=UTC)
        )


async def test_an_open_breaker_lets_one_attempt_through_and_costs_the_others_none(house: House) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        await house.happen(50)
        burnt = await house.work()
        assert 5 <= burnt <= 6  # two at a time
        for _ in range(5):
            assert await house.work() == 0
        house.now += 901
        assert await house.work() == 1
        house.now += 59
        assert await house.work() == 0
        receiver.answer = status(200)
        house.now += 901
        assert await house.work() >= 50 - burnt
    views = await house.service.deliveries(house.account, endpoint.id, limit=100)
    assert sum(view.attempts == 1 for view in views) >= 50 - burnt - 1
    assert receiver.peak <= 2


async def test_days_of_failure_disable_an_endpoint_however_much_waits_for_it(house: House) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        await house.happen(100)
        started, hours = house.now, 0
        while (await house.service.get(house.account, endpoint.id)).enabled:
            await house.work()
            house.now += 3_600
            hours += 1
            assert hours < 24 * 12, "never disabled"
        assert house.now - started >= 5 * DAY
    view = await house.service.get(house.account, endpoint.id)
    assert view.disabled_reason is Disabled.FAILING
    assert receiver.connections < 400


async def test_a_slow_endpoint_does_not_keep_the_others_waiting(house: House) -> None:
    async with receiving() as slow, receiving() as quick:
        await house.service.create(house.account, slow.url)
        await house.happen(30)
        await house.service.create(house.account, quick.url)
        await house.happen(1)
        claimed = await house.deliverer.claim(3)
        assert sorted(one.url for one in claimed) == sorted([slow.url, slow.url, quick.url])
        assert await house.deliverer.claim(8) == []  # two of the slow one are in flight
        await house.deliverer.release([one.lease_token for one in claimed])
        assert await house.work() == 32
    assert slow.peak <= 2


async def test_many_workers_send_every_delivery_once(house: House) -> None:
    async with receiving() as receiver:
        for _ in range(5):
            await house.service.create(house.account, receiver.url)
        await house.happen(20)
        assert sum(await asyncio.gather(*(house.work(limit=3) for _ in range(4)))) == 100
    sent = [request.headers["webhook-id"] for request in receiver.requests]
    assert (len(sent), len(set(sent))) == (100, 20)


async def test_what_a_dead_worker_held_is_sent_by_another_and_its_late_word_is_not_heard(
    house: House,
) -> None:
    async with receiving() as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        await house.happen()
        (held,) = await house.deliverer.claim(1)
        assert await house.deliverer.sweep() == 0
        house.now += 61
        assert await house.deliverer.sweep() == 1
        (taken,) = await house.deliverer.claim(1)
        await house.deliverer.deliver(held)  # it was not dead after all
        assert (await house.newest(endpoint.id)).state is DeliveryState.DELIVERING
        await house.deliverer.deliver(taken)
        await house.deliverer.deliver(taken)
    assert (await house.newest(endpoint.id)).state is DeliveryState.SUCCEEDED
    assert len(await house.log(endpoint.id)) == 1
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
