"""The OpenAPI description: routers, errors and events with an example each, and which answer leads where."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from typing import Any, Final
from uuid import UUID

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse, Response, StreamingResponse
from fastapi.routing import APIRoute

from mailsift.api.http.errors import PROBLEM_TYPE, STATUS_OF, error_body
from mailsift.api.http.idempotency import KEY_HEADER, KEY_SCHEMA, OnceRoute
from mailsift.api.http.responses import Envelope, Problem
from mailsift.api.http.uploads import JsonList, JsonPlaces
from mailsift.events.audit import audit_event
from mailsift.events.payloads import (
    EVENT_WORDS,
    ON_REQUEST,
    EventType,
    SimulatedEvent,
    envelope,
    simulated_event,
)
from mailsift.storage.sql.people import AuditRow

_UNUSED: Final = ("HTTPValidationError", "ValidationError")
_ALWAYS: Final = (
    "bad_request",
    "key_in_query",
    "unauthorized",
    "insufficient_scope",
    "method_not_allowed",
    "content_too_large",
    "unsupported_media_type",
    "transfer_coding_unknown",
    "request_timeout",
    "header_fields_too_large",
)
_SERVERS: Final = ("rate_limited", "internal_error", "service_unavailable", "database_unavailable")
_HEADERS: Final[Mapping[int, dict[str, str]]] = {
    401: {"WWW-Authenticate": "what is needed (RFC 6750)"},
    403: {"WWW-Authenticate": "the scope that is needed (RFC 6750)"},
    405: {"Allow": "the methods of this path"},
    429: {"Retry-After": "seconds to wait", "RateLimit": "what is left", "RateLimit-Policy": "the quota"},
    503: {"Retry-After": "seconds to wait"},
}
_KEY_ERRORS: Final = (
    "bad_idempotency_key",
    "idempotency_key_in_use",
    "idempotency_key_lost",
    "idempotency_key_reused",
)
_KEY_PARAMETER: Final = {
    "name": KEY_HEADER,
    "in": "header",
    "required": False,
    "description": "with the same key within 24 hours this is done once, and answered as the first time",
    "schema": KEY_SCHEMA,
}
_TAGS: Final = {
    "email": "One address or some, now.",
    "jobs": "Lists: they come in, are watched, stopped, repeated, compared and fetched.",
    "schedules": "Lists that run again by the clock.",
    "webhooks": "Where events are sent, and what came of it.",
    "events": "What happened, to look for what was missed.",
    "outcomes": "What became of messages that were really sent.",
    "suppressions": "To whom the account may not send.",
    "public keys": "What sign-up forms on your pages check addresses with.",
    "policy": "What the account wants done with verdicts.",
    "usage": "What the account used.",
    "health": "Is it there, is it ready; without a key.",
}
_SCHEMA: Final = {"$ref": f"#/components/schemas/{Problem.__name__}"}


_DATA: Final = "$response.body#/data"
_SOURCES: Final[Mapping[str, Mapping[str, str]]] = {
    "job_id": {
        "create_job": "202",
        "promote_job": "202",
        "rerun_job": "202",
        "retry_job": "202",
        "run_schedule": "202",
    },
    "webhook_id": {"create_webhook": "201"},
    "event_id": {"test_webhook": "200"},
    "delivery_id": {"test_webhook": "200"},
    "schedule_id": {"create_schedule": "201"},
    "public_key_id": {"create_public_key": "201"},
    "receiver_id": {"create_receiver": "201"},
}
"""Whose answers hold, under the same name, the ids that stand in paths: operations with their status."""


@dataclass(frozen=True, slots=True)
class _Link:
    """From an answer of `source` to an operation that takes what it holds."""

    source: str
    status: str
    operation: str
    takes: Mapping[str, Mapping[str, str]]


_SPECIAL: Final = (
    _Link(
        "get_job",
        "200",
        "create_schedule",
        {"requestBody": {"job_id": f"{_DATA}/job_id", "cron": "0 6 * * 1", "zone": "UTC"}},
    ),
    _Link(
        "get_webhook",
        "200",
        "test_webhook",
        {"requestBody": {"webhook_id": f"{_DATA}/webhook_id", "test_type": "test_webhook"}},
    ),
    _Link(
        "rerun_job",
        "202",
        "get_diff",
        {"parameters": {"path.job_id": f"{_DATA}/job_id", "query.against": f"{_DATA}/parent_id"}},
    ),
)
"""Links to operations that take an id elsewhere than in their path, or a second one."""


def add_openapi(app: FastAPI) -> None:
    """Hand the description out at /openapi.json, written once: it is large, and stays as it is."""

    @cache
    def written() -> bytes:
        return bytes(JSONResponse(app.openapi()).body)

    async def openapi(_: Request) -> Response:
        return Response(written(), media_type="application/json")

    app.openapi = lambda: _build_openapi(app)  # type: ignore[method-assign]  # FastAPI's way to extend it
    app.add_route("/openapi.json", openapi, include_in_schema=False)


def _build_openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI description, made once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            servers=[{"url": "/", "description": "this installation"}],
            tags=[{"name": name, "description": text} for name, text in _TAGS.items()],
            contact={"name": "The operator of this installation"},
            license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        )
        _add_models(made)
        made["webhooks"] = _webhooks()
        _add_keys(made)
        _add_nulls(made)
        _add_links(made)
        app.openapi_schema = made
    return app.openapi_schema


def _add_models(made: dict[str, Any]) -> None:
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for unused in _UNUSED:
        schemas.pop(unused, None)
    for model in (Problem, JsonList, JsonPlaces):
        found = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(found.pop("$defs", {}))
        schemas[model.__name__] = found


def _add_keys(made: dict[str, Any]) -> None:
    """Say that every POST under /v1 takes an Idempotency-Key, and which errors that may lead to."""
    for path, methods in made["paths"].items():
        operation = methods.get("post") if path.startswith("/v1/") else None
        if operation is None:
            continue
        parameters = operation.setdefault("parameters", [])
        if not any(one["name"].lower() == KEY_HEADER.lower() for one in parameters):
            parameters.append(_KEY_PARAMETER)
        for status, shape in error_responses(*_KEY_ERRORS).items():
            known = operation["responses"].setdefault(str(status), shape)
            examples = shape["content"]["application/json"]["examples"]
            known["content"]["application/json"]["examples"].update(examples)


def _add_nulls(made: dict[str, Any]) -> None:
    """Put into the examples of errors the null that FastAPI leaves out of everything."""
    for methods in made["paths"].values():
        for operation in methods.values():
            for response in operation["responses"].values():
                examples = response.get("content", {}).get("application/json", {}).get("examples", {})
                for example in examples.values():
                    example["value"] = {"data": None, **example["value"]}


def _add_links(made: dict[str, Any]) -> None:
    """Say of every answer with an id which operations take it."""
    operations = {
        operation["operationId"]: (path, operation)
        for path, methods in made["paths"].items()
        for operation in methods.values()
    }
    for link in (*_path_links(operations), *_SPECIAL):
        answer = operations[link.source][1]["responses"][link.status]
        answer.setdefault("links", {})[link.operation] = {"operationId": link.operation, **link.takes}


def _path_links(operations: Mapping[str, tuple[str, Any]]) -> Iterator[_Link]:
    special = {link.operation for link in _SPECIAL}
    for name, (path, _) in operations.items():
        for id_, sources in _SOURCES.items():
            if f"{{{id_}}}" in path and name not in special:
                takes = {"parameters": {f"path.{id_}": f"{_DATA}/{id_}"}}
                yield from (_Link(source, status, name, takes) for source, status in sources.items())


def operation_id(route: APIRoute) -> str:
    """Return what OpenAPI calls an operation: the name of its function."""
    return route.name


def v1_router(path: str, tag: str, route: type[APIRoute] = OnceRoute) -> APIRouter:
    """Return the router of the operations below a path of /v1."""
    return APIRouter(
        prefix=f"/v1{path}", tags=[tag], route_class=route, generate_unique_id_function=operation_id
    )


def operation(summary: str, data: Any, *codes: str) -> dict[str, Any]:
    """Return what FastAPI is told of an operation: its answer's data, and its errors as `error_responses`."""
    return {"summary": summary, "response_model": Envelope[data], "responses": error_responses(*codes)}


