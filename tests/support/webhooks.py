"""Everything between an event and its receiver, for tests: the parts are real, the clock is the test's."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID, uuid4

from mailsift.container import Container, OtherParts, open_container
from mailsift.events.delivery import Deliverer
from mailsift.events.endpoints import AttemptView, DeliveryView, WebhookService
from mailsift.events.payloads import EventType, envelope
from mailsift.pipeline.clock import system_clock
from mailsift.settings import Settings
from mailsift.storage.database import Database
from mailsift.storage.sql import accounts, deliveries
from mailsift.storage.sql.deliveries import EndpointLimits, EventRow
from tests.support.installation import settings_for
from tests.support.receiver import Request
from tests.support.webhook_judges import JUDGES, judge

_NOBODY = ("127.0.0.1:1",)  # who is asked for names unless a test says otherwise
_UNHURRIED = EndpointLimits(rate=1e6)  # no test waits for a bucket it did not ask for


@dataclass
class Webhooks:
    """Everything between an event and its receiver, with a clock that only the test moves."""

    now: float = field(default_factory=system_clock)
    woken: int = 0
    container: Container = field(init=False)
    account: UUID = field(init=False)

    async def wake(self, count: int) -> None:
        self.woken += count

    @property
    def database(self) -> Database:
        return self.container.database

    @property
    def service(self) -> WebhookService:
        return self.container.webhooks

    @property
    def deliverer(self) -> Deliverer:
        return self.container.deliverer

    async def happen(self, count: int = 1, type_: EventType = EventType.COMPLETED) -> list[UUID]:
        """Let events happen; returns their ids."""
        ids = [uuid4() for _ in range(count)]
        now = datetime.fromtimestamp(self.now, UTC)
        async with self.database.begin() as connection:
            for event_id in ids:
                body = envelope(event_id, type_, now, {"job_id": "ä"})
                row = EventRow(event_id, self.account, None, type_.value, body, now, None)
                await deliveries.insert_event(connection, row)
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
async def open_webhooks(
    url: str, *, limits: EndpointLimits = _UNHURRIED, timeout_s: float = 10.0, **settings: Any
) -> AsyncIterator[Webhooks]:
    """Open an installation of webhooks on this database; receivers on loopback may be registered.

    Args:
        url: of the database.
        limits: how much one webhook gets.
        timeout_s: for a whole request.
        settings: others than usual.
    """
    hooks = Webhooks()
    other = OtherParts(
        clock=lambda: hooks.now,
        waker=hooks,
        requests={"timeout_s": timeout_s},
        endpoint_limits=limits,
        random=random.Random(1),
    )
    usual: dict[str, Any] = {"allow_non_public": True, "webhook_allow_http": True, "dns_servers": _NOBODY}
    with TemporaryDirectory() as home:
        known = settings_for(Path(home), database_url=url, sandbox={}, **usual | settings)
        async with open_container(known, other=other) as hooks.container:
            async with hooks.database.begin() as connection:
                hooks.account = await accounts.ensure_account(connection, "a")
            yield hooks


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
