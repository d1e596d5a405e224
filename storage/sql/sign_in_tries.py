"""Tries to sign in, in SQL: counted here while Redis is away; whose they are is only a hash."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import text

from mailsift.storage.database import Connection

_KEPT: Final = timedelta(days=1)

_ONE_AT_A_TIME = text("SELECT pg_advisory_xact_lock(hashtextextended(encode(:holder, 'hex'), 0))")

# A try that is refused is none: who is locked out is not so for longer because somebody goes on trying.
_COUNT = text("""
    WITH mine AS (
        SELECT count(*) AS tries, min(tried_at) AS first FROM sign_in_try
        WHERE holder = :holder AND tried_at > :since
    ), counted AS (
        INSERT INTO sign_in_try (holder, tried_at) SELECT :holder, :now FROM mine WHERE tries < :quota
    )
    SELECT tries, first FROM mine
""")

_PURGE = text("DELETE FROM sign_in_try WHERE tried_at < :before")


@dataclass(frozen=True, slots=True)
class TryCounts:
    """What was counted before this try: how many in the window, and the first of them."""

    count: int
    first: datetime | None


async def count_try(
    connection: Connection, holder: bytes, *, quota: int, window: timedelta, now: datetime
) -> TryCounts:
    """Count a try, unless the quota is used up; returns what there was before.

    Args:
        connection: an open transaction, which no other try of this holder runs beside.
        holder: a hash of who tries.
        quota: tries in the window.
        window: how long a try counts.
        now: the time.
    """
    await connection.execute(_ONE_AT_A_TIME, {"holder": holder})
    await connection.execute(_PURGE, {"before": now - _KEPT})
    values = {"holder": holder, "since": now - window, "now": now, "quota": quota}
    row = (await connection.execute(_COUNT, values)).one()
    return TryCounts(row.tries, row.first)
