"""Stores and databases of other people, from which lists come and to which results go.

Objects are s3://, gs:// and az://, queries and tables are postgresql://.
"""

from __future__ import annotations

import asyncio
import csv
import io
import os
import re
import select
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import obstore
import psycopg
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import from_url
from psycopg import AsyncConnection, pq, sql
from psycopg.adapt import AdaptersMap, Buffer, Loader
from psycopg.conninfo import make_conninfo
from psycopg.postgres import types
from psycopg.pq import PollingStatus
from typing_extensions import override

from mailsift.pipeline.errors import MailsiftError, SuspectError
from mailsift.storage.blobs import put_in_parts, read_whole, reason_of

LONGEST_READ: Final = timedelta(seconds=30)
"""In which a request ends that reads; one for the rest follows (mailsift.storage.blobs.read_whole)."""
_LONGEST_WRITE: Final = timedelta(minutes=5)
"""In which a part is sent, one of two at a time, mostly of 5 MiB: the library does not see how far."""
_RETRIES: Final = 3
_PLAIN_HTTP: Final = "allow_http"  # beside the credentials of a store in one's own house
_AZURE: Final = "az://"
_NO_CREDENTIALS: Final = re.compile("token request|/latest/api/token")
"""How it shows that there are none: then the library asks the cloud of this machine for some."""


async def read_object(url: str, config: Mapping[str, str]) -> AsyncIterator[bytes]:
    """Yield an object piece by piece.

    Args:
        url: `s3://bucket/key`, `gs://bucket/key`, `az://account/container/key`; a key has no empty part.
        config: credentials and whatever else the store is to be told; what it lacks the environment has.

    Raises:
        MailsiftError: `place_not_found`, `place_refused`, `place_unavailable` (retryable).
    """
    store, key = _open_object_store(url, config, LONGEST_READ)
    with _store_errors():
        async for piece in read_whole(store, key):
            yield piece


async def write_object(url: str, config: Mapping[str, str], source: Path) -> None:
    """Write a file as an object; whoever reads it finds all of it or what was there before.

    Raises:
        MailsiftError: see `read_object`.
    """
    store, key = _open_object_store(url, config, _LONGEST_WRITE)
    with _store_errors():
        await put_in_parts(store, key, source)


async def matching_objects(pattern: str, config: Mapping[str, str]) -> list[str]:
    """Return the URLs of the objects that match a pattern with `*` in its key, sorted.

    As in names of files `*` stands for letters within a folder, and `**/` for any folders or none.

    Raises:
        MailsiftError: see `read_object`.
    """
    bucket, prefix = _split_object_url(pattern.partition("*")[0].rpartition("/")[0])
    with _store_errors():
        found = await obstore.list(
            _object_store(bucket, config, LONGEST_READ), prefix or None
        ).collect_async()
    wanted = _split_object_url(pattern)[1]
    return sorted(f"{bucket}/{meta['path']}" for meta in found if is_object_like(wanted, meta["path"]))


_WILDCARD: Final = re.compile(r"(\*\*/|\*+)")


def is_object_like(pattern: str, key: str) -> bool:
    """Say whether a pattern means an object; each of its parts goes through the key once."""
    ends = {0}  # where what has been read of the pattern may end in the key
    for part in filter(None, _WILDCARD.split(pattern)):
        behind = range(min(ends, default=len(key)) + 1, len(key) + 1)
        if part == "*":
            ends = _with_rest_of_folder(key, ends)
        elif part == "**":
            ends.update(behind)
        elif part == "**/":
            ends.update(at for at in behind if key[at - 1] == "/")
        else:
            ends = {at + len(part) for at in ends if key.startswith(part, at)}
    return len(key) in ends


def _with_rest_of_folder(key: str, ends: set[int]) -> set[int]:
    """Return these places in a key, and those behind each of them in the same folder."""
    found = set(ends)
    for at, letter in enumerate(key):
        if at in found and letter != "/":
            found.add(at + 1)
    return found


