"""/lists: a list comes in, is looked at, and is started or discarded.

/uploads: it comes in piece by piece, in tus 1.0.0 (core, creation, termination).
"""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final, Self
from urllib.parse import unquote
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.routing import APIRoute
from starlette.datastructures import FormData
from starlette.requests import ClientDisconnect
from typing_extensions import override

from mailsift.accounts.people import Visitor
from mailsift.api.http.errors import RefusedError
from mailsift.api.http.inputs import FORM, MAYBE_THOUSANDS, Handler, media_type
from mailsift.api.http.uploads import file_pieces, printable_name
from mailsift.api.pages.forms import CSRF_HEADER, Form, check_token, choice, chosen_file, read_form, text
from mailsift.api.pages.page import render, see_other
from mailsift.api.pages.validate import FRAGMENT
from mailsift.api.pages.visitor import Member, Reader
from mailsift.api.pages.words import percent, time_lines
from mailsift.api.parts import ApiParts, parts_of
from mailsift.jobs.drafts import Draft, Inspection, ListUpload
from mailsift.jobs.plans import ListPlan
from mailsift.jobs.views import JobId, JobOptions, Priority
from mailsift.pipeline.errors import MailsiftError, SuppressCodes
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.syntax.address import SyntaxRule, parse_cell
from mailsift.storage.states import JobState

router = APIRouter(include_in_schema=False)

_NAME_HEADER: Final = "X-File-Name"
_SAMPLE_SIZE, _LARGEST_SAMPLE = 1_000, 100_000
_MOST_PLANNED: Final = 1_000_000
"""Rows; of a longer list to count the domains takes longer than one waits for a page."""
_LIKELY, _CERTAIN = 0.5, 0.8  # shares of a column: it is chosen for somebody; it needs no confirmation
_EXAMPLES: Final = 3
_MOST_EARLIER: Final = 10  # jobs over the same file that are looked at
_HOUR: Final = 3_600.0
_DAY: Final = 86_400.0
_PRIORITY_NAMES: Final = (
    (Priority.NORMAL.value, "Normal"),
    (Priority.HIGH.value, "First"),
    (Priority.LOW.value, "Last"),
)


@router.post("/lists")
async def upload(request: Request, visitor: Member) -> Response:
    """Take a list: a form's file, or from a script the file itself, which is stored as it comes in."""
    if media_type(request) == FORM:
        draft = await _from_form(request, visitor)
    else:
        check_token(request, request.headers.get(CSRF_HEADER))
        name = unquote(request.headers.get(_NAME_HEADER, ""), errors="replace")
        drafts = parts_of(request).drafts
        draft = await drafts.receive(visitor.account_id, request.stream(), printable_name(name) or "list")
    href = f"/lists/{draft.id}"
    return JSONResponse({"href": href}) if FRAGMENT in request.headers else see_other(href)


async def _from_form(request: Request, visitor: Visitor) -> Draft:
    try:
        file = chosen_file(await read_form(request))
        name = printable_name(file.filename or "") or "list"
        return await parts_of(request).drafts.receive(visitor.account_id, file_pieces(file), name)
    finally:
        await request.close()  # what was set aside of the file


@router.get("/lists/{draft_id:uuid}")
async def inspect(request: Request, visitor: Reader, draft_id: UUID) -> Response:
    """Show what is in a list, and ask what to do with it; one that was started leads to its job."""
    try:
        return await _list_page(request, visitor, draft_id)
    except MailsiftError as error:
        if error.code != "draft_not_found":
            raise
        with SuppressCodes("job_not_found"):
            await parts_of(request).jobs.get(visitor.account_id, JobId(draft_id))
            return see_other(f"/jobs/{draft_id}")
        raise


