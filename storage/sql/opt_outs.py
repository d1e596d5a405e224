"""Domains that do not want to be asked, in SQL; every process knows them within seconds."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import text

from mailsift.pipeline.background import repeating
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.opt_outs import OptOuts
from mailsift.storage.database import Connection, Database, DatabaseError, rows_as

REFRESH_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OptedOut:
    """A domain that does not want to be asked, its subdomains included."""

    domain: str
    note: str
    added_by: str
    added_at: datetime


_LIST = text("SELECT domain, note, added_by, added_at FROM opt_out ORDER BY domain")
_ADD = text("""
    INSERT INTO opt_out (domain, note, added_by) VALUES (:domain, :note, :added_by)
    ON CONFLICT (domain) DO UPDATE SET note = excluded.note
""")
_REMOVE = text("DELETE FROM opt_out WHERE domain = :domain")


async def known(connection: Connection) -> Sequence[OptedOut]:
    """Return all of them."""
    return await rows_as(OptedOut, connection, _LIST)


async def add(connection: Connection, domain: str, *, note: str, added_by: str) -> None:
    """Ask a domain nothing more."""
    await connection.execute(_ADD, {"domain": domain, "note": note, "added_by": added_by})


async def remove(connection: Connection, domain: str) -> bool:
    """Let a domain be asked again; False when it had not opted out."""
    return (await connection.execute(_REMOVE, {"domain": domain})).rowcount == 1


@asynccontextmanager
async def keep_refreshed_opt_outs(database: Database, book: OptOuts) -> AsyncIterator[None]:
    """Keep the book as the database has it; while that is away, what is known holds on."""

    async def refresh() -> None:
        try:
            book.learn(one.domain for one in await database.run(known))
        except (MailsiftError, DatabaseError) as error:
            log.debug("The opt-outs cannot be read: %s", type(error).__name__)

    await refresh()
    async with repeating(refresh, every=REFRESH_SECONDS, task="opt_outs"):
        yield
