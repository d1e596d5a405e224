"""Bring a database to the schema this release needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from storage.database import Connection, driver_url, unavailable

if TYPE_CHECKING:
    from alembic.config import Config

_MIGRATION_LOCK = 0x6D736966  # any constant: one migration at a time in one database


def _config(url: str) -> Config:
    from alembic.config import Config  # noqa: PLC0415 - Alembic is a quarter of the start of every command

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["url"] = driver_url(url)
    return config


def migrate(url: str) -> str:
    """Upgrade the database behind the URL to the newest schema; safe to call from many places at once.

    Returns:
        The revision the database is at afterwards.

    Raises:
        MailsiftError: `database_unavailable`.
    """
    from alembic import command  # noqa: PLC0415 - see _config

    config = _config(url)
    try:
        connection = create_engine(driver_url(url), poolclass=NullPool).connect()
    except OperationalError as error:
        raise unavailable() from error
    with connection, connection.begin():
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATION_LOCK})
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return newest_revision()


async def current_revision(connection: Connection) -> str:
    """Return the revision the database is at, "" when it was never migrated."""
    if (await connection.execute(text("SELECT to_regclass('alembic_version')"))).scalar_one() is None:
        return ""
    return str((await connection.execute(text("SELECT version_num FROM alembic_version"))).scalar_one())


def newest_revision() -> str:
    """Return the revision this release expects."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - see _config

    return ScriptDirectory.from_config(_config("")).get_current_head() or ""
