"""Where the concrete parts of webhooks and schedules meet."""

from __future__ import annotations

import random
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from events.delivery import Deliverer
from events.endpoints import WebhookService
from events.mail import Mailer
from events.names import Names
from events.notifier import Notifier
from events.own_hosts import name_in, split_hosts
from events.relay import parse_relay
from events.safe_http import SendConfig, Sender
from jobs.drafts import Drafts
from jobs.erasure import Eraser
from jobs.errands import Errands
from jobs.intake.plan import IntakeLimits
from jobs.ports import Waker
from jobs.schedule_runs import ScheduleRuns
from jobs.schedules import ScheduleService
from jobs.service import JobService
from jobs.tidy import Tidier
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
        own_names, own_addresses = split_hosts(settings.own_hosts)
        yield Sender(
            guard=AddressGuard(allow_non_public=settings.allow_non_public, denied=own_addresses),
            resolve=names.resolve,
            config=SendConfig(allow_http=settings.webhook_allow_http),
            own_names=own_names | name_in(settings.public_url),
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


def drafts_service(settings: Settings, stores: Stores) -> Drafts:
    """Return what people ask of lists they have not started."""
    return Drafts(
        database=stores.database,
        blobs=stores.blobs,
        waker=stores.waker,
        scratch=settings.home / "scratch",
        limits=IntakeLimits(rows=settings.max_rows, bytes=settings.max_bytes, columns=settings.max_columns),
        clock=system_clock,
    )


def tidier(settings: Settings, blobs: Blobs) -> Tidier:
    """Return what deletes old files of this machine."""
    return Tidier(blobs=blobs, scratch=settings.home / "scratch", clock=system_clock)


def errands(settings: Settings, stores: Stores, sender: Sender) -> Errands:
    """Return what a worker does beside chunks."""
    deliverer = Deliverer(
        database=stores.database,
        sender=sender,
        vault=open_vault(settings),
        clock=system_clock,
        random=random.Random(),
    )
    return Errands(
        deliverer=deliverer,
        chores={
            "schedule.error": _runs(settings, stores).run_due,
            "retention.error": Eraser(database=stores.database, blobs=stores.blobs).sweep,
            "tidy.error": tidier(settings, stores.blobs).sweep,
            "drafts.error": drafts_service(settings, stores).sweep,
            "notice.error": _notifier(settings, stores.database).send_due,
            "attempts.error": deliverer.purge,
        },
    )


def _notifier(settings: Settings, database: Database) -> Notifier:
    relay = settings.mail_relay and parse_relay(settings.mail_relay.get_secret_value())
    return Notifier(
        database=database,
        send=Mailer(relay, helo_name=settings.helo_name).send if relay else None,
        sender=settings.mail_sender or f"mailsift@{settings.helo_name}",
        public_url=settings.public_url,
        clock=system_clock,
    )


def _runs(settings: Settings, stores: Stores) -> ScheduleRuns:
    return ScheduleRuns(
        database=stores.database,
        blobs=stores.blobs,
        jobs=stores.jobs,
        waker=stores.waker,
        clock=system_clock,
        scratch=settings.home / "scratch",
    )
