"""Addresses that mail senders post to, in SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection, from_row


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


_ADD = text("""
    INSERT INTO receiver (id, account_id, sender, name, secret, topic)
    VALUES (:id, :account_id, :sender, :name, :secret, :topic) RETURNING *
""")
_OF_ACCOUNT = text("SELECT * FROM receiver WHERE account_id = :account_id ORDER BY created_at, id")
_BY_IDS = text("SELECT * FROM receiver WHERE id = ANY(:ids)")
_CHANGE = text("UPDATE receiver SET secret = :secret, topic = :topic WHERE id = :id RETURNING *")
_REMOVE = text("DELETE FROM receiver WHERE id = :id AND account_id = :account_id")
_COUNT = text("""
    UPDATE receiver SET taken = taken + :taken, refused = refused + :refused,
        malformed = malformed + :malformed,
        heard_at = CASE WHEN CAST(:heard AS boolean) THEN clock_timestamp() ELSE heard_at END
    WHERE id = :id
""")
_USE_ONCE = text("""
    INSERT INTO receiver_token (receiver_id, token)
    SELECT id, :token FROM receiver WHERE id = :id FOR KEY SHARE ON CONFLICT DO NOTHING
""")
_USED_FOR = text("SELECT EXISTS (SELECT FROM receiver_token WHERE receiver_id = :id AND token = :token)")
_FORGET = text("DELETE FROM receiver_token WHERE used_at < clock_timestamp() - interval '2 days'")


async def add(connection: Connection, row: NewReceiver) -> ReceiverRow:
    """Store a receiver."""
    return from_row(ReceiverRow, (await connection.execute(_ADD, asdict(row))).mappings().one())


async def of_account(connection: Connection, account_id: UUID) -> Sequence[ReceiverRow]:
    """Return the receivers of an account, oldest first."""
    found = await connection.execute(_OF_ACCOUNT, {"account_id": account_id})
    return [from_row(ReceiverRow, row) for row in found.mappings()]


async def by_ids(connection: Connection, ids: Collection[UUID]) -> Mapping[UUID, ReceiverRow]:
    """Return those of these receivers that exist, by id."""
    found = (await connection.execute(_BY_IDS, {"ids": list(ids)})).mappings()
    return {row["id"]: from_row(ReceiverRow, row) for row in found}


async def change(connection: Connection, receiver_id: UUID, secret: bytes, topic: str) -> ReceiverRow:
    """Store what a receiver believes from now on."""
    values = {"id": receiver_id, "secret": secret, "topic": topic}
    return from_row(ReceiverRow, (await connection.execute(_CHANGE, values)).mappings().one())


async def remove(connection: Connection, account_id: UUID, receiver_id: UUID) -> bool:
    """Delete a receiver; what it brought stays."""
    return (await connection.execute(_REMOVE, {"id": receiver_id, "account_id": account_id})).rowcount == 1


async def count(
    connection: Connection, receiver_id: UUID, *, taken: int = 0, refused: int = 0, malformed: int = 0
) -> None:
    """Count what came of a request; without a refusal it was believed."""
    values = {"taken": taken, "refused": refused, "malformed": malformed, "heard": not refused}
    await connection.execute(_COUNT, {"id": receiver_id, **values})


async def use_once(connection: Connection, receiver_id: UUID, token: bytes, tied: bytes) -> bool:
    """Take a token for one body (`tied`: digest of both); False for another, or with no receiver."""
    values = {"id": receiver_id, "token": token}
    if (await connection.execute(_USE_ONCE, values)).rowcount:
        await connection.execute(_USE_ONCE, {"id": receiver_id, "token": tied})
        return True
    return bool((await connection.execute(_USED_FOR, {"id": receiver_id, "token": tied})).scalar_one())


async def purge(connection: Connection) -> None:
    """Forget tokens that are too old to be believed anyway."""
    await connection.execute(_FORGET)
