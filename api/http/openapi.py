"""The OpenAPI description: routers, errors with an example each, and which answer leads to which request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from mailsift.api.http.errors import PROBLEM_TYPE, STATUS_OF, error_body
from mailsift.api.http.idempotency import KEY_HEADER, KEY_SCHEMA, OnceRoute
from mailsift.api.http.responses import Envelope, Problem
from mailsift.api.http.uploads import JsonList, JsonPlaces
from mailsift.api.http.webhook_events import webhooks_openapi

_UNUSED: Final = ("HTTPValidationError", "ValidationError")
_ALWAYS: Final = (
    "bad_request",
    "unauthorized",
    "insufficient_scope",
    "method_not_allowed",
    "content_too_large",
    "unsupported_media_type",
    "request_timeout",
    "header_fields_too_large",
)
_SERVERS: Final = ("rate_limited", "internal_error", "service_unavailable")
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


@dataclass(frozen=True, slots=True)
class _Source:
    """An answer that holds an id.

    Attributes:
        operation: the id of the operation that answers.
        status: the answer's status.
        place: a JSON pointer to the id.
    """

    operation: str
    status: str
    place: str


_SOURCES: Final[Mapping[str, tuple[_Source, ...]]] = {
    "job_id": (
        _Source("create_job", "202", "/data/job_id"),
        _Source("promote_job", "202", "/data/job_id"),
        _Source("rerun_job", "202", "/data/job_id"),
        _Source("retry_job", "202", "/data/job_id"),
        _Source("run_schedule", "202", "/data/job_id"),
    ),
    "webhook_id": (_Source("create_webhook", "201", "/data/webhook_id"),),
    "event_id": (_Source("test_webhook", "200", "/data/event_id"),),
    "delivery_id": (_Source("test_webhook", "200", "/data/delivery_id"),),
    "schedule_id": (_Source("create_schedule", "201", "/data/schedule_id"),),
    "public_key_id": (_Source("create_public_key", "201", "/data/public_key_id"),),
    "receiver_id": (_Source("create_receiver", "201", "/data/receiver_id"),),
}
"""Where the ids come from that stand in paths."""


@dataclass(frozen=True, slots=True)
class _Link:
    """From an answer to an operation that takes its id; `{}` stands for the id."""

    source: _Source
    operation: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, str] = field(default_factory=dict)

    def as_openapi(self) -> dict[str, Any]:
        """Return it as OpenAPI writes it."""
        link: dict[str, Any] = {"operationId": self.operation}
        for name, wanted in (("parameters", self.parameters), ("requestBody", self.body)):
            if wanted:
                expression = f"$response.body#{self.source.place}"
                link[name] = {key: value.replace("{}", expression) for key, value in wanted.items()}
        return link


_SPECIAL: Final = (
    _Link(
        _Source("get_job", "200", "/data/job_id"),
        "create_schedule",
        body={"job_id": "{}", "cron": "0 6 * * 1", "zone": "UTC"},
    ),
    _Link(
        _Source("get_webhook", "200", "/data/webhook_id"),
        "test_webhook",
        body={"webhook_id": "{}", "test_type": "test_webhook"},
    ),
    _Link(
        _Source("rerun_job", "202", "/data/job_id"),
        "get_diff",
        parameters={"path.job_id": "{}", "query.against": "$response.body#/data/parent_id"},
    ),
)
"""Links to operations that take an id elsewhere than in their path, or a second one."""


def build_openapi(app: FastAPI) -> dict[str, Any]:
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
        made["webhooks"] = webhooks_openapi()
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
        for status, response in error_responses(*_KEY_ERRORS).items():
            shape = {name: value for name, value in response.items() if name != "model"}
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
        answer = operations[link.source.operation][1]["responses"][link.source.status]
        answer.setdefault("links", {})[link.operation] = link.as_openapi()


def _path_links(operations: Mapping[str, tuple[str, Any]]) -> Iterator[_Link]:
    special = {link.operation for link in _SPECIAL}
    for name, (path, _) in operations.items():
        for id_, sources in _SOURCES.items():
            if f"{{{id_}}}" in path and name not in special:
                yield from (_Link(source, name, parameters={f"path.{id_}": "{}"}) for source in sources)


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


def error_responses(*codes: str) -> dict[int | str, dict[str, Any]]:
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
