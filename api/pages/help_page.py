"""/help: what every page is for, what to do there and what its words mean; every page links to its topic."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from mailsift.api.pages.page import render
from mailsift.api.pages.visitor import look_for_visitor

router = APIRouter(include_in_schema=False)


@router.get("/help")
async def show_help(request: Request) -> HTMLResponse:
    """Show every topic, those of operators to operators; open to who cannot sign in."""
    await look_for_visitor(request)
    return render(request, "help.html")
