"""Reacher's HTTP API for its clients, after its public documentation: one address, and lists by number."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from mailsift.accounts.doors import Door
from mailsift.accounts.keys import Scope
from mailsift.api.doors import entry
from mailsift.api.doors.codes import code_table, normal_form, split_address
from mailsift.api.http.responses import iso_utc
from mailsift.api.http.uploads import JSON_LIST_BYTES
from mailsift.jobs.results.export import csv_lines, defused
from mailsift.jobs.submissions import one_piece
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.verdict import Result, suggested_address
from mailsift.storage.sql.jobs import number_of
from mailsift.storage.states import ENDED, JobState

CODES: Final = code_table(Door.REACHER)
"""is_reachable."""

_SECONDS: Final = 30.0
_MOST: Final = 100_000
_PAGE: Final = 50
_LONGEST_PAGE: Final = 10_000

_entry: Final = entry.Entry(
    Door.REACHER, entry.KeyPlaces(scheme="bearer", header="x-reacher-secret", bare=True)
)
_router: Final = APIRouter(include_in_schema=False)


def shape(text: str, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an address comes to."""
    (reachable,), (user, domain) = CODES.of(verdict), split_address(text)
    result, good = verdict["result"], verdict["syntax_valid"]
    return {
        "input": text,
        "is_reachable": reachable,
        "misc": {
            "is_disposable": verdict["is_disposable"],
            "is_role_account": verdict["is_role_based"],
            "is_b2c": verdict["is_free"],
            "gravatar_url": None,
            "haveibeenpwned": None,
        },
        "mx": {"accepts_mail": verdict["mx_valid"], "records": []},
        "smtp": {
            "can_connect_smtp": verdict["smtp_code"] > 0,
            "has_full_inbox": result == Result.MAILBOX_FULL,
            "is_catch_all": verdict["catch_all"],
            "is_deliverable": result in {Result.DELIVERABLE, Result.CATCH_ALL},
            "is_disabled": result == Result.MAILBOX_DISABLED,
        },
        "syntax": {
            "address": text if good else None,
            "normalized_email": normal_form(text) if good else None,
            "domain": domain,
            "is_valid_syntax": good,
            "username": user,
            "suggestion": suggested_address(verdict) or None,
        },
    }


def show(_: str, error: MailsiftError, status: int) -> entry.VendorError:
    """Return an error."""
    return entry.VendorError({"error": error.message}, status)


@_router.post("/v0/check_email")
@_router.post("/v1/check_email")
async def check_email(request: Request) -> Response:
    """Check one address; how a mail server is asked is the operator's, whatever the request wishes."""
    call = await _entry.admit(request, Scope.VALIDATE)
    text, began = entry.email_in(call.params, "to_email"), call.parts.clock()
    content = shape(text, await call.single.validate(text, call.options(_SECONDS)))
    times = {"start_time": _iso_time(began), "end_time": _iso_time(call.parts.clock())}
    seconds, rest = divmod(call.seconds, 1)
    duration = {"secs": int(seconds), "nanos": round(rest * 1e9)}
    return JSONResponse({**content, "debug": {**times, "duration": duration, "server_name": "mailsift"}})


def _iso_time(at: float) -> str:
    return iso_utc(utc_datetime(at))


@_router.post("/v0/bulk")
@_router.post("/v1/bulk")
async def create_bulk(request: Request) -> Response:
    """Take a list and start its job."""
    call = await _entry.admit(request, Scope.JOBS_WRITE)
    entry.refuse_callback(call.params.get("webhook"))
    lines = await asyncio.to_thread(entry.emails_as_lines, call.params.get("input"), "input", most=_MOST)
    job_id = await entry.submit_list(
        call, one_piece(lines), entry.job_options(Door.REACHER, "bulk", column="email")
    )
    return JSONResponse({"job_id": number_of(job_id)})


@_router.get("/v0/bulk/{number:int}")
@_router.get("/v1/bulk/{number:int}")
async def bulk_status(request: Request, number: int) -> Response:
    """Tell how far a list is."""
    call = await _entry.admit(request, Scope.JOBS_READ)
    view = await entry.job_by_number(call, number)
    counted = await entry.tally_rows(call, view, CODES)
    return JSONResponse(
        {
            "job_id": number,
            "created_at": iso_utc(view.created_at),
            "finished_at": iso_utc(view.finished_at) if view.finished_at else None,
            "total_records": view.total,
            "total_processed": view.processed,
            "summary": {
                f"total_{word}": counted.of(word) for word in ("safe", "invalid", "risky", "unknown")
            },
            "job_status": "Completed" if view.state in ENDED else "Running",
        }
    )


@_router.get("/v0/bulk/{number:int}/results")
@_router.get("/v1/bulk/{number:int}/results")
async def bulk_results(request: Request, number: int) -> Response:
    """Give some of a list's results."""
    call = await _entry.admit(request, Scope.JOBS_READ)
    view = await entry.job_by_number(call, number)
    if view.state is not JobState.COMPLETED:
        raise MailsiftError("no_results_yet", view.error_detail or "The job is still running.")
    first = entry.number_in(call.params, "offset", 0, least=0, most=1 << 32)
    form = entry.text_in(call.params, "format") or "json"
    if form not in _FORMS:
        raise MailsiftError("bad_request", "`format` is json or csv.")
    write, usual, longest = _FORMS[form]
    most = entry.number_in(call.params, "limit", usual, most=longest)
    rows, _ = await entry.judged_rows(call, view, first=first, most=most)
    return await asyncio.to_thread(write, rows)  # which takes a while: nobody else is to wait for that


def _as_json(rows: Sequence[entry.JudgedRow]) -> Response:
    return JSONResponse({"results": [shape(row.email, row.verdict) for row in rows]})


def _as_csv(rows: Sequence[entry.JudgedRow]) -> Response:
    """Write what JSON has, each value under its way there: `syntax.domain`."""
    records = [dict(_flat(shape(row.email, row.verdict))) for row in rows]
    names = list(map(list, records[:1]))
    return Response(csv_lines([*names, *(list(one.values()) for one in records)]), media_type="text/csv")


def _flat(fields: Mapping[str, Any], way: str = "") -> Iterator[tuple[str, str]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{way}{name}.")
        else:
            yield way + name, "" if value is None else defused(_text(value))


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_FORMS: Final = {"json": (_as_json, _PAGE, _LONGEST_PAGE), "csv": (_as_csv, _MOST, _MOST)}
"""What writes the rows, how many it writes unless the client says, and at most."""


DOOR: Final = entry.VendorDoor(
    _router, show, {("POST", f"/{version}/bulk"): JSON_LIST_BYTES for version in ("v0", "v1")}
)
