"""Owners hear by mail of a webhook that fails and of one that was disabled: a real relay takes it, once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import select
from structlog.testing import capture_logs

from mailsift.container import open_container
from mailsift.events.retry import DisabledReason
from mailsift.pipeline.clock import system_clock, utc_datetime
from mailsift.storage.sql import outbox, people
from mailsift.storage.sql.outbox import MAIL_LEASE_S, MAIL_RETRY_S, NewNotice
from mailsift.storage.sql.tables import notice
from tests.support.installation import settings_for, until
from tests.support.mail_relay import MailRelay, relaying
from tests.support.receiver import Receiver, receiving, status
from tests.support.webhooks import Webhooks, open_webhooks

DAY = 86_400.0
OWNERS = ["ann@example.com", "bob@example.com"]


@pytest.fixture
async def hooks(database_url: str, relay: MailRelay) -> AsyncIterator[Webhooks]:
    async with open_webhooks(
        database_url,
        mail_relay=SecretStr(relay.url),
        mail_sender="mailsift@example.org",
        public_url="https://mail.example.org",
    ) as hooks:
        await _add_people(hooks)
        yield hooks


@pytest.fixture
async def relay() -> AsyncIterator[MailRelay]:
    async with relaying() as relay:
        yield relay


async def _add_people(hooks: Webhooks) -> None:
    async with hooks.database.begin() as connection:
        for email, role in (*((owner, "owner") for owner in OWNERS), ("eve@example.com", "member")):
            person = await people.add_person(connection, email=email, password="x")
            assert person is not None
            await people.put_member(connection, hooks.account, person, role)


async def fail_for(hooks: Webhooks, days: float) -> None:
    """Let time pass by the hour, with a new event every six hours."""
    for hour in range(int(days * 24)):
        if hour % 6 == 0:
            await hooks.happen()
        await hooks.work()
        hooks.now += 3_600
    await hooks.work()


async def states(hooks: Webhooks) -> list[tuple[str, str]]:
    statement = select(notice.c.kind, notice.c.state).order_by(notice.c.created_at)
    async with hooks.database.begin() as connection:
        return [(row.kind, row.state) for row in await connection.execute(statement)]


async def gone(hooks: Webhooks, receiver: Receiver) -> UUID:
    """Register a webhook that answers 410 at once."""
    receiver.answer = status(410)
    endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
    await hooks.happen()
    assert await hooks.work() == 1
    return endpoint.id


async def test_owners_are_told_half_way_and_when_it_is_disabled_and_no_more_often(
    hooks: Webhooks, relay: MailRelay
) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, f"{receiver.url}/secret-path")
        tell = hooks.container.notifier
        await fail_for(hooks, 2.4)
        assert await tell.send_due() == 0
        with capture_logs() as lines:
            await fail_for(hooks, 0.7)
            assert await tell.send_due() == 1
            await fail_for(hooks, 1.5)
        assert [line["event"] for line in lines].count("webhook.failing") == 1
        assert await tell.send_due() == 0
        await fail_for(hooks, 4)
        assert await tell.send_due() == 1
        await hooks.happen(3)
        await hooks.work()
        assert await tell.send_due() == 0
    view = await hooks.service.get(hooks.account, endpoint.id)
    assert (view.enabled, view.disabled_reason) == (False, DisabledReason.FAILING)
    assert [recipients for recipients, _ in relay.mail] == [OWNERS, OWNERS]
    half_way, end = [mail for _, mail in relay.mail]
    assert half_way["Subject"] == "Your webhook at 127.0.0.1 is failing"
    assert end["Subject"] == "Your webhook at 127.0.0.1 is disabled"
    for mail in (half_way, end):
        assert f"https://mail.example.org/webhooks/{endpoint.id}" in mail.get_content()
        assert "secret-path" not in mail.as_string()
    assert await states(hooks) == [("webhook_failing", "sent"), ("webhook_disabled", "sent")]


async def test_a_new_streak_of_failures_is_news(hooks: Webhooks, relay: MailRelay) -> None:
    async with receiving() as receiver:
        await gone(hooks, receiver)
        tell = hooks.container.notifier
        assert await tell.send_due() == 1
        (view,) = await hooks.service.list(hooks.account)
        await hooks.service.update(hooks.account, view.id, enabled=True)
        hooks.now += 60
        await hooks.happen()
        assert await hooks.work() == 1
        assert await tell.send_due() == 1
    assert [mail["Subject"].split()[-1] for _, mail in relay.mail] == ["disabled"] * 2
    assert "410" in relay.mail[0][1].get_content()


async def test_a_relay_that_is_down_is_tried_again_and_the_mail_arrives_once(
    hooks: Webhooks, relay: MailRelay
) -> None:
    async with receiving() as receiver:
        await gone(hooks, receiver)
    tell = hooks.container.notifier
    relay.replies = {"MAIL": "451 later"}
    for wait in MAIL_RETRY_S[:3]:
        assert await tell.send_due() == 1
        hooks.now += wait - 1
        assert await tell.send_due() == 0
        hooks.now += 2
    relay.replies = {}
    assert await tell.send_due() == 1
    hooks.now += 10 * DAY
    assert await tell.send_due() == 0
    assert len(relay.mail) == 1


async def test_a_mail_that_nobody_takes_is_given_up(hooks: Webhooks, relay: MailRelay) -> None:
    async with receiving() as receiver:
        await gone(hooks, receiver)
    relay.refused = set(OWNERS)
    tell, tries = hooks.container.notifier, 0
    while await tell.send_due():
        tries += 1
        hooks.now += DAY
    assert tries == len(MAIL_RETRY_S) + 1
    assert await states(hooks) == [("webhook_disabled", "given_up")]


async def test_many_senders_send_it_once_and_a_dead_ones_mail_is_sent_by_another(
    hooks: Webhooks, relay: MailRelay
) -> None:
    async with receiving() as receiver:
        await gone(hooks, receiver)
    async with hooks.database.begin() as connection:  # somebody takes it and dies
        later = utc_datetime(hooks.now + MAIL_LEASE_S)
        assert await outbox.claim_notice(connection, now=utc_datetime(hooks.now), again=later) is not None
    assert await hooks.container.notifier.send_due() == 0
    hooks.now += MAIL_LEASE_S
    assert sum(await asyncio.gather(*(hooks.container.notifier.send_due() for _ in range(4)))) == 1
    assert len(relay.mail) == 1


async def test_without_a_relay_or_an_owner_nothing_is_sent_later_either(
    hooks: Webhooks, relay: MailRelay, database_url: str
) -> None:
    async with receiving() as receiver:
        await gone(hooks, receiver)
        async with open_webhooks(database_url) as without_relay:
            assert await without_relay.container.notifier.send_due() == 1
        assert await hooks.container.notifier.send_due() == 0
        async with hooks.database.begin() as connection:
            for member in await people.members(connection, hooks.account):
                await people.remove_member(connection, hooks.account, member.person_id)
        hooks.now += 60
        await gone(hooks, receiver)
        assert await hooks.container.notifier.send_due() == 1
    assert relay.mail == []
    assert {state for _, state in await states(hooks)} == {"skipped"}


async def test_what_is_well_again_or_deleted_is_no_news(hooks: Webhooks, relay: MailRelay) -> None:
    async with receiving() as receiver:
        enabled_again, deleted = await gone(hooks, receiver), await gone(hooks, receiver)
        await hooks.service.update(hooks.account, enabled_again, enabled=True)
        await hooks.service.delete(hooks.account, deleted)
        assert await hooks.container.notifier.send_due() == 2
    assert relay.mail == []


async def test_a_webhook_that_was_well_for_a_while_has_not_failed_since_before(
    hooks: Webhooks, relay: MailRelay
) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        relay.replies = {"MAIL": "451 later"}
        await fail_for(hooks, 3)
        assert await hooks.container.notifier.send_due() == 1
        receiver.answer = status(200)
        await fail_for(hooks, 0.1)
        receiver.answer = status(500)
        await fail_for(hooks, 0.1)
        assert (await hooks.service.get(hooks.account, endpoint.id)).failing_since is not None
        relay.replies = {}
        assert await hooks.container.notifier.send_due() == 1
    assert relay.mail == []
    assert await states(hooks) == [("webhook_failing", "skipped")]


async def test_owners_who_disable_a_webhook_are_not_told(hooks: Webhooks) -> None:
    async with receiving() as receiver:
        endpoint, _ = await hooks.service.create(hooks.account, receiver.url)
        await hooks.service.update(hooks.account, endpoint.id, enabled=False)
    assert await hooks.container.notifier.send_due() == 0
    assert await states(hooks) == []


async def test_no_log_line_holds_an_address_or_a_url(hooks: Webhooks, relay: MailRelay) -> None:
    async with receiving() as receiver:
        with capture_logs() as lines:
            await gone(hooks, receiver)
            relay.refused = {OWNERS[0]}
            relay.replies = {"DATA": f"554 {OWNERS[1]} does not want it"}
            await hooks.container.notifier.send_due()
            relay.replies = {}
            hooks.now += DAY
            await hooks.container.notifier.send_due()
        text = repr(lines)
    assert len(relay.mail) == 1
    assert {line["event"] for line in lines} >= {"webhook.disabled", "notice.error", "notice.settled"}
    assert "example" not in text
    assert receiver.url not in text


async def test_a_sweep_sends_what_is_due_over_the_relay_of_the_settings(
    tmp_path: Path, database_url: str, redis_url: str, relay: MailRelay
) -> None:
    settings = settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_url,
        sandbox={},
        mail_relay=SecretStr(relay.url),
        mail_sender="us@example.org",
        public_url="https://pages.example.org",
    )
    async with open_webhooks(database_url) as hooks, receiving() as receiver:
        await _add_people(hooks)
        endpoint = await gone(hooks, receiver)
        streak = utc_datetime(system_clock() - 1)
        async with hooks.database.begin() as connection:
            new = NewNotice(hooks.account, "webhook_disabled", uuid4(), streak, "gone", streak)
            assert await outbox.insert_notice(connection, new)
            assert not await outbox.insert_notice(connection, new)

        async def over() -> bool:
            return {state for _, state in await states(hooks)} == {"sent", "skipped"}

        async with open_container(settings) as container:
            await container.maintenance.sweep()
            await until(over, within=20)
            await container.maintenance.aclose(5.0)
    ((recipients, mail),) = relay.mail
    assert (recipients, mail["From"]) == (OWNERS, "us@example.org")
    assert f"https://pages.example.org/webhooks/{endpoint}" in mail.get_content()
