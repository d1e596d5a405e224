"""Errors as people see them on pages: what happened, what to do, and the code to search for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from api.pages.page import render
from pipeline.errors import MailsiftError

_MACHINES: Final = ("/v1/", "/openapi.json", "/healthz", "/readyz", "/metrics", "/static/", "/csp-report")
_TITLES: Final[Mapping[int, str]] = {
    400: "This request cannot be read",
    401: "Sign in first",
    403: "You may not do this",
    404: "There is nothing here",
    405: "That is not possible here",
    409: "That is not possible now",
    413: "That is too large",
    415: "That is not a kind of file we read",
    422: "Something is missing or wrong",
    429: "That was too often",
    500: "Something broke on our side",
    503: "We cannot answer right now",
}
_HINTS: Final[Mapping[int, str]] = {
    404: "It may have been deleted, or it belongs to another account.",
    500: "It was written down under the number below. Trying again may help.",
    503: "A server we need does not answer. Nothing is lost; try again in a moment.",
}


def face(request: Request, error: MailsiftError, status: int, headers: Mapping[str, str]) -> Response | None:
    """Return the page of an error; None for who is no browser looking at a page."""
    if request.url.path.startswith(_MACHINES) or "text/html" not in request.headers.get("accept", ""):
        return None
    if error.code == "sign_in_needed":
        return RedirectResponse(_login(request), 303, headers={"Cache-Control": "no-store"})
    page = render(
        request,
        "error.html",
        status=status,
        title=_TITLES.get(status, _TITLES[500]),
        message=error.message,
        hint=_HINTS.get(status, ""),
        code=error.code,
        request_id=str(request.scope.get("request_id", "")),
    )
    page.headers.update(headers)
    return page


def _login(request: Request) -> str:
    if request.method != "GET" or request.url.path == "/":
        return "/login"
    asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return f"/login?next={quote(asked, safe='/')}"