def _open_object_store(url: str, config: Mapping[str, str], longest: timedelta) -> tuple[Any, str]:
    bucket, key = _split_object_url(url)
    with _store_errors():
        return _object_store(bucket, config, longest), key


def _split_object_url(url: str) -> tuple[str, str]:
    """Part a URL into its bucket or container and the object's key, which is what it says letter by letter.

    The library reads a path as browsers do: there `%2e%2e` leads out of a folder that an account may use.
    """
    names = url.split("/")
    depth = 4 if url.startswith(_AZURE) else 3
    return "/".join(names[:depth]), "/".join(names[depth:])


def _object_store(url: str, config: Mapping[str, str], longest: timedelta) -> Any:
    """Return a store whose requests take no longer than that, nor begin anew later."""
    if url.startswith(_AZURE):  # to the library its account is no part of a URL
        account, _, container = url.removeprefix(_AZURE).partition("/")
        url, config = f"{_AZURE}{container}", {"account_name": account, **config}
    known: Any = {name: value for name, value in config.items() if name != _PLAIN_HTTP}
    client: Any = {"timeout": longest} | ({_PLAIN_HTTP: True} if config.get(_PLAIN_HTTP) == "true" else {})
    retries: Any = {"max_retries": _RETRIES, "retry_timeout": longest}
    return from_url(url, config=known or None, client_options=client, retry_config=retries)


@contextmanager
def _store_errors() -> Iterator[None]:
    """Turn a store's errors into ours; their texts name requests, and may quote keys."""
    try:
        yield
    except FileNotFoundError:
        raise MailsiftError("place_not_found", "There is no such object.") from None
    except (PermissionDeniedError, UnauthenticatedError, PermissionError):
        raise MailsiftError("place_refused", "The store refuses our credentials.") from None
    except (BaseError, OSError) as error:
        text = f"The store does not do its part: {reason_of(error)}."
        if _NO_CREDENTIALS.search(str(error)):
            text = "There are no credentials for the store: set them in the environment, or in a connection."
        raise MailsiftError("place_unavailable", text, retryable=True) from None
    except BaseException as error:
        # A name the library does not know makes it panic, and what is raised then is no Exception.
        if isinstance(error, ValueError | TypeError) or type(error).__name__ == "PanicException":
            raise MailsiftError(
                "place_refused", "The connection has an option the store doesn’t know."
            ) from None
        raise


_JOB_COLUMN: Final = "mailsift_job"
"""The column of a table of results that says which job a row comes from."""

