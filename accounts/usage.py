"""What an account uses, and what its assistants may: lists are counted where their chunks are committed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from math import ceil
from typing import Final
from uuid import UUID

from mailsift.jobs.views import AccountId
from mailsift.pipeline.background import record_failure
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.single import SingleOptions
from mailsift.storage.database import Database
from mailsift.storage.redis.rate_limit import RateLimit, Zone
from mailsift.storage.sql import accounts
from mailsift.storage.sql.accounts import Amounts, DayUsage

FLUSH_SECONDS: Final = 5.0


class UsageMeter:
    """Counts in memory and writes every few seconds: a request does not wait for a row that all others want.

    What a process had not written when it was killed is lost.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counted: dict[str, dict[str, Amounts]] = {}

    def count(self, owner: str, mode: str, amounts: Amounts) -> None:
        """Add to what an account used today in this mode; `owner` is its id."""
        of_account = self._counted.setdefault(owner, {})
        of_account[mode] = of_account.get(mode, Amounts()) + amounts

    def count_single(self, options: SingleOptions, rows: int, addresses: int, probes: int) -> None:
        """Add what validating single addresses took."""
        self.count(options.owner, options.mode, Amounts(rows, addresses, probes))

    async def flush(self) -> None:
        """Write down what was counted; it never raises, and what could not be written comes the next time."""
        counted, self._counted = self._counted, {}
        while counted:
            owner, by_mode = counted.popitem()
            try:
                await self._database.run(accounts.add_usage, UUID(owner), by_mode)
            except Exception as error:  # noqa: BLE001 - the database is away
                record_failure("usage", error)
                counted[owner] = by_mode
                break
        for owner, by_mode in counted.items():
            for mode, amounts in by_mode.items():
                self.count(owner, mode, amounts)

    async def days(self, account_id: AccountId, first: date, last: date) -> Sequence[DayUsage]:
        """Return what the account used from the first to the last day (UTC), the oldest first."""
        await self.flush()
        return await self._database.run(accounts.usage_by_day, account_id, first, last)


_DAY: Final = 86_400


class Budget:
    """How many addresses of one key may be asked about in a day; 0: nobody may ask."""

    def __init__(self, limit: RateLimit, per_day: int) -> None:
        self._limit = limit
        self._zone = Zone("mcp", quota=max(1, per_day), window=_DAY)
        self.per_day = per_day

    async def spend(self, holder: UUID, addresses: int) -> None:
        """Take so many from a key's budget; while Redis is away nothing is counted.

        Raises:
            MailsiftError: `mcp_disabled`, `mcp_budget_spent`.
        """
        if not self.per_day:
            raise mcp_disabled()
        decision = await self._limit.take(self._zone, str(holder), units=addresses)
        if decision is None or decision.allowed:
            return
        late = f" Go on in {ceil(decision.retry_after):,} s." if addresses <= self.per_day else ""
        text = (
            f"This key may have {self.per_day:,} addresses checked in a day (MAILSIFT_MCP_BUDGET), and"
            f" {decision.remaining:,} are left; {addresses:,} were wanted.{late}"
        )
        raise MailsiftError("mcp_budget_spent", text)


def mcp_disabled() -> MailsiftError:
    """Return the error of tools that nobody may use."""
    return MailsiftError("mcp_disabled", "MCP is switched off here (MAILSIFT_MCP_BUDGET is 0).")
