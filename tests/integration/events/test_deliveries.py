"""Deliveries from the outbox to a real receiver: PostgreSQL and sockets are real, the clock is moved."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from mailsift.events.payloads import EventType
from mailsift.events.retry import RETRY_S, DeliveryState, DisabledReason
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Connection
from mailsift.storage.sql import deliveries
from mailsift.storage.sql.deliveries import EventRow
from tests.support.installation import until
from tests.support.receiver import receiving, status
from tests.support.webhooks import Webhooks, open_webhooks, verify

DAY = 86_400.0
_WAITS = text("SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


async def test_an_event_arrives_signed_once_per_endpoint_that_wants_it(hooks: Webhooks) -> None:
    async with receiving() as all_events, receiving() as failures, receiving() as disabled:
        first, secret = await hooks.service.create(hooks.account, all_events.url)
        await hooks.service.create(hooks.account, failures.url, [EventType.FAILED])
        third, _ = await hooks.service.create(hooks.account, disabled.url)
        await hooks.service.update(hooks.account, third.id, enabled=False)
        (event_id,) = await hooks.happen()
        assert await hooks.work() == 1
        assert await hooks.work() == 0
    assert not await hooks.service.deliveries(hooks.account, third.id)
    (request,) = all_events.requests
    assert (failures.connections, disabled.connections) == (0, 0)
    verify(secret, request)
    assert request.headers["webhook-id"] == json.loads(request.body)["id"] == str(event_id)
    view, (made,) = await hooks.newest(first.id), await hooks.log(first.id)
    assert (view.state, view.attempts, view.next_attempt_at) == (DeliveryState.SUCCEEDED, 1, None)
    assert (made.n, made.status_code, made.error, made.trigger) == (1, 200, "", "automatic")


async def test_an_event_that_is_rolled_back_tells_nobody(hooks: Webhooks) -> None:
    async with receiving() as receiver:
        await hooks.service.create(hooks.account, receiver.url)
        now = datetime.fromtimestamp(hooks.now, UTC)
        row = EventRow(uuid4(), hooks.account, None, EventType.TEST.value, b"{}", now, None)

        async def broken(connection: Connection) -> None:
            await deliveries.insert_event(connection, row)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await hooks.database.run(broken)
        assert await hooks.work() == 0


async def test_a_receiver_that_is_down_for_hours_gets_the_same_bytes_and_id_in_the_end(
    hooks: Webhooks,
) -> None:
    async with receiving(status(500, body=b"broken")) as receiver:
        endpoint, secret = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen()
        for hours in range(1, 7):  # attempts at 0, 5 s, 30 s, 5 m, 30 m, 2 h
            assert await hooks.work() == 1, hours
            view = await hooks.newest(endpoint.id)
            assert view.next_attempt_at is not None
            wait = view.next_attempt_at.timestamp() - hooks.now
            assert 0.8 * RETRY_S[hours] <= wait <= 1.2 * RETRY_S[hours]
            hooks.now += wait - 1
            assert await hooks.work() == 0
            hooks.now += 1.5
        receiver.answer = status(200)
        assert await hooks.work() == 1
    assert {request.body for request in receiver.requests} == {receiver.requests[0].body}
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
    stamps = [int(request.headers["webhook-timestamp"]) for request in receiver.requests]
    assert len(stamps) == len(set(stamps)) == 7
    verify(secret, receiver.requests[0])
    log = await hooks.log(endpoint.id)
    assert [made.error for made in log] == ["http_5xx"] * 6 + [""]
    assert log[0].response == "broken"
    assert (await hooks.newest(endpoint.id)).state is DeliveryState.SUCCEEDED
    assert (await hooks.service.get(hooks.account, endpoint.id)).failing_since is None


async def test_an_answer_after_the_deadline_is_a_timeout_and_is_tried_again(database_url: str) -> None:
    async def slow(_writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(20)

    async with receiving(slow) as receiver, open_webhooks(database_url, timeout_s=0.5) as hooks:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen()
        assert await hooks.work() == 1
        assert [made.error for made in await hooks.log(endpoint.id)] == ["timeout"]
        assert (await hooks.newest(endpoint.id)).state is DeliveryState.PENDING


async def test_after_eleven_attempts_a_delivery_is_given_up_and_can_be_sent_again(hooks: Webhooks) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        started = hooks.now
        await hooks.happen()
        for _ in range(11):
            assert await hooks.work() == 1
            hooks.now += 1.3 * DAY
        assert await hooks.work() == 0
        view = await hooks.newest(endpoint.id)
        assert (view.state, view.attempts) == (DeliveryState.EXHAUSTED, 11)
        receiver.answer = status(200)
        since = datetime.fromtimestamp(started - 1, UTC)
        assert await hooks.service.resend(hooks.account, endpoint.id, since=since, also_unqueued=False) == 1
        assert await hooks.work() == 1
        assert await hooks.service.resend(hooks.account, endpoint.id, since=since, also_unqueued=False) == 0
        again = await hooks.service.redeliver(hooks.account, view.id)
        assert again.state is DeliveryState.PENDING
        assert await hooks.work() == 1
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
    log = await hooks.log(endpoint.id)
    assert [made.n for made in log] == list(range(1, 14))
    assert [made.trigger for made in log[-2:]] == ["manual", "manual"]
    assert hooks.woken == 2


async def test_gone_disables_the_endpoint_and_skips_what_waits(hooks: Webhooks) -> None:
    async with receiving(status(410)) as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen(5)
        await hooks.deliverer.deliver((await hooks.deliverer.claim(1))[0])
        assert await hooks.work() == 0
        await hooks.happen()
    view = await hooks.service.get(hooks.account, endpoint.id)
    assert (view.enabled, view.disabled_reason) == (False, DisabledReason.GONE)
    states = [one.state.value for one in await hooks.service.deliveries(hooks.account, endpoint.id)]
    assert sorted(states) == ["exhausted"] + ["skipped"] * 4
    assert receiver.connections == 1
    with pytest.raises(MailsiftError, match="webhook_disabled"):
        await hooks.service.resend(
            hooks.account, endpoint.id, since=datetime(2020, 1, 1, tzinfo=UTC), also_unqueued=False
        )


async def test_an_open_breaker_lets_one_attempt_through_and_costs_the_others_none(hooks: Webhooks) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen(50)
        burnt = await hooks.work()
        assert 5 <= burnt <= 6  # two at a time
        for _ in range(5):
            assert await hooks.work() == 0
        hooks.now += 901
        assert await hooks.work() == 1
        hooks.now += 59
        assert await hooks.work() == 0
        receiver.answer = status(200)
        hooks.now += 901
        assert await hooks.work() >= 50 - burnt
    views = await hooks.service.deliveries(hooks.account, endpoint.id, limit=100)
    assert sum(view.attempts == 1 for view in views) >= 50 - burnt - 1
    assert receiver.peak <= 2


async def test_days_of_failure_disable_an_endpoint_however_much_waits_for_it(hooks: Webhooks) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen(100)
        started, hours = hooks.now, 0
        while (await hooks.service.get(hooks.account, endpoint.id)).enabled:
            await hooks.work()
            hooks.now += 3_600
            hours += 1
            assert hours < 24 * 12, "never disabled"
        assert hooks.now - started >= 5 * DAY
    view = await hooks.service.get(hooks.account, endpoint.id)
    assert view.disabled_reason is DisabledReason.FAILING
    assert receiver.connections < 400


async def test_a_slow_endpoint_does_not_keep_the_others_waiting(hooks: Webhooks) -> None:
    async with receiving() as slow, receiving() as quick:
        await hooks.service.create(hooks.account, slow.url)
        await hooks.happen(30)
        await hooks.service.create(hooks.account, quick.url)
        await hooks.happen(1)
        claimed = await hooks.deliverer.claim(3)
        assert sorted(one.url for one in claimed) == sorted([slow.url, slow.url, quick.url])
        assert await hooks.deliverer.claim(8) == []  # two of the slow one are in flight
        await hooks.deliverer.release([one.lease_token for one in claimed])
        assert await hooks.work() == 32
    assert slow.peak <= 2


async def test_what_a_dead_worker_held_for_a_disabled_webhook_does_not_wait_for_ever(hooks: Webhooks) -> None:
    async with receiving() as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen()
        await hooks.deliverer.claim(1)
        await hooks.service.update(hooks.account, endpoint.id, enabled=False)
        hooks.now += 61
        await hooks.deliverer.sweep()
    view = await hooks.newest(endpoint.id)
    assert (view.state, view.next_attempt_at) == (DeliveryState.SKIPPED, None)
    assert view.finished_at is not None


async def test_an_event_that_happens_while_a_webhook_is_being_deleted_reaches_the_others(
    hooks: Webhooks,
) -> None:
    async with receiving() as leaving, receiving() as staying:
        endpoint, _ = await hooks.service.create(hooks.account, leaving.url)
        await hooks.service.create(hooks.account, staying.url)
        async with hooks.database.begin() as connection:
            await deliveries.delete_endpoint(connection, endpoint.id)
            happening = asyncio.create_task(hooks.happen())
            await until(lambda: _is_somebody_waiting(hooks), within=20)
        await happening
        assert await hooks.work() == 1
    assert (leaving.connections, staying.connections) == (0, 1)


async def test_what_was_missed_is_sent_although_a_list_with_its_events_is_deleted_meanwhile(
    hooks: Webhooks,
) -> None:
    async with receiving() as receiver:
        jobs = [await _job_with_event(hooks) for _ in range(2)]
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        async with hooks.database.begin() as connection:
            await connection.execute(text("DELETE FROM job WHERE id = :id"), {"id": jobs[0]})
            long_ago = datetime(2020, 1, 1, tzinfo=UTC)
            recovering = asyncio.create_task(
                hooks.service.resend(hooks.account, endpoint.id, since=long_ago, also_unqueued=True)
            )
            await until(lambda: _is_somebody_waiting(hooks), within=20)
        assert await recovering == 1
        assert await hooks.work() == 1


async def _job_with_event(hooks: Webhooks) -> UUID:
    """Make a job with an event; returns its id."""
    job, now = uuid4(), datetime.fromtimestamp(hooks.now, UTC)
    made = "INSERT INTO job (id, account_id, name, state, options, created_at)"
    async with hooks.database.begin() as connection:
        await connection.execute(
            text(f"{made} VALUES (:id, :account, '', 'queued', '{{}}', :now)"),
            {"id": job, "account": hooks.account, "now": now},
        )
        row = EventRow(uuid4(), hooks.account, job, EventType.COMPLETED.value, b"{}", now, None)
        await deliveries.insert_event(connection, row)
    return job


async def _is_somebody_waiting(hooks: Webhooks) -> bool:
    async with hooks.database.begin() as connection:
        return (await connection.execute(_WAITS)).first() is not None


async def test_many_workers_send_every_delivery_once(hooks: Webhooks) -> None:
    async with receiving() as receiver:
        for _ in range(5):
            await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen(20)
        made = await asyncio.gather(*(hooks.work(limit=3) for _ in range(4)))
        assert sum(made) + await hooks.work() == 100  # claims at once may pass over the same last ones
    sent = [request.headers["webhook-id"] for request in receiver.requests]
    assert (len(sent), len(set(sent))) == (100, 20)


async def test_what_a_dead_worker_held_is_sent_by_another_and_its_late_word_is_not_heard(
    hooks: Webhooks,
) -> None:
    async with receiving() as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen()
        (held,) = await hooks.deliverer.claim(1)
        assert await hooks.deliverer.sweep() == 0
        hooks.now += 61
        assert await hooks.deliverer.sweep() == 1
        (taken,) = await hooks.deliverer.claim(1)
        await hooks.deliverer.deliver(held)  # it was not dead after all
        assert (await hooks.newest(endpoint.id)).state is DeliveryState.DELIVERING
        await hooks.deliverer.deliver(taken)
        await hooks.deliverer.deliver(taken)
    assert (await hooks.newest(endpoint.id)).state is DeliveryState.SUCCEEDED
    assert len(await hooks.log(endpoint.id)) == 1
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
