"""What is deleted is gone: rows, blobs, and what a worker that does not know of it still writes.

What is kept of an account is shown here, and erased when its owner says so, with a receipt.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import structlog

from mailsift.events import audit
from mailsift.events.outbox import ENDS_SOON
from mailsift.jobs.views import AccountId
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError, error_fields
from mailsift.storage.blobs import Blobs, DraftBlobs, JobBlobs, drafts_of, read_marker
from mailsift.storage.database import Connection, Database
from mailsift.storage.sql import accounts, accuracy, idempotency, jobs, outcomes
from mailsift.storage.sql.accounts import EndingList, Receipt

_AT_ONCE = 20
"""Jobs that one sweep deletes."""
_LATE_S = 600.0
"""Nobody writes for a deleted job any more after so long: longer than a lease and a store's patience."""

_SHOWN: Final = 20
"""Lists that end soon."""

_log = structlog.get_logger()


async def erase_draft(database: Database, blobs: Blobs, keys: DraftBlobs) -> None:
    """Delete an uploaded list; of one that has been started the marker alone, which a crash has left.

    Who starts it at this moment is either seen, or finds that it is gone.
    """
    async with database.begin() as connection:
        await jobs.leave_blobs(connection, [keys.draft], seconds=_LATE_S)  # it may be looked at right now
        is_started = await jobs.get(connection, keys.draft) is not None
        if is_started:
            await jobs.forget_blobs(connection, keys.draft)
    if not is_started:
        await blobs.delete_prefix(JobBlobs(keys.draft).prefix)
    await blobs.delete(keys.marker)  # last: who dies before leaves a trace


class Eraser:
    """Deletes jobs and accounts of one installation.

    Facts about mailboxes are not looked for: they hold no address, nobody without the account's id can tell
    whose they are, and they live for a day (mailsift.pipeline.probe.cache).

    Args:
        outcome_days: for so long outcomes are kept, and what verdicts came to.
    """

    def __init__(self, *, database: Database, blobs: Blobs, outcome_days: int) -> None:
        self.outcome_days = outcome_days
        self._database = database
        self._blobs = blobs

    async def job(self, job_id: UUID) -> bool:
        """Delete an ended job; False when it is gone already or has not ended."""

        async def transaction(connection: Connection) -> bool:
            removed = await jobs.remove(connection, job_id)
            if removed:
                await jobs.leave_blobs(connection, [job_id], seconds=_LATE_S)
            return removed

        removed = await self._database.run(transaction)
        if removed:
            await self._sweep_up([job_id])
        return removed

    async def account(self, account_id: AccountId) -> None:
        """Delete an account with everything that is its own; what runs is stopped.

        Raises:
            MailsiftError: what the blob store says; then call again.
        """
        test = await self._database.run(accounts.test_account, account_id)
        if test is not None:
            await self.account(AccountId(test))
        await self._delete_drafts(await self.drafts(account_id))

        async def transaction(connection: Connection) -> list[UUID]:
            removed = await accounts.remove(connection, account_id)
            await jobs.leave_blobs(connection, removed, seconds=_LATE_S)
            return removed

        await self._sweep_up(await self._database.run(transaction))

    async def sweep(self) -> int:
        """Delete what is to be kept no longer and what the dead left; returns how many jobs were deleted.

        Any number of callers is harmless.
        """
        async with self._database.begin() as connection:
            over = await jobs.expired(connection, _AT_ONCE)
            await idempotency.purge(connection)
            await outcomes.purge_outcomes(connection, days=self.outcome_days)
            await accuracy.purge(connection, days=self.outcome_days)
            await outcomes.purge_receiver_tokens(connection)
        erased = [await self.job(job_id) for job_id in over]
        left = await self._database.run(jobs.seal_blobs, limit=_AT_ONCE)
        for job_id in left:
            await self._blobs.delete_prefix(JobBlobs(job_id).prefix)
            await self._database.run(jobs.forget_blobs, job_id)
        return sum(erased)

    async def drafts(self, account_id: AccountId) -> Sequence[str]:
        """Return the markers of lists of an account that were uploaded and not started."""
        return await self._blobs.list(drafts_of(account_id))

    async def files(self, job_ids: Sequence[UUID], drafts: Sequence[str] = ()) -> None:
        """Delete the files of jobs that were deleted, and drafts with everything of theirs."""
        await self._delete_drafts(drafts)
        await self._sweep_up(job_ids)

    async def _delete_drafts(self, markers: Sequence[str]) -> None:
        for marker in markers:
            await erase_draft(self._database, self._blobs, read_marker(marker))

    async def _sweep_up(self, job_ids: Sequence[UUID]) -> None:
        """Delete the blobs now; whatever cannot be is noted, and goes with a later sweep."""
        try:
            for job_id in job_ids:
                await self._blobs.delete_prefix(JobBlobs(job_id).prefix)
        except MailsiftError as error:
            _log.warning("erasure.late", **error_fields(error))


