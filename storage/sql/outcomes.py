"""Outcomes of accounts in SQL: addresses stand in it as keyed digests, and sealed for exports."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection, rows_as


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """One outcome.

    Attributes:
        report: digest of what makes two reports the same one.
        address: keyed digest of the canonical address.
        sealed: the address, sealed with the account's key.
        kind, answer, rule, smtp_code, enhanced, said, origin: see mailsift.pipeline.outcomes.outcome.
        undated: whether that is when it was told, for it came without a time of its own.
    """

    report: bytes
    address: bytes
    sealed: bytes
    kind: str
    answer: str
    rule: str
    smtp_code: int
    enhanced: str
    said: str
    origin: str
    happened_at: datetime
    undated: bool


_NAMES = tuple(field.name for field in fields(OutcomeRow))
_COLUMNS = ", ".join(_NAMES)
_TYPES = ("bytea", "bytea", "bytea", *("text",) * 3, "int", *("text",) * 3, "timestamptz", "bool")
_LISTS = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in zip(_NAMES, _TYPES, strict=True))

# Who complained or unsubscribed is not sent to any more. Only a new report says so: whom the account has
# taken off the list again does not come back by one it knows. The same at the same moment is the same report,
# whoever brings it: an export, which names no messages, or a webhook and a file. Of an account that is just
# being deleted nothing is stored.
_ADD = text(f"""
    WITH added AS (
        INSERT INTO outcome (account_id, {_COLUMNS})
        SELECT kept.id, new.* FROM (SELECT id FROM account WHERE id = :account_id FOR KEY SHARE) AS kept,
            unnest({_LISTS}) AS new ({_COLUMNS})
        WHERE NOT EXISTS (
            SELECT FROM outcome o WHERE o.account_id = :account_id AND o.address = new.address
                AND o.happened_at = new.happened_at AND o.kind = new.kind AND o.answer = new.answer)
        ON CONFLICT (account_id, report) DO NOTHING
        RETURNING address, sealed, kind, origin, happened_at
    ), unwanted AS (
        INSERT INTO suppression AS s (account_id, address, sealed, reason, origin, since)
        SELECT DISTINCT ON (address) :account_id, address, sealed, kind, origin, happened_at
        FROM added WHERE kind IN ('complained', 'unsubscribed') ORDER BY address, kind, happened_at
        ON CONFLICT (account_id, address) DO UPDATE SET reason = excluded.reason
        WHERE s.reason NOT IN ('complained', excluded.reason)
    )
    SELECT count(*) FROM added
""")  # noqa: S608 - names of our own columns

# The newest of each kind and answer decides, with a time of its own or without; how many were before: no.
_OF_ADDRESSES = text(f"""
    SELECT DISTINCT ON (address, kind, answer, undated) {_COLUMNS} FROM outcome
    WHERE account_id = :account_id AND address = ANY(:addresses)
    ORDER BY address, kind, answer, undated, happened_at DESC
""")  # noqa: S608 - names of our own columns

_ALL_OF_ADDRESSES = text(f"""
    SELECT {_COLUMNS} FROM outcome WHERE account_id = :account_id AND address = ANY(:addresses)
""")  # noqa: S608 - names of our own columns

_WITH_ANY = text("""
    SELECT id FROM unnest(CAST(:accounts AS uuid[])) AS asked (id)
    WHERE EXISTS (SELECT FROM outcome WHERE account_id = id)
       OR EXISTS (SELECT FROM suppression WHERE account_id = id)
""")

_PAGE = text(f"""
    SELECT {_COLUMNS} FROM outcome
    WHERE account_id = :account_id AND (CAST(:after AS bytea) IS NULL OR report > :after)
    ORDER BY report LIMIT :limit
""")  # noqa: S608 - names of our own columns

_OLD = text("DELETE FROM outcome WHERE happened_at < clock_timestamp() - make_interval(days => :days)")

_SECRET = text("SELECT sealed FROM account_secret WHERE account_id = :account_id")

_KEEP_SECRET = text("""
    INSERT INTO account_secret (account_id, sealed)
    SELECT id, :sealed FROM account WHERE id = :account_id FOR KEY SHARE
    ON CONFLICT (account_id) DO NOTHING
""")


async def add(connection: Connection, account_id: UUID, rows: Sequence[OutcomeRow]) -> int:
    """Store outcomes; one that is there already is left as it is.

    Returns:
        How many are new.
    """
    values = {name: [getattr(row, name) for row in rows] for name in _NAMES}
    return int((await connection.execute(_ADD, {"account_id": account_id, **values})).scalar_one())


async def of_addresses(
    connection: Connection, account_id: UUID, addresses: Sequence[bytes]
) -> Sequence[OutcomeRow]:
    """Return the newest outcome of each kind and answer, of these addresses (digests)."""
    values = {"account_id": account_id, "addresses": list(addresses)}
    return await rows_as(OutcomeRow, connection, _OF_ADDRESSES, values)


async def all_of_addresses(
    connection: Connection, account_id: UUID, addresses: Sequence[bytes]
) -> Sequence[OutcomeRow]:
    """Return every outcome of these addresses (digests)."""
    values = {"account_id": account_id, "addresses": list(addresses)}
    return await rows_as(OutcomeRow, connection, _ALL_OF_ADDRESSES, values)


async def page(
    connection: Connection, account_id: UUID, *, limit: int, after: bytes | None = None
) -> Sequence[OutcomeRow]:
    """Return some of the account's outcomes behind this report, in an order that does not shift."""
    values = {"account_id": account_id, "limit": limit, "after": after}
    return await rows_as(OutcomeRow, connection, _PAGE, values)


async def accounts_with_any(connection: Connection, accounts: Collection[UUID]) -> Collection[UUID]:
    """Return those of these accounts that have any, or addresses they may not send to."""
    return (await connection.execute(_WITH_ANY, {"accounts": list(accounts)})).scalars().all()


async def purge(connection: Connection, *, days: int) -> None:
    """Delete outcomes of more than so many days ago."""
    await connection.execute(_OLD, {"days": days})


async def secret(connection: Connection, account_id: UUID) -> bytes | None:
    """Return the account's sealed key; None where it has none yet."""
    return (await connection.execute(_SECRET, {"account_id": account_id})).scalar_one_or_none()


async def keep_secret(connection: Connection, account_id: UUID, sealed: bytes) -> None:
    """Store the account's sealed key unless it has one."""
    await connection.execute(_KEEP_SECRET, {"account_id": account_id, "sealed": sealed})
