"""Bring a database to the schema this release needs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection as SyncConnection
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Connection, driver_url, in_our_words, unavailable

if TYPE_CHECKING:
    from alembic.config import Config

_OURS = Path(__file__).parent / "migrations" / "versions"
FRESH = _OURS.with_name("schema.sql")
"""What an empty database gets: the same as by all migrations, in a third of the time."""
_MIGRATION_LOCK = 0x6D736966  # any constant: one migration at a time in one database
_IN_THE_WAY = ("55P03", "40P01")  # lock_not_available; deadlock_detected, with one who goes on without us
_TEXTS = {"client_encoding": "UTF8"}  # from a database without an encoding the driver would get bytes
_REFUSALS = ("42501", "25006")  # insufficient_privilege; read_only_sql_transaction
LOCK_SECONDS = 2  # how long one try may hold up the others
_PAUSE_SECONDS = 1.0


def alembic_config(url: str, *more: Path) -> Config:
    """Return what Alembic goes by: our migrations, and those in more folders, as a later release has them."""
    from alembic.config import Config  # noqa: PLC0415 - slow to load, and most databases are up to date

    config = Config()
    config.set_main_option("script_location", str(_OURS.parent))
    if more:
        config.set_main_option("path_separator", "os")
        config.set_main_option("version_locations", os.pathsep.join(map(str, (_OURS, *more))))
    config.attributes["url"] = driver_url(url)
    return config


def migrate(url: str, *, patience: float = 600.0, more: Sequence[Path] = ()) -> str:
    """Upgrade the database behind the URL to the newest schema; safe to call from many places at once.

    A database that a later release has already upgraded is left as it is: this release works with it.
    A change of a table waits for whoever reads it, a backup perhaps, and all others then wait for the change;
    so it waits a moment only, lets the others pass and tries again.

    Args:
        url: of the database.
        patience: seconds to keep trying.
        more: folders with migrations beside ours.

    Returns:
        The revision the database is at afterwards.

    Raises:
        MailsiftError: `database_unavailable`, `database_busy`, `database_refused`, `database_foreign`,
            `database_encoding`, `storage_full`.
    """
    ends_at = time.monotonic() + patience
    while True:
        connection = connected(url)
        try:
            return _upgrade(connection, url, more)
        except DBAPIError as error:
            state = getattr(error.orig, "sqlstate", None)
            if state in _REFUSALS:
                message, *_ = str(error.orig).partition("\n")
                reason = f"{message}. Its role must own what is there, and be allowed to change it."
                raise MailsiftError("database_refused", f"PostgreSQL says: {reason}") from error
            if state not in _IN_THE_WAY:
                with in_our_words():
                    raise
            if time.monotonic() > ends_at:
                reason = "Another transaction keeps a table the migration must change."
                raise MailsiftError("database_busy", reason, retryable=True) from error
        time.sleep(_PAUSE_SECONDS)


def connected(url: str) -> SyncConnection:
    """Open a connection that nothing shares.

    Raises:
        MailsiftError: `database_unavailable`.
    """
    try:
        return create_engine(driver_url(url), poolclass=NullPool, connect_args=_TEXTS).connect()
    except DBAPIError as error:
        raise unavailable() from error


def _upgrade(connection: SyncConnection, url: str, more: Sequence[Path]) -> str:
    with connection, connection.begin():
        connection.execute(text("SET LOCAL statement_timeout = 0"))  # what a role is given for its questions
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
        found = _revision_of(connection) or _created(connection)
        if not found.isdecimal():
            reason = "Another program’s tables are in this database: give Mailsift one of its own."
            raise MailsiftError("database_foreign", reason)
        newest = newest_revision(*more)
        if found >= newest:
            return found
        if found not in _revisions(*more):
            reason = f"It is at revision {found}, which no release has: it is from between two of them."
            raise MailsiftError("database_foreign", reason)
        from alembic import command  # noqa: PLC0415 - see alembic_config

        connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"))
        config = alembic_config(url, *more)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return newest


def _created(connection: SyncConnection) -> str:
    """Create everything in a database that was never migrated; returns the revision it is at then.

    Raises:
        MailsiftError: `database_encoding`.
    """
    encoding = connection.execute(text("SELECT current_setting('server_encoding')")).scalar_one()
    if encoding != "UTF8":
        reason = f"Its encoding is {encoding}: create a database WITH ENCODING 'UTF8' TEMPLATE template0."
        raise MailsiftError("database_encoding", reason)
    statements = FRESH.read_text(encoding="utf-8")
    connection.exec_driver_sql(statements, execution_options={"no_parameters": True})  # so they may be many
    return _revision_of(connection)


def serves(found: str) -> bool:
    """Say whether this release works with a database of that revision: its own, or a later one.

    Revisions are numbered, and each only adds to the one before. So a release works with every later schema,
    and an upgrade migrates first and then replaces process after process.
    """
    return found.isdecimal() and found >= newest_revision()


def revision(url: str) -> str:
    """Return the revision the database behind the URL is at, "" when it was never migrated.

    Raises:
        MailsiftError: `database_unavailable`, `database_refused`.
    """
    with in_our_words(), connected(url) as connection:
        return _revision_of(connection)


async def current_revision(connection: Connection) -> str:
    """Return the revision the database is at, "" when it was never migrated."""
    return await connection.run_sync(_revision_of)


async def takes_nothing(connection: Connection) -> bool:
    """Say whether the server or the role can only be read from: a standby, or after a disk was full."""
    found = await connection.execute(text("SELECT current_setting('transaction_read_only')::boolean"))
    return bool(found.scalar_one())


def _revision_of(connection: SyncConnection) -> str:
    if connection.execute(text("SELECT to_regclass('alembic_version')")).scalar_one() is None:
        return ""
    return str(connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one())


def newest_revision(*more: Path) -> str:
    """Return the revision this release expects, and whoever has more folders: the number of the last file."""
    return max(_revisions(*more))


def _revisions(*more: Path) -> set[str]:
    return {path.stem[:4] for folder in (_OURS, *more) for path in folder.glob("[0-9]*_*.py")}
