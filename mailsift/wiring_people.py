"""Where the concrete parts of people meet."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from api.people import People, make_people
from mailsift.settings import Settings
from mailsift.wiring import open_database, open_redis
from pipeline.clock import system_clock
from storage.database import Database
from storage.rate_limit import RateLimit


def people_service(settings: Settings, database: Database, limit: RateLimit) -> People:
    """Return what is asked about people."""
    return make_people(
        database, limit, clock=system_clock, token=secrets.token_bytes, public_url=settings.public_url
    )


@asynccontextmanager
async def open_people(settings: Settings) -> AsyncIterator[People]:
    """Give what the command line asks about people; needs DATABASE_URL and REDIS_URL."""
    async with AsyncExitStack() as stack:
        database = open_database(settings)
        stack.push_async_callback(database.aclose)
        redis = open_redis(settings)
        stack.push_async_callback(redis.aclose)
        yield people_service(settings, database, RateLimit(redis))


def page_address(settings: Settings, path: str) -> str:
    """Return the address of a page for people: below PUBLIC_URL, else where the API listens."""
    host = f"[{settings.api_host}]" if ":" in settings.api_host else settings.api_host
    return (settings.public_url or f"http://{host}:{settings.api_port}") + path
