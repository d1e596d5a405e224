"""Errors as people and machines read them: one table from code to HTTP status, one shape for all."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException

from mailsift.accounts.sessions import RateLimitedError
from mailsift.api.http.inputs import accepted
from mailsift.api.http.responses import is_test
from mailsift.pipeline.errors import MailsiftError

PROBLEM_TYPE: Final = "application/problem+json"
_RETRY_SECONDS: Final = "5"
_RETRY_SECONDS_OF: Final[Mapping[str, str]] = {"webhook_test_limit": "60"}

_log = structlog.get_logger()

STATUS_OF: Final[Mapping[str, int]] = {
    # the request
    "bad_request": 400,
    "bad_idempotency_key": 400,
    "key_in_query": 400,
    "unauthorized": 401,
    "insufficient_scope": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "not_acceptable": 406,
    "request_timeout": 408,
    "content_too_large": 413,
    "unsupported_media_type": 415,
    "transfer_coding_unknown": 501,
    "range_not_satisfiable": 416,
    "invalid_request": 422,
    "bad_cursor": 422,
    "bad_overlap": 422,
    "bad_option": 422,
    "bad_origin": 422,
    "rate_limited": 429,
    "header_fields_too_large": 431,
    "internal_error": 500,
    "service_unavailable": 503,
    # keys and idempotency
    "key_not_found": 404,
    "key_not_active": 409,
    "public_key_limit": 409,
    "idempotency_key_in_use": 409,
    "idempotency_key_lost": 409,
    "idempotency_key_reused": 422,
    # people and pages
    "sign_in_needed": 401,
    "code_needed": 401,
    "wrong_code": 401,
    "sign_in_again": 401,
    "sign_in_first": 401,
    "factor_on": 409,
    "sso_only": 403,
    "sso_refused": 403,
    "sso_unavailable": 503,
    "sso_misconfigured": 503,
    "wrong_credentials": 401,
    "csrf_failed": 403,
    "other_account": 403,
    "role_needed": 403,
    "origin_refused": 403,
    "widget_token_refused": 403,
    "no_account": 403,
    "account_not_found": 404,
    "member_not_found": 404,
    "person_not_found": 404,
    "invitation_not_found": 404,
    "link_gone": 404,
    "already_member": 409,
    "last_owner": 409,
    "email_invalid": 422,
    "account_name_invalid": 422,
    "password_weak": 422,
    # jobs
    "job_not_found": 404,
    "job_state_conflict": 409,
    "no_results_yet": 409,
    "results_changed": 412,
    "nothing_to_retry": 409,
    "list_at_fault": 409,
    "already_restarted": 409,
    "not_a_preview": 409,
    "no_preview_yet": 409,
    "not_the_same_list": 409,
    "source_gone": 409,
    "row_not_found": 404,
    "draft_not_found": 404,
    "draft_limit": 409,
    "upload_conflict": 409,
    "upload_version": 412,
    "unknown_column": 422,
    "unknown_export_format": 422,
    "wrong_for_format": 422,
    "too_many_rows_for_xlsx": 422,
    # lists; most are found by the worker and stand in the job's error_code
    "empty_file": 422,
    "file_too_large": 413,
    "too_many_rows": 422,
    "looks_harvested": 422,
    "too_many_columns": 422,
    "line_too_long": 422,
    "unsupported_format": 415,
    "binary_file": 422,
    "bad_encoding": 422,
    "bad_gzip": 422,
    "bad_json": 422,
    "bad_csv": 422,
    "bad_xlsx": 422,
    "bad_parquet": 422,
    "unclosed_quote": 422,
    "compression_bomb": 422,
    "no_address_column": 422,
    "column_not_found": 422,
    "intake_timeout": 422,
    "intake_crashed": 422,
    # a place a list is fetched from or results are taken to; found by the worker, too
    "place_not_found": 422,
    "place_refused": 422,
    "place_timeout": 422,
    "place_unavailable": 503,
    # webhooks and schedules
    "webhook_not_found": 404,
    "webhook_url_invalid": 422,
    "bad_place": 422,
    "place_not_allowed": 403,
    "webhook_url_blocked": 422,
    "webhook_type_unknown": 422,
    "webhook_overlap_invalid": 422,
    "webhook_secret_overlap": 409,
    "webhook_rate_invalid": 422,
    "webhook_limit": 409,
    "webhook_disabled": 409,
    "webhook_test_limit": 429,
    "delivery_not_found": 404,
    "event_not_found": 404,
    "delivery_conflict": 409,
    "schedule_not_found": 404,
    "schedule_cron_invalid": 422,
    "schedule_zone_invalid": 422,
    "schedule_jitter_too_long": 422,
    "schedule_source_gone": 409,
    "schedule_needs_list": 422,
    "schedule_limit": 409,
    "schedule_ended": 422,
    "usage_range_invalid": 422,
    "accuracy_range_invalid": 422,
    # assistants
    "mcp_disabled": 404,
    "mcp_budget_spent": 429,
    "mcp_missing": 501,
    # outcomes
    "policy_invalid": 422,
    "no_outcome_column": 422,
    "malformed_message": 422,
    "malformed_outcome": 422,
    "receiver_key_invalid": 422,
    "receiver_limit": 409,
    "receiver_not_found": 404,
    "receiver_refused": 401,
    "fetch_failed": 503,
    # operators
    "bad_filter": 422,
    "bad_limit": 422,
    "bad_provider": 422,
    "bad_domain": 422,
    "unknown_source": 422,
    "worker_not_found": 404,
    "too_many_jobs": 409,
    "chunk_not_waiting": 409,
    "lease_not_found": 404,
    "redis_unavailable": 503,
    # what we need does not answer
    "database_unavailable": 503,
    "database_not_migrated": 503,
    "database_refused": 503,
    "blob_store_failed": 503,
    "source_damaged": 503,
    "storage_full": 507,
}
"""Every code that may leave through HTTP."""

_CODE_OF: Final[Mapping[int, str]] = {
    400: "bad_request",
    401: "unauthorized",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    413: "content_too_large",
    415: "unsupported_media_type",
    429: "rate_limited",
    503: "service_unavailable",
}
_SENTENCE_OF: Final[Mapping[str, str]] = {
    "bad_request": "The request cannot be read.",
    "unauthorized": "The key or the session ended, or may do less, before the end of the request came.",
    "not_found": "There is nothing here.",
    "method_not_allowed": "This method is not allowed here.",
    "content_too_large": "The body is larger than is allowed here.",
    "internal_error": "Something broke on our side; the request id helps to find it.",
}


_WITH_ID: Final = frozenset({"internal_error", "blob_store_failed", "storage_full"})
"""Operators are asked about them: the sentence itself names the request."""


ErrorPage = Callable[[Request, MailsiftError, int, Mapping[str, str]], Response | None]
"""Shows an error to who does not read our JSON, a person or a client of another service; None for others."""


def error_response(
    request: Request,
    error: MailsiftError,
    *,
    errors: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an error's answer: the envelope with the members of RFC 9457, in their media type by Accept.

    A browser that looks at a page gets a page.
    """
    code, sentence = error.code, error.message or _SENTENCE_OF.get(error.code, "")
    if code not in STATUS_OF:
        code, sentence = "internal_error", _SENTENCE_OF["internal_error"]
    status = STATUS_OF[code]
    request_id = str(request.scope.get("request_id", ""))
    if code in _WITH_ID and request_id:
        sentence = f"{sentence} The request id is {request_id}."
    body = error_body(code, sentence, request_id, errors)
    if is_test(request):
        body["test"] = True
    retry = {"Retry-After": _RETRY_SECONDS_OF.get(code, _RETRY_SECONDS)} if status in {429, 503, 507} else {}
    sent = {**retry, **(headers or {})}
    error_pages: Sequence[ErrorPage] = request.app.state.error_pages
    for error_page in error_pages:
        if page := error_page(request, MailsiftError(code, sentence), status, sent):
            return page
    asked = accepted(request.headers.get("accept", "")).get(PROBLEM_TYPE)
    return JSONResponse(body, status, sent, media_type=PROBLEM_TYPE if asked else None)


