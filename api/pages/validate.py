"""/: one address and its evidence, a list to be dropped, and the first things there are to do, as cards."""

from __future__ import annotations

import json
import time
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from mailsift.accounts.first_steps import FirstStep
from mailsift.accounts.people import Role, Visitor
from mailsift.api.http.responses import provider_in
from mailsift.api.pages.evidence import VerdictDetail, verdict_detail
from mailsift.api.pages.forms import Form, choice, typed_text
from mailsift.api.pages.page import our_address, page_before, render, see_other
from mailsift.api.pages.visitor import Member, Reader
from mailsift.api.parts import parts_of
from mailsift.pipeline.errors import MailsiftError, SuppressCodes
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.outcomes.chances import cell_of
from mailsift.pipeline.single import SingleOptions

router = APIRouter(include_in_schema=False)

FRAGMENT: Final = "X-Fragment"
"""Header of a script that wants only the piece of a page it asked for, and errors as JSON."""
_LONGEST: Final = 1_000
_DEADLINE: Final = 20.0  # seconds; what is not known by then makes the verdict risky


@router.get("/")
async def validate(request: Request, visitor: Reader) -> HTMLResponse:
    """Show the form for one address and the place for a list."""
    return await _page(request, visitor)


@router.post("/")
async def validate_one(request: Request, visitor: Member, form: Form) -> HTMLResponse:
    """Validate one address; the answer shows it, and nothing of it is kept."""
    email = typed_text(form, "email", most=_LONGEST)  # invisible marks beside it are the validator's matter
    mode = Mode(choice(form, "mode", set(Mode)))
    if not email.strip():
        raise MailsiftError("bad_option", "Enter an email address first.")
    started = time.monotonic()
    repair = "repair" in form
    options = SingleOptions(mode, _DEADLINE, owner=str(visitor.account_id), evidence=True, repair=repair)
    single = parts_of(request).single
    verdict = await single.validate(email, options)
    evidence = json.loads(verdict.pop("evidence") or "{}")
    judged, seconds = single.judged_address(email, repair=repair), time.monotonic() - started
    chances = await parts_of(request).accuracy.chances(visitor.account_id)
    chance = chances.of(cell_of(verdict, provider_in(evidence)))
    detail = verdict_detail(email, verdict, evidence, judged=judged, seconds=seconds, chance=chance)
    if FRAGMENT in request.headers:
        return render(request, "verdict.html", detail=detail, tier=None)
    return await _page(request, visitor, mode=mode, repair=repair, detail=detail)


async def _page(
    request: Request,
    visitor: Visitor,
    *,
    mode: Mode = Mode.DEEP,
    repair: bool = False,
    detail: VerdictDetail | None = None,
) -> HTMLResponse:
    parts = parts_of(request)
    drafts = uploads = None
    with SuppressCodes("blob_store_failed"):  # an address needs no store
        owner = visitor.account_id
        drafts, uploads = await parts.drafts.waiting(owner), await parts.uploads.waiting(owner)
    return render(
        request,
        "validate.html",
        **await first_steps_context(request, visitor),
        drafts=drafts,
        uploads=uploads,
        mode=mode,
        repair=repair,
        detail=detail,
        tier=None,
        max_bytes=parts.max_bytes,
    )


async def first_steps_context(request: Request, visitor: Visitor) -> dict[str, Any]:
    """Return what first_steps.html needs: nothing is left for whoever may not change anything."""
    if not visitor.role.may(Role.MEMBER):
        return {"steps": None, "address": ""}
    steps = await parts_of(request).first_steps.of(visitor)
    return {"steps": steps, "address": our_address(request)}


@router.post("/first-steps/sample")
async def run_sample(request: Request, visitor: Member, _form: Form) -> Response:
    """Run the sample list in test mode, and show it."""
    job_id = await parts_of(request).first_steps.run_sample(visitor.account_id)
    return see_other(f"/jobs/{job_id}")


@router.post("/first-steps/{step}/dismiss")
async def dismiss(request: Request, visitor: Member, step: str, _form: Form) -> Response:
    """Put a step away."""
    if step not in set(FirstStep):
        raise MailsiftError("not_found", "There is nothing here.")
    await parts_of(request).first_steps.dismiss(visitor, FirstStep(step))
    return see_other(page_before(request))