def file_operation(summary: str, about: str, *types: str) -> dict[str, Any]:
    """Return the same of an operation that answers with a file of one of these media types."""
    file = {"description": about, "content": {kind: {"schema": {"type": "string"}} for kind in types}}
    responses = {200: file, **error_responses()}
    return {"summary": summary, "response_class": StreamingResponse, "responses": responses}


def error_responses(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return FastAPI's `responses` for these codes and those of every operation under /v1."""
    by_status: dict[int | str, dict[str, Any]] = {}
    for code in dict.fromkeys((*_ALWAYS, *codes, "invalid_request", *_SERVERS)):
        status = STATUS_OF[code]
        shape = by_status.setdefault(
            status,
            {
                "description": HTTPStatus(status).phrase,
                "headers": _headers(status),
                "content": _content(),
            },
        )
        example = error_body(code, code.replace("_", " ").capitalize() + ".", "req_5f2a9c0d8e7b41c3a6f0d912")
        shape["content"]["application/json"]["examples"][code] = {"value": example}
    return by_status


def _headers(status: int) -> dict[str, Any]:
    return {
        name: {"description": text, "schema": {"type": "string"}}
        for name, text in _HEADERS.get(status, {}).items()
    }


def _content() -> dict[str, Any]:
    return {"application/json": {"schema": _SCHEMA, "examples": {}}, PROBLEM_TYPE: {"schema": _SCHEMA}}


_EVENT_ID: Final = UUID("0192f1a4-5b6c-4d7e-8f90-a1b2c3d4e5f6")
_JOB_ID: Final = UUID("7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11")
_AT: Final = datetime(2026, 1, 31, 8, 0, tzinfo=UTC)
_LINE: Final = AuditRow(
    id=1,
    account_id=None,
    actor="ada@example.com",
    action="job.create",
    subject=str(_JOB_ID),
    detail={"list": "June newsletter", "mode": "deep", "addresses": 12_044},
    at=_AT,
)
_SAMPLES: Final = {
    **dict(simulated_event(kind, _JOB_ID, _AT) for kind in SimulatedEvent),
    EventType.AUDIT: audit_event(_LINE),
}
_FORMATS: Final = {"job_id": "uuid", "started_at": "date-time", "completed_at": "date-time"}
_EVENT_HEADERS: Final = {
    "webhook-id": "the event's id: the same at every attempt",
    "webhook-timestamp": "seconds since the epoch: of this attempt",
    "webhook-signature": "`v1,` and base64, one for each secret that signs (Standard Webhooks)",
}


def _webhooks() -> dict[str, Any]:
    """Return the `webhooks` of an OpenAPI 3.1 description."""
    return {kind.value: {"post": _event_operation(kind)} for kind in EventType}


def _event_operation(kind: EventType) -> dict[str, Any]:
    data = _SAMPLES[kind]
    example = json.loads(envelope(_EVENT_ID, kind, _AT, data))
    return {
        "operationId": f"on_{kind.value.replace('.', '_')}",
        "tags": ["webhooks"],
        "summary": EVENT_WORDS[kind],
        "description": "Signed by Standard Webhooks. Any 2xx within 15 seconds is success."
        + (" Sent to webhooks that name this event." if kind in ON_REQUEST else ""),
        "security": [],
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": True,
                "description": text,
                "schema": {"type": "string"},
            }
            for name, text in _EVENT_HEADERS.items()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _event_schema(kind, data), "example": example}},
        },
        "responses": {
            "2XX": {"description": "It arrived."},
            "410": {"description": "Disable this webhook."},
        },
    }


def _event_schema(kind: EventType, data: dict[str, Any]) -> dict[str, Any]:
    """Describe an event; its data has exactly the members that the service sends."""
    return _closed_object(
        {
            "id": {"type": "string", "format": "uuid"},
            "type": {"const": kind.value},
            "created_at": {"type": "string", "format": "date-time"},
            "data": _closed_object({name: _member_shape(name, value) for name, value in data.items()}),
        }
    )


def _closed_object(members: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(members),
        "additionalProperties": False,
        "properties": members,
    }


def _member_shape(name: str, value: object) -> dict[str, Any]:
    if name == "status":
        return {"const": value}
    if isinstance(value, int):
        return {"type": "integer", "minimum": 0}
    return {"type": "string", **({"format": _FORMATS[name]} if name in _FORMATS else {})}
