"""Fixtures: one embedded PostgreSQL and Valkey for the whole run, a fresh database for every test."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from mailsift.embedded import EmbeddedServers
from tests.servers import RedisServer

TEMPLATE = "template_mailsift"
REDIS_DATABASES = 15  # of Valkey's 16; number 0 stays empty


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
    name = f"test_{next(numbers)}"
    _admin(servers, "CREATE DATABASE {} TEMPLATE {}", name, template)
    yield _named(servers.database_url, name)
    _admin(servers, "DROP DATABASE {} WITH (FORCE)", name)


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
    import redis  # noqa: PLC0415 - tests without Redis do not pay for it

    url = f"{servers.redis_url}?db={1 + next(numbers) % REDIS_DATABASES}"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url


@pytest.fixture
def redis_server(short_tmp: Path, numbers: Iterator[int]) -> Iterator[RedisServer]:
    """A Valkey of the test's own, to be killed, emptied and restarted."""
    server = RedisServer(short_tmp / f"redis{next(numbers)}")
    yield server
    server.stop()


def _named(url: str, database: str) -> str:
    return urllib.parse.urlsplit(url)._replace(path=f"/{database}").geturl()


def _admin(servers: EmbeddedServers, statement: str, *names: str) -> None:
    """Run one statement on the maintenance database; `{}` stands for a name."""
    address = _named(servers.database_url, "postgres").replace("+psycopg", "")
    with psycopg.connect(address, autocommit=True) as connection:
        # the statements are literals of this file
        query = sql.SQL(statement).format(*map(sql.Identifier, names))
        connection.execute(query)
