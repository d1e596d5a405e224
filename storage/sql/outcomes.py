"""Outcomes in SQL: what accounts were told, to whom they may not send for it, and where mail senders post it.

Addresses stand in it as keyed digests, and sealed for exports.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection, from_row, rows_as


def _columns_of(row: type[Any], types: Sequence[str]) -> tuple[tuple[str, ...], str, str]:
    """Return the names of a row's columns; the same as SQL names them; and as parameters, a list for each."""
    names = tuple(one.name for one in fields(row))
    lists = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in zip(names, types, strict=True))
    return names, ", ".join(names), lists


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


_OUTCOME_NAMES, _OUTCOME_COLUMNS, _OUTCOME_LISTS = _columns_of(
    OutcomeRow, ("bytea", "bytea", "bytea", *("text",) * 3, "int", *("text",) * 3, "timestamptz", "bool")
)

# Who complained or unsubscribed is not sent to any more. Only a new report says so: whom the account has
# taken off the list again does not come back by one it knows. The same at the same moment is the same report,
# whoever brings it: an export, which names no messages, or a webhook and a file. Of an account that is just
# being deleted nothing is stored.
_ADD_OUTCOMES = text(f"""
    WITH added AS (
        INSERT INTO outcome (account_id, {_OUTCOME_COLUMNS})
        SELECT kept.id, new.* FROM (SELECT id FROM account WHERE id = :account_id FOR KEY SHARE) AS kept,
            unnest({_OUTCOME_LISTS}) AS new ({_OUTCOME_COLUMNS})
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


async def add_outcomes(connection: Connection, account_id: UUID, rows: Sequence[OutcomeRow]) -> int:
    """Store outcomes; one that is there already is left as it is.

    Returns:
        How many are new.
    """
    values = {name: [getattr(row, name) for row in rows] for name in _OUTCOME_NAMES}
    return int((await connection.execute(_ADD_OUTCOMES, {"account_id": account_id, **values})).scalar_one())


# The newest of each kind and answer decides, with a time of its own or without; how many were before: no.
_OF_ADDRESSES = text(f"""
    SELECT DISTINCT ON (address, kind, answer, undated) {_OUTCOME_COLUMNS} FROM outcome
    WHERE account_id = :account_id AND address = ANY(:addresses)
    ORDER BY address, kind, answer, undated, happened_at DESC
""")  # noqa: S608 - names of our own columns


async def of_addresses(
    connection: Connection, account_id: UUID, addresses: Sequence[bytes]
) -> Sequence[OutcomeRow]:
    """Return the newest outcome of each kind and answer, of these addresses (digests)."""
    values = {"account_id": account_id, "addresses": list(addresses)}
    return await rows_as(OutcomeRow, connection, _OF_ADDRESSES, values)


_ALL_OF_ADDRESSES = text(f"""
    SELECT {_OUTCOME_COLUMNS} FROM outcome WHERE account_id = :account_id AND address = ANY(:addresses)
""")  # noqa: S608 - names of our own columns


async def all_of_addresses(
    connection: Connection, account_id: UUID, addresses: Sequence[bytes]
) -> Sequence[OutcomeRow]:
    """Return every outcome of these addresses (digests)."""
    values = {"account_id": account_id, "addresses": list(addresses)}
    return await rows_as(OutcomeRow, connection, _ALL_OF_ADDRESSES, values)


_PAGE_OF_OUTCOMES = text(f"""
    SELECT {_OUTCOME_COLUMNS} FROM outcome
    WHERE account_id = :account_id AND (CAST(:after AS bytea) IS NULL OR report > :after)
    ORDER BY report LIMIT :limit
""")  # noqa: S608 - names of our own columns


async def page_of_outcomes(
    connection: Connection, account_id: UUID, *, limit: int, after: bytes | None = None
) -> Sequence[OutcomeRow]:
    """Return some of the account's outcomes behind this report, in an order that does not shift."""
    values = {"account_id": account_id, "limit": limit, "after": after}
    return await rows_as(OutcomeRow, connection, _PAGE_OF_OUTCOMES, values)


_WITH_ANY = text("""
    SELECT id FROM unnest(CAST(:accounts AS uuid[])) AS asked (id)
    WHERE EXISTS (SELECT FROM outcome WHERE account_id = id)
       OR EXISTS (SELECT FROM suppression WHERE account_id = id)
""")


async def accounts_with_any(connection: Connection, accounts: Collection[UUID]) -> Collection[UUID]:
    """Return those of these accounts that have any, or addresses they may not send to."""
    return (await connection.execute(_WITH_ANY, {"accounts": list(accounts)})).scalars().all()


_PURGE_OUTCOMES = text(
    "DELETE FROM outcome WHERE happened_at < clock_timestamp() - make_interval(days => :days)"
)


async def purge_outcomes(connection: Connection, *, days: int) -> None:
    """Delete outcomes of more than so many days ago."""
    await connection.execute(_PURGE_OUTCOMES, {"days": days})


_ACCOUNT_SECRET = text("SELECT sealed FROM account_secret WHERE account_id = :account_id")


async def account_secret(connection: Connection, account_id: UUID) -> bytes | None:
    """Return the account's sealed key; None where it has none yet."""
    return (await connection.execute(_ACCOUNT_SECRET, {"account_id": account_id})).scalar_one_or_none()


_KEEP_ACCOUNT_SECRET = text("""
    INSERT INTO account_secret (account_id, sealed)
    SELECT id, :sealed FROM account WHERE id = :account_id FOR KEY SHARE
    ON CONFLICT (account_id) DO NOTHING
""")


async def keep_account_secret(connection: Connection, account_id: UUID, sealed: bytes) -> None:
    """Store the account's sealed key unless it has one."""
    await connection.execute(_KEEP_ACCOUNT_SECRET, {"account_id": account_id, "sealed": sealed})


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


_SUPPRESSION_NAMES, _SUPPRESSION_COLUMNS, _SUPPRESSION_LISTS = _columns_of(
    SuppressionRow, ("bytea", "bytea", "text", "text", "timestamptz")
)

_ADD_SUPPRESSIONS = text(f"""
    INSERT INTO suppression (account_id, {_SUPPRESSION_COLUMNS})
    SELECT kept.id, new.* FROM (SELECT id FROM account WHERE id = :account_id FOR KEY SHARE) AS kept,
        unnest({_SUPPRESSION_LISTS}) AS new
    ON CONFLICT (account_id, address) DO NOTHING
""")  # noqa: S608 - names of our own columns


async def add_suppressions(connection: Connection, account_id: UUID, rows: Sequence[SuppressionRow]) -> int:
    """Store some; one that is there already is left as it is.

    Returns:
        How many are new.
    """
    values = {name: [getattr(row, name) for row in rows] for name in _SUPPRESSION_NAMES}
    return int((await connection.execute(_ADD_SUPPRESSIONS, {"account_id": account_id, **values})).rowcount)


_SUPPRESSION_REASONS = text("""
    SELECT address, reason FROM suppression WHERE account_id = :account_id AND address = ANY(:addresses)
""")


async def suppression_reasons(
    connection: Connection, account_id: UUID, addresses: Sequence[bytes]
) -> Sequence[tuple[bytes, str]]:
    """Return those of these addresses (digests) that are suppressed, and why."""
    values = {"account_id": account_id, "addresses": list(addresses)}
    return [
        (bytes(row.address), row.reason) for row in await connection.execute(_SUPPRESSION_REASONS, values)
    ]


_PAGE_OF_SUPPRESSIONS = text(f"""
    SELECT {_SUPPRESSION_COLUMNS} FROM suppression
    WHERE account_id = :account_id AND (CAST(:after AS bytea) IS NULL OR address > :after)
      AND (CAST(:only AS bytea) IS NULL OR address = :only)
      AND (:reason = '' OR reason = :reason)
    ORDER BY address LIMIT :limit
""")  # noqa: S608 - names of our own columns


async def page_of_suppressions(
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
    return await rows_as(SuppressionRow, connection, _PAGE_OF_SUPPRESSIONS, values)


_COUNT_SUPPRESSIONS = text("""
    SELECT reason, count(*) FROM suppression WHERE account_id = :account_id GROUP BY reason ORDER BY reason
""")


async def count_suppressions(connection: Connection, account_id: UUID) -> Mapping[str, int]:
    """Return how many there are by reason."""
    return {
        row[0]: int(row[1])
        for row in await connection.execute(_COUNT_SUPPRESSIONS, {"account_id": account_id})
    }


_REMOVE_SUPPRESSIONS = text(
    "DELETE FROM suppression WHERE account_id = :account_id AND address = ANY(:addresses)"
)


async def remove_suppressions(connection: Connection, account_id: UUID, addresses: Sequence[bytes]) -> int:
    """Remove these addresses (digests); returns how many were there."""
    values = {"account_id": account_id, "addresses": list(addresses)}
    return int((await connection.execute(_REMOVE_SUPPRESSIONS, values)).rowcount)


@dataclass(frozen=True, slots=True)
class NewReceiver:
    """A receiver to be.

    Attributes:
        id, account_id: its own and its owner's.
        sender: who posts there, see mailsift.pipeline.outcomes.senders.SenderKind.
        secret: sealed.
        topic: the only ARN that SNS may send for, "" for others.
    """

    id: UUID
    account_id: UUID
    sender: str
    name: str
    secret: bytes
    topic: str


@dataclass(frozen=True, slots=True)
class ReceiverRow(NewReceiver):
    """A receiver.

    Attributes:
        created_at, heard_at: when it was made, and last heard something it believed.
        taken, refused, malformed: outcomes that were new; requests that were not believed or not read.
    """

    created_at: datetime
    heard_at: datetime | None
    taken: int
    refused: int
    malformed: int


_ADD_RECEIVER = text("""
    INSERT INTO receiver (id, account_id, sender, name, secret, topic)
    VALUES (:id, :account_id, :sender, :name, :secret, :topic) RETURNING *
""")


async def add_receiver(connection: Connection, row: NewReceiver) -> ReceiverRow:
    """Store a receiver."""
    return from_row(ReceiverRow, (await connection.execute(_ADD_RECEIVER, asdict(row))).mappings().one())


_RECEIVERS_OF_ACCOUNT = text("SELECT * FROM receiver WHERE account_id = :account_id ORDER BY created_at, id")


async def receivers_of_account(connection: Connection, account_id: UUID) -> Sequence[ReceiverRow]:
    """Return the receivers of an account, oldest first."""
    found = await connection.execute(_RECEIVERS_OF_ACCOUNT, {"account_id": account_id})
    return [from_row(ReceiverRow, row) for row in found.mappings()]


_RECEIVERS_BY_ID = text("SELECT * FROM receiver WHERE id = ANY(:ids)")


async def receivers_by_id(connection: Connection, ids: Collection[UUID]) -> Mapping[UUID, ReceiverRow]:
    """Return those of these receivers that exist, by id."""
    found = (await connection.execute(_RECEIVERS_BY_ID, {"ids": list(ids)})).mappings()
    return {row["id"]: from_row(ReceiverRow, row) for row in found}


_CHANGE_RECEIVER = text("UPDATE receiver SET secret = :secret, topic = :topic WHERE id = :id RETURNING *")


async def change_receiver(
    connection: Connection, receiver_id: UUID, secret: bytes, topic: str
) -> ReceiverRow:
    """Store what a receiver believes from now on."""
    values = {"id": receiver_id, "secret": secret, "topic": topic}
    return from_row(ReceiverRow, (await connection.execute(_CHANGE_RECEIVER, values)).mappings().one())


_REMOVE_RECEIVER = text("DELETE FROM receiver WHERE id = :id AND account_id = :account_id")


async def remove_receiver(connection: Connection, account_id: UUID, receiver_id: UUID) -> bool:
    """Delete a receiver; what it brought stays."""
    return (
        await connection.execute(_REMOVE_RECEIVER, {"id": receiver_id, "account_id": account_id})
    ).rowcount == 1


_COUNT_RECEIVED = text("""
    UPDATE receiver SET taken = taken + :taken, refused = refused + :refused,
        malformed = malformed + :malformed,
        heard_at = CASE WHEN CAST(:heard AS boolean) THEN clock_timestamp() ELSE heard_at END
    WHERE id = :id
""")


async def count_received(
    connection: Connection, receiver_id: UUID, *, taken: int = 0, refused: int = 0, malformed: int = 0
) -> None:
    """Count what came of a request; without a refusal it was believed."""
    values = {"taken": taken, "refused": refused, "malformed": malformed, "heard": not refused}
    await connection.execute(_COUNT_RECEIVED, {"id": receiver_id, **values})


_USE_TOKEN_ONCE = text("""
    INSERT INTO receiver_token (receiver_id, token)
    SELECT id, :token FROM receiver WHERE id = :id FOR KEY SHARE ON CONFLICT DO NOTHING
""")


_TOKEN_USED_FOR = text(
    "SELECT EXISTS (SELECT FROM receiver_token WHERE receiver_id = :id AND token = :token)"
)


async def use_token_once(connection: Connection, receiver_id: UUID, token: bytes, tied: bytes) -> bool:
    """Take a token for one body (`tied`: digest of both); False for another, or with no receiver."""
    values = {"id": receiver_id, "token": token}
    if (await connection.execute(_USE_TOKEN_ONCE, values)).rowcount:
        await connection.execute(_USE_TOKEN_ONCE, {"id": receiver_id, "token": tied})
        return True
    return bool((await connection.execute(_TOKEN_USED_FOR, {"id": receiver_id, "token": tied})).scalar_one())


_PURGE_RECEIVER_TOKENS = text(
    "DELETE FROM receiver_token WHERE used_at < clock_timestamp() - interval '2 days'"
)


async def purge_receiver_tokens(connection: Connection) -> None:
    """Forget tokens that are too old to be believed anyway."""
    await connection.execute(_PURGE_RECEIVER_TOKENS)
