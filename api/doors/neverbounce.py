"""NeverBounce's API, version 4, for its clients: single addresses, the account and jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final

import polars as pl
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from mailsift.accounts.doors import Door
from mailsift.accounts.keys import Scope
from mailsift.api.doors import entry
from mailsift.api.doors.codes import address_parts, code_table, normal_form, split_address
from mailsift.api.http.uploads import JSON_LIST_BYTES, printable_name
from mailsift.jobs.columns import VERDICT_PREFIX
from mailsift.jobs.drafts import Draft
from mailsift.jobs.submissions import json_lines, one_piece
from mailsift.jobs.views import JobId, JobView
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.providers import public_suffixes
from mailsift.pipeline.verdict import Result, suggested_address
from mailsift.storage.sql.jobs import number_of
from mailsift.storage.states import ENDED, JobPhase, JobState, phase_of

CODES: Final = code_table(Door.NEVERBOUNCE)
"""result."""

_NUMBERS: Final = {"valid": 0, "invalid": 1, "disposable": 2, "catchall": 3, "unknown": 4}
_VERSIONS: Final = ("v4", "v4.0", "v4.1", "v4.2")
_SECONDS: Final = 60
_MOST: Final = 100_000
_PAGE, _LONGEST_PAGE = 10, 1_000
_NEWEST: Final = 1_000
"""Jobs that can be searched."""
_CREDITS: Final = {
    "paid_credits_used": 0,
    "free_credits_used": 0,
    "paid_credits_remaining": entry.UNLIMITED,
    "free_credits_remaining": 0,
}
_WAITING: Final = "waiting"
_STATUS: Final = {
    JobPhase.UNSTARTED: "queued",
    JobPhase.UNDER_WAY: "running",
    JobPhase.COMPLETED: "complete",
    JobPhase.FAILED: "failed",
}
_UNREAD: Final = {JobState.UPLOADING: "uploading", JobState.INTAKE: "parsing"}
_SEGMENTS: Final = {
    "valids": "valid",
    "invalids": "invalid",
    "catchalls": "catchall",
    "disposables": "disposable",
    "unknowns": "unknown",
}
_SEARCHED: Final = {"job_id": "id", "filename": "filename", "job_status": "job_status"}
"""What jobs can be searched by, and what it is called where they are told of."""
_YES_NO: Final = {
    "BIN_1_0": ("1", "0"),
    "BIN_Y_N": ("Y", "N"),
    "BIN_y_n": ("y", "n"),
    "BIN_yes_no": ("yes", "no"),
    "BIN_Yes_No": ("Yes", "No"),
    "BIN_true_false": ("true", "false"),
}
_FAILURES: Final = {401: "auth_failure", 403: "auth_failure", 429: "throttle_triggered"}

_entry: Final = entry.Entry(Door.NEVERBOUNCE, entry.KeyPlaces(params=("key",)))
_router: Final = APIRouter(include_in_schema=False)


def _flags_of(verdict: Mapping[str, Any]) -> list[str]:
    """Return the flags of an address."""
    result = verdict["result"]
    flags = {
        "has_dns": verdict["mx_valid"],
        "has_dns_mx": verdict["mx_valid"],
        "bad_syntax": not verdict["syntax_valid"],
        "free_email_host": verdict["is_free"],
        "role_account": verdict["is_role_based"],
        "disposable_email": verdict["is_disposable"],
        "spelling_mistake": bool(suggested_address(verdict)),
        "bad_dns": result in {Result.DOMAIN_NOT_FOUND, Result.NO_MAIL_SERVER, Result.UNROUTABLE},
        "temporary_dns_error": result == Result.DNS_UNAVAILABLE,
        "connect_fails": result == Result.UNREACHABLE,
        "accepts_all": verdict["catch_all"],
        "smtp_connectable": verdict["smtp_code"] > 0,
    }
    return [name for name, there in flags.items() if there]


def parts_of_address(text: str) -> dict[str, str]:
    """Return an address taken apart."""
    user, host = split_address(text)
    domain = public_suffixes().privatesuffix(host.lower()) or host
    return {
        "original": text,
        "normalized": normal_form(text),
        "addr": user.partition("+")[0],
        "alias": user.partition("+")[2],
        "host": host,
        "fqdn": host,
        "domain": domain,
        "subdomain": host[: -len(domain)].rstrip(".") if host.lower().endswith(domain) else "",
        "tld": host.rpartition(".")[2],
    }


def shape(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an address comes to, in jobs and alone."""
    (result,) = CODES.of(verdict)
    return {
        "result": result,
        "flags": _flags_of(verdict),
        "suggested_correction": suggested_address(verdict),
    }


