"""An account's and a job's policy, as they stand in requests and answers."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from mailsift.api.http.inputs import WHOLE
from mailsift.jobs.policies import AccountPolicy
from mailsift.pipeline.outcomes.outcome import MOST_DAYS, OutcomePolicy
from mailsift.pipeline.tiers import Tier, TierPolicy

NeverSend: TypeAlias = Literal[Tier.REVIEW, Tier.REMOVE]


_TIERS, _OUTCOMES = TierPolicy(), OutcomePolicy()

_Score: TypeAlias = Annotated[int, Field(ge=0, le=100), WHOLE]
_Days: TypeAlias = Annotated[float, Field(ge=0, le=MOST_DAYS, strict=True, allow_inf_nan=False)]


class TierPolicyBody(BaseModel):
    """What to do with an address of which this holds, of several the strictest; the invalid is removed."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    complained: NeverSend = Field(default=Tier.REMOVE, description="the recipient called a message spam")
    unsubscribed: NeverSend = Tier.REMOVE
    suppressed: NeverSend = Field(default=Tier.REMOVE, description="on the account's suppression list")
    disposable: Tier = Field(default=_TIERS.disposable)
    mailbox_full: Tier = Field(default=_TIERS.mailbox_full)
    catch_all: Tier = Field(default=_TIERS.catch_all)
    unverifiable: Tier = Field(
        default=_TIERS.unverifiable, description="the provider answers the same for every mailbox"
    )
    unknown: Tier = Field(default=_TIERS.unknown, description="could not be decided this time")
    passed: Tier = Field(
        default=_TIERS.passed, description="good as far as the mode checks; it asks no mailbox"
    )
    suggestion: Tier = Field(default=_TIERS.suggestion, description="another address was probably meant")
    role: Tier = Field(default=_TIERS.role, description="info@, sales@")
    free: Tier = Field(default=_TIERS.free, description="at a provider of free mailboxes")
    low_score: Tier = Field(default=_TIERS.low_score, description="the score is below `minimum_score`")
    minimum_score: _Score = Field(default=_TIERS.minimum_score)

    def policy(self) -> TierPolicy:
        """Return what the engine takes."""
        return TierPolicy(**self.model_dump())


class OutcomePolicyBody(BaseModel):
    """For how many days what happened is believed."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    delivered_days: _Days = Field(
        default=_OUTCOMES.delivered_days, description="a delivery shows the mailbox; 0 = never"
    )
    bounced_days: _Days = Field(
        default=_OUTCOMES.bounced_days, description="a bounce shows that it is gone; 0 = never"
    )


class AccountPolicyBody(BaseModel):
    """What an account wants done; what is left out is the default."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    tiers: TierPolicyBody = Field(default_factory=TierPolicyBody)
    outcomes: OutcomePolicyBody = Field(default_factory=OutcomePolicyBody)

    def policy(self) -> AccountPolicy:
        """Return what the engine takes."""
        return AccountPolicy(self.tiers.policy(), OutcomePolicy(**self.outcomes.model_dump()))