def error_body(
    code: str, sentence: str, request_id: str, errors: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """Return an error as JSON: the envelope and the members of RFC 9457."""
    status = STATUS_OF[code]
    return {
        "data": None,
        "message": sentence,
        "status": status,
        "success": False,
        "type": f"/docs#{code}",
        "title": HTTPStatus(status).phrase,
        "detail": sentence,
        "instance": f"/v1/requests/{request_id}",
        "code": code,
        "request_id": request_id,
        "errors": list(errors),
    }


class RefusedError(MailsiftError):
    """An error that comes with headers of its own."""

    def __init__(self, code: str, message: str, headers: Mapping[str, str]) -> None:
        super().__init__(code, message)
        self.headers = headers


def install_error_handlers(
    app: FastAPI, error_pages: Sequence[ErrorPage], find_visitor: Callable[[Request], Awaitable[object]]
) -> None:
    """Give the application Mailsift's answers to errors, and other shapes to those who read other ones.

    One after the other is asked to show an error. `find_visitor` tells a page who is signed in, where no page
    of the application has looked.
    """
    app.state.error_pages = error_pages
    app.state.find_visitor = find_visitor
    # The framework's types know no handler of one kind of error, which is all that each is called with.
    app.add_exception_handler(MailsiftError, _on_mailsift_error)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, _on_invalid_request)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _on_http_exception)  # type: ignore[arg-type]


