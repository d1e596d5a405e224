"""A page: a template with what every page knows, its headers and static files, and the page of an error."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.routing import Match

from mailsift.accounts.people import Role, Visitor
from mailsift.accounts.sessions import LONGEST_PASSWORD, SHORTEST_PASSWORD
from mailsift.api.http.auth import client_of
from mailsift.api.pages import charts, cookies, words
from mailsift.api.pages.words import FILTERS
from mailsift.api.parts import parts_of
from mailsift.jobs.admin.alarms import RULE_OF
from mailsift.jobs.admin.console import describe_trouble
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.zones import DEFAULT_ZONE, zone_names
from mailsift.storage.redis.rate_limit import Zone

router = APIRouter(include_in_schema=False)
_log = structlog.get_logger()

_CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'; report-uri /csp-report"
)
HEADERS: Final = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
HOME: Final = "/"
LONGEST_GOAL: Final = 2_000  # characters of an address that a form leads back to
_MACHINES: Final = ("/v1/", "/openapi.json", "/healthz", "/readyz", "/metrics", "/static/", "/csp-report")
_TITLES: Final[Mapping[int, str]] = {
    400: "This request cannot be read",
    401: "Sign in first",
    403: "You do not have permission",
    404: "There is nothing here",
    405: "That is not possible here",
    409: "That is not possible now",
    413: "That is too large",
    415: "That is not a kind of file we read",
    422: "Something is missing or wrong",
    429: "Too many requests",
    500: "Something went wrong on our side",
    503: "We cannot answer right now",
}
_HINTS: Final[Mapping[int | str, str]] = {
    "other_account": "To do it there, change to that account first, under your name.",
    "link_gone": "If it was you who used it, you can sign in.",
    404: "It may have been deleted, or it belongs to another account.",
    500: "It was logged under the number below. Trying again may help.",
    503: "A server we depend on is not answering. Nothing is lost; try again in a moment.",
}

_TOPIC_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "validate": ("validate",),
    "list": ("list",),
    "jobs": ("jobs",),
    "job": ("job",),
    "results": ("results",),
    "row": ("row",),
    "runs": ("runs",),
    "what-if": ("what_if",),
    "schedules": ("schedules", "schedule", "schedule_form"),
    "outcomes": ("outcomes",),
    "receivers": ("receiver", "receiver_new"),
    "suppressions": ("suppressions",),
    "policy": ("policy",),
    "accuracy": ("accuracy",),
    "webhooks": ("webhooks", "webhook", "webhook_form", "webhook_secret"),
    "deliveries": ("deliveries", "delivery"),
    "keys": ("keys", "key_new", "key_made", "key_roll"),
    "account": ("account",),
    "data": ("account_data",),
    "log": ("account_log",),
    "you": ("you", "you_code", "you_codes"),
    "sign-in": ("login", "login_code", "invite", "password", "welcome"),
    "probing": ("probing",),
    "errors": ("error",),
    "ops": ("ops/overview", "ops/runbook"),
    "ops-workers": ("ops/workers", "ops/leases", "ops/broker"),
    "ops-jobs": ("ops/jobs", "ops/job", "ops/schedules"),
    "ops-failing-chunks": ("ops/failing_chunks",),
    "ops-limits": ("ops/throttles", "ops/throttle"),
    "ops-ledger": ("ops/ledger",),
    "ops-opt-outs": ("ops/opt_outs",),
    "ops-accuracy": ("ops/accuracy",),
    "ops-facts": ("ops/cache",),
    "ops-deliveries": ("ops/deliveries",),
    "ops-audit": ("ops/audit",),
}
TOPICS: Final[Mapping[str, str]] = {
    f"{name}.html": topic for topic, names in _TOPIC_TEMPLATES.items() for name in names
}
"""The topic of help.html by the template of a page."""
_STATIC_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file; `version` changes when the content does."""

    content: bytes
    media_type: str
    version: str


def load_assets() -> dict[str, Asset]:
    """Read the files of api/static, by name."""
    found = {}
    for item in files("mailsift.api").joinpath("static").iterdir():
        if media_type := _STATIC_TYPES.get(PurePath(item.name).suffix):
            content = item.read_bytes()
            found[item.name] = Asset(content, media_type, hashlib.sha256(content).hexdigest()[:12])
    return found


