"""What OpenAPI says about errors: every status an operation may answer with, with an example."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from api.envelope import Problem
from api.errors import PROBLEM_TYPE, STATUS_OF

_ALWAYS = (
    "bad_request",
    "unauthorized",
    "insufficient_scope",
    "method_not_allowed",
    "content_too_large",
    "unsupported_media_type",
)
_SERVERS = ("rate_limited", "internal_error", "service_unavailable")
_HEADERS = {
    401: {"WWW-Authenticate": "what is needed (RFC 6750)"},
    403: {"WWW-Authenticate": "the scope that is needed (RFC 6750)"},
    405: {"Allow": "the methods of this path"},
    429: {"Retry-After": "seconds to wait", "RateLimit": "what is left", "RateLimit-Policy": "the quota"},
    503: {"Retry-After": "seconds to wait"},
}
_SCHEMA = {"$ref": f"#/components/schemas/{Problem.__name__}"}


def errors(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return FastAPI's `responses` for these codes and those of every operation under /v1."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for code in dict.fromkeys((*_ALWAYS, *codes, "invalid_request", *_SERVERS)):
        status = STATUS_OF[code]
        shape = by_status.setdefault(
            status,
            {
                "model": Problem,
                "description": HTTPStatus(status).phrase,
                "headers": _headers(status),
                "content": _content(),
            },
        )
        shape["content"]["application/json"]["examples"][code] = {"value": _example(code, status)}
    return by_status


def _headers(status: int) -> dict[str, Any]:
    told = _HEADERS.get(status, {})
    return {name: {"description": text, "schema": {"type": "string"}} for name, text in told.items()}


def _content() -> dict[str, Any]:
    return {"application/json": {"schema": _SCHEMA, "examples": {}}, PROBLEM_TYPE: {"schema": _SCHEMA}}


def _example(code: str, status: int) -> dict[str, Any]:
    sentence = code.replace("_", " ").capitalize() + "."
    return {
        "data": None,
        "message": sentence,
        "status": status,
        "success": False,
        "type": f"/docs#{code}",
        "title": HTTPStatus(status).phrase,
        "detail": sentence,
        "instance": "/v1/requests/req_5f2a9c0d8e7b41c3a6f0d912",
        "code": code,
        "request_id": "req_5f2a9c0d8e7b41c3a6f0d912",
        "errors": [],
    }