async def _on_mailsift_error(request: Request, error: MailsiftError) -> Response:
    if error.code not in STATUS_OF:  # nobody who asks can do anything about it; an operator may
        _log.error("request.broken", error=error.code)
    return error_response(request, error, headers=error_headers(error))


def error_headers(error: MailsiftError) -> Mapping[str, str]:
    """Return the headers an error's answer carries."""
    if isinstance(error, RateLimitedError):
        return {"Retry-After": str(error.retry_after)}
    return error.headers if isinstance(error, RefusedError) else {}


async def _on_invalid_request(request: Request, error: RequestValidationError) -> Response:
    """Say where and what, never the value: it may be an address, and need not even be JSON (1e999)."""
    found = error.errors()
    field_errors = [
        {"loc": [_place(part) for part in one["loc"]], "msg": _plain(one["msg"]), "type": one["type"]}
        for one in found[:20]
    ]
    if any(one["type"] == "json_invalid" for one in found):
        return error_response(request, MailsiftError("bad_request", "The body isn’t valid JSON."))
    return error_response(
        request, MailsiftError("invalid_request", _first_cause(field_errors)), errors=field_errors
    )


def _first_cause(field_errors: Sequence[Mapping[str, Any]]) -> str:
    """Return one sentence that names the first field and what is wrong with it, and how many others are."""
    if not field_errors:
        return "The request is not what this operation takes."
    where, *names = field_errors[0]["loc"]
    field = f"`{'.'.join(map(str, names))}` in the {where}" if names else f"The {where}"
    cause = field_errors[0]["msg"].removeprefix("Value error, ").rstrip(".")
    others = f" (and {len(field_errors) - 1} more in `errors`)" if len(field_errors) > 1 else ""
    sentence = f"{field}: {cause}{others}"
    return sentence if sentence.endswith("?") else f"{sentence}."


def _plain(cause: str) -> str:
    """Say in words of JSON what pydantic says of Python: `<Tier.SEND: 'send'>`, a dictionary, our classes."""
    for python, json in _WORDS_OF_JSON:
        cause = python.sub(json, cause)
    return cause


_WORDS_OF_JSON: Final = (
    (re.compile(r"<\w+\.\w+: ('[^']*')>"), r"\1"),
    (re.compile("Extra inputs are not permitted"), "There is no such field"),
    (re.compile("valid dictionary(?: or (?:instance of|object to) .*)?"), "JSON object"),
)


def _place(part: object) -> str | int:
    """Name a place: a position, or a name that is ours; a key the caller invented may be anything."""
    if isinstance(part, int):
        return part
    text = str(part)
    return text if text.isidentifier() and text.isascii() and len(text) <= 40 else "…"


async def _on_http_exception(request: Request, error: HTTPException) -> Response:
    code = _CODE_OF.get(error.status_code, "bad_request" if error.status_code < 500 else "internal_error")
    sentence = _SENTENCE_OF.get(code, HTTPStatus(STATUS_OF[code]).phrase)
    if error.status_code == 400:  # what is wrong with a form, in words of the parser alone
        sentence = f"{sentence} {error.detail}"
    headers = {"Allow": ", ".join(_allowed(request))} if error.status_code == 405 else error.headers
    with suppress(MailsiftError):  # the database is away
        await request.app.state.find_visitor(request)
    return error_response(request, MailsiftError(code, sentence), headers=headers)


def _allowed(request: Request) -> list[str]:
    """Return every method of the path; the framework names those of one operation only."""
    path = request.url.path
    routes = iter_route_contexts(request.app.routes)
    found = [route.methods or () for route in routes if route.path_regex.match(path)]
    allowed = {method for methods in found for method in methods}
    return sorted(allowed | {"HEAD"} if "GET" in allowed else allowed)