def show(_: str, error: MailsiftError, status: int) -> entry.VendorError:
    """Return an error: clients read its kind from the JSON, and only where the status is good."""
    kind = _FAILURES.get(status, "general_failure")
    content = {"status": kind, "message": error.message, "execution_time": 0}
    return entry.VendorError(content, 200 if status < 500 else status)


def _success(call: entry.VendorCall, **members: Any) -> Response:
    return JSONResponse({"status": "success", **members, "execution_time": round(call.seconds * 1000)})


_Handler = Callable[[Request], Awaitable[Response]]


def _route(path: str) -> Callable[[_Handler], _Handler]:
    """Add an operation at all versions; clients ask by GET and by POST alike."""

    def add(handler: _Handler) -> _Handler:
        for version in _VERSIONS:
            _router.add_api_route(f"/{version}/{path}", handler, methods=["GET", "POST"])
        return handler

    return add


@_route("single/check")
async def check(request: Request) -> Response:
    """Check one address."""
    call = await _entry.admit(request, Scope.VALIDATE)
    text = entry.email_in(call.params)
    seconds = entry.number_in(call.params, "timeout", 30, most=_SECONDS)
    verdict = await call.single.validate(text, call.options(seconds))
    content = {**shape(verdict), "retry_token": ""}
    if entry.switch_in(call.params, "address_info"):
        content["address_info"] = parts_of_address(text)
    if entry.switch_in(call.params, "credits_info"):
        content["credits_info"] = _CREDITS
    return _success(call, **content)


@_route("account/info")
async def account_info(request: Request) -> Response:
    """Tell that there is no end of credits, and how many jobs there are."""
    call = await _entry.admit(request, Scope.JOBS_READ)
    found = [_status(view) for view in await _newest(call)]
    running = sum(found.count(word) for word in ("uploading", "parsing", "running"))
    counts = {
        "completed": found.count("complete"),
        "under_review": 0,
        "queued": found.count("queued"),
        "processing": running,
    }
    return _success(call, billing_type="default", credits_info=_CREDITS, credits=_CREDITS, job_counts=counts)


@_route("jobs/create")
async def create(request: Request) -> Response:
    """Take a list; it starts now, or when it is asked for."""
    call = await _entry.admit(request, Scope.JOBS_WRITE)
    params, account_id = call.params, call.caller.account_id
    entry.refuse_callback(params.get("callback_url"))
    _refuse_sample(params)
    if params.get("input_location", "supplied") != "supplied":
        raise MailsiftError("bad_request", "Send the list itself; remote URLs aren’t fetched.")
    lines = await asyncio.to_thread(_lines, params.get("input"))
    name = printable_name(entry.text_in(params, "filename")) or "list"
    if entry.switch_in(params, "auto_start"):
        job_id = await entry.submit_list(call, one_piece(lines), entry.job_options(Door.NEVERBOUNCE, name))
    else:
        job_id = (await call.parts.drafts.receive(account_id, one_piece(lines), name)).id
    return _success(call, job_id=number_of(job_id))


@_route("jobs/parse")
async def parse(request: Request) -> Response:
    """Look at a list that was not started, and start it if that is asked for."""
    call, draft = await _draft(request)
    await call.parts.drafts.inspect(call.caller.account_id, draft.id)
    if entry.switch_in(call.params, "auto_start"):
        await _start(call, draft)
    return _success(call, queue_id=entry.text_in(call.params, "job_id"))


@_route("jobs/start")
async def start(request: Request) -> Response:
    """Start a list."""
    call, draft = await _draft(request)
    _refuse_sample(call.params)
    await _start(call, draft)
    return _success(call, queue_id=entry.text_in(call.params, "job_id"))


@_route("jobs/status")
async def status(request: Request) -> Response:
    """Tell how far a list is."""
    call = await _entry.admit(request, Scope.JOBS_READ)
    draft = await _find_draft(call)
    if draft is None:
        return _success(call, **await _job_status(call, await _job(call)))
    found = await call.parts.drafts.inspect(call.caller.account_id, draft.id)
    return _success(call, **_brief_draft(draft, found.rows))


