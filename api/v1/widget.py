"""What forms on other people's pages ask: /widget.js, and a check with a public key that tells three things.

This is the widget's own protocol, not one for programs: it is not in the OpenAPI description and changes with
the widget. docs/widget.md says what it refuses.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import StringConstraints

from mailsift.accounts.widget import LIFETIME, MOST_CHECKS, FormVisit, check_origin
from mailsift.api.http.auth import client_of
from mailsift.api.http.inputs import Email, RequestModel, StrictRoute, Whole
from mailsift.api.http.responses import answer
from mailsift.api.parts import parts_of
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.single import SingleOptions
from mailsift.pipeline.verdict import Result, suggested_address

router = APIRouter(include_in_schema=False, route_class=StrictRoute)

_DEADLINE: Final = 0.6
"""Seconds; the widget itself waits for 0.8."""
_WHY: Final = {
    Result.SYNTAX_ERROR: "syntax",
    Result.DISPOSABLE: "disposable",
    Result.DOMAIN_NOT_FOUND: "domain",
    Result.NO_MAIL_SERVER: "domain",
    Result.NULL_MX: "domain",
    Result.UNROUTABLE: "domain",
}
"""What is told of a verdict; nothing of it is about a mailbox."""
_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "POST",
    "Access-Control-Allow-Headers": "content-type",
    "Access-Control-Max-Age": "7200",
}
_SCRIPT: Final = {
    "Access-Control-Allow-Origin": "*",  # so that a page may pin it (Subresource Integrity)
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Cache-Control": "public, max-age=3600",
}

_Short = Annotated[str, StringConstraints(max_length=200)]


class Load(RequestModel):
    """A page wants to check addresses."""

    key: _Short


class Check(Load):
    """A page asks about one address."""

    token: _Short
    number: Whole
    email: Email


@router.get("/widget.js")
async def script(request: Request) -> Response:
    """Return the widget."""
    asset = request.app.state.theme.assets.get("widget.js")
    return Response(asset.content, media_type=asset.media_type, headers=_SCRIPT)


@router.options("/v1/widget/session")
@router.options("/v1/widget/check")
async def preflight(request: Request) -> Response:
    """Let a browser ask; whether the page may is seen when it comes with its key."""
    return Response(status_code=204, headers={**_PREFLIGHT, **_readable_by(_origin(request))})


@router.post("/v1/widget/session")
async def widget_session(request: Request, wanted: Load) -> JSONResponse:
    """Return a token for this page load."""
    visit = await _visit(request, wanted.key)
    token = await parts_of(request).widget.open(visit)
    return answer({"token": token, "seconds": LIFETIME, "checks": MOST_CHECKS}, "The page may ask.")


@router.post("/v1/widget/check")
async def widget_check(request: Request, wanted: Check) -> JSONResponse:
    """Say whether mail can go there as far as everybody may know, and what was probably meant."""
    visit = await _visit(request, wanted.key)
    parts = parts_of(request)
    await parts.widget.admit(visit, wanted.token, wanted.number)
    caller = visit.caller
    options = SingleOptions(Mode.MEDIUM, _DEADLINE, owner=caller.owner, outcomes=False)
    verdict = await parts.single_of(caller).validate(wanted.email, options)
    return answer(_public(verdict), "The address was looked at.")


def _public(verdict: dict[str, Any]) -> dict[str, Any]:
    """Return what a stranger may know of a verdict."""
    meant = suggested_address(verdict)
    why = _WHY.get(verdict["result"], "")
    return {"ok": not why, "suggestion": meant, "why": "typo" if meant else why}


async def _visit(request: Request, key: str) -> FormVisit:
    caller = await parts_of(request).authenticator.admit_public(request, key)
    visit = FormVisit(caller, _origin(request), client_of(request))
    check_origin(visit)
    request.state.limit_headers = _readable_by(visit.origin)
    return visit


def _origin(request: Request) -> str:
    """Return where a page is from, by its browser."""
    found = request.headers.getlist("origin")
    if len(found) != 1:
        raise MailsiftError("origin_refused", "This key can’t be used on pages from this origin.")
    return found[0]


def _readable_by(origin: str) -> dict[str, str]:
    return {"Access-Control-Allow-Origin": origin}  # no cache keeps the answer