async def _list_page(
    request: Request,
    visitor: Visitor,
    draft_id: UUID,
    *,
    filled: _StartForm | None = None,
    column_warning: str = "",
) -> HTMLResponse:
    """Return the page of a list; with a `column_warning`, what is filled in stays there."""
    drafts = parts_of(request).drafts
    draft = await drafts.get(visitor.account_id, draft_id)
    try:
        found = await drafts.inspect(visitor.account_id, draft_id)
    except MailsiftError as error:
        if error.code == "draft_not_found":
            raise
        return render(request, "list.html", status=200, draft=draft, inspection=None, error=error)
    plans = await _plans(request, visitor, draft_id, found)
    return render(
        request,
        "list.html",
        status=422 if column_warning else 200,
        draft=draft,
        inspection=found,
        plan=plans.get(Mode.DEEP),
        times={mode: plan.left.seconds for mode, plan in plans.items()},
        lines=time_lines(plans[Mode.DEEP].left.lines, 4) if plans else [],
        earlier=[
            job
            for job in await drafts.earlier(draft, visitor.account_id, most=_MOST_EARLIER)
            if job.state is JobState.COMPLETED
        ][:1],
        repairs=_repairs(request, found),
        several=any(parse_cell(cell).rule == SyntaxRule.SEVERAL_ADDRESSES for cell in found.odd),
        columns=_column_choices(found),
        filled=filled or _StartForm(draft.name, sample=str(min(_SAMPLE_SIZE, max(1, found.rows // 2)))),
        guess=found.guess if _is_sure(found) else None,
        column_warning=column_warning,
        priorities=_PRIORITY_NAMES,
        most=_LARGEST_SAMPLE,
    )


async def _plans(
    request: Request, visitor: Visitor, draft_id: UUID, found: Inspection
) -> dict[Mode, ListPlan]:
    """Return what the list would take in each mode; nothing when no column looks like one with addresses."""
    if not _is_sure(found) or found.rows > _MOST_PLANNED:
        return {}
    plans = parts_of(request).plans
    try:
        return {mode: await plans.plan(visitor.account_id, JobId(draft_id), mode) for mode in Mode}
    except MailsiftError:
        return {}  # the job will say why, and so does this page where it matters


def _is_sure(found: Inspection) -> bool:
    """Tell whether the guessed column may be chosen for somebody: half of it looks like addresses."""
    return found.guess is not None and found.columns[found.guess].share >= _LIKELY


def _column_choices(inspection: Inspection) -> list[tuple[str, str, bool]]:
    """Return value and label of the columns that can be chosen, and whether they need no confirmation.

    The guess is what intake finds by itself.
    """
    choices = []
    for place, column in enumerate(inspection.columns):
        guessed = place == inspection.guess and _is_sure(inspection)
        share = f" ({percent(column.share)} look like addresses)" if column.share else ""
        if guessed or column.key:
            label = f"{column.name or f'Column {place + 1}'}{share}"
            choices.append(("" if guessed else str(place + 1), label, column.share >= _CERTAIN))
    return choices


def _repairs(request: Request, found: Inspection) -> list[tuple[str, str]]:
    """Return some cells that would be repaired, each with the address it would be validated as."""
    judged = parts_of(request).single.judged_address
    meant = ((cell, judged(cell, repair=True)) for cell in found.odd if not judged(cell, repair=False))
    return [(cell, address) for cell, address in meant if address][:_EXAMPLES]


@router.post("/lists/{draft_id:uuid}/start")
async def start(request: Request, visitor: Member, draft_id: UUID, form: Form) -> Response:
    """Make the list a job; a column of which much does not look like addresses has to be confirmed."""
    parts = parts_of(request)
    draft, filled = None, _StartForm.of(form)
    with SuppressCodes("draft_not_found"):  # a second click on Start leads to the job all the same
        draft = await parts.drafts.get(visitor.account_id, draft_id)
    options = filled.options()
    if draft is not None:
        column, column_warning = await _chosen_column(parts, visitor, draft_id, filled.column)
        if column_warning and form.get("sure") != "on":
            return await _list_page(request, visitor, draft_id, filled=filled, column_warning=column_warning)
        options = replace(options, column=column)
    job_id = await parts.drafts.start(visitor.account_id, draft_id, options)
    return see_other(f"/jobs/{job_id}")


async def _chosen_column(parts: ApiParts, visitor: Visitor, draft_id: UUID, number: str) -> tuple[str, str]:
    """Return what JobOptions.column has to be, and what speaks against the column, "" when nothing does.

    The form gives a column's number, "" for the guess: a name need not come back as it was sent (spaces at
    its ends, line breaks).
    """
    try:
        found = await parts.drafts.inspect(visitor.account_id, draft_id)
    except MailsiftError:
        return number, ""  # the job says what is wrong with the list
    if number:
        column = next((one for n, one in enumerate(found.columns, 1) if one.key and str(n) == number), None)
        if column is None:
            raise MailsiftError("column_not_found", "This list has no such column.")
        key = column.key
    elif found.guess is None or not _is_sure(found):
        return "", "Choose the column with the addresses."
    else:
        column, key = found.columns[found.guess], ""
    if column.share >= _CERTAIN:
        return key, ""
    share = percent(column.share)
    return key, f"Only {share} of the column “{column.name}” looks like addresses. Is it the right one?"


@router.post("/lists/{draft_id:uuid}/discard")
async def discard(request: Request, visitor: Member, draft_id: UUID, _form: Form) -> Response:
    """Delete a list that was not started."""
    await parts_of(request).drafts.discard(visitor.account_id, draft_id)
    return see_other("/", "The list is discarded.")


@dataclass(frozen=True, slots=True)
class _StartForm:
    """The form as it was filled in, which is shown again where the column has to be confirmed."""

    name: str
    column: str = ""
    mode: str = Mode.DEEP.value
    what: str = "all"
    sample: str = ""
    priority: str = Priority.NORMAL.value
    hours: str = "0"
    evidence: bool = False
    repair: bool = False
    again: bool = False

    @classmethod
    def of(cls, form: FormData) -> Self:
        return cls(
            name=text(form, "name"),
            column=text(form, "column"),
            mode=choice(form, "mode", set(Mode)),
            what="sample" if form.get("what") == "sample" else "all",
            sample=text(form, "sample"),
            priority=choice(form, "priority", dict(_PRIORITY_NAMES)),
            hours=text(form, "hours"),
            evidence=form.get("evidence") == "on",
            repair=form.get("repair") == "on",
            again=form.get("again") == "on",
        )

    def options(self) -> JobOptions:
        """Return what the job does, but for its column."""
        return JobOptions(
            mode=Mode(self.mode),
            name=self.name,
            evidence=self.evidence,
            repair=self.repair,
            max_age=0.0 if self.again else _DAY,
            outcome_age=0.0 if self.again else None,
            deadline_s=_number_in("hours", self.hours, most=1_000) * _HOUR,
            priority=Priority(self.priority),
            preview=self._sample_size() if self.what == "sample" else 0,
        )

    def _sample_size(self) -> int:
        """Return how many addresses are in the sample; none would be the whole list (JobOptions.preview)."""
        size = int(_number_in("sample", self.sample, most=_LARGEST_SAMPLE))
        if not size:
            raise MailsiftError("bad_option", f"A sample has 1 to {_LARGEST_SAMPLE:,} addresses.")
        return size


def _number_in(name: str, given: str, *, most: int) -> float:
    """Return a field's number, 0 when it is empty."""
    given = given or "0"
    if MAYBE_THOUSANDS.fullmatch(given):
        raise MailsiftError("bad_option", f"“{name}” has a point that may part thousands: leave it out.")
    if not re.fullmatch(r"\d{1,9}(\.\d{1,3})?", given, re.ASCII) or float(given) > most:
        raise MailsiftError("bad_option", f"“{name}” must be a number of at most {most:,}.")
    return float(given)


_TUS_VERSION: Final = {"Tus-Resumable": "1.0.0"}
_TUS_OFFERED: Final = {**_TUS_VERSION, "Tus-Version": "1.0.0", "Tus-Extension": "creation,termination"}
_TUS_TYPE: Final = "application/offset+octet-stream"
_MOST_DIGITS: Final = 15


class _TusRoute(APIRoute):
    """A route whose answers say which version of the protocol they speak, errors too."""

    @override
    def get_route_handler(self) -> Handler:
        """Return what FastAPI would call, with the protocol's header on whatever follows."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                response = await handler(request)
            except MailsiftError as error:
                raise RefusedError(error.code, error.message, _TUS_OFFERED) from error
            response.headers.update(_TUS_VERSION)
            return response

        return handle


uploads_router = APIRouter(include_in_schema=False, route_class=_TusRoute)


@uploads_router.options("/uploads")
async def offer_uploads(request: Request, _: Reader) -> Response:
    """Say what is spoken here."""
    return Response(
        status_code=204, headers={**_TUS_OFFERED, "Tus-Max-Size": str(parts_of(request).max_bytes)}
    )


@uploads_router.post("/uploads")
async def begin_upload(request: Request, visitor: Member) -> Response:
    """Make room for a list: Upload-Length says its bytes, Upload-Metadata its `filename`, and `modified`."""
    _check_tus(request)
    known = _tus_metadata(request.headers.get("upload-metadata", ""))
    upload = await parts_of(request).uploads.begin(
        visitor.account_id,
        printable_name(known.get("filename", "")) or "list",
        _bytes_in(request, "upload-length"),
        known.get("modified", "")[:40],
    )
    return Response(status_code=201, headers={"Location": f"/uploads/{upload.id}", **_upload_state(upload)})


@uploads_router.get("/uploads/{upload_id:uuid}")
async def find_upload(request: Request, visitor: Member, upload_id: UUID) -> Response:
    """Say how much has come in; asked with HEAD."""
    found = await parts_of(request).uploads.find(visitor.account_id, upload_id)
    return Response(status_code=204, headers=_upload_state(found))


@uploads_router.patch("/uploads/{upload_id:uuid}")
async def append_to_upload(request: Request, visitor: Member, upload_id: UUID) -> Response:
    """Take the bytes from Upload-Offset on; what came before the connection broke is kept."""
    _check_tus(request)
    if request.headers.get("content-type", "").lower() != _TUS_TYPE:
        raise MailsiftError("unsupported_media_type", f"Send the bytes of the list as {_TUS_TYPE}.")
    upload = await parts_of(request).uploads.append(
        visitor.account_id, upload_id, _bytes_in(request, "upload-offset"), _until_cut(request)
    )
    return Response(status_code=204, headers=_upload_state(upload))


@uploads_router.delete("/uploads/{upload_id:uuid}")
async def cancel_upload(request: Request, visitor: Member, upload_id: UUID) -> Response:
    """Delete what has come in."""
    _check_tus(request)
    await parts_of(request).drafts.discard(visitor.account_id, upload_id)
    return Response(status_code=204)


def _upload_state(upload: ListUpload) -> dict[str, str]:
    return {
        "Upload-Offset": str(upload.offset),
        "Upload-Length": str(upload.length),
        "Cache-Control": "no-store",
    }


def _check_tus(request: Request) -> None:
    """Refuse what does not come from our page, or speaks another version."""
    check_token(request, request.headers.get(CSRF_HEADER))
    if request.headers.get("tus-resumable") != _TUS_VERSION["Tus-Resumable"]:
        raise MailsiftError("upload_version", "Uploads use version 1.0.0 of tus here.")


def _bytes_in(request: Request, name: str) -> int:
    given = request.headers.get(name, "")
    if not (given.isascii() and given.isdecimal() and len(given) <= _MOST_DIGITS):
        raise MailsiftError("bad_option", f"The header {name.title()} must be a number of bytes.")
    return int(given)


def _tus_metadata(given: str) -> dict[str, str]:
    """Return what a client says of a file: names and Base64, with commas between."""
    pairs = (pair.strip().partition(" ") for pair in given.split(","))
    try:
        return {
            name: base64.b64decode(value.strip(), validate=True).decode(errors="replace")
            for name, _, value in pairs
        }
    except ValueError:
        raise MailsiftError(
            "bad_option", "The header Upload-Metadata must hold names and Base64 values."
        ) from None


async def _until_cut(request: Request) -> AsyncIterator[bytes]:
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        return
