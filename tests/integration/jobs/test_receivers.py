"""Amazon's notifications, from signature to store: confirmed for one topic, its certificate fetched once."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from mailsift.container import Container, open_container
from mailsift.events.signing import KEY_BYTES, Vault
from mailsift.jobs.outcomes import receivers as receiving
from mailsift.jobs.outcomes.receivers import (
    ReceivedPost,
    ReceiverService,
    SenderTrust,
    VerifiedPost,
    verify_post,
)
from mailsift.jobs.outcomes.service import ImportCounts
from mailsift.jobs.outcomes.suppressions import Suppression, SuppressionReason
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.outcome import ACCEPTED, Outcome, OutcomeKind, ParsedOutcome
from mailsift.pipeline.outcomes.senders import SenderKind, read_webhook
from mailsift.storage.database import Connection
from mailsift.storage.sql import outcomes
from mailsift.storage.sql.outcomes import ReceiverRow
from tests.support.installation import settings_for
from tests.support.sns import CERTIFICATE, CONFIRM, TOPIC, signed, signer


@asynccontextmanager
async def amazon(
    tmp_path: Path, database_url: str, redis_url: str
) -> AsyncIterator[tuple[Container, ReceiverService, list[str]]]:
    """Give receivers for which Amazon is this test, and what they fetched."""
    fetched: list[str] = []

    async def fetch(url: str) -> bytes:
        fetched.append(url)
        return signer()[1]

    settings = settings_for(tmp_path / "home", database_url=database_url, redis_url=redis_url, sandbox={})
    async with open_container(settings) as container:
        service = ReceiverService(
            database=container.database,
            outcomes=container.outcomes,
            vault=Vault({"one": secrets.token_bytes(KEY_BYTES)}, token=secrets.token_bytes),
            fetch=fetch,
            clock=system_clock,
            token=secrets.token_bytes,
        )
        yield container, service, fetched


def posted(**changes: str) -> ReceivedPost:
    return ReceivedPost(
        {}, json.dumps(signed("2", datetime.fromtimestamp(system_clock(), UTC), **changes)).encode()
    )


async def test_a_subscription_is_confirmed_for_our_topic_and_its_notifications_are_taken_once(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    async with amazon(tmp_path, database_url, redis_url) as (container, service, fetched):
        account = await container.jobs.account("alice")
        row, password = await service.create(account, SenderKind.SES, topic=TOPIC)
        assert password == ""
        asks = {"Type": "SubscriptionConfirmation", "Token": "t", "SubscribeURL": CONFIRM}
        with pytest.raises(MailsiftError, match="receiver_refused"):
            await service.receive(row.id, posted(**asks, TopicArn=TOPIC.replace("bounces", "others")))
        assert fetched == []
        assert await service.receive(row.id, posted(**asks)) == ImportCounts()
        assert fetched == [CERTIFICATE, CONFIRM]
        bounce = {
            "notificationType": "Bounce",
            "mail": {"messageId": "m", "timestamp": "2026-11-01T12:00:00Z"},
            "bounce": {
                "bounceType": "Permanent",
                "timestamp": "2026-11-01T12:00:00Z",
                "bouncedRecipients": [
                    {"emailAddress": "ann@example.com", "diagnosticCode": "smtp; 550 5.1.1 user unknown"}
                ],
            },
        }
        notification = posted(Message=json.dumps(bounce))
        assert await service.receive(row.id, notification) == ImportCounts(taken=1)
        assert await service.receive(row.id, notification) == ImportCounts(repeated=1)
        assert fetched == [CERTIFICATE, CONFIRM]
        (seen,) = await service.list(account)
        assert (seen.taken, seen.refused) == (1, 1)


async def test_posts_to_receivers_that_do_not_exist_share_their_look_ups(
    tmp_path: Path, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    by_ids = outcomes.receivers_by_id

    async def counting(connection: Connection, ids: Collection[UUID]) -> Mapping[UUID, ReceiverRow]:
        asked.append(len(ids))
        return await by_ids(connection, ids)

    monkeypatch.setattr(outcomes, "receivers_by_id", counting)
    async with amazon(tmp_path, database_url, redis_url) as (container, service, _):
        account = await container.jobs.account("alice")
        row, _ = await service.create(account, SenderKind.BREVO)
        strangers = [service.receive(uuid4(), ReceivedPost({}, b"{}")) for _ in range(300)]
        answers = await asyncio.gather(
            *strangers, service.receive(row.id, ReceivedPost({}, b"{}")), return_exceptions=True
        )
        codes = [error.code for error in answers if isinstance(error, MailsiftError)]
        assert codes == ["receiver_not_found"] * 300 + ["receiver_refused"]
        assert sum(asked) == 301
        assert len(asked) <= 4


async def test_others_are_answered_while_a_large_batch_is_read(
    tmp_path: Path, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, answered = threading.Event(), threading.Event()

    def read(sender: SenderKind, body: bytes) -> tuple[ParsedOutcome, ...]:
        reading.set()
        assert answered.wait(timeout=10)
        return read_webhook(sender, body)

    async def other() -> None:
        await asyncio.to_thread(reading.wait, 10)
        answered.set()

    monkeypatch.setattr(receiving, "read_webhook", read)
    async with amazon(tmp_path, database_url, redis_url) as (container, service, _):
        row, password = await service.create(await container.jobs.account("alice"), SenderKind.BREVO)
        counts, _ = await asyncio.gather(service.receive(row.id, _delivered(password)), other())
    assert counts == ImportCounts(taken=1)


def _delivered(password: str) -> ReceivedPost:
    event = {"event": "delivered", "email": "ann@example.com", "ts": 1_793_000_000}
    return ReceivedPost({"authorization": f"Bearer {password}"}, json.dumps(event).encode())


def _of_mailgun(key: str, token: str) -> ReceivedPost:
    stamp = str(int(system_clock()))
    signature = hmac.new(key.encode(), f"{stamp}{token}".encode(), hashlib.sha256).hexdigest()
    event = {
        "signature": {"timestamp": stamp, "token": token, "signature": signature},
        "event-data": {"event": "delivered", "timestamp": 1_793_000_000, "recipient": "ann@example.com"},
    }
    return ReceivedPost({}, json.dumps(event).encode())


async def test_one_post_that_comes_many_times_at_once_counts_once(
    tmp_path: Path, database_url: str, redis_url: str
) -> None:
    async with amazon(tmp_path, database_url, redis_url) as (container, service, _):
        row, _ = await service.create(await container.jobs.account("alice"), SenderKind.MAILGUN, key="k")
        same = _of_mailgun("k", "t")
        answers = await asyncio.gather(*(service.receive(row.id, same) for _ in range(8)))
    assert (sum(one.taken for one in answers), sum(one.repeated for one in answers)) == (1, 7)


async def test_a_receiver_and_an_account_that_are_deleted_while_something_is_posted_are_no_error_of_ours(
    tmp_path: Path, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted: list[Awaitable[None]] = []

    async def verified(sender: SenderKind, posted: ReceivedPost, trust: SenderTrust) -> VerifiedPost:
        found = await verify_post(sender, posted, trust)
        await deleted.pop()
        return found

    monkeypatch.setattr(receiving, "verify_post", verified)
    async with amazon(tmp_path, database_url, redis_url) as (container, service, _):
        account = await container.jobs.account("alice")
        row, _ = await service.create(account, SenderKind.MAILGUN, key="k")
        deleted.append(service.delete(account, row.id))
        with pytest.raises(MailsiftError, match="receiver_refused"):
            await service.receive(row.id, _of_mailgun("k", "t"))
        row, password = await service.create(account, SenderKind.BREVO)
        deleted.append(container.eraser.account(account))
        with pytest.raises(MailsiftError, match="account_not_found"):
            await service.receive(row.id, _delivered(password))


async def test_what_comes_while_its_account_is_deleted_goes_with_it(
    tmp_path: Path, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with amazon(tmp_path, database_url, redis_url) as (container, _, _):
        outcome = Outcome("ann@example.com", OutcomeKind.DELIVERED, 1_793_000_000, ACCEPTED, "file")
        unwanted = Suppression("ann@example.com", SuppressionReason.MANUAL, "api", 1_793_000_000)
        stores: Sequence[tuple[str, Callable[[UUID], Awaitable[ImportCounts]]]] = (
            ("add_outcomes", lambda of: container.outcomes.record(of, [outcome])),
            ("add_suppressions", lambda of: container.suppressions.add(of, [unwanted])),
        )
        for name, store in stores:
            account, add = await container.jobs.account("alice"), getattr(outcomes, name)
            assert (await store(account)).taken == 1  # its key is there

            async def late(
                connection: Connection,
                account_id: UUID,
                rows: Sequence[Any],
                add: Any = add,
                account: Any = account,
            ) -> int:
                await container.eraser.account(account)
                return int(await add(connection, account_id, rows))

            monkeypatch.setattr(outcomes, name, late)
            assert (await store(account)).taken == 0
