"""The application: operations, pages, middleware, errors and their description put together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware

from mailsift.api import doors, health, mcp, pages, v1
from mailsift.api.http import errors
from mailsift.api.http.inputs import Strangers
from mailsift.api.http.middleware import CompressionMiddleware, RequestMiddleware
from mailsift.api.http.openapi import add_openapi
from mailsift.api.mcp import BODY_BYTES as MCP_BYTES
from mailsift.api.pages.page import error_page, load_theme
from mailsift.api.pages.visitor import look_for_visitor
from mailsift.api.parts import ApiParts
from mailsift.api.v1 import outcomes
from mailsift.jobs.outcomes import MOST_BYTES

_ABOUT: Final = (
    "Send a list of addresses; every address comes back with a verdict, a score and the reason. Every answer"
    " is `{data, message, status, success}`; errors carry the members of RFC 9457 and a stable `code` too."
)
_FORM_OVERHEAD: Final = 64 * 1024
_LISTS: Final = (("POST", "/v1/bulk/jobs"), ("POST", "/lists"), ("PATCH", "/uploads/"))
"""Where lists come in."""
_LARGE: Final = {
    ("POST", mcp.PATH): MCP_BYTES,
    ("POST", "/v1/outcomes"): MOST_BYTES,
    ("POST", "/outcomes"): MOST_BYTES,
    ("POST", "/v1/suppressions/import"): MOST_BYTES,
    ("POST", "/suppressions/import"): MOST_BYTES,
    ("POST", "/v1/suppressions"): outcomes.SUPPRESSIONS_BYTES,
    ("POST", "/v1/suppressions/remove"): outcomes.SUPPRESSIONS_BYTES,
    ("POST", "/receivers/"): outcomes.WEBHOOK_BYTES,
}
"""Most bytes of what else has long bodies, as RequestMiddleware takes it."""


def create_app(parts: ApiParts) -> FastAPI:
    """Return the ASGI application over these parts; it opens and closes none of them."""
    app = FastAPI(
        title="Mailsift",
        description=_ABOUT,
        version=version("mailsift"),
        openapi_url=None,  # ours is written once
        docs_url=None,  # both pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        # Its spans and logs would hold paths and the words of errors; ours are opened by the middleware.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    add_openapi(app)
    app.state.parts = parts
    app.state.theme = load_theme()
    app.state.strangers = Strangers(parts.max_bytes)
    # Not included: then every request would pass through a router more, and the first one would wait until
    # models are made anew that the routes have already.
    opened = [doors.find_door(door) for door in parts.doors]
    vendors = [door.router for door in opened]
    routers = (*v1.ROUTERS, *vendors, health.router, mcp.router, *pages.ROUTERS)
    app.router.routes.extend(route for router in routers for route in router.routes)
    lists = dict.fromkeys(_LISTS, parts.max_bytes)
    for door in opened:
        lists |= door.large
    large = _LARGE | {place: min(most, parts.max_bytes) + _FORM_OVERHEAD for place, most in lists.items()}
    errors.install_error_handlers(app, (doors.error_shape(opened), error_page), look_for_visitor)
    # All of it: what the framework would put around ours catches what ours has caught, and counts nothing.
    routes = AsyncExitStackMiddleware(app.router)
    handled = ExceptionMiddleware(routes, handlers=app.exception_handlers)
    app.middleware_stack = RequestMiddleware(CompressionMiddleware(handled), large, doors.is_door)
    return app
