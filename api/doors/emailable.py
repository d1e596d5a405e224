"""Emailable's API, version 1, for its clients: single addresses, batches and the account."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from mailsift.accounts.doors import Door
from mailsift.accounts.keys import Scope
from mailsift.api.doors import entry
from mailsift.api.doors.codes import code_table, split_address
from mailsift.api.http.uploads import JSON_LIST_BYTES
from mailsift.jobs.submissions import one_piece
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.verdict import Result, suggested_address
from mailsift.storage.states import ENDED

CODES: Final = code_table(Door.EMAILABLE)
"""state, reason."""

_STATES: Final = ("deliverable", "undeliverable", "risky", "unknown")
_MOST: Final = 50_000
_SECONDS: Final = 10
_NO_REPLY: Final = frozenset({"noreply", "donotreply"})

_entry: Final = entry.Entry(
    Door.EMAILABLE, entry.KeyPlaces(params=("api_key", "access_token"), scheme="bearer"), listed="emails"
)
_router: Final = APIRouter(include_in_schema=False)


def shape(text: str, verdict: Mapping[str, Any], seconds: float = 0.0) -> dict[str, Any]:
    """Return what an address comes to; `seconds` is how long that took."""
    state, reason = CODES.of(verdict)
    user, domain = split_address(text)
    return {
        "accept_all": verdict["catch_all"],
        "did_you_mean": suggested_address(verdict) or None,
        "disposable": verdict["is_disposable"],
        "domain": domain,
        "duration": seconds,
        "email": text,
        "first_name": None,
        "free": verdict["is_free"],
        "full_name": None,
        "gender": None,
        "last_name": None,
        "mailbox_full": verdict["result"] == Result.MAILBOX_FULL,
        "mx_record": None,
        "no_reply": user.lower().translate({ord(sign): None for sign in "-_."}) in _NO_REPLY,
        "reason": reason,
        "role": verdict["is_role_based"],
        "score": verdict["score"],
        "smtp_provider": None,
        "state": state,
        "tag": user.partition("+")[2] or None,
        "user": user,
    }


def show(_: str, error: MailsiftError, status: int) -> entry.VendorError:
    """Return an error."""
    return entry.VendorError({"message": error.message}, status)


@_router.api_route("/v1/verify", methods=["GET", "POST"])
async def verify(request: Request) -> Response:
    """Verify one address; without `smtp` its mail server is not asked."""
    call = await _entry.admit(request, Scope.VALIDATE)
    text = entry.email_in(call.params)
    mode = Mode.DEEP if entry.switch_in(call.params, "smtp", usual=True) else Mode.MEDIUM
    seconds = entry.number_in(call.params, "timeout", 5, least=2, most=_SECONDS)
    verdict = await call.single.validate(text, call.options(seconds, mode))
    return JSONResponse(shape(text, verdict, call.seconds))


@_router.get("/v1/account")
async def account(request: Request) -> Response:
    """Tell that there is no end of credits; whose account it is, a key does not say."""
    await _entry.admit(request, Scope.VALIDATE)
    return JSONResponse({"owner_email": "", "available_credits": entry.UNLIMITED})


@_router.post("/v1/batch")
async def create_batch(request: Request) -> Response:
    """Take a list and start its job."""
    call = await _entry.admit(request, Scope.JOBS_WRITE)
    entry.refuse_callback(call.params.get("url"))
    emails = listed_emails(call.params.get("emails"))
    lines = await asyncio.to_thread(entry.emails_as_lines, emails, "emails", most=_MOST)
    options = entry.job_options(Door.EMAILABLE, "batch", column="email")
    job_id = await entry.submit_list(call, one_piece(lines), options)
    return JSONResponse({"message": "Batch successfully created.", "id": job_id.hex})


def listed_emails(emails: object) -> object:
    """Return the addresses of a form, where commas part them, each by itself; of JSON what there is."""
    if isinstance(emails, str):
        return [one.strip() for one in emails.removesuffix(",").split(",")] if emails.strip() else []
    return emails


@_router.get("/v1/batch")
async def batch_status(request: Request) -> Response:
    """Tell how far a batch is; when it has ended, or with `partial`, what its addresses came to."""
    call = await _entry.admit(request, Scope.JOBS_READ)
    view = await entry.job_by_id(call, entry.text_in(call.params, "id"))
    partial = entry.switch_in(call.params, "partial")
    if view.state not in ENDED and not (partial and view.processed):
        text = "Your batch is being processed."
        return JSONResponse({"message": text, "processed": view.processed, "total": view.total})
    if not view.processed:
        raise MailsiftError("no_results_yet", view.error_detail or "The batch has no results.")
    counted = await entry.tally_rows(call, view, CODES)
    rows, _ = await entry.judged_rows(call, view, first=0, most=_MOST)
    states = {state: counted.of(state) for state in _STATES}
    content = {
        "message": "Batch verification completed.",
        "id": entry.text_in(call.params, "id"),
        "total_counts": {**states, "processed": counted.rows, "total": view.total},
        "reason_counts": {reason: counted.of(reason, 1) for _, reason in sorted(CODES.codes)},
    }
    return await asyncio.to_thread(_with_rows, content, rows)


def _with_rows(content: Mapping[str, Any], rows: Sequence[entry.JudgedRow]) -> Response:
    """Write a batch with its rows, which takes seconds for a long one: nobody else is to wait for that."""
    return JSONResponse({**content, "emails": [shape(row.email, row.verdict) for row in rows]})


DOOR: Final = entry.VendorDoor(_router, show, {("POST", "/v1/batch"): JSON_LIST_BYTES})
