"""One PostgreSQL: its connections, and transactions, run again when it asks for that, or several as one.

A statement may take as long as it takes, and is given up when its server gives no sign of life. A server that
stands still (stopped, or waiting for its disk) ends nothing, and its system goes on answering for it: only
another connection shows that nobody is there. A COMMIT that is given up may have happened, as where a
connection is lost: leases, tokens and idempotency keys fence that.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import ConnectionTimeout
from sqlalchemy import Executable, RowMapping, TextClause, event, make_url, text
from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    IntegrityError,
    InvalidatePoolError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry
from typing_extensions import override

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.states import SQL_PIECES

P = ParamSpec("P")
T = TypeVar("T")

Connection = AsyncConnection
"""An open transaction, as the functions of storage take it."""
Row = RowMapping
"""One row by column name."""
DatabaseError = SQLAlchemyError
"""Whatever goes wrong between us and the database."""
UnfitValueError = DataError
"""What a value is that the database cannot hold, today or later: a text with a NUL, a number too large."""

_before_commit: ContextVar[Callable[[AsyncConnection], Awaitable[None]] | None] = ContextVar(
    "before_commit", default=None
)


def statement(sql: str, **pieces: str) -> TextClause:
    """Return a statement with what it names in braces: lists of states (`state IN {claimable}`), and more.

    Args:
        sql: the statement.
        pieces: what only this one names, or its neighbours; they may name what every statement may.
    """
    own = {name: piece.format_map(SQL_PIECES) for name, piece in pieces.items()}
    return text(sql.format_map({**SQL_PIECES, **own}))


def from_row(kind: Callable[..., T], row: Mapping[Any, Any], **made: Any) -> T:
    """Return a dataclass made of a row.

    Args:
        kind: the dataclass; each of its fields is the column of its name.
        row: may have more columns.
        made: fields that are no column, or more than its bare value.
    """
    return kind(**{name: row[name] for name in _columns_of(kind) if name not in made}, **made)


@cache
def _columns_of(kind: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))  # type: ignore[arg-type]  # it is a dataclass


async def rows_as(
    kind: Callable[..., T], connection: Connection, query: Executable, values: Mapping[str, Any] | None = None
) -> list[T]:
    """Return the rows that a query finds, each as what `kind` makes of its columns by their names."""
    return [kind(**row) for row in (await connection.execute(query, values)).mappings()]


async def row_as(
    kind: Callable[..., T], connection: Connection, query: Executable, values: Mapping[str, Any] | None = None
) -> T | None:
    """Return the one row that a query finds, in the same way; None where it finds none."""
    row = (await connection.execute(query, values)).mappings().one_or_none()
    return kind(**row) if row else None


@contextmanager
def before_commit(do: Callable[[AsyncConnection], Awaitable[None]]) -> Iterator[None]:
    """Do something at the end of every transaction that is begun in this block, as a part of it."""
    token = _before_commit.set(do)
    try:
        yield
    finally:
        _before_commit.reset(token)


_NOW = text("SELECT extract(epoch FROM clock_timestamp())::float8")


_RETRY_STATES = frozenset({"40P01", "40001"})  # deadlock detected, serialization failure
_TRIES = 5


class Database:
    """The truth.

    Args:
        url: `postgresql+psycopg://…`; a plain `postgresql://` is understood too.
        pool_size: connections that this process opens and keeps at most; each costs the server megabytes.
        patience: seconds to wait for one of them while all are in use.
    """

    def __init__(self, url: str, *, pool_size: int = 4, patience: float = 30.0) -> None:
        # An overflow would be closed after each use, and to connect costs more than most transactions.
        self._engine = create_async_engine(
            driver_url(url),
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=patience,
            pool_use_lifo=True,
            connect_args=_connect_args(url) | {"async_creator_fn": _WatchedServer().connect},
        )
        _speak_plainly(self._engine)
        _check_connections(self._engine)
        _leave_read_only(self._engine)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction; it commits when the block ends and rolls back when the block raises.

        Raises:
            MailsiftError: `database_unavailable` when no connection can be had (also because a server that
                says nothing holds all of ours), it breaks, or the server stands still, ends what takes too
                long or is in another's way, can only be read from or has trouble with its disk or itself,
                `storage_full` when it has no room, `database_not_migrated` when a table or column of this
                release is missing, `database_refused` when our role may not do this (any more),
                `account_not_found` when the account that a new row is of was deleted meanwhile.
        """
        try:
            connection = await self._engine.connect()
        except (DBAPIError, PoolTimeoutError) as error:
            raise unavailable() from error
        try:
            with in_our_words():
                async with connection.begin():
                    yield connection
                    if last := _before_commit.get():
                        await last(connection)
        finally:
            await connection.close()

    async def now(self) -> float:
        """Return the server's time, which all machines share: seconds since the epoch."""
        async with self.begin() as connection:
            return float((await connection.execute(_NOW)).scalar_one())

    async def run(
        self,
        transaction: Callable[Concatenate[AsyncConnection, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run the whole transaction with these arguments, again when PostgreSQL breaks a deadlock with it."""
        for left in reversed(range(_TRIES)):
            try:
                async with self.begin() as connection:
                    return await transaction(connection, *args, **kwargs)
            except MailsiftError as error:
                if not left or _state_of(error.__cause__) not in _RETRY_STATES:
                    raise
        raise AssertionError("unreachable")

    async def aclose(self) -> None:
        """Close every connection."""
        await self._engine.dispose()


def driver_url(url: str) -> str:
    """Return the URL with the one driver of the house."""
    scheme, separator, rest = url.partition("://")
    return f"postgresql+psycopg{separator}{rest}" if scheme in {"postgresql", "postgres"} else url


_GONE_AFTER: Final = {
    "connect_timeout": 10,  # seconds, as the keepalives are
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,  # milliseconds
}
"""When a machine that vanished without a word (a power cut, a firewall) is given up: before leases end."""


def _connect_args(url: str) -> dict[str, int | str]:
    """Return when a server that says nothing counts as gone, where the address does not say so itself."""
    args: dict[str, int | str] = {**_GONE_AFTER, "client_encoding": "utf8"}
    return {name: value for name, value in args.items() if name not in make_url(url).query}


_SESSION: Final = (
    "SET TIME ZONE 'UTC'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres';"
    " SET default_transaction_isolation = 'read committed'; SET standard_conforming_strings = on"
)


def _speak_plainly(engine: AsyncEngine) -> None:
    """Set what our statements and psycopg go by.

    Else a server, a role, a database or the environment (PGDATESTYLE) may have a zone of its own, or another
    way to write dates, to read a backslash or to keep transactions apart.
    """

    @event.listens_for(engine.sync_engine, "connect")
    def set_up(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        cursor.execute(_SESSION)
        cursor.execute("SELECT pg_backend_pid()")
        (server,) = cursor.fetchone() or (0,)
        cursor.close()
        connection.commit()  # else it ends with the transaction it was said in
        driver = connection.driver_connection
        if server != driver.info.backend_pid:
            # A pooler stands between: where each transaction gets another connection, what was prepared is
            # missing, or a stranger's statement has its name.
            driver.prepare_threshold = None


_ALIVE_SECONDS: Final = 5.0
"""A connection that was used so lately, and on which the server has said nothing since, is asked for no sign
of life: a server that ends says so, and a question to it costs as much as most statements."""


def _check_connections(engine: AsyncEngine) -> None:
    """Let the pool forget its connections when the one that is to be used is dead."""

    @event.listens_for(engine.sync_engine, "checkin")
    def remember(_: object, record: ConnectionPoolEntry) -> None:
        record.info["used_at"] = time.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def check(connection: DBAPIConnection, record: ConnectionPoolEntry, _: object) -> None:
        used_at = record.info.get("used_at", float("inf"))  # a new one is not there yet
        if time.monotonic() - used_at < _ALIVE_SECONDS and not _has_spoken(record.driver_connection):
            return
        try:
            connection.run_async(_ping)
        except (psycopg.Error, TimeoutError) as error:
            raise InvalidatePoolError from error


_PING_SECONDS: Final = 5.0
"""How long a server may take for a sign of life: one that stands still holds its connections for ever."""


async def _ping(connection: psycopg.AsyncConnection[Any]) -> None:
    """Ask for a sign of life, outside a transaction.

    Raises:
        psycopg.Error, TimeoutError: there is none.
    """
    await connection.set_autocommit(True)
    async with asyncio.timeout(_PING_SECONDS):
        await connection.execute("")
    await connection.set_autocommit(False)


_READ_ONLY = "25006"


def _leave_read_only(engine: AsyncEngine) -> None:
    """Let the pool forget its connections when the server takes nothing.

    After a failover they may lead to what was the primary, while new ones lead to what is.
    """

    @event.listens_for(engine.sync_engine, "handle_error")
    def look_at(context: ExceptionContext) -> None:
        if getattr(context.original_exception, "sqlstate", None) == _READ_ONLY:
            context.is_disconnect = True


def _has_spoken(connection: Any) -> bool:
    """Say whether there is something to read on psycopg's connection, or it is gone."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


_LOOK_SECONDS: Final = 5


class _WatchedServer:
    """One server, and a look whether it answers anybody, which all who wait for it share."""

    def __init__(self) -> None:
        self._address: dict[str, Any] = {}
        self._looking: asyncio.Task[bool] | None = None

    async def connect(self, **address: Any) -> psycopg.AsyncConnection[Any]:
        """Make a connection that breaks while it waits for an answer and nobody is there."""
        self._address = {**address, "connect_timeout": _LOOK_SECONDS}
        connection = await _WatchedConnection.connect(**address)
        connection.server = self
        return connection

    async def is_there(self) -> bool:
        """Say whether it says anything: that it has no room for us, or is starting, is an answer."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(self._looking)

    async def _look(self) -> bool:
        try:
            connection = await psycopg.AsyncConnection.connect(**self._address)
        except psycopg.Error as error:
            return not isinstance(error, ConnectionTimeout)
        ends = asyncio.get_running_loop().call_later(_LOOK_SECONDS, _hang_up, connection)
        try:
            await connection.execute("")  # a pooler that stands between lets us in by itself
        except psycopg.Error:
            return not connection.broken
        finally:
            ends.cancel()
            await connection.close()
        return True


_LONG_SECONDS: Final = 10.0
"""Who has waited so long for an answer looks whether the server is there, and again after so long."""


class _WatchedConnection(psycopg.AsyncConnection[Any]):
    """A connection that breaks, as one that is lost does, while it waits for a server that is not there."""

    server: _WatchedServer

    @override
    async def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        """Wait for the server; psycopg waits here for everything once it is connected."""
        watch: list[asyncio.Task[None]] = []
        begin = asyncio.get_running_loop().call_later(
            _LONG_SECONDS, lambda: watch.append(asyncio.create_task(self._watch()))
        )
        try:
            return await super().wait(gen, *args, **kwargs)
        finally:
            begin.cancel()
            for task in watch:
                task.cancel()

    async def _watch(self) -> None:
        while True:
            if not await self.server.is_there():
                return _hang_up(self)
            await asyncio.sleep(_LONG_SECONDS)


def _hang_up(connection: psycopg.AsyncConnection[Any]) -> None:
    """End a connection under the library's hands: to cancel what waits there would ask the same server."""
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


_MISSING_STATES = frozenset({"42P01", "42703"})  # undefined table, undefined column
_NO_PRIVILEGE = "42501"


@contextmanager
def in_our_words() -> Iterator[None]:
    """Raise a MailsiftError for what a database says that is no fault of ours (`Database.begin`)."""
    try:
        yield
    except DBAPIError as error:
        if (translated := _not_ready(error) or _outage(error) or _account_gone(error)) is None:
            raise
        raise translated from error


def _not_ready(error: DBAPIError) -> MailsiftError | None:
    """Return what we say of a database that no operator made ready for us; None: the fault is ours."""
    state = _state_of(error)
    if state in _MISSING_STATES:
        text = "The database lacks the schema of this release: run mailsift migrate."
        return MailsiftError("database_not_migrated", text, retryable=True)
    if state == _NO_PRIVILEGE:
        text = "The database doesn’t allow that to Mailsift’s role, which must own what is there."
        return MailsiftError("database_refused", text, retryable=True)
    return None


_DISK_FULL = "53100"
_OUTAGES = (
    "53",  # no means left
    "57P",  # an operator stops the server,
    "57014",  # or what it was busy with; so does statement_timeout
    "55P03",  # lock_timeout
    "58",  # its disk fails, or is not there,
    "XX",  # or has given it back what it never wrote, as a page or an index that makes no sense
    "08",  # the connection broke
)


def _outage(error: DBAPIError) -> MailsiftError | None:
    """Return what we say of a server that goes away, gives up or lacks means; None: it is another error."""
    state = _state_of(error)
    if state == _DISK_FULL:
        text = (
            "There is no room left where the database lies, so nothing was changed. Send this again later; "
            "operators make room on the disk of PostgreSQL."
        )
        return MailsiftError("storage_full", text, retryable=True)
    gives_up = state in _RETRY_STATES or state.startswith(_OUTAGES)
    return unavailable() if error.connection_invalidated or gives_up else None


def _state_of(error: BaseException | None) -> str:
    """Return the SQLSTATE that the server ended a statement with, "" when it did not."""
    return getattr(getattr(error, "orig", None), "sqlstate", None) or ""


_OF_ACCOUNT: Final = ("_account_id_fkey", "_test_of_fkey")
"""How the constraints end by which a row is of an account."""


def _account_gone(error: DBAPIError) -> MailsiftError | None:
    """Return what we say of a row whose account is there no more; None: it is another error."""
    constraint = getattr(getattr(error.orig, "diag", None), "constraint_name", None) or ""
    if not isinstance(error, IntegrityError) or not constraint.endswith(_OF_ACCOUNT):
        return None
    return MailsiftError("account_not_found", "The account has been deleted.")


def unavailable() -> MailsiftError:
    """Return the error for a database that cannot be reached."""
    return MailsiftError("database_unavailable", "The database isn’t responding.", retryable=True)


def sentence_of(error: MailsiftError) -> str:
    """Return what an error says to who runs this installation: also what keeps us from the database.

    Customers are not told: it names roles, databases and hosts. It never names a password.
    """
    cause, *_ = str(getattr(error.__cause__, "orig", "")).partition("\n")
    return f"No connection to PostgreSQL: {_LOUD.sub('', cause)}." if cause else error.message


_LOUD: Final = re.compile(r"^connection (?:failed|is bad): |\.$")


@dataclass(slots=True, eq=False)
class _PendingCall:
    """What somebody wants to be done, in his context, and what came of it."""

    transaction: Callable[[Connection], Awaitable[Any]]
    context: Context
    is_over: bool = False
    found: Any = None
    error: Exception | None = None

    async def on(self, connection: Connection) -> Any:
        async def do() -> Any:
            return await self.transaction(connection)

        return await asyncio.create_task(do(), context=self.context)

    def end(self, found: Any, error: Exception | None = None) -> None:
        self.is_over, self.found, self.error = True, found, error


@dataclass(slots=True, eq=False)
class _CommitQueue:
    """Those who wait, and whoever works for them."""

    waiting: list[_PendingCall] = field(default_factory=list)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


_GROUP: Final = 32
"""So many calls share one transaction, and wait for each other."""


class GroupCommits:
    """Runs transactions as `Database.run` does, one commit for all that are wanted at the same time.

    Each is all or nothing, by itself: where one fails, all of them are run again, each alone. So they are
    short, and like all transactions can be run again.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queues: dict[Hashable, _CommitQueue] = {}

    async def run(self, key: Hashable, transaction: Callable[[Connection], Awaitable[T]]) -> T:
        """Run a transaction, together with others of its key if there are any.

        Args:
            key: what only those share that lock the same rows, in whatever order.
            transaction: what is done; it sees what others of its group have done.

        Raises:
            Exception: what the transaction raises, and `Database.run`.
        """
        if _before_commit.get() is not None:  # which is to be done at the end of this one, and nobody else's
            return await self._database.run(transaction)
        queue = self._queues.setdefault(key, _CommitQueue())
        call = _PendingCall(transaction, copy_context())
        queue.waiting.append(call)
        try:
            async with queue.turn:
                while not call.is_over:
                    await self._run_some(queue)
        finally:
            if call in queue.waiting:  # cancelled
                queue.waiting.remove(call)
            if not queue.waiting:
                self._queues.pop(key, None)
        if call.error is not None:
            raise call.error
        found: T = call.found
        return found

    async def _run_some(self, queue: _CommitQueue) -> None:
        group, queue.waiting = queue.waiting[:_GROUP], queue.waiting[_GROUP:]
        try:
            if len(group) == 1 or not await self._run_together(group):
                await asyncio.gather(*map(self._run_alone, group))
        finally:  # who works for the others may be cancelled; then another of them goes on
            queue.waiting = [call for call in group if not call.is_over] + queue.waiting

    async def _run_together(self, group: list[_PendingCall]) -> bool:
        """Run them all in one transaction; False when that fails, with nothing done."""

        async def one_by_one(connection: Connection) -> list[Any]:
            return [await call.on(connection) for call in group]

        try:
            found = await self._database.run(one_by_one)
        except Exception:  # noqa: BLE001 - whosever it is: alone, it will come again
            return False
        for call, outcome in zip(group, found, strict=True):
            call.end(outcome)
        return True

    async def _run_alone(self, call: _PendingCall) -> None:
        try:
            call.end(await self._database.run(call.on))
        except Exception as error:  # noqa: BLE001 - it is for who called
            call.end(None, error)
