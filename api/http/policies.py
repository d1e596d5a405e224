"""An account's and a job's policy, as they stand in requests and answers."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from mailsift.api.http.inputs import WHOLE
from mailsift.jobs.policies import AccountPolicy
from mailsift.pipeline.judge.tiers import Tier, TierPolicy
from mailsift.pipeline.outcomes.history import MOST_DAYS, OutcomePolicy

NeverSend: TypeAlias = Literal[Tier.REVIEW, Tier.REMOVE]


_Score: TypeAlias = Annotated[int, Field(ge=0, le=100), WHOLE]
_Days: TypeAlias = Annotated[float, Field(ge=0, le=MOST_DAYS, strict=True, allow_inf_nan=False)]


class TierPolicyBody(BaseModel):
    """What to do with an address of which this holds, of several the strictest; the invalid is removed."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    complained: NeverSend = Field(default=Tier.REMOVE, description="the recipient called a message spam")
    unsubscribed: NeverSend = Tier.REMOVE
    suppressed: NeverSend = Field(default=Tier.REMOVE, description="on the account's suppression list")
    disposable: Tier = Tier.REMOVE
    mailbox_full: Tier = Tier.REVIEW
    catch_all: Tier = Tier.REVIEW
    unverifiable: Tier = Field(
        default=Tier.REVIEW, description="the provider answers the same for every mailbox"
    )
    unknown: Tier = Field(default=Tier.REVIEW, description="could not be decided this time")
    passed: Tier = Field(default=Tier.SEND, description="good as far as the mode checks; it asks no mailbox")
    suggestion: Tier = Field(default=Tier.REVIEW, description="another address was probably meant")
    role: Tier = Field(default=Tier.SEND, description="info@, sales@")
    free: Tier = Field(default=Tier.SEND, description="at a provider of free mailboxes")
    low_score: Tier = Field(default=Tier.REVIEW, description="the score is below `minimum_score`")
    minimum_score: _Score = 0

    def policy(self) -> TierPolicy:
        """Return what the engine takes."""
        return TierPolicy(**self.model_dump())


class OutcomePolicyBody(BaseModel):
    """For how many days what happened is believed."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    delivered_days: _Days = Field(default=90.0, description="a delivery shows the mailbox; 0 = never")
    bounced_days: _Days = Field(default=365.0, description="a bounce shows that it is gone; 0 = never")

    def policy(self) -> OutcomePolicy:
        """Return what the engine takes."""
        return OutcomePolicy(**self.model_dump())


class AccountPolicyBody(BaseModel):
    """What an account wants done; what is left out is the default."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    tiers: TierPolicyBody = Field(default_factory=TierPolicyBody)
    outcomes: OutcomePolicyBody = Field(default_factory=OutcomePolicyBody)

    def policy(self) -> AccountPolicy:
        """Return what the engine takes."""
        return AccountPolicy(self.tiers.policy(), self.outcomes.policy())
