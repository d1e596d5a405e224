"""What is kept of an account in SQL: how much, until when; what of it is erased, and the receipts of that."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text

from mailsift.storage.database import Connection, Row, rows_as, statement

_COUNTS = text("""
    SELECT jobs.*, outcomes.*, measured.*, keys.*, log.*, kept.* FROM
    (SELECT count(*) AS lists, coalesce(sum(source_bytes), 0)::bigint AS list_bytes,
            coalesce(sum(total), 0)::bigint AS list_rows, coalesce(sum(processed), 0)::bigint AS results,
            coalesce(sum(processed) FILTER (WHERE options->>'evidence' = 'true'), 0)::bigint AS evidence,
            count(*) FILTER (WHERE finished_at IS NULL) AS open_lists, min(expires_at) AS first_end,
            count(*) FILTER (WHERE expires_at IS NULL) AS for_ever
     FROM job WHERE account_id = ANY(:ids)) jobs,
    (SELECT count(*) AS outcomes, min(happened_at) + make_interval(days => :outcome_days) AS outcomes_end
     FROM outcome WHERE account_id = ANY(:ids)) outcomes,
    (SELECT count(*) AS measured FROM measured_verdict WHERE account_id = ANY(:ids)) measured,
    (SELECT count(*) AS keys FROM api_key WHERE account_id = ANY(:ids)) keys,
    (SELECT count(*) AS log FROM audit WHERE account_id = ANY(:ids)) log,
    (SELECT count(*) AS suppressions FROM suppression WHERE account_id = ANY(:ids)) kept
""")

_ENDING = text("""
    SELECT id, coalesce(nullif(name, ''), source_name) AS name, expires_at
    FROM job WHERE account_id = :account_id AND finished_at IS NOT NULL AND expires_at < :before
    ORDER BY expires_at LIMIT :limit
""")

_LISTS = statement("DELETE FROM job WHERE account_id = ANY(:ids) AND state IN {ended} RETURNING id, total")

# What the log and its events say of lists, and answers that are kept for requests that are repeated.
_TRACES: Final = tuple(
    text(line)
    for line in (
        "DELETE FROM idempotency WHERE account_id = ANY(:ids)",
        "DELETE FROM event WHERE account_id = ANY(:ids) AND type = 'audit.recorded'",
        "UPDATE audit SET detail = detail - 'list' WHERE account_id = ANY(:ids) AND action LIKE 'job.%'",
    )
)
# Who counts outcomes up just now has read some of them: with its right to count it loses that to write.
_STOP_COUNTING = text("UPDATE measurement SET token = NULL, until = NULL WHERE account_id = ANY(:ids)")
_OUTCOMES: Final = tuple(
    text(f"DELETE FROM {table} WHERE account_id = ANY(:ids)")  # noqa: S608 - names of this file
    for table in ("outcome", "measured_verdict", "accuracy")
)
_SUPPRESSIONS = text("DELETE FROM suppression WHERE account_id = ANY(:ids)")

_RECEIPT = text("""
    INSERT INTO erasure_receipt (account_id, person_id, erased)
    VALUES (:account_id, :person_id, CAST(:erased AS jsonb)) RETURNING id
""")
_RECEIPTS = text("""
    SELECT id, person_id, erased, at FROM erasure_receipt
    WHERE account_id = :account_id AND (CAST(:id AS uuid) IS NULL OR id = CAST(:id AS uuid))
    ORDER BY at DESC LIMIT 100
""")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was erased: how many of what, by whom and when."""

    id: UUID
    person_id: UUID
    erased: dict[str, int]
    at: datetime


@dataclass(frozen=True, slots=True)
class EndingList:
    """A list whose time to be kept is nearly over."""

    id: UUID
    name: str
    expires_at: datetime


async def counts(connection: Connection, ids: Sequence[UUID], *, outcome_days: int) -> Row:
    """Return how much is kept of these accounts (of one, and of its test account)."""
    values = {"ids": list(ids), "outcome_days": outcome_days}
    return (await connection.execute(_COUNTS, values)).mappings().one()


async def ending(
    connection: Connection, account_id: UUID, *, before: datetime, limit: int
) -> list[EndingList]:
    """Return lists that are deleted before then, the first one first."""
    values = {"account_id": account_id, "before": before, "limit": limit}
    return await rows_as(EndingList, connection, _ENDING, values)


async def erase_lists(connection: Connection, ids: Sequence[UUID]) -> tuple[list[UUID], int]:
    """Delete every list that has ended, and what else tells of lists; returns them, and their rows."""
    gone = (await connection.execute(_LISTS, {"ids": list(ids)})).all()
    for trace in _TRACES:
        await connection.execute(trace, {"ids": list(ids)})
    return [row.id for row in gone], sum(row.total for row in gone)


async def erase_outcomes(connection: Connection, ids: Sequence[UUID]) -> int:
    """Delete every outcome and what was counted by them; returns how many outcomes."""
    await connection.execute(_STOP_COUNTING, {"ids": list(ids)})
    outcomes, *_ = [(await connection.execute(one, {"ids": list(ids)})).rowcount for one in _OUTCOMES]
    return outcomes


async def erase_suppressions(connection: Connection, ids: Sequence[UUID]) -> int:
    """Delete every suppression; returns how many."""
    return (await connection.execute(_SUPPRESSIONS, {"ids": list(ids)})).rowcount


async def write_receipt(
    connection: Connection, account_id: UUID, person_id: UUID, erased: Mapping[str, Any]
) -> UUID:
    """Write down what was erased, in the transaction that erases it; returns the receipt's id."""
    values = {"account_id": account_id, "person_id": person_id, "erased": json.dumps(dict(erased))}
    made: UUID = (await connection.execute(_RECEIPT, values)).scalar_one()
    return made


async def receipts(
    connection: Connection, account_id: UUID, *, receipt_id: UUID | None = None
) -> list[Receipt]:
    """Return the account's receipts, newest first, or the one with this id."""
    values = {"account_id": account_id, "id": receipt_id}
    return await rows_as(Receipt, connection, _RECEIPTS, values)
