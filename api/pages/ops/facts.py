"""/ops/facts: what is remembered of a domain, and how to forget it."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from api.pages.forms import read_form, text
from api.pages.ops.entrance import Someone, desk_of
from api.pages.page import render, see

router = APIRouter(prefix="/ops/facts", include_in_schema=False)


@router.get("")
async def facts(request: Request, _: Someone, domain: str = "") -> Response:
    """Look a domain up."""
    found = await desk_of(request).console.facts(domain[:300]) if domain else None
    return render(request, "ops/facts.html", asked=domain[:300], found=found, at=_at)


@router.post("")
async def forget(request: Request, visitor: Someone) -> Response:
    """Forget a domain."""
    domain = text(await read_form(request), "domain", most=300)
    gone = await desk_of(request).brakes.forget(visitor.email, domain)
    told = "Forgotten: it is looked up again when it is next met." if gone else "There was nothing to forget."
    return see(request, f"/ops/facts?{urlencode({'domain': domain})}", told)


def _at(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
