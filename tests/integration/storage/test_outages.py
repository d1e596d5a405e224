"""What a transaction says when the server goes away in its middle, or has no room."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import date, timedelta
from typing import Any
from unittest.mock import AsyncMock

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import make_url, text

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage import schema
from mailsift.storage.database import Database
from mailsift.storage.schema import migrate, revision
from tests.support.connections import talking

_FAIL = "DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{state}'; END $$"


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("53100", "storage_full"),
        ("53300", "database_unavailable"),
        ("57P01", "database_unavailable"),
        ("57014", "database_unavailable"),  # statement_timeout, or an operator ended what it was busy with
        ("55P03", "database_unavailable"),  # lock_timeout
        ("40P01", "database_unavailable"),  # a deadlock, or
        ("40001", "database_unavailable"),  # a standby that has to go on: what is not tried again here
        ("58030", "database_unavailable"),  # an error of its disk
        ("58P01", "database_unavailable"),  # which is not mounted
        ("XX000", "database_unavailable"),  # an error in itself, or
        ("XX001", "database_unavailable"),  # a page that its disk has damaged
        ("42P01", "database_not_migrated"),  # a table or
        ("42703", "database_not_migrated"),  # a column is missing until an operator has migrated
        ("42501", "database_refused"),  # a restored backup, perhaps, is another role's
    ],
)
async def test_a_server_without_means_is_an_outage(database_url: str, state: str, code: str) -> None:
    database = Database(database_url)
    with pytest.raises(MailsiftError) as caught:
        async with database.begin() as connection:
            await connection.execute(text(_FAIL.format(state=state)))
    assert (caught.value.code, caught.value.retryable) == (code, True)
    await database.aclose()


@pytest.mark.parametrize("ask", [migrate, revision])
@pytest.mark.parametrize(("state", "code"), [("53100", "storage_full"), ("57P01", "database_unavailable")])
def test_a_server_that_goes_while_its_schema_is_read_is_an_outage(
    database_url: str, monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], str], state: str, code: str
) -> None:
    fail = text(_FAIL.format(state=state))
    monkeypatch.setattr(schema, "_revision_of", lambda connection: connection.execute(fail))
    with pytest.raises(MailsiftError) as caught:
        ask(database_url)
    assert (caught.value.code, caught.value.retryable) == (code, True)


async def test_a_connection_that_breaks_in_a_transaction_is_an_outage(database_url: str) -> None:
    database = Database(database_url)

    async def broken() -> None:
        async with database.begin() as connection:
            pid = (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one()
            async with database.begin() as other:
                await other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
            await connection.execute(text("SELECT 1"))

    with pytest.raises(MailsiftError) as caught:
        await broken()
    assert (caught.value.code, caught.value.retryable) == ("database_unavailable", True)
    async with database.begin() as connection:
        assert (await connection.execute(text("SELECT 1"))).scalar_one() == 1
    await database.aclose()


async def test_a_connection_that_the_server_ended_while_nobody_used_it_is_replaced(database_url: str) -> None:
    database, operator = Database(database_url), Database(database_url)
    async with database.begin() as connection:
        pid = (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one()
    async with operator.begin() as connection:
        await connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
    async with database.begin() as connection:
        assert (await connection.execute(text("SELECT pg_backend_pid()"))).scalar_one() != pid
    await database.aclose()
    await operator.aclose()


async def test_a_server_that_holds_every_connection_is_an_outage(database_url: str) -> None:
    database = Database(database_url, pool_size=2, patience=0.01)
    async with database.begin(), database.begin():
        with pytest.raises(MailsiftError) as caught:
            async with database.begin():
                pass
    assert (caught.value.code, caught.value.retryable) == ("database_unavailable", True)
    await database.aclose()


async def test_a_server_that_takes_nothing_is_an_outage_and_asked_by_new_connections(
    empty_database_url: str,
) -> None:
    """After a failover, what is kept would go to the server that was the primary, for ever."""

    async def become(connection: psycopg.AsyncConnection[Any], value: str) -> None:
        here = sql.Identifier(connection.info.dbname)
        setting = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}")
        await connection.execute(setting.format(here, sql.SQL(value)))

    plain = empty_database_url.replace("+psycopg", "")
    async with await psycopg.AsyncConnection.connect(plain, autocommit=True) as operator:
        await become(operator, "on")
        database = Database(empty_database_url, pool_size=2)
        async with database.begin(), database.begin():  # both are kept
            pass
        with pytest.raises(MailsiftError) as caught:
            async with database.begin() as connection:
                await connection.execute(text("CREATE TABLE a (b integer)"))
        assert (caught.value.code, caught.value.retryable) == ("database_unavailable", True)
        await become(operator, "off")
        async with database.begin() as one, database.begin() as other:
            await one.execute(text("CREATE TABLE a (b integer)"))
            await other.execute(text("CREATE TABLE c (d integer)"))
        await database.aclose()


FOREIGN_HABITS = {
    "timezone": "Asia/Kolkata",
    "datestyle": "German",
    "intervalstyle": "iso_8601",
    "default_transaction_isolation": "serializable",
    "standard_conforming_strings": "off",
}


async def test_what_is_read_does_not_depend_on_the_habits_of_the_server_or_the_environment(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(empty_database_url.replace("+psycopg", ""), autocommit=True) as connection:
        here = sql.Identifier(connection.info.dbname)
        for habit, value in FOREIGN_HABITS.items():
            connection.execute(sql.SQL("ALTER DATABASE {} SET {} = {}").format(here, sql.SQL(habit), value))
    for name, value in (
        ("PGDATESTYLE", "SQL, DMY"),
        ("PGTZ", "Asia/Kolkata"),
        ("PGCLIENTENCODING", "LATIN1"),
    ):
        monkeypatch.setenv(name, value)
    database = Database(empty_database_url)
    digests = {"digest": b"\x01", "digests": [b"\x01"]}
    for _ in range(2):  # the connection is used again
        async with database.begin() as connection:
            row = (await connection.execute(text(_HABITS), digests)).one()
        assert (row.at.utcoffset(), row.day) == (timedelta(0), date(2025, 12, 31))
        assert (row.span, row.word, row.level) == (timedelta(days=1, hours=2), "Łódź", "read committed")
        assert row.known
    await database.aclose()


_HABITS = """
SELECT now() AS at, timestamptz '2025-12-31 20:00Z'::date AS day, interval '1 day 2 hours' AS span,
    'Łódź' AS word, current_setting('transaction_isolation') AS level,
    CAST(:digest AS bytea) = ANY(:digests) AS known