@dataclass(frozen=True, slots=True)
class Theme:
    """What pages are made with: templates and static files."""

    templates: Environment
    assets: Mapping[str, Asset]


@cache
def load_theme() -> Theme:
    """Read the templates and the static files, once a process."""
    templates = Environment(
        loader=PackageLoader("mailsift.api"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_in_order,
    )
    assets = load_assets()

    def asset(name: str) -> str:
        """Return where a page loads a file from; browsers keep it until it changes."""
        return f"/static/{name}?v={assets[name].version}"

    templates.filters.update(FILTERS)
    templates.globals.update(
        asset=asset,
        charts=charts,
        describe_trouble=describe_trouble,
        longest_password=LONGEST_PASSWORD,
        provider_name=words.provider_name,
        result_name=words.result_name,
        Role=Role,
        shortest_password=SHORTEST_PASSWORD,
        wording=words,
        zone_names=zone_names,
    )
    return Theme(templates, assets)


_TURNING: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")


def _in_order(value: object) -> object:
    """Show in the place of a mark that turns what follows it round (CVE-2021-42574) that there is one."""
    if not isinstance(value, str) or value.isascii() or not _TURNING.search(value):
        return value
    return type(value)(_TURNING.sub("\N{REPLACEMENT CHARACTER}", value))


def render(
    request: Request,
    template: str,
    *,
    status: int | None = None,
    error: MailsiftError | None = None,
    **context: Any,
) -> HTMLResponse:
    """Return a page; its status is 200, with the `error` of a form that is shown again 422.

    Templates know beside these: `visitor` (None when nobody is signed in), `can_change` (a member or owner),
    `is_owner`, `csrf` and `csrf_field()`, `now`, `zone` (in which times are shown), `zone_offered`
    (they have not chosen one), `path`, `asked_again` (where a form leads back to), `help` (its topic),
    `test_mode` (of a test account), `alarm_looked_into` (whose link led here, or None), `flash` (kind and
    text, or None).
    """
    theme: Theme = request.app.state.theme
    visitor = visitor_known(request)
    secret = cookies.read(request, cookies.SESSION if visitor else cookies.FORM)
    fresh = "" if secret else secrets.token_urlsafe(24)
    flash, asked = cookies.read(request, cookies.FLASH), _path_and_query(request)
    token = cookies.mask(cookies.csrf_token(secret or fresh, visitor.account_id if visitor else ""))
    common = {
        "visitor": visitor,
        "can_change": visitor is not None and visitor.role.may(Role.MEMBER),
        "is_owner": visitor is not None and visitor.role.may(Role.OWNER),
        "csrf": token,
        "csrf_field": lambda: Markup('<input type="hidden" name="csrf" value="{}">').format(token),
        "now": now_of(request),
        "zone": zone_of(request),
        "zone_offered": visitor is not None and not visitor.zone_chosen and request.method == "GET",
        "path": request.url.path,
        "asked_again": asked if len(asked) <= LONGEST_GOAL else request.url.path,
        "help": TOPICS.get(template, ""),
        "test_mode": getattr(request.state, "test_mode", False),
        "alarm_looked_into": RULE_OF.get(request.query_params.get("alarm", "")),
        "flash": cookies.read_flash(flash) if flash else None,
        "error": error,
    }
    written = theme.templates.get_template(template).render({**common, **context})
    page = HTMLResponse(written, status or (422 if error else 200), headers=HEADERS)
    if flash:
        cookies.drop(page, cookies.FLASH)
    if fresh and visitor is None:
        cookies.put(page, cookies.FORM, fresh)
    return page


def render_live(request: Request, page: str, **context: Any) -> HTMLResponse:
    """Return a page that keeps itself up to date, or below `/live` only its block of that name."""
    return render(request, page, live=request.url.path.endswith("/live"), **context)


def see_other(address: str, message: str = "", *, kind: str = "good") -> RedirectResponse:
    """Return what follows a POST: another page of ours, which shows the message, `good` or `bad`, once."""
    response = RedirectResponse(address, 303, headers={"Cache-Control": "no-store"})
    if message:
        cookies.put(response, cookies.FLASH, cookies.write_flash(message, kind), seconds=60)
    return response


def visitor_known(request: Request) -> Visitor | None:
    """Return who has been found to be signed in (mailsift.api.pages.visitor), None when nobody looked."""
    found: Visitor | None = getattr(request.state, "visitor", None)
    return found


def our_address(request: Request) -> str:
    """Return how browsers and programs reach this service, without a slash at its end."""
    return parts_of(request).people.public_url or str(request.base_url).rstrip("/")


def zone_of(request: Request) -> str:
    """Return the time zone of who looks, UTC while nobody is signed in."""
    visitor = visitor_known(request)
    return visitor.zone if visitor else DEFAULT_ZONE


def now_of(request: Request) -> datetime:
    """Return the time, UTC."""
    return utc_datetime(parts_of(request).clock())


def error_page(
    request: Request, error: MailsiftError, status: int, headers: Mapping[str, str]
) -> Response | None:
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
        hint=_HINTS.get(error.code, _HINTS.get(status, "")),
        code=error.code,
        request_id=str(request.scope.get("request_id", "")),
        back=page_before(request) if error.code == "csrf_failed" else "",
    )
    page.headers.update(headers)
    return page


