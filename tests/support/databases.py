"""Databases for tests: migrated, empty, and used again, for a new one costs more than most tests do in it.

Whoever wipes one stays connected to it: a new connection reads the catalogue before it knows the tables.
"""

from __future__ import annotations

import itertools
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, LiteralString, NamedTuple, Self

import psycopg
from psycopg import sql

from mailsift.runtime.embedded import EmbeddedServers

_TEMPLATE: Final = "template_mailsift"
_ROOM: Final = 4 * 1024 * 1024  # bytes a test may leave; a database with more is not used again

_SHAPE: Final = """
SELECT md5(string_agg(
    format('%s %s %s %s %s %s', relname, attname, atttypid, attnotnull, atthasdef, rules), ','
    ORDER BY relname, attnum
))
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0
LEFT JOIN (SELECT conrelid, string_agg(conname, ' ' ORDER BY conname) AS rules FROM pg_constraint GROUP BY 1)
    ON conrelid = pg_class.oid
WHERE relnamespace = 'public'::regnamespace
"""
_REVISION: Final = "SELECT version_num FROM alembic_version"
_SIZE: Final = "SELECT pg_database_size(current_database())"
_LEAVE: Final = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_WRITTEN: Final = """
SELECT relname FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'alembic_version'
    AND pg_relation_size(oid) > 0
"""
"""Most tests write to a few tables; what was never written to is as long as nothing."""
_START_AGAIN: Final = "SELECT setval(format('%I', sequencename), 1, false) FROM pg_sequences"


class _Shape(NamedTuple):
    """What tests must leave as it is, and how much room it takes."""

    tables: str
    revision: str
    bytes: int

    @classmethod
    def of(cls, connection: psycopg.Connection) -> Self:
        rows = [connection.execute(query).fetchone() for query in (_SHAPE, _REVISION, _SIZE)]
        return cls(*[row[0] for row in rows if row is not None])


class Databases:
    """The databases of one run; whoever borrows one has it alone."""

    def __init__(self, servers: EmbeddedServers) -> None:
        self._servers = servers
        self._numbers = itertools.count()
        self._free: list[str] = []
        self._wipers: dict[str, psycopg.Connection] = {}
        self._shape: _Shape | None = None

    @contextmanager
    def migrated(self) -> Iterator[str]:
        """Give the SQLAlchemy address of a migrated database without rows."""
        if self._shape is None:
            self._shape = self._make_template()
        name = self._free.pop() if self._free else self._create(f"TEMPLATE {_TEMPLATE}")
        yield self._address(name)
        if self._wiped(name, self._shape):
            self._free.append(name)
        else:
            self._drop(name)

    @contextmanager
    def empty(self) -> Iterator[str]:
        """Give the SQLAlchemy address of a new database without tables."""
        name = self._create()
        yield self._address(name)
        self._drop(name)

    @contextmanager
    def encoded(self, encoding: LiteralString) -> Iterator[str]:
        """Give the address of a new database of another encoding than UTF-8."""
        name = self._create("ENCODING '" + encoding + "' LOCALE 'C' TEMPLATE template0")
        yield self._address(name)
        self._drop(name)

    def close(self) -> None:
        """Leave them all."""
        while self._wipers:
            self._wipers.popitem()[1].close()

    def _make_template(self) -> _Shape:
        from mailsift.storage.schema import migrate  # noqa: PLC0415 - tests without a database do not pay for it

        with self._connection("postgres") as connection:
            connection.execute(f"CREATE DATABASE {_TEMPLATE}")
        migrate(self._address(_TEMPLATE))
        with self._connection(_TEMPLATE) as connection:
            return _Shape.of(connection)

    def _create(self, how: LiteralString = "") -> str:
        name = f"test_{next(self._numbers)}"
        with self._connection("postgres") as connection:
            connection.execute(sql.SQL("CREATE DATABASE {} " + how).format(sql.Identifier(name)))
        return name

    def _drop(self, name: str) -> None:
        if wiper := self._wipers.pop(name, None):
            wiper.close()
        with self._connection("postgres") as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _wiped(self, name: str, new: _Shape) -> bool:
        """Send everybody away and delete every row; False when it is no longer what it was."""
        connection = self._wipers.get(name) or self._connection(name)
        self._wipers[name] = connection
        connection.execute(_LEAVE)
        now = _Shape.of(connection)
        if now[:2] != new[:2] or now.bytes > new.bytes + _ROOM:
            return False
        connection.execute("SET session_replication_role = replica")  # delete in whatever order
        for (table,) in connection.execute(_WRITTEN).fetchall():
            connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
        connection.execute(_START_AGAIN)
        return True

    def _address(self, name: str) -> str:
        return urllib.parse.urlsplit(self._servers.database_url)._replace(path=f"/{name}").geturl()

    def _connection(self, name: str) -> psycopg.Connection:
        return psycopg.connect(self._address(name).replace("+psycopg", ""), autocommit=True)
