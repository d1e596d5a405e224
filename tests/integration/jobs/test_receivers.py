"""Amazon's notifications, from signature to store: confirmed for one topic, its certificate fetched once."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from mailsift.container import Container, open_container
from mailsift.events.signing import KEY_BYTES, Vault
from mailsift.jobs.outcomes.receivers import ReceiverService
from mailsift.jobs.outcomes.service import ImportCounts
from mailsift.jobs.outcomes.signatures import ReceivedPost
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.senders import SenderKind
from mailsift.storage.database import Connection
from mailsift.storage.sql import receivers
from mailsift.storage.sql.receivers import ReceiverRow
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
        told = posted(Message=json.dumps(bounce))
        assert await service.receive(row.id, told) == ImportCounts(taken=1)
        assert await service.receive(row.id, told) == ImportCounts(repeated=1)
        assert fetched == [CERTIFICATE, CONFIRM]
        (seen,) = await service.list(account)
        assert (seen.taken, seen.refused) == (1, 1)


async def test_posts_to_receivers_that_do_not_exist_share_their_look_ups(
    tmp_path: Path, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    by_ids = receivers.by_ids

    async def counting(connection: Connection, ids: Collection[UUID]) -> Mapping[UUID, ReceiverRow]:
        asked.append(len(ids))
        return await by_ids(connection, ids)

    monkeypatch.setattr(receivers, "by_ids", counting)
    async with amazon(tmp_path, database_url, redis_url) as (container, service, _):
        account = await container.jobs.account("alice")
        row, _ = await service.create(account, SenderKind.BREVO)
        strangers = [service.receive(uuid4(), ReceivedPost({}, b"{}")) for _ in range(300)]
        told = await asyncio.gather(
            *strangers, service.receive(row.id, ReceivedPost({}, b"{}")), return_exceptions=True
        )
        codes = [error.code for error in told if isinstance(error, MailsiftError)]
        assert codes == ["receiver_not_found"] * 300 + ["receiver_refused"]
        assert sum(asked) == 301
        assert len(asked) <= 4
