"""What is kept of an account: shown, and erased when its owner says so, with a receipt."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from mailsift.events import audit
from mailsift.events.job_mail import ENDS_SOON
from mailsift.jobs.erasure import Eraser
from mailsift.jobs.views import AccountId
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.database import Connection, Database
from mailsift.storage.sql import accounts, holdings
from mailsift.storage.sql.holdings import EndingList, Receipt

_SHOWN: Final = 20


class Erasable(StrEnum):
    """What can be erased by itself."""

    LISTS = "lists"
    OUTCOMES = "outcomes"
    SUPPRESSIONS = "suppressions"


@dataclass(frozen=True, slots=True)
class KeptData:
    """What is kept of an account.

    Attributes:
        counts: how much, and until when (mailsift.storage.sql.holdings).
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
            counts = dict(await holdings.counts(connection, ids, outcome_days=self._eraser.outcome_days))
            ending = await holdings.ending(connection, account_id, before=soon, limit=_SHOWN)
            receipts = await holdings.receipts(connection, account_id)
        drafts = len(await self._eraser.drafts(account_id))
        return KeptData(counts, drafts, self._eraser.outcome_days, ending, receipts)

    async def erase(
        self, account_id: AccountId, what: Collection[Erasable], *, person_id: UUID, actor: str
    ) -> UUID:
        """Erase this of the account and its test account for good; lists that still run stay.

        Returns:
            The id of the receipt.
        """

        async def transaction(connection: Connection) -> tuple[UUID, list[UUID]]:
            ids = await _with_test(connection, account_id)
            erased: dict[str, int] = {}
            jobs: list[UUID] = []
            if Erasable.LISTS in what:
                jobs, rows = await holdings.erase_lists(connection, ids)
                await self._eraser.leave(connection, jobs)
                erased |= {"lists": len(jobs), "rows": rows, "drafts": len(drafts)}
            if Erasable.OUTCOMES in what:
                erased["outcomes"] = await holdings.erase_outcomes(connection, ids)
            if Erasable.SUPPRESSIONS in what:
                erased["suppressions"] = await holdings.erase_suppressions(connection, ids)
            receipt = await holdings.write_receipt(connection, account_id, person_id, erased)
            await audit.record(connection, account_id, actor, "account.erase", **erased)
            return receipt, jobs

        drafts = await self._eraser.drafts(account_id) if Erasable.LISTS in what else ()
        receipt, jobs = await self._database.run(transaction)
        await self._eraser.files(jobs, drafts)
        return receipt

    async def receipt(self, account_id: AccountId, receipt_id: UUID) -> Receipt:
        """Return a receipt of the account.

        Raises:
            MailsiftError: `not_found`.
        """
        found = await self._database.run(holdings.receipts, account_id, receipt_id=receipt_id)
        if not found:
            raise MailsiftError("not_found", "There is no such receipt.")
        return found[0]


async def _with_test(connection: Connection, account_id: AccountId) -> list[UUID]:
    test = await accounts.test_account(connection, account_id)
    return [account_id, *([test] if test else [])]
