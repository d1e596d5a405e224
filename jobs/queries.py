"""Jobs page by page, and what is deleted of them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobs.service import owned, view_of
from jobs.views import TERMINAL, AccountId, JobId, JobState, JobView
from pipeline.errors import MailsiftError
from storage import idempotency_rows, job_rows
from storage.blobs import Blobs, JobBlobs
from storage.database import Database

_SWEPT_AT_ONCE = 20


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, newest first, and where the next page begins; "" when there is none."""

    jobs: list[JobView]
    next_cursor: str


class JobQueries:
    """Lists and deletes the jobs of one installation."""

    def __init__(self, *, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._blobs = blobs

    async def page(
        self, account_id: AccountId, *, limit: int, cursor: str = "", states: Collection[JobState] = ()
    ) -> Page:
        """Return one page of the account's jobs; new jobs do not shift the pages.

        Raises:
            MailsiftError: `bad_cursor` for one that is not from this list with this filter.
        """
        names = sorted(states)
        before = _read(cursor, names) if cursor else None
        async with self._database.begin() as connection:
            rows = await job_rows.newest(connection, account_id, limit + 1, before=before, states=names)
        views = [view_of(row) for row in rows[:limit]]
        more = len(rows) > limit
        return Page(views, _write(views[-1], names) if more else "")

    async def delete(self, account_id: AccountId, job_id: JobId) -> None:
        """Delete an ended job and everything of it: list, results, events, idempotency key.

        Raises:
            MailsiftError: `job_not_found`, `job_state_conflict` while it runs.
        """
        async with self._database.begin() as connection:
            row = await owned(connection, account_id, job_id)
        if row["state"] not in TERMINAL:
            raise MailsiftError("job_state_conflict", "A job that runs is cancelled first, then deleted.")
        await self._erase(job_id)

    async def delete_expired(self) -> int:
        """Delete what was to be kept no longer; returns how many jobs. Any number of callers is harmless."""
        async with self._database.begin() as connection:
            over = await job_rows.expired(connection, TERMINAL, _SWEPT_AT_ONCE)
            await idempotency_rows.purge(connection)
        for job_id in over:
            await self._erase(JobId(job_id))
        return len(over)

    async def _erase(self, job_id: JobId) -> None:
        # Blobs first: who dies in between leaves a row that says there is something to delete.
        await self._blobs.delete_prefix(JobBlobs(job_id).prefix)
        async with self._database.begin() as connection:
            await job_rows.remove(connection, job_id, TERMINAL)


def _write(last: JobView, names: list[JobState]) -> str:
    told = json.dumps([last.created_at.isoformat(), str(last.id), names])
    return base64.urlsafe_b64encode(told.encode()).decode().rstrip("=")


def _read(cursor: str, names: list[JobState]) -> tuple[datetime, UUID]:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        created_at, job_id, found = json.loads(base64.b64decode(padded, b"-_", validate=True))
        moment, last = datetime.fromisoformat(created_at), UUID(job_id)
    except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error):
        raise _bad_cursor() from None
    if found != names or moment.tzinfo is None:
        raise _bad_cursor()
    return moment, last


def _bad_cursor() -> MailsiftError:
    return MailsiftError("bad_cursor", "The cursor is not one of this list with this filter.")
