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

from events.mail import Mailer
from events.moments import moment
from events.notices import RETRY_S
from events.notifier import LEASE_S, Notifier
from events.relay import parse_relay
from events.retry import Disabled
from jobs.service import JobService
from mailsift.wiring import open_blobs, open_database, open_waker
from mailsift.wiring_webhooks import Stores, errands, open_sender
from pipeline.clock import system_clock
from storage import notice_rows, people_rows
from storage.notice_rows import NewNotice
from storage.notice_tables import notice
from tests.installation import settings_for, until
from tests.mail_relay import MailRelay, relaying
from tests.receiver import Receiver, receiving, status
from tests.webhook_house import House, opened

DAY = 86_400.0
OWNERS = ["ann@example.com", "bob@example.com"]


@pytest.fixture
async def house(database_url: str) -> AsyncIterator[House]:
    async with opened(database_url) as house:
        await _add_people(house)
        yield house


@pytest.fixture
async def relay() -> AsyncIterator[MailRelay]:
    async with relaying() as relay:
        yield relay


async def _add_people(house: House) -> None:
    async with house.database.begin() as connection:
        for email, role in (*((owner, "owner") for owner in OWNERS), ("eve@example.com", "member")):
            person = await people_rows.add_person(connection, email=email, password="x")
            await people_rows.put_member(connection, house.account, person, role)


def notifier(house: House, relay: MailRelay | None) -> Notifier:
    return Notifier(
        database=house.database,
        send=Mailer(parse_relay(relay.url), helo_name="mailsift.test").send if relay else None,
        sender="mailsift@example.org",
        public_url="https://mail.example.org",
        clock=lambda: house.now,
    )


async def fail_for(house: House, days: float) -> None:
    """Let time pass by the hour, with a new event every six hours."""
    for hour in range(int(days * 24)):
        if hour % 6 == 0:
            await house.happen()
        await house.work()
        house.now += 3_600
    await house.work()


async def states(house: House) -> list[tuple[str, str]]:
    statement = select(notice.c.kind, notice.c.state).order_by(notice.c.created_at)
    async with house.database.begin() as connection:
        return [(row.kind, row.state) for row in await connection.execute(statement)]


async def gone(house: House, receiver: Receiver) -> UUID:
    """Register a webhook that answers 410 at once."""
    receiver.answer = status(410)
    endpoint, _ = await house.service.create(house.account, receiver.url)
    await house.happen()
    assert await house.work() == 1
    return endpoint.id


async def test_owners_are_told_half_way_and_when_it_is_disabled_and_no_more_often(
    house: House, relay: MailRelay
) -> None:
    async with receiving(status(500)) as receiver:
        endpoint, _ = await house.service.create(house.account, f"{receiver.url}/secret-path")
        tell = notifier(house, relay)
        await fail_for(house, 2.4)
        assert await tell.send_due() == 0
        with capture_logs() as lines:
            await fail_for(house, 0.7)
            assert await tell.send_due() == 1
            await fail_for(house, 1.5)
        assert [line["event"] for line in lines].count("webhook.failing") == 1
        assert await tell.send_due() == 0
        await fail_for(house, 4)
        assert await tell.send_due() == 1
        await house.happen(3)
        await house.work()
        assert await tell.send_due() == 0
    view = await house.service.get(house.account, endpoint.id)
    assert (view.enabled, view.disabled_reason) == (False, Disabled.FAILING)
    assert [recipients for recipients, _ in relay.mail] == [OWNERS, OWNERS]
    half_way, end = [mail for _, mail in relay.mail]
    assert half_way["Subject"] == "Your webhook at 127.0.0.1 is failing"
    assert end["Subject"] == "Your webhook at 127.0.0.1 is disabled"
    for mail in (half_way, end):
        assert f"https://mail.example.org/webhooks/{endpoint.id}" in mail.get_content()
        assert "secret-path" not in mail.as_string()
    assert await states(house) == [("webhook_failing", "sent"), ("webhook_disabled", "sent")]


async def test_a_new_streak_of_failures_is_news(house: House, relay: MailRelay) -> None:
    async with receiving() as receiver:
        await gone(house, receiver)
        tell = notifier(house, relay)
        assert await tell.send_due() == 1
        (view,) = await house.service.list(house.account)
        await house.service.update(house.account, view.id, enabled=True)
        house.now += 60
        await house.happen()
        assert await house.work() == 1
        assert await tell.send_due() == 1
    assert [mail["Subject"].split()[-1] for _, mail in relay.mail] == ["disabled"] * 2
    assert "410" in relay.mail[0][1].get_content()


