"""What people ask of webhooks, on a real PostgreSQL and with real receivers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from uuid import uuid4

import pytest
import standardwebhooks

from events.samples import Sample
from events.views import DeliveryView
from pipeline.errors import MailsiftError
from storage import endpoint_rows, job_rows
from tests.receiver import receiving, status
from tests.webhook_house import House, opened, verify


@pytest.fixture
async def house(database_url: str) -> AsyncIterator[House]:
    async with opened(database_url) as house:
        yield house


async def test_a_rotated_secret_signs_beside_the_one_before_until_the_overlap_ends(house: House) -> None:
    async with receiving() as receiver:
        endpoint, old = await house.service.create(house.account, receiver.url)
        new = await house.service.rotate(house.account, endpoint.id, overlap_s=3_600)
        assert old != new
        await house.happen()
        await house.work()
        verify(old, receiver.requests[0])
        verify(new, receiver.requests[0])
        await house.service.rotate(house.account, endpoint.id, overlap_s=0)
        await house.happen()
        await house.work()
        assert receiver.requests[1].headers["webhook-signature"].count("v1,") == 1
        with pytest.raises(standardwebhooks.WebhookVerificationError):
            verify(new, receiver.requests[1])
        with pytest.raises(MailsiftError, match="webhook_overlap_invalid"):
            await house.service.rotate(house.account, endpoint.id, overlap_s=8 * 86_400)


async def test_every_delivery_of_a_rotation_is_verified_by_both_judges(house: House) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, old = await house.service.create(house.account, receiver.url)
        await house.happen()
        assert await house.work() == 1
        new = await house.service.rotate(house.account, endpoint.id, overlap_s=60)
        house.now += 10
        await house.happen()
        assert await house.work() == 2  # the retry of the one, and the other
        house.now += 30
        receiver.answer = status(200)
        assert await house.work() == 1
        house.now += 21
        await house.happen()
        assert await house.work() == 1
    live = [[old], [old, new], [old, new], [old, new], [new]]
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
        (Sample.WEBHOOK, "webhook.test", {"message"}),
        (
            Sample.SUCCESS,
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
        (Sample.FAILED, "bulk.validation.failed", {"error", "job_id", "processed", "status", "total_emails"}),
    ],
)
async def test_a_test_is_one_signed_attempt_also_to_a_disabled_endpoint(
    house: House, kind: Sample, type_: str, fields: set[str]
) -> None:
    async with receiving() as receiver:
        endpoint, secret = await house.service.create(house.account, receiver.url)
        await house.service.update(house.account, endpoint.id, enabled=False)
        told = await house.service.test(house.account, endpoint.id, kind)
        assert await house.work() == 0
    (request,) = receiver.requests
    verify(secret, request)
    body = json.loads(request.body)
    assert request.headers["webhook-test"] == "true"
    assert (body["type"], set(body["data"]), body["id"]) == (type_, fields, str(told.event_id))
    assert set(body) == {"id", "type", "created_at", "data"}
    assert (told.error, told.status_code) == ("", 200)
    assert [made.trigger for made in await house.log(endpoint.id)] == ["test"]


async def test_a_test_never_counts_is_limited_and_is_not_sent_again(house: House) -> None:
    async with receiving(status(410)) as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        told = await house.service.test(house.account, endpoint.id, Sample.WEBHOOK)
        assert told.error == "http_4xx"
        for _ in range(9):
            await house.service.test(house.account, endpoint.id, Sample.WEBHOOK)
        with pytest.raises(MailsiftError, match="webhook_test_limit"):
            await house.service.test(house.account, endpoint.id, Sample.WEBHOOK)
        view = await house.service.get(house.account, endpoint.id)
        assert (view.enabled, view.failing_since) == (True, None)
        with pytest.raises(MailsiftError, match="delivery_conflict"):
            await house.service.redeliver(house.account, told.delivery_id)
        since = datetime(2020, 1, 1, tzinfo=UTC)
        assert await house.service.redeliver_failed(house.account, endpoint.id, since=since) == 0
    assert receiver.connections == 10


async def test_what_is_anothers_does_not_exist(house: House) -> None:
    async with receiving() as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        await house.happen()
        delivery = (await house.newest(endpoint.id)).id
        async with house.database.begin() as connection:
            other = await job_rows.ensure_account(connection, "b")
        service, since = house.service, datetime(2020, 1, 1, tzinfo=UTC)
        assert list(await service.list(other)) == []
        for asked in (
            service.get(other, endpoint.id),
            service.update(other, endpoint.id, enabled=False),
            service.delete(other, endpoint.id),
            service.rotate(other, endpoint.id),
            service.deliveries(other, endpoint.id),
            service.redeliver_failed(other, endpoint.id, since=since),
            service.test(other, endpoint.id, Sample.WEBHOOK),
            service.get(house.account, uuid4()),
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


async def test_the_database_never_holds_a_secret_in_the_clear(house: House) -> None:
    async with receiving() as receiver:
        endpoint, secret = await house.service.create(house.account, receiver.url)
        await house.service.rotate(house.account, endpoint.id)
    async with house.database.begin() as connection:
        row = await endpoint_rows.get(connection, endpoint.id)
    assert row is not None
    raw = standardwebhooks.Webhook(secret)._whsecret
    assert len(raw) == 32
    assert raw not in row["secret"] + row["previous_secret"]


async def test_deliveries_are_paged_from_the_newest_on(house: House) -> None:
    async with receiving() as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        for _ in range(5):
            await house.happen()
        seen: list[DeliveryView] = []
        while page := await house.service.deliveries(
            house.account, endpoint.id, limit=2, before=(seen[-1].created_at, seen[-1].id) if seen else None
        ):
            seen += page
    assert len({view.id for view in seen}) == 5
    assert [view.created_at for view in seen] == sorted((v.created_at for v in seen), reverse=True)


async def test_unknown_events_and_too_many_webhooks_are_refused(house: House) -> None:
    with pytest.raises(MailsiftError, match="webhook_type_unknown"):
        await house.service.create(house.account, "http://127.0.0.1:1/", ["bulk.*"])
    for n in range(50):
        await house.service.create(house.account, f"http://127.0.0.1:1/{n}")
    with pytest.raises(MailsiftError, match="webhook_limit"):
        await house.service.create(house.account, "http://127.0.0.1:1/")
