"""Fixtures: one embedded PostgreSQL and Valkey for the whole run, a fresh database for every test."""

from __future__ import annotations

import itertools
import shutil
import signal
import tempfile
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from mailsift.embedded import EmbeddedServers
from tests.needed import (
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_runtest_setup,
    pytest_terminal_summary,
)
from tests.servers import RedisServer, Urls
from tests.together import pytest_xdist_make_scheduler

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_runtest_setup",
    "pytest_terminal_summary",
    "pytest_xdist_make_scheduler",
]

TEMPLATE = "template_mailsift"
REDIS_DATABASES = 12  # of Valkey's 16; number 0 stays empty
SHARED_REDIS_DATABASES = (13, 14, 15)


def pytest_sessionstart() -> None:
    """Undo what a shell does to what it runs in the background: SIGINT is ignored, by the children, too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def short_tmp() -> Iterator[Path]:
    """A directory with a path short enough for unix sockets."""
    folder = Path(tempfile.mkdtemp(prefix="ms-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def servers(short_tmp: Path) -> Iterator[EmbeddedServers]:
    """The servers of this run; tests take `database_url` and `redis_url` instead."""
    with EmbeddedServers(short_tmp / "home") as running:
        yield running


@pytest.fixture(scope="session")
def template(servers: EmbeddedServers) -> str:
    """Name of a migrated, empty database."""
    from storage.schema import migrate  # noqa: PLC0415 - tests without a database do not pay for it

    _admin(servers, "CREATE DATABASE {}", TEMPLATE)
    migrate(_named(servers.database_url, TEMPLATE))
    return TEMPLATE


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    return itertools.count()


@pytest.fixture
def database_url(servers: EmbeddedServers, template: str, numbers: Iterator[int]) -> Iterator[str]:
    """SQLAlchemy address of a fresh, migrated database."""
    with _migrated(servers, template, numbers) as url:
        yield url


@pytest.fixture(scope="module")
def shared_servers(
    servers: EmbeddedServers, template: str, numbers: Iterator[int]
) -> Iterator[Callable[[], Urls]]:
    """Gives a migrated database and an empty Redis that tests of one module share, up to three times."""
    places = iter(SHARED_REDIS_DATABASES)
    with ExitStack() as stack:
        yield lambda: Urls(
            stack.enter_context(_migrated(servers, template, numbers)), _emptied(servers, next(places))
        )


@pytest.fixture
def empty_database_url(servers: EmbeddedServers, numbers: Iterator[int]) -> Iterator[str]:
    """SQLAlchemy address of a fresh database without tables."""
    name = f"test_{next(numbers)}"
    _admin(servers, "CREATE DATABASE {}", name)
    yield _named(servers.database_url, name)
    _admin(servers, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture
def redis_url(servers: EmbeddedServers, numbers: Iterator[int]) -> str:
    """redis-py address of an empty database of the run's Valkey."""
    return _emptied(servers, 1 + next(numbers) % REDIS_DATABASES)


@pytest.fixture
def redis_server(short_tmp: Path, numbers: Iterator[int]) -> Iterator[RedisServer]:
    """A Valkey of the test's own, to be killed, emptied and restarted."""
    server = RedisServer(short_tmp / f"redis{next(numbers)}")
    yield server
    server.stop()


@contextmanager
def _migrated(servers: EmbeddedServers, template: str, numbers: Iterator[int]) -> Iterator[str]:
    name = f"test_{next(numbers)}"
    _admin(servers, "CREATE DATABASE {} TEMPLATE {}", name, template)
    yield _named(servers.database_url, name)
    _admin(servers, "DROP DATABASE {} WITH (FORCE)", name)


def _emptied(servers: EmbeddedServers, number: int) -> str:
    import redis  # noqa: PLC0415 - tests without Redis do not pay for it

    url = f"{servers.redis_url}?db={number}"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url


def _named(url: str, database: str) -> str:
    return urllib.parse.urlsplit(url)._replace(path=f"/{database}").geturl()


def _admin(servers: EmbeddedServers, statement: str, *names: str) -> None:
    """Run one statement on the maintenance database; `{}` stands for a name."""
    address = _named(servers.database_url, "postgres").replace("+psycopg", "")
    with psycopg.connect(address, autocommit=True) as connection:
        # the statements are literals of this file
        query = sql.SQL(statement).format(*map(sql.Identifier, names))
        connection.execute(query)
