"""ZeroBounce's API, version 2, for its clients: single addresses, batches, credits and files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any, Final

import polars as pl
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import UploadFile

from mailsift.accounts.doors import Door
from mailsift.accounts.keys import Scope
from mailsift.api.doors import entry
from mailsift.api.doors.codes import address_parts, code_table, split_address
from mailsift.api.http.uploads import file_pieces
from mailsift.jobs.columns import VERDICT_PREFIX
from mailsift.jobs.views import JobView
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.verdict import MEANT, suggested_address
from mailsift.storage.states import JobPhase, JobState, phase_of

CODES: Final = code_table(Door.ZEROBOUNCE)
"""status, sub_status."""

_BATCH: Final = 200
_SECONDS: Final = 60
_UPLOADED: Final = {
    JobPhase.UNSTARTED: "Queued",
    JobPhase.UNDER_WAY: "Processing",
    JobPhase.COMPLETED: "Complete",
    JobPhase.FAILED: "Failed",
}
_KEEP_REPEATED: Final = "keep_duplicates"

_entry: Final = entry.Entry(Door.ZEROBOUNCE, entry.KeyPlaces(params=("api_key",)))
_router: Final = APIRouter(include_in_schema=False)


def shape(text: str, verdict: Mapping[str, Any], at: float) -> dict[str, Any]:
    """Return what an address comes to; `at` is in seconds since the epoch."""
    status, sub_status = CODES.of(verdict)
    account, domain = split_address(text)
    return {
        "address": text,
        "status": status,
        "sub_status": sub_status,
        "free_email": verdict["is_free"],
        "did_you_mean": suggested_address(verdict) or None,
        "account": account,
        "domain": domain,
        "domain_age_days": None,
        "smtp_provider": None,
        "mx_found": str(verdict["mx_valid"]).lower(),
        "mx_record": None,
        "catchall_domain": verdict["catch_all"],
        "firstname": None,
        "lastname": None,
        "gender": None,
        "country": None,
        "region": None,
        "city": None,
        "zipcode": None,
        "processed_at": f"{utc_datetime(at):%Y-%m-%d %H:%M:%S.%f}"[:-3],
    }


def _columns() -> dict[str, pl.Expr]:
    """Return what stands beside the customer's columns in a file."""
    parts, nothing = address_parts(), pl.lit("")
    advice = pl.col(f"{VERDICT_PREFIX}suggestion").cast(pl.String)
    meant = advice.str.extract(MEANT)
    return {
        "ZB Status": CODES.column(0),
        "ZB Sub Status": CODES.column(1),
        "ZB Account": parts.user,
        "ZB Domain": parts.host,
        "ZB First Name": nothing,
        "ZB Last Name": nothing,
        "ZB Gender": nothing,
        "ZB Free Email": pl.col(f"{VERDICT_PREFIX}is_free"),
        "ZB MX Found": pl.col(f"{VERDICT_PREFIX}mx_valid"),
        "ZB MX Record": nothing,
        "ZB SMTP Provider": nothing,
        "ZB Did You Mean": meant,
    }


def show(path: str, error: MailsiftError, status: int) -> entry.VendorError:
    """Return an error: of single addresses it comes with status 200, as ZeroBounce has it."""
    lenient = 200 if status < 429 else status
    if path == "/v2/getcredits" and status in {401, 403}:
        return entry.VendorError({"Credits": "-1"}, lenient)
    if path == "/v2/validatebatch":
        errors = [{"error": error.message, "email_address": "all"}]
        return entry.VendorError({"email_batch": [], "errors": errors}, lenient)
    if path == "/v2/getfile":
        return entry.VendorError({"success": "False", "message": error.message}, status)
    if path in {"/v2/sendfile", "/v2/filestatus", "/v2/deletefile"}:
        return entry.VendorError({"success": False, "message": error.message}, status)
    return entry.VendorError({"error": error.message}, lenient)


@_router.api_route("/v2/validate", methods=["GET", "POST"])
async def validate(request: Request) -> Response:
    """Validate one address."""
    call = await _entry.admit(request, Scope.VALIDATE)
    text = entry.email_in(call.params)
    entry.refuse_callback(call.params.get("callback_url"))
    seconds = entry.number_in(call.params, "timeout", 30, least=3, most=_SECONDS)
    verdict = await call.single.validate(text, call.options(seconds))
    return JSONResponse(shape(text, verdict, call.parts.clock()))


