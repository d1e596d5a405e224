"""The application: operations, pages, middleware, errors and their description put together."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import Response

from mailsift.api import doors, health, mcp, pages, v1
from mailsift.api.doors.entry import Strangers
from mailsift.api.http import errors
from mailsift.api.http.compression import CompressionMiddleware
from mailsift.api.http.middleware import RequestMiddleware
from mailsift.api.http.openapi import build_openapi
from mailsift.api.mcp.tools import BODY_BYTES as MCP_BYTES
from mailsift.api.pages import ops
from mailsift.api.pages.page import error_page, load_theme
from mailsift.api.pages.visitor import look_for_visitor
from mailsift.api.parts import ApiParts
from mailsift.api.v1 import outcomes, suppressions
from mailsift.jobs.outcomes import files as outcome_files
from mailsift.pipeline.errors import MailsiftError

_ABOUT: Final = (
    "Send a list of addresses; every address comes back with a verdict, a score and the reason. Every answer"
    " is `{data, message, status, success}`; errors carry the members of RFC 9457 and a stable `code` too."
)
_FORM_OVERHEAD: Final = 64 * 1024


def create_app(parts: ApiParts) -> FastAPI:
    """Return the ASGI application over these parts; it opens and closes none of them."""
    app = FastAPI(
        title="Mailsift",
        description=_ABOUT,
        version=version("mailsift"),
        docs_url=None,  # both pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        # Its spans and logs would hold paths and the words of errors; ours are opened by the middleware.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.state.parts = parts
    app.state.theme = load_theme()
    app.state.strangers = Strangers(parts.max_bytes)
    # Not included: then every request would pass through a router more, and the first one would wait until
    # models are made anew that the routes have already.
    opened = [doors.find_door(door) for door in parts.doors]
    vendors = [door.router for door in opened]
    routers = (*v1.ROUTERS, *vendors, health.router, mcp.router, *pages.ROUTERS, *ops.ROUTERS)
    app.router.routes.extend(route for router in routers for route in router.routes)
    large = dict.fromkeys((("POST", "/v1/bulk/jobs"), ("POST", "/lists")), parts.max_bytes + _FORM_OVERHEAD)
    for door in opened:
        large |= {place: min(most, parts.max_bytes) + _FORM_OVERHEAD for place, most in door.large.items()}
    large["PATCH", "/uploads/"] = parts.max_bytes + _FORM_OVERHEAD
    large["POST", mcp.PATH] = MCP_BYTES
    large["POST", "/v1/outcomes"] = outcome_files.MOST_BYTES
    for place in ("/v1/suppressions/import", "/outcomes", "/suppressions/import"):
        large["POST", place] = outcome_files.MOST_BYTES
    for place in ("/v1/suppressions", "/v1/suppressions/remove"):
        large["POST", place] = suppressions.MOST_BYTES
    large["POST", "/receivers/"] = outcomes.WEBHOOK_BYTES
    app.add_middleware(CompressionMiddleware)
    app.add_middleware(RequestMiddleware, large=large, is_door=doors.is_door)  # around the one before
    error_shapes = _first_page_of(doors.error_shape(opened), error_page)
    errors.install_error_handlers(app, error_shapes, look_for_visitor)
    app.openapi = lambda: build_openapi(app)  # type: ignore[method-assign]  # FastAPI's way to extend it
    return app


def _first_page_of(*pages: errors.ErrorPage) -> errors.ErrorPage:
    """Return what asks these one after the other to show an error."""

    def show(
        request: Request, error: MailsiftError, status: int, headers: Mapping[str, str]
    ) -> Response | None:
        shown = (page(request, error, status, headers) for page in pages)
        return next((answer for answer in shown if answer is not None), None)

    return show
