"""The API process: its parts on one event loop, served by uvicorn."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass

import structlog
import uvicorn
from typing_extensions import override

from api.app import create_app
from api.auth import Door, Zones
from api.keys import KeyService
from api.parts import ApiParts
from jobs.browse import Browser
from jobs.erasure import Eraser
from jobs.faults import told
from jobs.history import History
from jobs.queries import JobQueries
from jobs.service import JobService
from jobs.submissions import Submissions
from mailsift.observed import observed_api
from mailsift.peppers import peppers
from mailsift.settings import Settings
from mailsift.wiring import (
    open_blobs,
    open_database,
    open_redis,
    open_single,
    open_waker,
    scratch_folder,
)
from mailsift.wiring_operations import operations_desk
from mailsift.wiring_people import people_service
from mailsift.wiring_webhooks import (
    Stores,
    drafts_service,
    open_sender,
    schedule_service,
    tidier,
    webhook_service,
)
from pipeline.clock import system_clock
from pipeline.errors import MailsiftError
from storage.database import Database
from storage.rate_limit import RateLimit, Zone
from storage.schema import current_revision, serves

_POOL = 10
_DRAIN_SECONDS = 15
_TIDY_SECONDS = 3_600

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Keyring:
    """What makes keys and accounts: the key service and the jobs' accounts."""

    keys: KeyService
    jobs: JobService


@asynccontextmanager
async def open_parts(settings: Settings) -> AsyncIterator[ApiParts]:
    """Give the parts of the API; needs DATABASE_URL and REDIS_URL."""
    async with AsyncExitStack() as stack:
        database = open_database(settings, pool_size=_POOL)
        stack.push_async_callback(database.aclose)
        single = await stack.enter_async_context(open_single(settings, database))
        redis = open_redis(settings)
        stack.push_async_callback(redis.aclose)
        limit = RateLimit(redis)
        keys = _keys(settings, database, limit)
        stack.push_async_callback(keys.aclose)
        stores = _stores(settings, database)
        sender = await stack.enter_async_context(open_sender(settings))
        zones = Zones(requests=Zone("requests", settings.requests_per_minute, 60))
        yield ApiParts(
            door=Door(keys=keys, limit=limit, zones=zones),
            keys=keys,
            people=people_service(settings, database, limit),
            single=single,
            jobs=stores.jobs,
            queries=JobQueries(database=database, eraser=Eraser(database=database, blobs=stores.blobs)),
            submissions=Submissions(database=database, blobs=stores.blobs, waker=stores.waker),
            drafts=drafts_service(settings, stores),
            browser=Browser(database=database, blobs=stores.blobs),
            history=History(database=database),
            webhooks=webhook_service(settings, stores, sender),
            schedules=schedule_service(settings, stores),
            operations=operations_desk(settings, stores, redis),
            ready=lambda: _ready(database),
            clock=system_clock,
            max_bytes=settings.max_bytes,
        )


@asynccontextmanager
async def open_keyring(settings: Settings) -> AsyncIterator[Keyring]:
    """Give what the command line needs to make keys."""
    async with AsyncExitStack() as stack:
        database = open_database(settings)
        stack.push_async_callback(database.aclose)
        redis = open_redis(settings)
        stack.push_async_callback(redis.aclose)
        keys = _keys(settings, database, RateLimit(redis))
        stack.push_async_callback(keys.aclose)
        yield Keyring(keys, _stores(settings, database).jobs)


def _stores(settings: Settings, database: Database) -> Stores:
    blobs, waker = open_blobs(settings), open_waker(settings)
    jobs = JobService(database=database, blobs=blobs, waker=waker, scratch=scratch_folder(settings))
    return Stores(database=database, blobs=blobs, waker=waker, jobs=jobs)


def _keys(settings: Settings, database: Database, limit: RateLimit) -> KeyService:
    return KeyService(
        database=database,
        peppers=peppers(settings),
        limit=limit,
        clock=system_clock,
        choose=secrets.choice,
    )


async def _ready(database: Database) -> None:
    async with database.begin() as connection:
        found = await current_revision(connection)
    if not serves(found):
        raise MailsiftError("database_not_migrated", "The database lacks the schema of this release.")


class _Server(uvicorn.Server):
    """Says where it listens, once it does, and ends in good order."""

    def __init__(self, config: uvicorn.Config, started: Callable[[str], None]) -> None:
        super().__init__(config)
        self._told = started

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take SIGTERM as done: raised once more, it would end the process before its parts are closed."""
        with super().capture_signals():
            yield
            self._captured_signals = [one for one in self._captured_signals if one != signal.SIGTERM]

    @override
    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]  # sockets are never given
        await super().startup()
        if self.started:
            port = self.servers[0].sockets[0].getsockname()[1]
            host = self.config.host
            self._told(f"http://{f'[{host}]' if ':' in host else host}:{port}")


async def serve(
    settings: Settings, *, started: Callable[[str], None], stop: asyncio.Event | None = None
) -> None:
    """Serve the API until SIGINT, SIGTERM or `stop`.

    Args:
        settings: with the addresses of the servers set.
        started: told the address the API listens on.
        stop: ends it from within the process.

    Raises:
        MailsiftError: `port_in_use`, `otel_missing`.
    """
    async with open_parts(settings) as parts, observed_api(settings), _tidying(settings):
        config = uvicorn.Config(
            create_app(parts),
            host=settings.api_host,
            port=settings.api_port,
            log_config=None,  # its words go where ours go
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_DRAIN_SECONDS,
            h11_max_incomplete_event_size=32_768,
        )
        server = _Server(config, started)
        stopping = asyncio.create_task(_stop_when(stop or asyncio.Event(), server))
        try:
            await server.serve()
        except SystemExit:
            text = f"Nothing can listen on {settings.api_host}:{settings.api_port}."
            raise MailsiftError("port_in_use", text) from None
        finally:
            stopping.cancel()


@asynccontextmanager
async def _tidying(settings: Settings) -> AsyncIterator[None]:
    """Delete old files of this machine meanwhile: there may be no worker on it to do so."""
    files = tidier(settings, open_blobs(settings))

    async def look() -> None:
        while True:
            try:
                await files.sweep()
            except OSError as error:
                _log.warning("tidy.error", **told(error))
            await asyncio.sleep(_TIDY_SECONDS)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()


async def _stop_when(stop: asyncio.Event, server: uvicorn.Server) -> None:
    await stop.wait()
    server.should_exit = True