@_router.post("/v2/validatebatch")
async def validate_batch(request: Request) -> Response:
    """Validate up to 200 addresses."""
    call = await _entry.admit(request, Scope.VALIDATE)
    batch = call.params.get("email_batch")
    if not isinstance(batch, list) or not 1 <= len(batch) <= _BATCH:
        raise MailsiftError("bad_request", f"`email_batch` must have 1 to {_BATCH} addresses.")
    texts = [
        entry.listed_email(one.get("email_address") if isinstance(one, dict) else one, "email_batch")
        for one in batch
    ]
    if len(texts) > 1:
        await call.parts.authenticator.charge(request, call.caller, len(texts) - 1)
    seconds = entry.number_in(call.params, "timeout", _SECONDS, least=10, most=_SECONDS)
    verdicts = await call.single.validate_many(texts, call.options(seconds))
    at = call.parts.clock()
    shaped = [shape(text, verdict, at) for text, verdict in zip(texts, verdicts, strict=True)]
    return JSONResponse({"email_batch": shaped, "errors": []})


@_router.api_route("/v2/getcredits", methods=["GET", "POST"])
async def get_credits(request: Request) -> Response:
    """Tell that there is no end of credits."""
    await _entry.admit(request, Scope.VALIDATE)
    return JSONResponse({"Credits": str(entry.UNLIMITED)})


@_router.post("/v2/sendfile")
async def send_file(request: Request) -> Response:
    """Take a list and start its job."""
    async with _entry.admit_form(request) as (call, form):
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise MailsiftError("bad_request", "`file` is missing.")
        entry.refuse_callback(call.params.get("return_url"))
        column = entry.number_in(call.params, "email_address_column", 1, most=1_000)
        kept = (
            {} if entry.switch_in(call.params, "remove_duplicate", usual=True) else {_KEEP_REPEATED: "true"}
        )
        options = entry.job_options(Door.ZEROBOUNCE, file.filename or "", column=str(column), kept=kept)
        job_id = await entry.submit_list(call, file_pieces(file), options)
    content = {"file_name": options.name, "file_id": str(job_id)}
    return JSONResponse({"success": True, "message": "File Accepted", **content})


@_router.get("/v2/filestatus")
async def file_status(request: Request) -> Response:
    """Tell how far a list is."""
    _, view = await _file(request, Scope.JOBS_READ)
    return JSONResponse(
        {
            "success": True,
            **_name(view),
            "upload_date": f"{view.created_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "file_status": _UPLOADED[phase_of(view.state)],
            "complete_percentage": f"{_percent(view)}%",
            "error_reason": view.error_detail or None,
            "return_url": None,
        }
    )


@_router.get("/v2/getfile")
async def get_file(request: Request) -> Response:
    """Hand out the list with what its addresses came to."""
    call, view = await _file(request, Scope.JOBS_READ)
    if view.state is not JobState.COMPLETED:
        raise MailsiftError("no_results_yet", "The file isn’t ready yet.")
    only = None if _KEEP_REPEATED in view.options.metadata else entry.first_of_each()
    return await entry.results_as_csv(call, view, _columns(), only=only)


@_router.get("/v2/deletefile")
async def delete_file(request: Request) -> Response:
    """Delete a list that has ended, and all of it."""
    call, view = await _file(request, Scope.JOBS_WRITE)
    await call.parts.jobs.delete(call.caller.account_id, view.id)
    return JSONResponse({"success": True, "message": "File Deleted", **_name(view)})


async def _file(request: Request, scope: Scope) -> tuple[entry.VendorCall, JobView]:
    call = await _entry.admit(request, scope)
    return call, await entry.job_by_id(call, entry.text_in(call.params, "file_id"))


def _name(view: JobView) -> dict[str, str]:
    return {"file_id": str(view.id), "file_name": view.name}


def _percent(view: JobView) -> int:
    if view.state is JobState.COMPLETED:
        return 100
    return 99 * view.processed // view.total if view.total else 0


DOOR: Final = entry.VendorDoor(_router, show, {("POST", "/v2/sendfile"): 1 << 40})
