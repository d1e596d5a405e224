"""Single parts of an installation, for who looks at it from outside; whoever opens one closes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from mailsift.container import Container, open_container
from mailsift.jobs.waker import Waker
from mailsift.settings import Settings
from mailsift.storage.blobs import Blobs
from mailsift.storage.database import Connection, Database
from mailsift.storage.redis.connection import Client


def open_database(settings: Settings) -> Database:
    return Container(settings, AsyncExitStack()).database


@asynccontextmanager
async def transaction(settings: Settings) -> AsyncIterator[Connection]:
    """Give an open transaction on the installation's database, and close what that took."""
    async with open_container(settings) as container, container.database.begin() as connection:
        yield connection


def open_redis(settings: Settings) -> Client:
    return Container(settings, AsyncExitStack()).redis


def open_waker(settings: Settings) -> Waker:
    return Container(settings, AsyncExitStack()).waker


def open_blobs(settings: Settings) -> Blobs:
    """Open the store without a database that it would ask whether there are lists."""
    return Container(settings.model_copy(update={"database_url": None}), AsyncExitStack()).blobs
