"""Kickbox's API, version 2, for its clients: single addresses, batches and the balance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from mailsift.accounts.doors import Door
from mailsift.accounts.keys import Scope
from mailsift.api.doors import entry
from mailsift.api.doors.codes import code_table, normal_form, split_address
from mailsift.api.http.responses import iso_utc
from mailsift.jobs.views import JobView
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.verdict import suggested_address
from mailsift.storage.sql.jobs import number_of
from mailsift.storage.states import JobPhase, JobState, phase_of

CODES: Final = code_table(Door.KICKBOX)
"""result, reason."""

_CLASSES: Final = ("deliverable", "undeliverable", "risky", "unknown")
_MOST_MS: Final = 30_000
_BATCH: Final = "/v2/verify-batch"
_STATUS: Final = {
    JobPhase.UNSTARTED: "starting",
    JobPhase.UNDER_WAY: "processing",
    JobPhase.COMPLETED: "completed",
    JobPhase.FAILED: "failed",
}
_DONE: Final[Mapping[str, Any]] = {"success": True, "message": None}

_entry: Final = entry.Entry(Door.KICKBOX, entry.KeyPlaces(params=("apikey",), scheme="token"))
_router: Final = APIRouter(include_in_schema=False)


def shape(text: str, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an address comes to."""
    result, reason = CODES.of(verdict)
    user, domain = split_address(text)
    return {
        "result": result,
        "reason": reason,
        "role": verdict["is_role_based"],
        "free": verdict["is_free"],
        "disposable": verdict["is_disposable"],
        "accept_all": verdict["catch_all"],
        "did_you_mean": suggested_address(verdict) or None,
        "sendex": verdict["score"] / 100,
        "email": normal_form(text),
        "user": user,
        "domain": domain,
        **_DONE,
    }


def show(_: str, error: MailsiftError, status: int) -> entry.VendorError:
    """Return an error; a key that opens nothing is a 403 there."""
    return entry.VendorError({"message": error.message, "success": False}, 403 if status == 401 else status)


def _respond(call: entry.VendorCall, content: Mapping[str, Any]) -> Response:
    response = JSONResponse(content)
    response.headers["X-Kickbox-Balance"] = str(entry.UNLIMITED)
    response.headers["X-Kickbox-Response-Time"] = str(round(call.seconds * 1000))
    return response


@_router.get("/v2/verify")
async def verify(request: Request) -> Response:
    """Verify one address."""
    call = await _entry.admit(request, Scope.VALIDATE)
    text = entry.email_in(call.params)
    seconds = entry.number_in(call.params, "timeout", 6_000, least=100, most=_MOST_MS) / 1000
    return _respond(call, shape(text, await call.single.validate(text, call.options(seconds))))


@_router.get("/v2/balance")
async def balance(request: Request) -> Response:
    """Tell that there is no end of credits."""
    call = await _entry.admit(request, Scope.VALIDATE)
    return _respond(call, {"balance": entry.UNLIMITED, **_DONE})


@_router.put(_BATCH)
async def verify_batch(request: Request) -> Response:
    """Take a list, one address a line or a CSV file, and start its job."""
    call = await _entry.admit(request, Scope.JOBS_WRITE, dict(request.query_params))
    entry.refuse_callback(request.headers.get("x-kickbox-callback"))
    options = entry.job_options(Door.KICKBOX, request.headers.get("x-kickbox-filename") or "batch.csv")
    job_id = await entry.submit_list(call, request.stream(), options)
    return _respond(call, {"id": number_of(job_id), **_DONE})


@_router.get(f"{_BATCH}/{{number:int}}")
async def batch_status(request: Request, number: int) -> Response:
    """Tell how far a batch is, and where its results are."""
    call = await _entry.admit(request, Scope.JOBS_READ)
    view = await entry.job_by_number(call, number)
    counted = await entry.tally_rows(call, view, CODES)
    content = {
        "id": number,
        "name": view.name,
        "status": _STATUS[phase_of(view.state)],
        "created_at": iso_utc(view.created_at),
        "error": view.error_detail or None,
        "duration": _duration(view),
        **_progress(view, counted),
    }
    if view.state is JobState.COMPLETED:
        stats = {"sendex": await entry.mean_score(call, view) / 100, "addresses": counted.rows}
        content["stats"] = _classes(counted) | stats
        content["download_url"] = str(request.url_for("kickbox_results", number=number))
    return _respond(call, {**content, **_DONE})


def _classes(counted: entry.Tally) -> dict[str, Any]:
    return {name: counted.of(name) for name in _CLASSES}


def _progress(view: JobView, counted: entry.Tally) -> dict[str, Any]:
    if view.state is not JobState.RUNNING:
        return {}
    left = {"total": view.total, "unprocessed": max(0, view.total - counted.rows)}
    return {"progress": _classes(counted) | left}


def _duration(view: JobView) -> int:
    if view.started_at is None or view.finished_at is None:
        return 0
    return round((view.finished_at - view.started_at).total_seconds())


@_router.get(f"{_BATCH}/{{number:int}}/results", name="kickbox_results")
async def batch_results(request: Request, number: int) -> Response:
    """Hand out a batch as CSV; this needs the key, too."""
    call = await _entry.admit(request, Scope.JOBS_READ)
    view = await entry.job_by_number(call, number)
    return await entry.results_as_csv(call, view, {"Result": CODES.column(0), "Reason": CODES.column(1)})


DOOR: Final = entry.VendorDoor(_router, show, {("PUT", _BATCH): 1 << 40})
