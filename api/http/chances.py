"""The chance that a message arrives, beside verdicts in answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, Field

from mailsift.pipeline.outcomes.chances import MeasuredShare

ASKED: Final = (
    "add `mailsift_p`, the chance that a message arrives, from what became of others, with its 95 % interval"
    " (`mailsift_p_low`, `mailsift_p_high`); nothing where too few outcomes are known"
)


class ChanceFields(BaseModel):
    """What `probability` adds to a verdict; it is no part of it."""

    mailsift_p: float | None = Field(
        default=None, ge=0, le=1, description="with `probability`: the chance; null where too little is known"
    )
    mailsift_p_low: float | None = Field(default=None, ge=0, le=1, description="its 95 % interval")
    mailsift_p_high: float | None = Field(default=None, ge=0, le=1)


def chance_fields(chance: MeasuredShare | None) -> dict[str, float | None]:
    found = (chance.value, chance.low, chance.high) if chance else (None, None, None)
    return dict(zip(ChanceFields.model_fields, found, strict=True))


def provider_in(evidence: Mapping[str, Any]) -> str:
    """Return who runs the mail server, by the evidence of a verdict; "" where nobody looked."""
    fact = evidence.get("domain")
    return str(fact["provider"]) if fact else ""