class Erasable(StrEnum):
    """What can be erased by itself."""

    LISTS = "lists"
    OUTCOMES = "outcomes"
    SUPPRESSIONS = "suppressions"


@dataclass(frozen=True, slots=True)
class KeptData:
    """What is kept of an account.

    Attributes:
        counts: how much, and until when (mailsift.storage.sql.accounts).
        drafts: lists that were uploaded and not started.
        outcome_days: for so long outcomes are kept, and what verdicts came to.
        ending: lists that are deleted soon.
    """

    counts: dict[str, Any]
    drafts: int
    outcome_days: int
    ending: Sequence[EndingList]
    receipts: Sequence[Receipt]


class Holdings:
    """What an installation keeps of its accounts."""

    def __init__(self, *, database: Database, eraser: Eraser, clock: Clock) -> None:
        self._database = database
        self._eraser = eraser
        self._clock = clock

    async def kept_data(self, account_id: AccountId) -> KeptData:
        """Return what is kept of the account and its test account."""
        soon = utc_datetime(self._clock()) + ENDS_SOON
        async with self._database.begin() as connection:
            ids = await _with_test(connection, account_id)
            counts = dict(
                await accounts.count_holdings(connection, ids, outcome_days=self._eraser.outcome_days)
            )
            ending = await accounts.lists_ending(connection, account_id, before=soon, limit=_SHOWN)
            receipts = await accounts.receipts(connection, account_id)
        drafts = len(await self._drafts(account_id))
        return KeptData(counts, drafts, self._eraser.outcome_days, ending, receipts)

    async def erase(
        self, account_id: AccountId, what: Collection[Erasable], *, person_id: UUID, actor: str
    ) -> UUID:
        """Erase this of the account and its test account for good; returns the id of the receipt.

        Lists that still run stay.
        """

        async def transaction(connection: Connection) -> tuple[UUID, list[UUID]]:
            ids = await _with_test(connection, account_id)
            erased: dict[str, int] = {}
            job_ids: list[UUID] = []
            if Erasable.LISTS in what:
                job_ids, rows = await accounts.erase_lists(connection, ids)
                await jobs.leave_blobs(connection, job_ids, seconds=_LATE_S)  # whatever happens
                erased |= {"lists": len(job_ids), "rows": rows, "drafts": len(drafts)}
            if Erasable.OUTCOMES in what:
                erased["outcomes"] = await accounts.erase_outcomes(connection, ids)
            if Erasable.SUPPRESSIONS in what:
                erased["suppressions"] = await accounts.erase_suppressions(connection, ids)
            receipt = await accounts.write_receipt(connection, account_id, person_id, erased)
            await audit.record(connection, account_id, actor, "account.erase", **erased)
            return receipt, job_ids

        drafts = await self._drafts(account_id) if Erasable.LISTS in what else ()
        receipt, job_ids = await self._database.run(transaction)
        await self._eraser.files(job_ids, drafts)
        return receipt

    async def _drafts(self, account_id: AccountId) -> Sequence[str]:
        ids = await self._database.run(_with_test, account_id)
        return [marker for one in ids for marker in await self._eraser.drafts(one)]

    async def receipt(self, account_id: AccountId, receipt_id: UUID) -> Receipt:
        """Return a receipt of the account.

        Raises:
            MailsiftError: `not_found`.
        """
        found = await self._database.run(accounts.receipts, account_id, receipt_id=receipt_id)
        if not found:
            raise MailsiftError("not_found", "There is no such receipt.")
        return found[0]


async def _with_test(connection: Connection, account_id: AccountId) -> list[AccountId]:
    test = await accounts.test_account(connection, account_id)
    return [account_id, *([AccountId(test)] if test else [])]
