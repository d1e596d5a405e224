"""What people ask of webhooks, on a real PostgreSQL and with real receivers."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from datetime import UTC, datetime
from uuid import uuid4

import pytest
import standardwebhooks

from mailsift.events.endpoints import TESTS_A_MINUTE, TESTS_AN_HOUR, DeliveryView
from mailsift.events.payloads import SimulatedEvent
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.sql import accounts, deliveries
from tests.support.receiver import receiving, status
from tests.support.webhooks import Webhooks, verify


async def test_a_rotated_secret_signs_beside_the_one_before_until_the_overlap_ends(
    hooks: Webhooks,
) -> None:
    async with receiving() as receiver:
        endpoint, old = await hooks.service.create(hooks.account, receiver.url)
        new = (await hooks.service.rotate(hooks.account, endpoint.id, overlap_s=3_600)).secret
        assert old != new
        await hooks.happen()
        await hooks.work()
        verify(old, receiver.requests[0])
        verify(new, receiver.requests[0])
        await hooks.service.rotate(hooks.account, endpoint.id, overlap_s=0, force=True)
        await hooks.happen()
        await hooks.work()
        assert receiver.requests[1].headers["webhook-signature"].count("v1,") == 1
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            verify(new, receiver.requests[1])
        with pytest.raises(MailsiftError, match="webhook_overlap_invalid"):
            await hooks.service.rotate(hooks.account, endpoint.id, overlap_s=8 * 86_400)


async def test_a_second_rotation_within_the_overlap_is_refused_unless_forced(hooks: Webhooks) -> None:
    async with receiving() as receiver:
        endpoint, first = await hooks.service.create(hooks.account, receiver.url)
        second = await hooks.service.rotate(hooks.account, endpoint.id, overlap_s=60)
        assert second.previous_secret_until is not None
        assert second.previous_secret_until.timestamp() == pytest.approx(hooks.now + 60, abs=0.01)
        for overlap in (0, 60):
            until = f"{second.previous_secret_until:%Y-%m-%dT%H:%M:%SZ}"
            with pytest.raises(MailsiftError, match=f"webhook_secret_overlap.*{until}"):
                await hooks.service.rotate(hooks.account, endpoint.id, overlap_s=overlap)
        await hooks.happen()
        await hooks.work()
        verify(first, receiver.requests[0])
        verify(second.secret, receiver.requests[0])
        third = await hooks.service.rotate(hooks.account, endpoint.id, overlap_s=60, force=True)
        hooks.now += 61
        fourth = await hooks.service.rotate(hooks.account, endpoint.id, overlap_s=0)
        assert fourth.previous_secret_until is None
        assert len({first, second.secret, third.secret, fourth.secret}) == 4


async def test_every_delivery_of_a_rotation_is_verified_by_both_judges(hooks: Webhooks) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, old = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen()
        assert await hooks.work() == 1
        new = (await hooks.service.rotate(hooks.account, endpoint.id, overlap_s=60)).secret
        hooks.now += 10
        await hooks.happen()
        assert await hooks.work() == 2  # the retry of the one, and the other
        hooks.now += 40
        receiver.answer = status(200)
        assert await hooks.work() == 2
        hooks.now += 11
        await hooks.happen()
        assert await hooks.work() == 1
    live = [[old], [old, new], [old, new], [old, new], [old, new], [new]]
    assert len(receiver.requests) == len(live)
    for request, secrets in zip(receiver.requests, live, strict=True):
        assert request.headers["webhook-signature"].count("v1,") == len(secrets)
        for secret in secrets:
            verify(secret, request)
    for secret, request in ((new, receiver.requests[0]), (old, receiver.requests[-1])):
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            verify(secret, request)


@pytest.mark.parametrize(
    ("kind", "type_", "fields"),
    [
        (SimulatedEvent.WEBHOOK, "webhook.test", {"message"}),
        (
            SimulatedEvent.SUCCESS,
            "bulk.validation.completed",
            {
                "completed_at",
                "started_at",
                "invalid",
                "valid",
                "processed",
                "total_emails",
                "job_id",
                "status",
            },
        ),
        (
            SimulatedEvent.FAILED,
            "bulk.validation.failed",
            {"error", "job_id", "processed", "status", "total_emails"},
        ),
    ],
)
async def test_a_test_is_one_signed_attempt_also_to_a_disabled_endpoint(
    hooks: Webhooks, kind: SimulatedEvent, type_: str, fields: set[str]
) -> None:
    async with receiving() as receiver:
        endpoint, secret = await hooks.service.create(hooks.account, receiver.url)
        await hooks.service.update(hooks.account, endpoint.id, enabled=False)
        delivery = await hooks.service.test(hooks.account, endpoint.id, kind)
        assert await hooks.work() == 0
    (request,) = receiver.requests
    verify(secret, request)
    body = json.loads(request.body)
    assert request.headers["webhook-test"] == "true"
    assert (body["type"], set(body["data"]), body["id"]) == (type_, fields, str(delivery.event_id))
    assert set(body) == {"id", "type", "created_at", "data"}
    assert (delivery.error, delivery.status_code) == ("", 200)
    assert [made.trigger for made in await hooks.log(endpoint.id)] == ["test"]


async def test_a_test_never_counts_is_limited_and_is_not_sent_again(hooks: Webhooks) -> None:
    async with receiving(status(410)) as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        delivery = await hooks.service.test(hooks.account, endpoint.id, SimulatedEvent.WEBHOOK)
        assert delivery.error == "http_4xx"
        for _ in range(9):
            await hooks.service.test(hooks.account, endpoint.id, SimulatedEvent.WEBHOOK)
        with pytest.raises(MailsiftError, match="webhook_test_limit"):
            await hooks.service.test(hooks.account, endpoint.id, SimulatedEvent.WEBHOOK)
        view = await hooks.service.get(hooks.account, endpoint.id)
        assert (view.enabled, view.failing_since) == (True, None)
        with pytest.raises(MailsiftError, match="delivery_conflict"):
            await hooks.service.redeliver(hooks.account, delivery.delivery_id)
        since = datetime(2020, 1, 1, tzinfo=UTC)
        assert await hooks.service.resend(hooks.account, endpoint.id, since=since, also_unqueued=False) == 0
    assert receiver.connections == 10


async def test_tests_asked_for_at_once_are_counted_before_they_are_sent(hooks: Webhooks) -> None:
    async with receiving() as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        deliveries = await asyncio.gather(
            *(hooks.service.test(hooks.account, endpoint.id, SimulatedEvent.WEBHOOK) for _ in range(15)),
            return_exceptions=True,
        )
    assert Counter(getattr(one, "code", "sent") for one in deliveries) == {
        "sent": 10,
        "webhook_test_limit": 5,
    }
    assert receiver.connections == 10


async def test_tests_of_a_webhook_that_was_deleted_count(hooks: Webhooks) -> None:
    async with receiving() as receiver:
        for _ in range(TESTS_AN_HOUR // TESTS_A_MINUTE):
            endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
            for _ in range(TESTS_A_MINUTE):
                await hooks.service.test(hooks.account, endpoint.id, SimulatedEvent.WEBHOOK)
            await hooks.service.delete(hooks.account, endpoint.id)
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        with pytest.raises(MailsiftError, match="webhook_test_limit"):
            await hooks.service.test(hooks.account, endpoint.id, SimulatedEvent.WEBHOOK)
        hooks.now += 3_601
        await hooks.service.test(hooks.account, endpoint.id, SimulatedEvent.WEBHOOK)
    assert receiver.connections == TESTS_AN_HOUR + 1


async def test_a_test_whose_end_nobody_saw_counts_and_is_known(hooks: Webhooks) -> None:
    asked = asyncio.Event()

    async def silent(_: asyncio.StreamWriter) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with receiving(silent) as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        test = asyncio.create_task(hooks.service.test(hooks.account, endpoint.id, SimulatedEvent.WEBHOOK))
        await asked.wait()
        test.cancel()  # as when the process ends
        await asyncio.gather(test, return_exceptions=True)
        assert await hooks.work() == 0
    view = await hooks.newest(endpoint.id)
    sent = json.loads(receiver.requests[0].body)["id"]
    assert (str(view.event_id), view.trigger, view.state, view.attempts) == (sent, "test", "exhausted", 0)


async def test_what_is_anothers_does_not_exist(hooks: Webhooks) -> None:
    async with receiving() as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.happen()
        delivery = (await hooks.newest(endpoint.id)).id
        async with hooks.database.begin() as connection:
            other = await accounts.ensure_account(connection, "b")
        service, since = hooks.service, datetime(2020, 1, 1, tzinfo=UTC)
        assert list(await service.list(other)) == []
        for asked in (
            service.get(other, endpoint.id),
            service.update(other, endpoint.id, enabled=False),
            service.delete(other, endpoint.id),
            service.rotate(other, endpoint.id),
            service.deliveries(other, endpoint.id),
            service.resend(other, endpoint.id, since=since, also_unqueued=False),
            service.test(other, endpoint.id, SimulatedEvent.WEBHOOK),
            service.get(hooks.account, uuid4()),
        ):
            with pytest.raises(MailsiftError, match="webhook_not_found"):
                await asked
        for also in (
            service.delivery(other, delivery),
            service.attempts(other, delivery),
            service.redeliver(other, delivery),
        ):
            with pytest.raises(MailsiftError, match="delivery_not_found"):
                await also
    assert receiver.connections == 0


async def test_the_database_never_holds_a_secret_in_the_clear(hooks: Webhooks) -> None:
    async with receiving() as receiver:
        endpoint, secret = await hooks.service.create(hooks.account, receiver.url)
        await hooks.service.rotate(hooks.account, endpoint.id)
    async with hooks.database.begin() as connection:
        row = await deliveries.get_endpoint(connection, endpoint.id)
    assert row is not None
    raw = base64.b64decode(secret.removeprefix("whsec_"))
    assert len(raw) == 32
    assert raw not in row["secret"] + row["previous_secret"]


async def test_deliveries_are_paged_from_the_newest_on(hooks: Webhooks) -> None:
    async with receiving() as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        for _ in range(5):
            await hooks.happen()
        seen: list[DeliveryView] = []
        while page := await hooks.service.deliveries(
            hooks.account,
            endpoint.id,
            limit=2,
            before=(seen[-1].created_at, seen[-1].id) if seen else None,
        ):
            seen += page
    assert len({view.id for view in seen}) == 5
    assert [view.created_at for view in seen] == sorted((v.created_at for v in seen), reverse=True)


async def test_unknown_events_and_too_many_webhooks_are_refused(hooks: Webhooks) -> None:
    with pytest.raises(MailsiftError, match="webhook_type_unknown"):
        await hooks.service.create(hooks.account, "http://127.0.0.1:1/", ["bulk.*"])
    for n in range(50):
        await hooks.service.create(hooks.account, f"http://127.0.0.1:1/{n}")
    with pytest.raises(MailsiftError, match="webhook_limit"):
        await hooks.service.create(hooks.account, "http://127.0.0.1:1/")