TAKEN_NAMES: Final = frozenset({_JOB_COLUMN, "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
"""Names that a column of a list cannot have in a table: ours, and those of PostgreSQL's own columns."""

_MOST_OF_ROW: Final = 60_000
"""Bytes of a row: lists have no longer lines, nor cells."""

_CONNECT_SECONDS: Final = 10
_PIECE: Final = 1 << 20
_ANY_TYPE: Final = 0
_ENCODING: Final = "UTF8"
_REFUSED: Final = ("28", "42501", "3D000")
"""SQLSTATEs, or how they begin, of who may not come in, may not do that, or asks for no database there is."""
_SHUT_OUT: Final = re.compile(
    r"FATAL: .*(?:authentication failed|does not exist|not permitted|permission denied|pg_hba|parameter)"
    r"|no password supplied|invalid (?:connection option|\w+ value)"
)
"""What is said of the same before there is a connection, should we find no state, and of options that libpq
cannot read."""
_ENDED: Final = "57014"
"""SQLSTATE of a statement that the database ends before it is done."""
LOCK_TIMEOUT: Final = "10s"
"""For so long a table is waited for that is in other hands; then others have their turn."""
_ALIVE: Final[Mapping[str, str]] = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",  # milliseconds
}
"""A server that is gone without a word is missed in a minute; by itself the system asks after two hours."""


class _TextLoader(Loader):
    """Reads a value as the text the database writes.

    Python has no infinite days, no months and no 24:00, and shows JSON and arrays in a manner of its own.
    """

    @override
    def load(self, data: Buffer) -> str:
        return bytes(data).decode(errors="replace")  # a database without an encoding may hold any bytes


class _BooleanLoader(Loader):
    """Reads a boolean as every other list writes it."""

    @override
    def load(self, data: Buffer) -> str:
        return "true" if data == b"t" else "false"


def _text_loaders() -> AdaptersMap:
    loaders = AdaptersMap(types=types)
    loaders.register_loader(_ANY_TYPE, _TextLoader)
    loaders.register_loader("bool", _BooleanLoader)
    return loaders


async def read_query(url: str, credentials: Mapping[str, str], query: str) -> AsyncIterator[bytes]:
    """Yield what a query gives, as CSV with a header, row by row from the server, which may change nothing.

    Values are the texts that the server writes, booleans `true` and `false`. Of a row that is longer than the
    line of a list may be, the longest are cut, and end in `…`.

    Args:
        url: of the database, without credentials.
        credentials: user, password and whatever else a connection string may hold.
        query: one SELECT.

    Raises:
        MailsiftError: `place_refused` for credentials or a query that the server refuses, `place_timeout` for
            one that it ends before it is done, `place_unavailable` (both retryable).
    """
    with _database_errors():
        connecting = _connect(url, credentials, _text_loaders())
        async with await connecting as connection, connection.cursor() as cursor:
            await connection.set_read_only(True)
            pending = io.StringIO()
            writer = csv.writer(pending)
            named = False
            async for row in cursor.stream(_as_subquery(query), size=1_000):
                if not named:
                    writer.writerow([column.name for column in cursor.description or ()])
                    named = True
                writer.writerow(_fitting(["" if value is None else value for value in row]))
                if pending.tell() > _PIECE:
                    yield pending.getvalue().encode()
                    pending.seek(0)
                    pending.truncate()
            yield pending.getvalue().encode()


def _fitting(row: list[str]) -> list[str]:
    """Return a row of which the longest texts are cut where it is too long."""
    if sum(map(len, row)) < _MOST_OF_ROW // 4:  # bytes of a character, or of two quotes
        return row
    sizes = [len(text.encode()) + text.count('"') for text in row]
    most = left = _MOST_OF_ROW
    for others, size in zip(range(len(row), 0, -1), sorted(sizes), strict=True):
        most = left // others  # for each that is not smaller
        if size > most:
            break
        left -= size
    pairs = zip(row, sizes, strict=True)
    return [text if size <= most else f"{_cut(text, most // 2)}…" for text, size in pairs]


def _cut(text: str, most: int) -> str:
    return text.encode()[:most].decode(errors="ignore")


def _as_subquery(query: str) -> bytes:
    """Return a statement in which only a SELECT fits; it is sent by the protocol that takes but one."""
    return b"SELECT * FROM (%b\n) AS list" % query.strip().removesuffix(";").encode()


async def write_table(
    url: str,
    credentials: Mapping[str, str],
    table: str,
    columns: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[Any]],
    *,
    job: UUID,
) -> None:
    """Add a job's rows to a table, which is made when it is missing: all of them or none, once however often.

    Args:
        url: of the database, without credentials.
        credentials: as for `read_query`.
        table: its name, perhaps behind that of its schema and a full stop.
        columns: names and SQL types; none of TAKEN_NAMES, and no two alike in the 63 bytes that are kept.
            The first column of the table, _JOB_COLUMN, is not among them.
        rows: a value for each column.
        job: rows of the same job that are there already are replaced.

    Raises:
        MailsiftError: see `read_query`.
    """
    where = sql.Identifier(*table.split("."))
    defined = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in columns]
    names = [sql.Identifier(name) for name in (_JOB_COLUMN, *(name for name, _ in columns))]
    with _database_errors():
        async with await _connect(url, credentials) as connection, connection.cursor() as cursor:
            await cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
            # Even where there is one, CREATE asks whether we might make it; who fills it need not.
            await cursor.execute("SELECT to_regclass(%s)", [where.as_string(connection)])
            if await cursor.fetchone() == (None,):
                made = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({} uuid NOT NULL, {})")
                rest = sql.SQL(", ").join(defined)
                await cursor.execute(made.format(where, sql.Identifier(_JOB_COLUMN), rest))
            # A worker that was given up for dead may write the same rows at this moment.
            await cursor.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(where))
            gone = sql.SQL("DELETE FROM {} WHERE {} = %s").format(where, sql.Identifier(_JOB_COLUMN))
            await cursor.execute(gone, [job])
            statement = sql.SQL("COPY {} ({}) FROM STDIN").format(where, sql.SQL(", ").join(names))
            async with cursor.copy(statement) as copy:
                for row in rows:
                    await copy.write_row((job, *row))