"""


async def test_the_environment_tells_libpq_nothing_of_the_embedded_server(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        *(("PGHOST", "192.0.2.1"), ("PGPORT", "1"), ("PGUSER", "x"), ("PGPASSWORD", "x")),
        *(("PGOPTIONS", "-csearch_path=pg_catalog"), ("PGSSLMODE", "require"), ("PGGSSENCMODE", "require")),
        *(("PGCHANNELBINDING", "require"), ("PGTARGETSESSIONATTRS", "standby")),
        *(("PGREQUIREAUTH", "scram-sha-256"), ("PGSSLNEGOTIATION", "direct"), ("PGSSLCERTMODE", "require")),
        *(("PGSSLROOTCERT", "system"), ("PGSSLMAXPROTOCOLVERSION", "TLSv1.1")),
    ):
        monkeypatch.setenv(name, value)
    database = Database(database_url)
    async with database.begin() as connection:
        assert (await connection.execute(text("SELECT count(*) FROM job"))).scalar_one() == 0
    await database.aclose()


@asynccontextmanager
async def _standing_still(database_url: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """Stand before the server; gives our address, and what lets it go on while set."""
    url, goes_on = make_url(database_url), asyncio.Event()
    name = f".s.PGSQL.{url.query['port']}"

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while some := await source.read(65_536):
            await goes_on.wait()
            target.write(some)
        target.close()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, onward = await asyncio.open_unix_connection(f"{url.query['host']}/{name}")
        try:
            await asyncio.gather(copy(reader, onward), copy(there, writer))
        finally:
            onward.close()
            await onward.wait_closed()

    async with talking(talk) as port:
        here = url.difference_update_query(["host", "port"]).set(host="127.0.0.1", port=port)
        goes_on.set()
        yield here.render_as_string(hide_password=False), goes_on


async def test_a_server_that_stands_still_holds_nobody_for_ever(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped, or waiting for its disk: its system still answers for it, so that no connection breaks."""
    monkeypatch.setattr("mailsift.storage.database._ALIVE_SECONDS", 0.0)
    monkeypatch.setattr("mailsift.storage.database._PING_SECONDS", 0.1)
    monkeypatch.setattr(psycopg.AsyncConnection, "_try_cancel", AsyncMock())  # it would wait for five seconds
    async with _standing_still(database_url) as (url, goes_on):
        database = Database(f"{url}&connect_timeout=2")
        async with database.begin() as connection:
            await connection.execute(text("SELECT 1"))
        goes_on.clear()
        with pytest.raises(MailsiftError) as caught:
            await asyncio.wait_for(database.now(), 30)
        assert (caught.value.code, caught.value.retryable) == ("database_unavailable", True)
        goes_on.set()
        assert await database.now()
        await database.aclose()


@pytest.mark.parametrize("asked", ["SELECT pg_sleep(0)", "COPY (SELECT 1) TO STDOUT", "COMMIT"])
async def test_a_statement_under_way_ends_when_its_server_stands_still(
    database_url: str, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setattr("mailsift.storage.database._LONG_SECONDS", 0.05)
    monkeypatch.setattr("mailsift.storage.database._LOOK_SECONDS", 2)
    async with _standing_still(database_url) as (url, goes_on):
        database = Database(url)

        async def under_way() -> None:
            async with database.begin() as connection:
                await connection.execute(text("SELECT 1"))
                goes_on.clear()
                if asked != "COMMIT":  # which comes by itself
                    await connection.execute(text(asked))

        with pytest.raises(MailsiftError) as caught:
            await asyncio.wait_for(under_way(), 30)
        assert (caught.value.code, caught.value.retryable) == ("database_unavailable", True)
        goes_on.set()
        assert await database.now()
        await database.aclose()


async def test_a_statement_that_takes_long_ends_when_it_is_done(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailsift.storage.database._LONG_SECONDS", 0.02)
    database = Database(database_url)
    async with database.begin() as connection:
        assert (await connection.execute(text("SELECT 1 FROM pg_sleep(0.3)"))).scalar_one() == 1
    await database.aclose()


async def test_a_server_that_accepts_and_says_nothing_is_an_outage() -> None:
    async def say_nothing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            pass

    async with talking(say_nothing) as port:
        database = Database(f"postgresql://me@127.0.0.1:{port}/mailsift?connect_timeout=2")
        with pytest.raises(MailsiftError) as caught:
            async with database.begin():
                pass
        assert (caught.value.code, caught.value.retryable) == ("database_unavailable", True)
        await database.aclose()
