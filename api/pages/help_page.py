"""/help and /probing: what every page is for, and who asks mail servers; open to who cannot sign in."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from mailsift.api.pages.page import render
from mailsift.api.pages.visitor import look_for_visitor
from mailsift.api.parts import parts_of

router = APIRouter(include_in_schema=False)


@router.get("/help")
async def show_help(request: Request) -> HTMLResponse:
    """Show what every page is for and what its words mean; the topics of operators to operators."""
    await look_for_visitor(request)
    return render(request, "help.html")


@router.get("/probing")
async def probing(request: Request) -> Response:
    """Tell a mail server's owner, who looks up the name that asked it, who asks and how to opt out."""
    notice = await asyncio.to_thread(parts_of(request).probing)
    return render(request, "probing.html", helo_name=notice.helo_name, contact=notice.contact)
