"""The application: operations, gate, errors and their description put together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from fastapi import FastAPI

from api import errors, health
from api.gate import Gate
from api.openapi import described
from api.pages.faults import face
from api.pages.page import make_look
from api.pages.routers import PAGES
from api.parts import ApiParts
from api.v1 import compare, email, jobs, previews, results, schedules, webhooks

_ABOUT: Final = (
    "Send a list of addresses; every address comes back with a verdict, a score and the reason. Every answer"
    " is `{data, message, status, success}`; errors carry the members of RFC 9457 and a stable `code` too."
)
_FORM_OVERHEAD: Final = 64 * 1024
_ROUTERS: Final = (
    email.router,  # the first, for it is asked most
    jobs.router,
    results.router,
    previews.router,
    compare.router,
    schedules.router,
    webhooks.router,
    health.router,
)


def create_app(parts: ApiParts) -> FastAPI:
    """Return the ASGI application over these parts; it opens and closes none of them."""
    app = FastAPI(
        title="Mailsift",
        description=_ABOUT,
        version=version("mailsift"),
        docs_url=None,  # both pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.parts = parts
    app.state.look = make_look()
    # Not included: then every request would pass through a router more, and the first one would wait until
    # models are made anew that the routes have already.
    app.router.routes.extend(route for router in (*_ROUTERS, *PAGES) for route in router.routes)
    large = dict.fromkeys((("POST", "/v1/bulk/jobs"), ("POST", "/lists")), parts.max_bytes + _FORM_OVERHEAD)
    app.add_middleware(Gate, large=large)
    errors.install(app, face)
    app.openapi = lambda: described(app)  # type: ignore[method-assign]  # FastAPI's way to extend it
    return app
