"""The application: operations, gate, errors and their description put together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from api import errors, health
from api.envelope import Problem
from api.gate import Gate
from api.parts import ApiParts
from api.v1 import compare, email, jobs, previews, results, schedules, webhooks

_ABOUT: Final = (
    "Send a list of addresses; every address comes back with a verdict, a score and the reason. Every answer"
    " is `{data, message, status, success}`; errors carry the members of RFC 9457 and a stable `code` too."
)
_FORM_OVERHEAD: Final = 64 * 1024
_ROUTERS: Final = (
    email.router,
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
    for router in _ROUTERS:
        app.include_router(router)
    app.add_middleware(Gate, large={("POST", "/v1/bulk/jobs"): parts.max_bytes + _FORM_OVERHEAD})
    errors.install(app)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]  # FastAPI's way to extend it
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description, made once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        for model in (Problem, *jobs.SCHEMAS):
            found = model.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas.update(found.pop("$defs", {}))
            schemas[model.__name__] = found
        app.openapi_schema = made
    return app.openapi_schema
