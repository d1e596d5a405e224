"""Everything between an event and its receiver, for tests: the parts are real, the clock is the test's."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from mailsift.container import open_container
from mailsift.events.delivery import Deliverer
from mailsift.events.endpoints import AttemptView, DeliveryView, WebhookService
from mailsift.events.payloads import EventType, envelope
from mailsift.events.sender import ResolveHost, SendConfig, WebhookSender
from mailsift.events.signing import Vault
from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.guard import AddressGuard
from mailsift.settings import Settings
from mailsift.storage.database import Database
from mailsift.storage.sql import accounts, events
from mailsift.storage.sql.deliveries import EndpointLimits
from mailsift.storage.sql.events import EventRow
from tests.support.installation import settings_for
from tests.support.receiver import Request
from tests.support.webhook_judges import JUDGES, judge


async def _nobody(_name: str) -> Sequence[str]:
    return ()


_UNHURRIED = EndpointLimits(rate=1e6)  # no test waits for a bucket it did not ask for


@dataclass
class Webhooks:
    """Everything between an event and its receiver, with a clock that only the test moves."""

    database: Database
    account: UUID
    now: float = field(default_factory=system_clock)
    woken: int = 0
    limits: EndpointLimits = _UNHURRIED
    resolve: ResolveHost = _nobody
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        sender = WebhookSender(
            guard=AddressGuard(allow_non_public=True),
            resolve=self.resolve,
            config=SendConfig(allow_http=True, timeout_s=self.timeout_s),
        )
        vault = Vault({"k": secrets.token_bytes(32)}, token=secrets.token_bytes)
        self.service = WebhookService(
            database=self.database,
            sender=sender,
            vault=vault,
            clock=lambda: self.now,
            token=secrets.token_bytes,
            wake=self._wake,
        )
        self.deliverer = Deliverer(
            database=self.database,
            sender=sender,
            vault=vault,
            clock=lambda: self.now,
            random=random.Random(1),
            limits=self.limits,
        )

    async def _wake(self, count: int) -> None:
        self.woken += count

    async def happen(self, count: int = 1, type_: EventType = EventType.COMPLETED) -> list[UUID]:
        """Let events happen; returns their ids."""
        ids = [uuid4() for _ in range(count)]
        moment = datetime.fromtimestamp(self.now, UTC)
        async with self.database.begin() as connection:
            for event_id in ids:
                body = envelope(event_id, type_, moment, {"job_id": "ä"})
                row = EventRow(event_id, self.account, None, type_.value, body, moment, None)
                await events.insert(connection, row)
        return ids

    async def work(self, limit: int = 8) -> int:
        """Deliver what is due at this moment, once each; returns how many attempts were made."""
        made = 0
        while claimed := await self.deliverer.claim(limit):
            await asyncio.gather(*map(self.deliverer.deliver, claimed))
            made += len(claimed)
        return made

    async def newest(self, endpoint: UUID) -> DeliveryView:
        (view,) = await self.service.deliveries(self.account, endpoint, limit=1)
        return view

    async def log(self, endpoint: UUID) -> Sequence[AttemptView]:
        return await self.service.attempts(self.account, (await self.newest(endpoint)).id)


@asynccontextmanager
async def open_webhooks(url: str, **more: Any) -> AsyncIterator[Webhooks]:
    database = Database(url)
    try:
        async with database.begin() as connection:
            account = await accounts.ensure_account(connection, "a")
        yield Webhooks(database, account, **more)
    finally:
        await database.aclose()


def verify(secret: str, request: Request) -> None:
    """Let both judges verify; their tolerance reads the wall clock, which the tests have left behind."""
    for library in JUDGES:
        judge(library, secret, request.body.decode(), request.headers)


@asynccontextmanager
async def installed_webhooks(settings: Settings) -> AsyncIterator[tuple[Database, WebhookService]]:
    """Give the service of webhooks of an installation, and its database."""
    async with open_container(settings) as container:
        yield container.database, container.webhooks


def settings_with_receiver(tmp_path: Path, database_url: str, redis_url: str) -> Settings:
    """Settings under which a receiver on loopback may be a webhook."""
    return settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_url,
        sandbox={"MAILSIFT_ALLOW_NON_PUBLIC": "true"},
        webhook_allow_http=True,
    )