def inside(goal: str) -> str:
    """Return a path of ours to go to; another site's address, however written, becomes the first page."""
    safe = goal.startswith("/") and not goal.startswith(("//", "/\\")) and goal.isprintable()
    return goal if safe and goal.isascii() else HOME


def with_query(path: str, asked: Mapping[str, object]) -> str:
    """Return a path with what is asked of it; what is empty is not."""
    query = urlencode({name: value for name, value in asked.items() if value}, doseq=True)
    return f"{path}?{query}" if query else path


def our_hosts(request: Request) -> set[str]:
    """Return the names this service answers to in this request."""
    named = parts_of(request).people.public_url
    return {request.headers.get("host", "").lower(), *([urlsplit(named).netloc.lower()] if named else [])}


def page_before(request: Request) -> str:
    """Return the path of our page that a form was sent from; the first page when nobody can tell.

    The answer to a form that was filled in wrongly has the address of the form: then it is the page above.
    """
    try:
        asked = urlsplit(request.headers.get("referer", ""))
    except ValueError:
        return HOME
    if asked.netloc.lower() not in our_hosts(request):
        return HOME
    path = asked.path
    while path not in {"", HOME} and not _is_page(request, path):
        path = path.rpartition("/")[0]
    query = f"?{asked.query}" if asked.query and path == asked.path else ""
    return inside(f"{path or HOME}{query}")


def _is_page(request: Request, path: str) -> bool:
    asked = {**request.scope, "method": "GET", "path": path}
    return any(route.matches(asked)[0] is Match.FULL for route in request.app.routes)


def _login(request: Request) -> str:
    if request.method != "GET":
        return f"/login?next={quote(page_before(request), safe='/')}&ended=1"
    if request.url.path == HOME:
        return "/login"
    return f"/login?next={quote(_path_and_query(request), safe='/')}"


def _path_and_query(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


_FOR_EVER: Final = "public, max-age=31536000, immutable"
_A_WHILE: Final = "public, max-age=300"
_DIRECTIVES: Final = frozenset(
    {"script-src", "style-src", "img-src", "connect-src", "form-action", "frame-ancestors", "base-uri"}
)
_REPORTS: Final = Zone("csp_reports", quota=60, window=60)


@router.get("/static/{name}")
async def static(request: Request, name: str, v: str = "") -> Response:
    """Return a static file."""
    asset = request.app.state.theme.assets.get(name)
    if asset is None:
        raise MailsiftError("not_found", "There is no such file.")
    kept = _FOR_EVER if v == asset.version else _A_WHILE
    return Response(
        asset.content,
        media_type=asset.media_type,
        headers={"Cache-Control": kept, "Content-Security-Policy": "default-src 'none'; style-src 'self'"},
    )


@router.post("/csp-report", status_code=204)
async def csp_report(request: Request) -> Response:
    """Take a browser's report; written down is only which directive was broken: the rest may be anything."""
    decision = await parts_of(request).people.limit.take(_REPORTS, client_of(request))
    if decision is not None and decision.allowed:
        _log.warning("page.csp_report", directive=_directive_of(await request.body()))
    return Response(status_code=204)


def _directive_of(body: bytes) -> str:
    try:
        report: Any = json.loads(body)["csp-report"]
        named = str(report.get("effective-directive") or report["violated-directive"]).split(" ")[0]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return "unreadable"
    named = named.removesuffix("-elem").removesuffix("-attr")
    return named if named in _DIRECTIVES else "other"