async def test_a_relay_that_is_down_is_tried_again_and_the_mail_arrives_once(
    house: House, relay: MailRelay
) -> None:
    async with receiving() as receiver:
        await gone(house, receiver)
    tell = notifier(house, relay)
    relay.replies = {"MAIL": "451 later"}
    for wait in RETRY_S[:3]:
        assert await tell.send_due() == 1
        house.now += wait - 1
        assert await tell.send_due() == 0
        house.now += 2
    relay.replies = {}
    assert await tell.send_due() == 1
    house.now += 10 * DAY
    assert await tell.send_due() == 0
    assert len(relay.mail) == 1


async def test_a_mail_that_nobody_takes_is_given_up(house: House, relay: MailRelay) -> None:
    async with receiving() as receiver:
        await gone(house, receiver)
    relay.refused = set(OWNERS)
    tell, tries = notifier(house, relay), 0
    while await tell.send_due():
        tries += 1
        house.now += DAY
    assert tries == len(RETRY_S) + 1
    assert await states(house) == [("webhook_disabled", "given_up")]


async def test_many_senders_send_it_once_and_a_dead_ones_mail_is_sent_by_another(
    house: House, relay: MailRelay
) -> None:
    async with receiving() as receiver:
        await gone(house, receiver)
    async with house.database.begin() as connection:  # somebody takes it and dies
        later = moment(house.now + LEASE_S)
        assert await notice_rows.claim(connection, now=moment(house.now), again=later) is not None
    assert await notifier(house, relay).send_due() == 0
    house.now += LEASE_S
    assert sum(await asyncio.gather(*(notifier(house, relay).send_due() for _ in range(4)))) == 1
    assert len(relay.mail) == 1


async def test_without_a_relay_or_an_owner_nothing_is_sent_later_either(
    house: House, relay: MailRelay
) -> None:
    async with receiving() as receiver:
        await gone(house, receiver)
        assert await notifier(house, None).send_due() == 1
        assert await notifier(house, relay).send_due() == 0
        async with house.database.begin() as connection:
            for member in await people_rows.members(connection, house.account):
                await people_rows.remove_member(connection, house.account, member.person_id)
        house.now += 60
        await gone(house, receiver)
        assert await notifier(house, relay).send_due() == 1
    assert relay.mail == []
    assert {state for _, state in await states(house)} == {"skipped"}


async def test_what_is_well_again_or_deleted_is_no_news(house: House, relay: MailRelay) -> None:
    async with receiving() as receiver:
        enabled_again, deleted = await gone(house, receiver), await gone(house, receiver)
        await house.service.update(house.account, enabled_again, enabled=True)
        await house.service.delete(house.account, deleted)
        assert await notifier(house, relay).send_due() == 2
    assert relay.mail == []


async def test_owners_who_disable_a_webhook_are_not_told(house: House, relay: MailRelay) -> None:
    async with receiving() as receiver:
        endpoint, _ = await house.service.create(house.account, receiver.url)
        await house.service.update(house.account, endpoint.id, enabled=False)
    assert await notifier(house, relay).send_due() == 0
    assert await states(house) == []


async def test_no_log_line_holds_an_address_or_a_url(house: House, relay: MailRelay) -> None:
    async with receiving() as receiver:
        with capture_logs() as lines:
            await gone(house, receiver)
            relay.refused = {OWNERS[0]}
            relay.replies = {"DATA": f"554 {OWNERS[1]} does not want it"}
            await notifier(house, relay).send_due()
            relay.replies = {}
            house.now += DAY
            await notifier(house, relay).send_due()
        told = repr(lines)
    assert len(relay.mail) == 1
    assert {line["event"] for line in lines} >= {"webhook.disabled", "notice.error", "notice.settled"}
    assert "example" not in told
    assert receiver.url not in told


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
    async with opened(database_url) as house, receiving() as receiver:
        await _add_people(house)
        endpoint = await gone(house, receiver)
        streak = moment(system_clock() - 1)
        async with house.database.begin() as connection:
            new = NewNotice(house.account, "webhook_disabled", uuid4(), streak, "gone", streak)
            assert await notice_rows.insert(connection, new)
            assert not await notice_rows.insert(connection, new)
        database = open_database(settings)
        blobs, waker = open_blobs(settings), open_waker(settings)
        jobs = JobService(database=database, blobs=blobs, waker=waker, scratch=tmp_path)

        async def over() -> bool:
            return {state for _, state in await states(house)} == {"sent", "skipped"}

        async with open_sender(settings) as sender:
            doing = errands(settings, Stores(database, blobs, waker, jobs), sender)
            await doing.sweep()
            await until(over, within=20)
            await doing.aclose(5.0)
        await database.aclose()
    ((recipients, mail),) = relay.mail
    assert (recipients, mail["From"]) == (OWNERS, "us@example.org")
    assert f"https://pages.example.org/webhooks/{endpoint}" in mail.get_content()
