"""/jobs/…/what-if: another policy beside the one a job has, over the same verdicts; kept or dropped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from mailsift.api.pages.filters import number, percent
from mailsift.api.pages.forms import Form, attempt
from mailsift.api.pages.page import render
from mailsift.api.pages.tiers import NAMES
from mailsift.api.pages.visitor import JobMember, JobReader
from mailsift.api.pages.words import result_name
from mailsift.api.parts import ApiParts, parts_of
from mailsift.jobs.results.tiers import Replay
from mailsift.jobs.views import JobId, JobView
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.judge.tiers import TierPolicy
from mailsift.storage.states import ENDED

router = APIRouter(include_in_schema=False)

_LONGEST: Final = 4_000
TIERS: Final = tuple(NAMES.items())
_NEVER_SEND: Final = TIERS[1:]
QUESTIONS: Final = (
    ("catch_all", "The domain accepts every address", TIERS),
    ("unverifiable", "The provider answers everybody alike", TIERS),
    ("unknown", "Nobody could say, this time", TIERS),
    ("mailbox_full", "The mailbox is full", TIERS),
    ("suggestion", "Another address was probably meant", TIERS),
    ("role", "A function, not a person (info@)", TIERS),
    ("free", "A free mailbox provider", TIERS),
    ("disposable", "A throw-away domain", TIERS),
    ("passed", "Good, but no mailbox was asked", TIERS),
    ("low_score", "The score is below the minimum", TIERS),
    ("complained", "Complained about a message", _NEVER_SEND),
    ("unsubscribed", "Unsubscribed", _NEVER_SEND),
    ("suppressed", "On the suppression list", _NEVER_SEND),
)
"""Every member of a policy that is a tier: its name, label and choices."""


@dataclass(frozen=True, slots=True)
class TierBeside:
    """One tier by both policies, as text."""

    label: str
    before: str
    before_share: str
    after: str
    after_share: str


@router.get("/jobs/{job_id:uuid}/what-if")
async def what_if(request: Request, visitor: JobReader, job_id: JobId) -> HTMLResponse:
    """Show the form of a policy and, when it was filled in, both policies side by side."""
    parts = parts_of(request)
    view = await parts.jobs.get(visitor.account_id, job_id)
    asked = dict(request.query_params)
    policy, error, found = view.policy, None, None
    if asked:
        try:
            policy = _policy_of(asked)
            found = await parts.jobs.replay(visitor.account_id, job_id, policy)
        except MailsiftError as trouble:
            if trouble.code not in {"policy_invalid", "no_results_yet"}:
                raise
            error = trouble
    shown = policy.as_json()
    return render(
        request,
        "what_if.html",
        view=view,
        questions=QUESTIONS,
        filled=shown | ({name: asked[name] for name in shown if name in asked} if error else {}),
        written=json.dumps(shown),
        error=error,
        found=found,
        tiers=_tier_changes(view, found) if found else (),
        ended=view.state in ENDED,
        result_name=result_name,
    )


@router.post("/jobs/{job_id:uuid}/what-if")
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


def _policy_of(asked: Mapping[str, str]) -> TierPolicy:
    """Return the policy of a form.

    Raises:
        MailsiftError: `policy_invalid`.
    """
    try:
        return TierPolicy.parse(asked)
    except ValueError as error:
        raise MailsiftError("policy_invalid", f"This policy isn’t valid: {error}.") from None


def _tier_changes(view: JobView, found: Replay) -> tuple[TierBeside, ...]:
    before, after, whole = found.before, found.after, view.processed
    return tuple(
        TierBeside(
            label,
            number(before[tier.value]),
            percent(before[tier.value], whole),
            number(after[tier.value]),
            percent(after[tier.value], whole),
        )
        for tier, label in TIERS
    )
