"""What accounts want done with verdicts, in SQL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection

_GET = text("SELECT policy FROM account WHERE id = :account_id")
_PUT = text("UPDATE account SET policy = CAST(:policy AS jsonb) WHERE id = :account_id")
_OF_JOB = text("""
    UPDATE job SET options = jsonb_set(options, '{policy}', CAST(:policy AS jsonb)),
        send = :send, review = :review, remove = :remove
    WHERE id = :job_id AND finished_at IS NOT NULL
""")
_COUNTED = text("""
    UPDATE job SET send = :send, review = :review, remove = :remove
    WHERE id = :job_id AND finished_at IS NOT NULL
""")


async def get(connection: Connection, account_id: UUID) -> Mapping[str, Any]:
    """Return what the account's policy was stored as, {} where it has none."""
    found = (await connection.execute(_GET, {"account_id": account_id})).scalar_one_or_none()
    return dict(found or {})


async def put(connection: Connection, account_id: UUID, policy: Mapping[str, Any]) -> None:
    """Store the account's policy."""
    await connection.execute(_PUT, {"account_id": account_id, "policy": json.dumps(dict(policy))})


async def keep_for_job(
    connection: Connection, job_id: UUID, policy: Mapping[str, Any], tiers: Mapping[str, int]
) -> bool:
    """Give an ended job another policy and what its rows come to by it; False when it has not ended."""
    values = {"job_id": job_id, "policy": json.dumps(dict(policy)), **tiers}
    return int((await connection.execute(_OF_JOB, values)).rowcount) == 1


async def keep_counts(connection: Connection, job_id: UUID, tiers: Mapping[str, int]) -> None:
    """Store what the rows of an ended job come to by its policy."""
    await connection.execute(_COUNTED, {"job_id": job_id, **tiers})
