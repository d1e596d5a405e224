"""Where the concrete parts of the operator's desk meet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from jobs.operations.console import World
from jobs.operations.desk import Operations, operations
from jobs.service import JobService
from jobs.tasks import QUEUE
from mailsift.settings import Settings
from mailsift.wiring import open_blobs, open_database, open_redis, open_waker, scratch_folder, source_labels
from mailsift.wiring_webhooks import Stores
from pipeline.clock import system_clock
from pipeline.providers import Providers
from storage.redis import Client


def operations_desk(settings: Settings, stores: Stores, redis: Client) -> Operations:
    """Return the operator's desk over these stores."""
    world = World(Providers.load(settings.overrides), source_labels(settings), QUEUE)
    return operations(
        database=stores.database,
        redis=redis,
        jobs=stores.jobs,
        waker=stores.waker,
        world=world,
        clock=system_clock,
    )


@asynccontextmanager
async def open_operations(settings: Settings) -> AsyncIterator[Operations]:
    """Give the operator's desk to the command line; needs DATABASE_URL and REDIS_URL."""
    async with AsyncExitStack() as stack:
        database = open_database(settings)
        stack.push_async_callback(database.aclose)
        redis = open_redis(settings)
        stack.push_async_callback(redis.aclose)
        blobs, waker = open_blobs(settings), open_waker(settings)
        jobs = JobService(database=database, blobs=blobs, waker=waker, scratch=scratch_folder(settings))
        yield operations_desk(settings, Stores(database, blobs, waker, jobs), redis)
