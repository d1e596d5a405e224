"""The routers of what is described in OpenAPI."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.routing import APIRoute

from mailsift.api.http.idempotency import OnceRoute


def operation_id(route: APIRoute) -> str:
    """Return what OpenAPI calls an operation: the name of its function."""
    return route.name


def v1_router(path: str, tag: str, route: type[APIRoute] = OnceRoute) -> APIRouter:
    """Return the router of the operations below a path of /v1."""
    return APIRouter(
        prefix=f"/v1{path}", tags=[tag], route_class=route, generate_unique_id_function=operation_id
    )
