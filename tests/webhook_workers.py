"""Webhooks of a whole installation, for tests with real workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from events.endpoints import WebhookService
from jobs.service import JobService
from mailsift.settings import Settings
from mailsift.wiring import open_blobs, open_database, open_waker
from mailsift.wiring_webhooks import Stores, open_sender, webhook_service
from storage.database import Database
from tests.installation import settings_for


@asynccontextmanager
async def webhooks(settings: Settings, jobs: JobService) -> AsyncIterator[tuple[Database, WebhookService]]:
    """Give the service of webhooks of an installation, and its database."""
    database = open_database(settings)
    stores = Stores(database, open_blobs(settings), open_waker(settings), jobs)
    try:
        async with open_sender(settings) as sender:
            yield database, webhook_service(settings, stores, sender)
    finally:
        await database.aclose()


def settled(tmp_path: Path, database_url: str, redis_url: str) -> Settings:
    """Settings under which a receiver on loopback may be a webhook."""
    return settings_for(
        tmp_path / "home",
        database_url=database_url,
        redis_url=redis_url,
        sandbox={"MAILSIFT_ALLOW_NON_PUBLIC": "true"},
        webhook_allow_http=True,
    )
