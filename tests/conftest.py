"""Fixtures: one embedded PostgreSQL and Valkey for the whole run, a database without rows for every test.

Every process of every run imports this file and what it imports, so the parts of the product are imported by
the fixtures that need them.
"""

from __future__ import annotations

import atexit
import gc
import itertools
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.support.required_programs import (
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_runtest_setup,
    pytest_terminal_summary,
    pytest_testnodedown,
)
from tests.support.xdist_scheduler import pytest_xdist_make_scheduler

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from mailsift.runtime.embedded import EmbeddedServers
    from mailsift.sandbox.client import SandboxProcess
    from mailsift.settings import Settings
    from mailsift.storage.database import Connection, Database
    from tests.support.databases import Databases
    from tests.support.servers import RedisServer, Urls

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_runtest_setup",
    "pytest_terminal_summary",
    "pytest_testnodedown",
    "pytest_xdist_make_scheduler",
]

# The same few examples every time, and none is timed; `make fuzz` looks for new ones, many.
UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeatable", UNTIMED, derandomize=True, max_examples=30)
settings.register_profile(
    "fuzz", UNTIMED, derandomize=False, max_examples=2_000, database=None, print_blob=True
)
settings.load_profile("repeatable")

# httpcore asks for it with each request, and all of sys.path was looked through for what is not there.
sys.modules["sniffio"] = None  # type: ignore[assignment]

REDIS_DATABASES = 12  # of Valkey's 16; number 0 stays empty
SHARED_REDIS_DATABASES = (13, 14, 15)


def pytest_sessionstart() -> None:
    """Undo what a shell does to what it runs in the background: it ignores both, and so do the children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_collection() -> None:
    """What is imported now stays: nobody need look whether it is garbage, now or later."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    gc.set_threshold(100_000, 50, 100)  # tests leave little behind, and each look takes its time
    atexit.register(gc.freeze)  # a look at everything before the process ends is 1.4 s after ten of tests


def pytest_runtest_teardown() -> None:
    """Commands that run in this process make files private (umask 077); the next test is not concerned."""
    os.umask(0o022)


@pytest.fixture(scope="session")
def short_tmp() -> Iterator[Path]:
    """A directory with a path short enough for unix sockets."""
    folder = Path(tempfile.mkdtemp(prefix="ms-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def servers(short_tmp: Path) -> Iterator[EmbeddedServers]:
    """The servers of this run; tests take `database_url` and `redis_url` instead.

    No test pulls this machine's plug, so what is committed need not have reached the disk.
    """
    from mailsift.runtime import embedded  # noqa: PLC0415

    servers = embedded.EmbeddedServers(short_tmp / "home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(embedded.POSTGRES_SETTINGS, "fsync", "off")
        servers.start()
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def databases(servers: EmbeddedServers) -> Iterator[Databases]:
    from tests.support.databases import Databases  # noqa: PLC0415

    databases = Databases(servers)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    return itertools.count()


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """SQLAlchemy address of a migrated database without rows."""
    with databases.migrated() as url:
        yield url


@pytest.fixture
def make_settings(tmp_path: Path, database_url: str, redis_url: str) -> Callable[..., Settings]:
    """Makes settings of an installation on these servers (`settings_for`)."""
    from tests.support.installation import settings_for  # noqa: PLC0415

    return partial(settings_for, tmp_path / "home", database_url=database_url, redis_url=redis_url)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The product's view of `database_url`."""
    from mailsift.storage.database import Database  # noqa: PLC0415

    opened = Database(database_url)
    yield opened
    await opened.aclose()


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[Connection]:
    """An open transaction."""
    async with database.begin() as opened:
        yield opened


@pytest.fixture(scope="module")
def shared_servers(servers: EmbeddedServers, databases: Databases) -> Iterator[Callable[[], Urls]]:
    """Gives a migrated database and an empty Redis that tests of one module share, up to three times."""
    from tests.support.servers import Urls  # noqa: PLC0415

    places = iter(SHARED_REDIS_DATABASES)
    with ExitStack() as stack:
        yield lambda: Urls(stack.enter_context(databases.migrated()), _emptied(servers, next(places)))


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    """SQLAlchemy address of a new database without tables."""
    with databases.empty() as url:
        yield url


@pytest.fixture
def redis_url(servers: EmbeddedServers, numbers: Iterator[int]) -> str:
    """redis-py address of an empty database of the run's Valkey."""
    return _emptied(servers, 1 + next(numbers) % REDIS_DATABASES)


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    """A client of `redis_url`."""
    from mailsift.storage.redis.connection import connect  # noqa: PLC0415

    async with connect(redis_url) as client:
        yield client


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    """A mail internet of a few domains that the tests of one module share."""
    from mailsift.sandbox.client import SandboxProcess  # noqa: PLC0415

    with SandboxProcess(domains=1) as running:
        yield running


@pytest.fixture
def redis_server(short_tmp: Path, numbers: Iterator[int]) -> Iterator[RedisServer]:
    """A Valkey of the test's own, to be killed, emptied and restarted."""
    from tests.support.servers import RedisServer  # noqa: PLC0415

    server = RedisServer(short_tmp / f"redis{next(numbers)}")
    yield server
    server.stop()


def _emptied(servers: EmbeddedServers, number: int) -> str:
    import redis  # noqa: PLC0415

    url = f"{servers.redis_url}?db={number}"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url
