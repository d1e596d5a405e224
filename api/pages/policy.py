"""/outcomes/policy: what the account wants done with verdicts, and how long what happened is believed.

/jobs/…/what-if: another policy beside the one a job has, over the same verdicts; kept or dropped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from mailsift.api.pages.forms import Form, attempt, text
from mailsift.api.pages.page import render, see_other
from mailsift.api.pages.visitor import JobMember, JobReader, Member, Reader
from mailsift.api.pages.words import TIER_COLOURS, TIER_NAMES
from mailsift.api.parts import ApiParts, parts_of
from mailsift.jobs.policies import AccountPolicy
from mailsift.jobs.views import JobId
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.outcomes.outcome import MOST_DAYS, OutcomePolicy
from mailsift.pipeline.tiers import Tier, TierPolicy
from mailsift.storage.states import ENDED

router = APIRouter(prefix="/outcomes/policy", include_in_schema=False)
what_if_router = APIRouter(include_in_schema=False)

_LONGEST: Final = 4_000
_CHOICES: Final = tuple(TIER_NAMES.items())
_NEVER_SEND: Final = _CHOICES[1:]
_QUESTIONS: Final = (
    ("catch_all", "The domain accepts every address", _CHOICES),
    ("unverifiable", "The provider answers everybody alike", _CHOICES),
    ("unknown", "Nobody could say, this time", _CHOICES),
    ("mailbox_full", "The mailbox is full", _CHOICES),
    ("suggestion", "Another address was probably meant", _CHOICES),
    ("role", "A function, not a person (info@)", _CHOICES),
    ("free", "A free mailbox provider", _CHOICES),
    ("disposable", "A throw-away domain", _CHOICES),
    ("passed", "Good, but no mailbox was asked", _CHOICES),
    ("low_score", "The score is below the minimum", _CHOICES),
    ("complained", "Complained about a message", _NEVER_SEND),
    ("unsubscribed", "Unsubscribed", _NEVER_SEND),
    ("suppressed", "On the suppression list", _NEVER_SEND),
)
"""Every member of a policy that is a tier: its name, label and choices."""
_TIERS: Final = (*(name for name, _, _ in _QUESTIONS), "minimum_score")
_DAYS: Final = ("delivered_days", "bounced_days")
_ALWAYS: Final = {
    Tier.SEND: ("Everything else",),
    Tier.REVIEW: (),
    Tier.REMOVE: ("Invalid addresses: mail to them would bounce",),
}


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
        found = await parts.policies.get(visitor.account_id)
        return _page(request, found, typed=typed, error=_invalid(error))
    await parts.policies.put(visitor.account_id, wanted)
    return see_other("/outcomes/policy", "Policy saved. It applies to jobs you start from now on.")


def _policy_of(typed: Mapping[str, str]) -> AccountPolicy:
    days = {name: _days(typed[name]) for name in _DAYS if name in typed}
    return AccountPolicy(TierPolicy.read(typed), OutcomePolicy(**days))


def _invalid(why: ValueError) -> MailsiftError:
    return MailsiftError("policy_invalid", f"This policy isn’t valid: {why}.")


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
        questions=_QUESTIONS,
        filled={**found.tiers.as_json(), **days, **(typed or {})},
        outcomes=found.outcomes,
        most_days=MOST_DAYS,
        meaning=_in_words(found.tiers),
        is_default=found == AccountPolicy(),
        error=error,
    )


def _in_words(wanted: TierPolicy) -> list[tuple[str, str, list[str]]]:
    """Return what a policy comes to: name and colour of each tier, and on which grounds."""
    chosen = wanted.as_json()
    held = {tier: [*grounds] for tier, grounds in _ALWAYS.items()}
    for name, label, _ in _QUESTIONS:
        if name != "low_score":
            held[chosen[name]].append(label)
        elif wanted.minimum_score:
            held[chosen[name]].append(f"A score below {wanted.minimum_score}")
    return [(TIER_NAMES[tier], TIER_COLOURS[tier].value, held[tier]) for tier in Tier]


@what_if_router.get("/jobs/{job_id:uuid}/what-if")
async def what_if(request: Request, visitor: JobReader, job_id: JobId) -> HTMLResponse:
    """Show the form of a policy and, when it was filled in, both policies side by side."""
    parts = parts_of(request)
    view = await parts.jobs.get(visitor.account_id, job_id)
    asked = dict(request.query_params)
    policy, error, found = view.policy, None, None
    if asked:
        try:
            policy = TierPolicy.parse(asked)
            found = await parts.jobs.replay(visitor.account_id, job_id, policy)
        except ValueError as trouble:
            error = _invalid(trouble)
        except MailsiftError as trouble:
            if trouble.code != "no_results_yet":
                raise
            error = trouble
    fields = policy.as_json()
    return render(
        request,
        "what_if.html",
        status=200,
        view=view,
        questions=_QUESTIONS,
        filled=fields | ({name: asked[name] for name in fields if name in asked} if error else {}),
        written=json.dumps(fields),
        error=error,
        found=found,
        tiers=_CHOICES,
        ended=view.state in ENDED,
    )


@what_if_router.post("/jobs/{job_id:uuid}/what-if")
async def keep(request: Request, visitor: JobMember, job_id: JobId, form: Form) -> Response:
    """Give the job the policy that was tried."""
    written = form.get("policy", "")
    if not isinstance(written, str) or len(written) > _LONGEST:
        raise MailsiftError("bad_option", "This policy isn’t valid.")
    parts, address = parts_of(request), f"/jobs/{job_id}"
    done = "The job now uses this policy, and so do its downloads."
    return await attempt(address, _keep_policy(parts, visitor.account_id, job_id, written), done)


async def _keep_policy(parts: ApiParts, account_id: Any, job_id: JobId, written: str) -> None:
    try:
        policy = TierPolicy.parse(json.loads(written))
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        raise MailsiftError("policy_invalid", "This policy isn’t valid.") from None
    await parts.jobs.replay(account_id, job_id, policy, keep=True)
