"""The tables whose statements are put together from columns: these are read from `migrations/schema.sql`."""

from __future__ import annotations

import re
import uuid
from datetime import datetime
from typing import Any, Final, TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    Table,
    Text,
    tuple_,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID
from sqlalchemy.types import TypeEngine

from mailsift.storage.schema import FRESH

S = TypeVar("S", bound=Select[Any])

_TYPES: Final[dict[str, type[TypeEngine[Any]] | TypeEngine[Any]]] = {
    "bigint": BigInteger,
    "boolean": Boolean,
    "bytea": LargeBinary,
    "double precision": Float,
    "integer": Integer,
    "jsonb": JSONB,
    "text": Text,
    "text[]": ARRAY(Text),
    "timestamp with time zone": DateTime(timezone=True),
    "uuid": UUID,
}
_TABLE: Final = re.compile(r"^CREATE TABLE (\w+) \((.*?)^\);", re.DOTALL | re.MULTILINE)
_COLUMN: Final = re.compile(r"^ +(?!CONSTRAINT )(\w+) (.+?)(?: DEFAULT .*| NOT NULL)?,?$", re.MULTILINE)
_TABLES: Final = dict(_TABLE.findall(FRESH.read_text("utf-8")))
_OTHER_NAMES: Final = {"wish": "directive"}  # the word of today: see docs/glossary.md
_metadata = MetaData()


def _table(name: str) -> Table:
    """Return a table with the columns that the schema gives it."""
    columns = _COLUMN.findall(_TABLES[name])
    return Table(
        name, _metadata, *(Column(at, _TYPES[of], key=_OTHER_NAMES.get(at, at)) for at, of in columns)
    )


account = _table("account")
job = _table("job")
event = _table("event")
endpoint = _table("endpoint")
delivery = _table("delivery")
attempt = _table("attempt")
schedule = _table("schedule")
notice = _table("notice")
person = _table("person")
member = _table("member")
session = _table("session")
link = _table("link")
audit = _table("audit")


def newest_first(
    statement: S, table: Table, limit: int, before: tuple[datetime, uuid.UUID] | None = None
) -> S:
    """Return a page of a statement: rows of a table that has `created_at` and `id`, newest first.

    Only those older than the row (created_at, id) `before`: new ones do not shift the pages.
    """
    if before is not None:
        statement = statement.where(tuple_(table.c.created_at, table.c.id) < before)
    return statement.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(limit)
