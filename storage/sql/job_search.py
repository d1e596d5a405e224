"""Jobs across accounts in SQL: find them by state, account, name and age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Text, cast, exists, func, select, text

from mailsift.storage.database import Connection, Row
from mailsift.storage.sql.tables import account, job
from mailsift.storage.states import JobState

S = TypeVar("S", bound=Select[Any])


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs; what is empty or None matches every job.

    Attributes:
        states: in one of these.
        account: its account's whole name.
        text: part of its name or of its file's name, or the beginning of its id; in any case.
        after: made at this time or later.
        before: made before this time.
        broken_but: only what failed otherwise than with these codes and was not run again; None: whatever.
    """

    states: tuple[str, ...] = ()
    account: str = ""
    text: str = ""
    after: datetime | None = None
    before: datetime | None = None
    broken_but: Sequence[str] | None = None


ORDERS: Final[Mapping[str, ColumnElement[Any]]] = {
    "created": job.c.created_at,
    "ended": job.c.finished_at,
    "rows": job.c.total,
    "done": job.c.processed,
    "open": job.c.chunks_open,
    "list": job.c.name,
    "account": account.c.name,
    "state": job.c.state,
}
"""What jobs can be sorted by."""
NEWEST: Final = "-created"

_SET_PRIORITY = text("""
    UPDATE job SET options = jsonb_set(options, '{priority}', to_jsonb(CAST(:priority AS text)))
    WHERE id = :job_id AND finished_at IS NULL AND options->>'priority' IS DISTINCT FROM :priority
""")


async def page(
    connection: Connection, wanted: JobFilter, *, limit: int, offset: int = 0, sort: str = NEWEST
) -> Sequence[Row]:
    """Return matching jobs with `account_name`; `sort`: one of ORDERS, descending with a minus before it."""
    statement = _matching(select(job, account.c.name.label("account_name")), wanted)
    column = ORDERS[sort.removeprefix("-")]
    first, then = (
        (column.desc().nulls_last(), job.c.id.desc()) if sort.startswith("-") else (column, job.c.id)
    )
    found = await connection.execute(statement.order_by(first, then).limit(limit).offset(offset))
    return found.mappings().all()


async def count(connection: Connection, wanted: JobFilter, *, most: int) -> int:
    """Return how many jobs match; `most` when there are so many or more."""
    some = _matching(select(job.c.id), wanted).limit(most).subquery()
    return int((await connection.execute(select(func.count()).select_from(some))).scalar_one())


async def ids(connection: Connection, wanted: JobFilter, *, limit: int) -> list[tuple[UUID, UUID]]:
    """Return id and account of matching jobs, oldest first."""
    statement = _matching(select(job.c.id, job.c.account_id), wanted)
    found = await connection.execute(statement.order_by(job.c.created_at, job.c.id).limit(limit))
    return [(row.id, row.account_id) for row in found]


async def get(connection: Connection, job_id: UUID) -> Row | None:
    """Return a job of whatever account, with `account_name`."""
    statement = (
        select(job, account.c.name.label("account_name"))
        .join(account, account.c.id == job.c.account_id)
        .where(job.c.id == job_id)
    )
    return (await connection.execute(statement)).mappings().one_or_none()


async def set_priority(connection: Connection, job_id: UUID, priority: str) -> bool:
    """Give a job that has not ended another priority; False when it has it already or has ended."""
    values = {"job_id": job_id, "priority": priority}
    return (await connection.execute(_SET_PRIORITY, values)).rowcount == 1


def _matching(statement: S, wanted: JobFilter) -> S:
    statement = statement.select_from(job).join(account, account.c.id == job.c.account_id)
    if wanted.states:
        statement = statement.where(job.c.state.in_(wanted.states))
    if wanted.account:
        statement = statement.where(account.c.name == wanted.account)
    if wanted.text:
        named = [column.icontains(wanted.text, autoescape=True) for column in (job.c.name, job.c.source_name)]
        begins = cast(job.c.id, Text).istartswith(wanted.text, autoescape=True)
        statement = statement.where(named[0] | named[1] | begins)
    if wanted.after is not None:
        statement = statement.where(job.c.created_at >= wanted.after)
    if wanted.before is not None:
        statement = statement.where(job.c.created_at < wanted.before)
    if wanted.broken_but is not None:
        again = job.alias("again")
        failed = job.c.state.in_([JobState.FAILED]) & job.c.error_code.not_in(wanted.broken_but)
        statement = statement.where(failed, ~exists().where(again.c.parent_id == job.c.id))
    return statement
