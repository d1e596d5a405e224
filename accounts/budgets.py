"""How much assistants may ask for: a day's addresses for each key."""

from __future__ import annotations

from math import ceil
from typing import Final
from uuid import UUID

from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.redis.rate_limit import RateLimit, Zone

_DAY: Final = 86_400


class Budget:
    """How many addresses may be asked about in a day.

    Args:
        limit: counts for all processes.
        per_day: addresses of one key; 0: nobody may ask.
    """

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
            raise MailsiftError("mcp_disabled", "MCP is switched off here (MAILSIFT_MCP_BUDGET is 0).")
        decision = await self._limit.take(self._zone, str(holder), units=addresses)
        if decision is None or decision.allowed:
            return
        late = f" Go on in {ceil(decision.retry_after):,} s." if addresses <= self.per_day else ""
        text = (
            f"This key may have {self.per_day:,} addresses checked in a day (MAILSIFT_MCP_BUDGET), and"
            f" {decision.remaining:,} are left; {addresses:,} were wanted.{late}"
        )
        raise MailsiftError("mcp_budget_spent", text)
