"""The first things there are to do, as cards on the pages where people arrive."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from mailsift.accounts.first_steps import FirstStep
from mailsift.accounts.people import Role, Visitor
from mailsift.api.pages.forms import Form
from mailsift.api.pages.page import our_address, page_before, see
from mailsift.api.pages.visitor import Member
from mailsift.api.parts import parts_of
from mailsift.pipeline.errors import MailsiftError

router = APIRouter(prefix="/first-steps", include_in_schema=False)

_STEPS: Final = {step.value: step for step in FirstStep}


async def first_steps_context(request: Request, visitor: Visitor) -> dict[str, Any]:
    """Return what first_steps.html needs: nothing is left for whoever may not change anything."""
    if not visitor.role.may(Role.MEMBER):
        return {"steps": None, "address": ""}
    steps = await parts_of(request).first_steps.of(visitor)
    return {"steps": steps, "address": our_address(request)}


@router.post("/sample")
async def run_sample(request: Request, visitor: Member, _form: Form) -> Response:
    """Run the sample list in test mode, and show it."""
    job_id = await parts_of(request).first_steps.run_sample(visitor.account_id)
    return see(f"/jobs/{job_id}")


@router.post("/{step}/dismiss")
async def dismiss(request: Request, visitor: Member, step: str, _form: Form) -> Response:
    """Put a step away."""
    if step not in _STEPS:
        raise MailsiftError("not_found", "There is nothing here.")
    await parts_of(request).first_steps.dismiss(visitor, _STEPS[step])
    return see(page_before(request))
