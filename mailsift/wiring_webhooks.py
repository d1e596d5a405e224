"""Where the concrete parts of webhooks and schedules meet."""

from __future__ import annotations

import random
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from events.delivery import Deliverer
from events.endpoints import WebhookService
from events.names import Names
from events.safe_http import SendConfig, Sender
from jobs.errands import Errands
from jobs.ports import Waker
from jobs.queries import JobQueries
from jobs.schedule_runs import ScheduleRuns
from jobs.schedules import ScheduleService
from jobs.service import JobService
from mailsift.secret_keys import open_vault
from mailsift.settings import Settings
from pipeline.clock import system_clock
from pipeline.guard import AddressGuard
from storage.blobs import Blobs
from storage.database import Database


@dataclass(frozen=True, slots=True)
class Stores:
    """What the services of one process share."""

    database: Database
    blobs: Blobs
    waker: Waker
    jobs: JobService


@asynccontextmanager
async def open_sender(settings: Settings) -> AsyncIterator[Sender]:
    """Give what makes the requests."""
    async with AsyncExitStack() as stack:
        names = Names(settings.dns_servers)
        stack.push_async_callback(names.aclose)
        yield Sender(
            guard=AddressGuard(allow_non_public=settings.allow_non_public),
            resolve=names.resolve,
            config=SendConfig(allow_http=settings.webhook_allow_http),
        )


def webhook_service(settings: Settings, stores: Stores, sender: Sender) -> WebhookService:
    """Return what people ask of webhooks."""
    return WebhookService(
        database=stores.database,
        sender=sender,
        vault=open_vault(settings),
        clock=system_clock,
        token=secrets.token_bytes,
        wake=stores.waker.wake,
    )


def schedule_service(settings: Settings, stores: Stores) -> ScheduleService:
    """Return what people ask of schedules."""
    return ScheduleService(database=stores.database, runs=_runs(settings, stores), clock=system_clock)


def errands(settings: Settings, stores: Stores, sender: Sender) -> Errands:
    """Return what a worker does beside chunks."""
    deliverer = Deliverer(
        database=stores.database,
        sender=sender,
        vault=open_vault(settings),
        clock=system_clock,
        random=random.Random(),
    )
    queries = JobQueries(database=stores.database, blobs=stores.blobs)
    return Errands(deliverer=deliverer, runs=_runs(settings, stores), queries=queries)


def _runs(settings: Settings, stores: Stores) -> ScheduleRuns:
    return ScheduleRuns(
        database=stores.database,
        blobs=stores.blobs,
        jobs=stores.jobs,
        waker=stores.waker,
        clock=system_clock,
        scratch=settings.home / "scratch",
    )
