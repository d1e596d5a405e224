"""A page: a template with what every page knows, and the headers every page has."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from api.pages import cookies
from api.pages.filters import FILTERS
from api.pages.static import Assets
from api.parts import parts_of
from api.people_views import Role, Visitor

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'; report-uri /csp-report"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Look:
    """What pages are made with: templates and static files."""

    templates: Environment
    assets: Assets


@cache
def make_look() -> Look:
    """Read the templates and the static files, once a process."""
    templates = Environment(
        loader=PackageLoader("api"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    assets = Assets.load()
    templates.filters.update(FILTERS)
    templates.globals.update(asset=assets.address, Role=Role)
    return Look(templates, assets)


def render(request: Request, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """Return a page.

    Templates know beside `context`: `visitor` (None when nobody is signed in), `can_change` (a member or
    owner), `is_owner`, `csrf` and `csrf_field()`, `now`, `path`, `flash` (kind and text, or None).
    """
    look: Look = request.app.state.look
    visitor = visitor_known(request)
    secret = cookies.read(request, cookies.SESSION if visitor else cookies.FORM)
    fresh = "" if secret else secrets.token_urlsafe(24)
    flash = cookies.read(request, cookies.FLASH)
    token = cookies.csrf_token(secret or fresh)
    common = {
        "visitor": visitor,
        "can_change": visitor is not None and visitor.role.may(Role.MEMBER),
        "is_owner": visitor is not None and visitor.role.may(Role.OWNER),
        "csrf": token,
        "csrf_field": lambda: Markup('<input type="hidden" name="csrf" value="{}">').format(token),
        "now": now_of(request),
        "path": request.url.path,
        "flash": cookies.read_flash(flash) if flash else None,
    }
    page = HTMLResponse(
        look.templates.get_template(template).render({**common, **context}), status, headers=HEADERS
    )
    if flash:
        cookies.drop(page, cookies.FLASH)
    if fresh and visitor is None:
        cookies.put(page, cookies.FORM, fresh)
    return page


def see(
    request: Request,  # noqa: ARG001 - as with render: what is answered
    address: str,
    message: str = "",
    *,
    kind: str = "good",
) -> RedirectResponse:
    """Return what follows a POST: the browser gets another page, which shows the message once.

    Args:
        request: the POST.
        address: a path of ours.
        message: one sentence in plain words.
        kind: `good` or `bad`.
    """
    response = RedirectResponse(address, 303, headers={"Cache-Control": "no-store"})
    if message:
        cookies.put(response, cookies.FLASH, cookies.write_flash(message, kind), seconds=60)
    return response


def visitor_known(request: Request) -> Visitor | None:
    """Return who has been found to be signed in (api.pages.visitor), None when nobody looked."""
    found: Visitor | None = getattr(request.state, "visitor", None)
    return found


def now_of(request: Request) -> datetime:
    """Return the time, UTC."""
    return datetime.fromtimestamp(parts_of(request).clock(), UTC)
