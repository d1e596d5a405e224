"""To whom accounts may not send, in SQL: addresses stand in it as keyed digests, and sealed for exports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection, rows_as


@dataclass(frozen=True, slots=True)
class SuppressionRow:
    """One address an account may not send to.

    Attributes:
        address: keyed digest of the canonical address.
        sealed: the address, sealed with the account's key.
        reason: see mailsift.jobs.outcomes.suppressions.
        origin: who said so.
    """

    address: bytes
    sealed: bytes
    reason: str
    origin: str
    since: datetime


_NAMES: Final = tuple(field.name for field in fields(SuppressionRow))
_COLUMNS: Final = ", ".join(_NAMES)
_TYPES: Final = ("bytea", "bytea", "text", "text", "timestamptz")
_LISTS: Final = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in zip(_NAMES, _TYPES, strict=True))

_ADD = text(f"""
    INSERT INTO suppression (account_id, {_COLUMNS})
    SELECT kept.id, new.* FROM (SELECT id FROM account WHERE id = :account_id FOR KEY SHARE) AS kept,
        unnest({_LISTS}) AS new
    ON CONFLICT (account_id, address) DO NOTHING
""")  # noqa: S608 - names of our own columns

_REASONS = text("""
    SELECT address, reason FROM suppression WHERE account_id = :account_id AND address = ANY(:addresses)
""")

_PAGE = text(f"""
    SELECT {_COLUMNS} FROM suppression
    WHERE account_id = :account_id AND (CAST(:after AS bytea) IS NULL OR address > :after)
      AND (CAST(:only AS bytea) IS NULL OR address = :only)
      AND (:reason = '' OR reason = :reason)
    ORDER BY address LIMIT :limit
""")  # noqa: S608 - names of our own columns

_COUNT = text("""
    SELECT reason, count(*) FROM suppression WHERE account_id = :account_id GROUP BY reason ORDER BY reason
""")

_REMOVE = text("DELETE FROM suppression WHERE account_id = :account_id AND address = ANY(:addresses)")


async def add(connection: Connection, account_id: UUID, rows: Sequence[SuppressionRow]) -> int:
    """Store some; one that is there already is left as it is.

    Returns:
        How many are new.
    """
    values = {name: [getattr(row, name) for row in rows] for name in _NAMES}
    return int((await connection.execute(_ADD, {"account_id": account_id, **values})).rowcount)


async def reasons(
    connection: Connection, account_id: UUID, addresses: Sequence[bytes]
) -> Sequence[tuple[bytes, str]]:
    """Return those of these addresses (digests) that are suppressed, and why."""
    values = {"account_id": account_id, "addresses": list(addresses)}
    return [(bytes(row.address), row.reason) for row in await connection.execute(_REASONS, values)]


async def page(
    connection: Connection,
    account_id: UUID,
    *,
    limit: int,
    after: bytes | None = None,
    only: bytes | None = None,
    reason: str = "",
) -> Sequence[SuppressionRow]:
    """Return some, ordered by digest, so that pages do not shift.

    Only those behind the digest `after`, the one with the digest `only`, and those with this `reason`, where
    these are named.
    """
    values = {"account_id": account_id, "limit": limit, "after": after, "only": only, "reason": reason}
    return await rows_as(SuppressionRow, connection, _PAGE, values)


async def count(connection: Connection, account_id: UUID) -> Mapping[str, int]:
    """Return how many there are by reason."""
    return {row[0]: int(row[1]) for row in await connection.execute(_COUNT, {"account_id": account_id})}


async def remove(connection: Connection, account_id: UUID, addresses: Sequence[bytes]) -> int:
    """Remove these addresses (digests); returns how many were there."""
    values = {"account_id": account_id, "addresses": list(addresses)}
    return int((await connection.execute(_REMOVE, values)).rowcount)