async def _connect(
    url: str, credentials: Mapping[str, str], loaders: AdaptersMap | None = None
) -> AsyncConnection[Any]:
    options = {**_ALIVE, **credentials, "client_encoding": _ENCODING}
    info = make_conninfo(url, connect_timeout=_CONNECT_SECONDS, **options)
    try:
        return await AsyncConnection.connect(info, context=loaders)
    except psycopg.OperationalError as error:
        if _ANSWER in str(error):  # the server has refused us
            state = await asyncio.to_thread(_state_of_refusal, info, _CONNECT_SECONDS)
            with suppress(KeyError):
                raise psycopg.errors.lookup(state) from error
        raise


@contextmanager
def _database_errors() -> Iterator[None]:
    """Turn a database's errors into ours; their texts quote queries and rows."""
    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate or ""
        if state == _ENDED:
            text = (
                "The database ended the query before it was done: it may take longer than statement_timeout."
            )
            raise SuspectError("place_timeout", text) from None
        if state.startswith(_REFUSED) or (state and not isinstance(error, psycopg.OperationalError)):
            text = f"The database refuses that (SQLSTATE {state})."
            raise MailsiftError("place_refused", text) from None
        if not state and _SHUT_OUT.search(str(error)):
            text = "The database doesn’t let us in: is it the right one, and the connection as it should be?"
            raise MailsiftError("place_refused", text) from None
        text = f"The database does not answer (SQLSTATE {state or 'unknown'})."
        raise MailsiftError("place_unavailable", text, retryable=True) from None


_ANSWER: Final = ":  "
"""What stands between the severity and the words of a server in the driver's text, and nowhere else."""
_EVENTS: Final[Mapping[int, int]] = {
    PollingStatus.READING: select.POLLIN,
    PollingStatus.WRITING: select.POLLOUT,
}
_STATE: Final = re.compile(rb'\tErrorResponse\t.*? C "([0-9A-Z]{5})"')


def _state_of_refusal(info: str, seconds: float) -> str:
    """Connect once more, with a trace of what is said, and return the SQLSTATE in it; "" when there is none.

    The driver tells only the words of a server that refuses, in any language. It blocks its thread for so
    many seconds at most. The trace, which may hold a password, stays in memory.
    """
    if not hasattr(os, "memfd_create"):  # nor is there a trace outside Linux
        return ""
    trace = os.memfd_create("trace")
    try:
        connection = pq.PGconn.connect_start(info.encode())
        connection.trace(trace)
        _wait(connection, time.monotonic() + seconds)
        connection.untrace()  # writes what it has
        connection.finish()
        os.lseek(trace, 0, os.SEEK_SET)
        found = _STATE.search(os.read(trace, os.fstat(trace).st_size))
    finally:
        os.close(trace)
    return found[1].decode() if found else ""


def _wait(connection: pq.abc.PGconn, until: float) -> None:
    """Go on until there is a connection, or none."""
    while (left := until - time.monotonic()) > 0:
        event = _EVENTS.get(connection.connect_poll())
        if event is None:
            return
        ready = select.poll()
        ready.register(connection.socket, event)
        ready.poll(left * 1_000)
