"""What a new account has done of the first things there are to do, in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection


@dataclass(frozen=True, slots=True)
class StepsRow:
    """What is known of an account.

    Attributes:
        new: it was made within the last days asked for, or has no list.
        dismissed: the steps it does not want to see.
        sample: a job of its test account, None without one.
        has_list, has_key, has_webhook: of its own, whatever became of them.
    """

    new: bool
    dismissed: tuple[str, ...]
    sample: UUID | None
    has_list: bool
    has_key: bool
    has_webhook: bool


_FIND = text("""
    WITH known AS (
        SELECT a.id, a.created_at, a.steps_dismissed,
            (SELECT j.id FROM job j JOIN account t ON t.id = j.account_id
             WHERE t.test_of = a.id ORDER BY j.created_at, j.id LIMIT 1) AS sample,
            EXISTS (SELECT FROM job WHERE account_id = a.id) AS has_list,
            EXISTS (SELECT FROM api_key k JOIN account o ON o.id = k.account_id
                    WHERE a.id IN (o.id, o.test_of)) AS has_key,
            EXISTS (SELECT FROM endpoint e JOIN account o ON o.id = e.account_id
                    WHERE a.id IN (o.id, o.test_of)) AS has_webhook
        FROM account a WHERE a.id = :account_id
    )
    SELECT NOT has_list OR created_at > clock_timestamp() - make_interval(days => :days) AS new,
        steps_dismissed AS dismissed, sample, has_list, has_key, has_webhook
    FROM known
""")

_DISMISS = text("""
    UPDATE account SET steps_dismissed = array_append(steps_dismissed, :step)
    WHERE id = :account_id AND NOT :step = ANY(steps_dismissed)
""")


async def find(connection: Connection, account_id: UUID, *, days: int) -> StepsRow | None:
    """Return what is known of an account; new is what was made in the last `days`, or has no list."""
    row = (await connection.execute(_FIND, {"account_id": account_id, "days": days})).mappings().first()
    return StepsRow(**{**row, "dismissed": tuple(row["dismissed"])}) if row else None


async def dismiss(connection: Connection, account_id: UUID, step: str) -> None:
    """Note that an account does not want to see a step any more."""
    await connection.execute(_DISMISS, {"account_id": account_id, "step": step})
