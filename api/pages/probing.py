"""/probing: what a mail server's owner finds who looks up the name that asked it, without signing in."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from mailsift.api.pages.page import render
from mailsift.api.parts import parts_of

router = APIRouter(include_in_schema=False)


@router.get("/probing")
async def probing(request: Request) -> Response:
    """Say who asks, what is asked and how to opt out."""
    notice = parts_of(request).probing
    return render(request, "probing.html", helo_name=notice.helo_name, contact=notice.contact)
