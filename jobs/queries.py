"""Jobs page by page, and what is deleted of them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobs.erasure import Eraser
from jobs.service import owned, view_of
from jobs.views import TERMINAL, AccountId, JobId, JobState, JobView
from pipeline.errors import MailsiftError
from storage import job_rows
from storage.database import Database


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, newest first, and where the next page begins; "" when there is none."""

    jobs: list[JobView]
    next_cursor: str


class JobQueries:
    """Lists and deletes the jobs of one installation."""

    def __init__(self, *, database: Database, eraser: Eraser) -> None:
        self._database = database
        self._eraser = eraser

    async def page(
        self,
        account_id: AccountId,
        *,
        limit: int,
        cursor: str = "",
        states: Collection[JobState] = (),
        name: str = "",
    ) -> Page:
        """Return one page of the account's jobs; new jobs do not shift the pages.

        Args:
            account_id: whose.
            limit: how many.
            cursor: `next_cursor` of the page before.
            states: only these; all, when empty.
            name: only those whose name has this in it.

        Raises:
            MailsiftError: `bad_cursor` for one that is not from this list with this filter.
        """
        narrowed = [*sorted(states), *([f"name:{name}"] if name else [])]
        before = _read(cursor, narrowed) if cursor else None
        async with self._database.begin() as connection:
            rows = await job_rows.newest(
                connection, account_id, limit + 1, before=before, states=states, name=name
            )
        views = [view_of(row) for row in rows[:limit]]
        more = len(rows) > limit
        return Page(views, _write(views[-1], narrowed) if more else "")

    async def delete(self, account_id: AccountId, job_id: JobId) -> None:
        """Delete an ended job and everything of it: list, results, events, idempotency key.

        Raises:
            MailsiftError: `job_not_found`, `job_state_conflict` while it runs.
        """
        async with self._database.begin() as connection:
            row = await owned(connection, account_id, job_id)
        if row["state"] not in TERMINAL:
            raise MailsiftError("job_state_conflict", "A job that runs is cancelled first, then deleted.")
        await self._eraser.job(job_id)


def _write(last: JobView, narrowed: list[str]) -> str:
    told = json.dumps([last.created_at.isoformat(), str(last.id), narrowed])
    return base64.urlsafe_b64encode(told.encode()).decode().rstrip("=")


def _read(cursor: str, narrowed: list[str]) -> tuple[datetime, UUID]:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        created_at, job_id, found = json.loads(base64.b64decode(padded, b"-_", validate=True))
        moment, last = datetime.fromisoformat(created_at), UUID(job_id)
    except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error):
        raise _bad_cursor() from None
    if found != narrowed or moment.tzinfo is None:
        raise _bad_cursor()
    return moment, last


def _bad_cursor() -> MailsiftError:
    return MailsiftError("bad_cursor", "The cursor is not one of this list with this filter.")
