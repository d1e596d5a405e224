"""Bring a database to the schema this release needs."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from storage.database import Connection, driver_url

_MIGRATION_LOCK = 0x6D736966  # any constant: one migration at a time in one database


def _config(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["url"] = driver_url(url)
    return config


def migrate(url: str) -> str:
    """Upgrade the database behind the URL to the newest schema; safe to call from many places at once.

    Returns:
        The revision the database is at afterwards.
    """
    config = _config(url)
    engine = create_engine(driver_url(url), poolclass=NullPool)
    with engine.begin() as connection:
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
    return ScriptDirectory.from_config(_config("")).get_current_head() or ""
