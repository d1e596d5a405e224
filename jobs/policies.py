"""What an account wants done: with verdicts (tiers), and with what became of its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from mailsift.events import audit
from mailsift.pipeline.outcomes.outcome import OutcomePolicy
from mailsift.pipeline.tiers import TierPolicy
from mailsift.storage.database import Connection, Database
from mailsift.storage.sql import accounts


@dataclass(frozen=True, slots=True)
class AccountPolicy:
    """What one account wants.

    Attributes:
        tiers: what to do with an address; jobs that say nothing are read by it.
        outcomes: how long what happened is believed.
    """

    tiers: TierPolicy = field(default_factory=TierPolicy)
    outcomes: OutcomePolicy = field(default_factory=OutcomePolicy)

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> AccountPolicy:
        """Return what was stored, with defaults for what is missing."""
        return cls(TierPolicy.read(stored.get("tiers", {})), OutcomePolicy.read(stored.get("outcomes", {})))


async def policy_of(connection: Connection, account_id: UUID) -> AccountPolicy:
    """Return an account's policy."""
    account = await accounts.get(connection, account_id)
    return AccountPolicy.read((account and account["policy"]) or {})


class PolicyService:
    """The policies of one installation's accounts."""

    def __init__(self, *, database: Database) -> None:
        self._database = database

    async def get(self, account_id: UUID) -> AccountPolicy:
        """Return the account's policy, the default where it has set none."""
        return await self._database.run(policy_of, account_id)

    async def put(self, account_id: UUID, policy: AccountPolicy) -> None:
        """Store the account's policy: jobs that begin from now on take its tiers."""
        async with self._database.begin() as connection:
            await accounts.change(connection, account_id, policy=asdict(policy))
            await audit.record_change(connection, account_id, "policy.set")
