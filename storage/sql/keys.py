"""API keys in SQL; only keyed hashes are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import text

from mailsift.storage.database import Connection, row_as, rows_as


@dataclass(frozen=True, slots=True)
class KeyTerms:
    """What is the same in a key and its successor; `lifetime` is in seconds, 0: for ever."""

    name: str
    scopes: Sequence[str]
    lifetime: float = 0.0
    origins: Sequence[str] = ()
    checks_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class KeyRow:
    """What may be told of a key."""

    id: UUID
    account_id: UUID
    name: str
    hint: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    rotated_to: UUID | None
    origins: tuple[str, ...] = ()
    checks_per_minute: int | None = None


_SHOWN = (
    "id, account_id, name, hint, scopes, origins, created_at, expires_at, last_used_at, revoked_at,"
    " rotated_to, checks_per_minute"
)

# An account looks after the keys of its test account, too.
_MINE = "account_id IN (:account_id, (SELECT id FROM account WHERE test_of = :account_id))"

_LIVES = "revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())"

_INSERT = text(f"""
    INSERT INTO api_key (id, account_id, name, hash, pepper_id, hint, scopes, origins, checks_per_minute,
                         expires_at)
    VALUES (:id, :account_id, :name, :hash, :pepper_id, :hint, :scopes, :origins, :checks_per_minute,
            CASE WHEN :lifetime > 0 THEN clock_timestamp() + make_interval(secs => :lifetime) END)
    RETURNING {_SHOWN}
""")  # noqa: S608 - a list of column names

_FIND = text(f"""
    SELECT {_SHOWN}, hash FROM api_key
    WHERE hash = ANY(:hashes) AND {_LIVES}
""")  # noqa: S608 - names of this file

_OF_ACCOUNT = text(f"SELECT {_SHOWN} FROM api_key WHERE {_MINE} ORDER BY created_at, id")  # noqa: S608 - same

_GET = text(f"SELECT {_SHOWN} FROM api_key WHERE {_MINE} AND id = :id")  # noqa: S608 - same

_REVOKE = text(f"""
    UPDATE api_key SET revoked_at = coalesce(revoked_at, clock_timestamp())
    WHERE {_MINE} AND id = :id
""")  # noqa: S608 - same

_PUBLIC_KEYS = text(f"""
    SELECT {_SHOWN} FROM api_key
    WHERE {_MINE} AND {_LIVES} AND origins <> '{{}}'
    ORDER BY created_at, id
""")  # noqa: S608 - same

_CHANGE_PUBLIC = text(f"""
    UPDATE api_key SET name = :name, origins = :origins, checks_per_minute = :checks_per_minute
    WHERE id = :id RETURNING {_SHOWN}
""")  # noqa: S608 - same

_SUCCEED = text(f"""
    UPDATE api_key SET rotated_to = :successor,
        expires_at = least(expires_at, clock_timestamp() + make_interval(secs => :overlap))
    WHERE {_MINE} AND {_LIVES} AND id = :id AND rotated_to IS NULL
""")  # noqa: S608 - same

# Skipped when somebody else writes the row: it was used a moment ago, then.
_TOUCH = text("""
    UPDATE api_key SET last_used_at = clock_timestamp() WHERE id IN (
        SELECT id FROM api_key
        WHERE id = :id AND (last_used_at IS NULL OR last_used_at < clock_timestamp() - interval '1 minute')
        FOR UPDATE SKIP LOCKED)
""")


def _key(*, scopes: Sequence[str], origins: Sequence[str], **columns: Any) -> KeyRow:
    return KeyRow(scopes=tuple(scopes), origins=tuple(origins), **columns)


async def insert(
    connection: Connection, account_id: UUID, terms: KeyTerms, *, digest: bytes, pepper_id: str, hint: str
) -> KeyRow:
    """Insert a key, whose `digest` is keyed with the pepper `pepper_id`."""
    stored = {"id": uuid4(), "account_id": account_id, "hash": digest, "pepper_id": pepper_id, "hint": hint}
    lists = {"scopes": [*map(str, terms.scopes)], "origins": list(terms.origins)}
    return _key(**(await connection.execute(_INSERT, stored | asdict(terms) | lists)).mappings().one())


async def find(connection: Connection, hashes: Sequence[bytes]) -> tuple[KeyRow, bytes] | None:
    """Return the living key with one of these hashes, and its hash."""
    row = (await connection.execute(_FIND, {"hashes": list(hashes)})).mappings().first()
    if row is None:
        return None
    fields = dict(row)
    found = bytes(fields.pop("hash"))
    return _key(**fields), found


async def of_account(connection: Connection, account_id: UUID) -> list[KeyRow]:
    """Return every key of the account, the dead ones too, oldest first."""
    return await rows_as(_key, connection, _OF_ACCOUNT, {"account_id": account_id})


async def public_keys(connection: Connection, account_id: UUID) -> list[KeyRow]:
    """Return the living public keys of the account, oldest first."""
    return await rows_as(_key, connection, _PUBLIC_KEYS, {"account_id": account_id})


async def change_public(
    connection: Connection, key_id: UUID, *, name: str, origins: Sequence[str], checks_per_minute: int | None
) -> KeyRow:
    """Give a public key another name, other origins and another limit; returns what it is then."""
    values = {
        "id": key_id,
        "name": name,
        "origins": list(origins),
        "checks_per_minute": checks_per_minute,
    }
    return _key(**(await connection.execute(_CHANGE_PUBLIC, values)).mappings().one())


async def get(connection: Connection, account_id: UUID, key_id: UUID) -> KeyRow | None:
    """Return the account's key."""
    return await row_as(_key, connection, _GET, {"account_id": account_id, "id": key_id})


async def revoke(connection: Connection, account_id: UUID, key_id: UUID) -> bool:
    """Revoke the account's key; False when there is no such key."""
    return (await connection.execute(_REVOKE, {"account_id": account_id, "id": key_id})).rowcount == 1


async def succeed(
    connection: Connection, account_id: UUID, key_id: UUID, *, successor: UUID, overlap: float
) -> bool:
    """Let a living key end in `overlap` seconds and name its successor; False when it cannot have one."""
    values = {"account_id": account_id, "id": key_id, "successor": successor, "overlap": overlap}
    return (await connection.execute(_SUCCEED, values)).rowcount == 1


async def touch(connection: Connection, key_id: UUID) -> None:
    """Note that the key is used, at most once a minute."""
    await connection.execute(_TOUCH, {"id": key_id})