@_route("jobs/results")
async def results(request: Request) -> Response:
    """Give a page of a list's results."""
    call = await _entry.admit(request, Scope.JOBS_READ)
    view, page, most = await _job(call), _page(call), _page_size(call)
    only = _row_condition(call.params, duplicates=True)
    rows, total = await entry.judged_rows(call, view, first=(page - 1) * most, most=most, only=only)
    asked = {name: int(entry.switch_in(call.params, name, usual=True)) for name in _SEGMENTS}
    return _success(
        call,
        total_results=total,
        total_pages=-(-total // most),
        query={"job_id": number_of(view.id), **asked, "page": page, "items_per_page": most},
        results=[_shape_row(row) for row in rows],
    )


@_route("jobs/search")
async def search(request: Request) -> Response:
    """Find jobs among the newest."""
    call = await _entry.admit(request, Scope.JOBS_READ)
    page, most, params = _page(call), _page_size(call), call.params
    asked = {name: value for name in _SEARCHED if (value := entry.text_in(params, name))}
    drafts = [_brief_draft(one) for one in await call.parts.drafts.waiting(call.caller.account_id)]
    found = [*drafts, *(_search_entry(view) for view in await _newest(call))]
    matching = [
        one for one in found if all(str(one[_SEARCHED[name]]) == value for name, value in asked.items())
    ]
    return _success(
        call,
        total_results=len(matching),
        total_pages=-(-len(matching) // most),
        query={**asked, "page": page, "items_per_page": most},
        results=matching[(page - 1) * most : page * most],
    )


@_route("jobs/download")
async def download(request: Request) -> Response:
    """Hand out a list with what its addresses came to."""
    call = await _entry.admit(request, Scope.JOBS_READ)
    view = await _job(call)
    if view.state is not JobState.COMPLETED:
        raise MailsiftError("no_results_yet", "The job hasn’t finished yet.")
    only = _row_condition(call.params, duplicates=entry.switch_in(call.params, "include_duplicates"))
    return await entry.results_as_csv(call, view, _columns(call.params), only=only)


@_route("jobs/delete")
async def delete(request: Request) -> Response:
    """Delete a list and all of it; one that runs is stopped first."""
    call = await _entry.admit(request, Scope.JOBS_WRITE)
    account_id, draft = call.caller.account_id, await _find_draft(call)
    if draft is not None:
        await call.parts.drafts.discard(account_id, draft.id)
        return _success(call)
    view = await _job(call)
    if view.state not in ENDED:
        await call.parts.jobs.cancel(account_id, view.id)
    await call.parts.jobs.delete(account_id, view.id)
    return _success(call)


def _lines(rows: object) -> bytes:
    """Write the rows of a list as JSON lines, which takes a while: nobody else is to wait for that."""
    return json_lines(entry.supplied_rows(rows, most=_MOST))


def _refuse_sample(params: entry.Params) -> None:
    if entry.switch_in(params, "run_sample"):
        raise MailsiftError("bad_request", "Samples aren’t available here. Mailsift’s own API has previews.")


async def _job(call: entry.VendorCall) -> JobView:
    return await entry.job_by_number(call, entry.text_in(call.params, "job_id"))


async def _find_draft(call: entry.VendorCall) -> Draft | None:
    """Return the list with this number if it has not been started."""
    number = entry.text_in(call.params, "job_id")
    waiting = await call.parts.drafts.waiting(call.caller.account_id)
    return next((one for one in waiting if str(number_of(one.id)) == number), None)


async def _draft(request: Request) -> tuple[entry.VendorCall, Draft]:
    call = await _entry.admit(request, Scope.JOBS_WRITE)
    draft = await _find_draft(call)
    if draft is None:
        await _job(call)  # there is none, or it has been started
        raise MailsiftError("bad_request", "This job has already been started.")
    return call, draft


async def _start(call: entry.VendorCall, draft: Draft) -> JobId:
    options = entry.job_options(Door.NEVERBOUNCE, draft.name)
    return await call.parts.drafts.start(call.caller.account_id, draft.id, options)


async def _newest(call: entry.VendorCall) -> list[JobView]:
    return (await call.parts.jobs.page(call.caller.account_id, limit=_NEWEST)).jobs


def _page(call: entry.VendorCall) -> int:
    return entry.number_in(call.params, "page", 1, most=1 << 32)


def _page_size(call: entry.VendorCall) -> int:
    return entry.number_in(call.params, "items_per_page", _PAGE, most=_LONGEST_PAGE)


def _time_text(at: datetime | None) -> str | None:
    return f"{at:%Y-%m-%d %H:%M:%S}" if at else None


def _status(view: JobView) -> str:
    return _UNREAD.get(view.state) or _STATUS[phase_of(view.state)]


def _search_entry(view: JobView) -> dict[str, Any]:
    """Return what a search tells of a job: its results are not counted up for that."""
    total = {
        "records": view.total,
        "billable": view.addresses,
        "processed": view.processed,
        "duplicates": view.duplicates,
        "valid": view.valid,
        "invalid": view.invalid,
        "unknown": view.risky,
    }
    return _entry_of(view, _status(view), total) | {
        "started_at": _time_text(view.started_at),
        "finished_at": _time_text(view.finished_at),
        "percent_complete": 100 * view.processed // view.total if view.total else 0,
        "failure_reason": view.error_detail or None,
    }


def _brief_draft(draft: Draft, rows: int = 0) -> dict[str, Any]:
    return _entry_of(draft, _WAITING, {"records": rows, "billable": rows})


def _entry_of(listed: JobView | Draft, status: str, total: dict[str, int]) -> dict[str, Any]:
    """Return what is told of a list with which nothing has been done; what is not in `total` is 0."""
    counts = ("records", "billable", "processed", "duplicates", "bad_syntax", *_NUMBERS)
    return {
        "id": number_of(listed.id),
        "job_status": status,
        "filename": listed.name,
        "created_at": _time_text(listed.created_at),
        "started_at": None,
        "finished_at": None,
        "total": dict.fromkeys(counts, 0) | total,
        "bounce_estimate": 0,
        "percent_complete": 0,
        "failure_reason": None,
    }


async def _job_status(call: entry.VendorCall, view: JobView) -> dict[str, Any]:
    counted = await entry.tally_rows(call, view, CODES)
    brief = _search_entry(view)
    brief["total"] |= {name: counted.of(name) for name in _NUMBERS}
    if counted.rows:
        brief["bounce_estimate"] = round(100 * counted.of("invalid") / counted.rows, 1)
    return brief


def _shape_row(row: entry.JudgedRow) -> dict[str, Any]:
    content = {**shape(row.verdict), "address_info": parts_of_address(row.email)}
    return {"data": dict(row.cells), "verification": content}


def _row_condition(params: entry.Params, *, duplicates: bool) -> pl.Expr:
    """Return which rows are wanted; all classes are, unless some are named."""
    named = any(name in params for name in _SEGMENTS)
    words = [word for name, word in _SEGMENTS.items() if entry.switch_in(params, name, usual=not named)]
    of_class = CODES.column(0).is_in(words)
    return of_class if duplicates else of_class & entry.first_of_each()


def _columns(params: entry.Params) -> dict[str, pl.Expr]:
    """Return the columns that are to stand beside the customer's."""
    yes, no = _YES_NO.get(entry.text_in(params, "binary_operators_type"), _YES_NO["BIN_1_0"])
    field = VERDICT_PREFIX.__add__
    parts = address_parts()

    def switch(condition: pl.Expr) -> pl.Expr:
        return pl.when(condition).then(pl.lit(yes)).otherwise(pl.lit(no))

    known = {
        "bad_syntax": switch(~pl.col(field("syntax_valid"))),
        "free_email_host": switch(pl.col(field("is_free"))),
        "role_account": switch(pl.col(field("is_role_based"))),
        "addr": parts.user.str.extract(r"(?s)^([^+]*)"),
        "alias": parts.tag,
        "host": parts.host,
        "fqdn": parts.host,
        "tld": parts.host.str.split(".").list.get(-1, null_on_oob=True),
        "has_dns_info": switch(pl.col(field("mx_valid"))),
        "has_mail_server": switch(pl.col(field("mx_valid"))),
        "mail_server_reachable": switch(pl.col(field("smtp_code")) > 0),
        "email_status_int": CODES.column(0).replace_strict(_NUMBERS, return_dtype=pl.Int64),
    }
    chosen = {name: made for name, made in known.items() if entry.switch_in(params, name)}
    return chosen | {"email_status": CODES.column(0)}


DOOR: Final = entry.VendorDoor(
    _router, show, {("POST", f"/{version}/jobs/create"): JSON_LIST_BYTES for version in _VERSIONS}
)
