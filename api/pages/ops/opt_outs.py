"""/ops/opt-outs: domains that do not want their mail servers to be asked about mailboxes."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from mailsift.api.pages.forms import read_form, text
from mailsift.api.pages.page import render, see
from mailsift.api.pages.visitor import Operator
from mailsift.api.parts import parts_of

router = APIRouter(prefix="/ops", include_in_schema=False)


@router.get("/opt-outs")
async def opt_outs(request: Request, _: Operator) -> Response:
    """Show who opted out."""
    return render(request, "ops/opt_outs.html", rows=await parts_of(request).operations.throttles.opt_outs())


@router.post("/opt-outs/add")
async def add(request: Request, visitor: Operator) -> Response:
    """Ask a domain nothing more."""
    form = await read_form(request)
    domain = await parts_of(request).operations.throttles.opt_out(
        visitor.email, text(form, "domain", most=300), note=text(form, "note")
    )
    return see("/ops/opt-outs", f"{domain} and what is below it is not asked any more.")


@router.post("/opt-outs/remove")
async def remove(request: Request, visitor: Operator) -> Response:
    """Let a domain be asked again."""
    domain = text(await read_form(request), "domain", most=300)
    gone = await parts_of(request).operations.throttles.opt_in(visitor.email, domain)
    return see("/ops/opt-outs", f"{domain} may be asked again." if gone else "It had not opted out.")
