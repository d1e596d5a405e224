"""/outcomes/policy: what the account wants done with verdicts, and how long what happened is believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from mailsift.api.pages.forms import Form, text
from mailsift.api.pages.page import render, see
from mailsift.api.pages.tiers import COLOURS, NAMES
from mailsift.api.pages.visitor import Member, Reader
from mailsift.api.pages.what_if import QUESTIONS
from mailsift.api.parts import parts_of
from mailsift.jobs.policies import AccountPolicy
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.judge.tiers import Tier, TierPolicy
from mailsift.pipeline.outcomes.history import MOST_DAYS, OutcomePolicy

router = APIRouter(prefix="/outcomes/policy", include_in_schema=False)

_TIERS: Final = (*(name for name, _, _ in QUESTIONS), "minimum_score")
_DAYS: Final = ("delivered_days", "bounced_days")
_ALWAYS: Final = {
    Tier.SEND: ("Everything else",),
    Tier.REVIEW: (),
    Tier.REMOVE: ("Invalid addresses: mail to them would bounce",),
}


@dataclass(frozen=True, slots=True)
class TierInWords:
    """What a policy does with one tier: its name and colour, and on which grounds."""

    name: str
    colour: str
    grounds: tuple[str, ...]


@router.get("")
async def policy(request: Request, visitor: Reader) -> HTMLResponse:
    """Show the account's policy and what it means."""
    return _page(request, await parts_of(request).policies.get(visitor.account_id))


@router.post("")
async def put_policy(request: Request, visitor: Member, form: Form) -> Response:
    """Set the account's policy, or go back to the default."""
    parts = parts_of(request)
    typed = {name: text(form, name) for name in (*_TIERS, *_DAYS) if name in form}
    try:
        wanted = AccountPolicy() if "reset" in form else _policy_of(typed)
    except ValueError as error:
        trouble = MailsiftError("policy_invalid", f"This policy isn’t valid: {error}.")
        return _page(request, await parts.policies.get(visitor.account_id), typed=typed, error=trouble)
    await parts.policies.put(visitor.account_id, wanted)
    return see("/outcomes/policy", "Policy saved. It applies to jobs you start from now on.")


def _policy_of(typed: Mapping[str, str]) -> AccountPolicy:
    days = {name: _days(typed[name]) for name in _DAYS if name in typed}
    return AccountPolicy(TierPolicy.read(typed), OutcomePolicy(**days))


def _days(given: str) -> float:
    try:
        return float(given)
    except ValueError:
        raise ValueError("days are a number") from None


def _page(
    request: Request,
    found: AccountPolicy,
    *,
    typed: Mapping[str, str] | None = None,
    error: MailsiftError | None = None,
) -> HTMLResponse:
    """Show a policy, and in the form what was typed where that is none."""
    days = {name: f"{getattr(found.outcomes, name):g}" for name in _DAYS}
    return render(
        request,
        "policy.html",
        status=422 if error else 200,
        questions=QUESTIONS,
        filled={**found.tiers.as_json(), **days, **(typed or {})},
        outcomes=found.outcomes,
        most_days=MOST_DAYS,
        meaning=in_words(found.tiers),
        is_default=found == AccountPolicy(),
        error=error,
    )


def in_words(wanted: TierPolicy) -> tuple[TierInWords, ...]:
    """Return what a policy comes to, tier by tier."""
    chosen = wanted.as_json()
    held = {tier: [*grounds] for tier, grounds in _ALWAYS.items()}
    for name, label, _ in QUESTIONS:
        if name != "low_score":
            held[chosen[name]].append(label)
        elif wanted.minimum_score:
            held[chosen[name]].append(f"A score below {wanted.minimum_score}")
    return tuple(TierInWords(NAMES[tier], COLOURS[tier].value, tuple(held[tier])) for tier in Tier)
