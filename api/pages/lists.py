"""/lists: a list comes in, is looked at, and is started or discarded."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import unquote
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.datastructures import FormData, UploadFile

from mailsift.accounts.people import Visitor
from mailsift.api.http.uploads import printable_name
from mailsift.api.pages.forms import HEADER, check_token, choice, read_form, text
from mailsift.api.pages.page import render, see
from mailsift.api.pages.validate import FRAGMENT
from mailsift.api.pages.visitor import Member, Reader
from mailsift.api.pages.words import MODES
from mailsift.api.parts import ApiParts, parts_of
from mailsift.jobs.drafts import Draft, Inspection
from mailsift.jobs.plans import ListPlan
from mailsift.jobs.views import JobId, JobOptions, Priority
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode

router = APIRouter(include_in_schema=False)

_PIECE: Final = 1 << 20
_FORM: Final = "multipart/form-data"
_NAME: Final = "X-File-Name"
_SAMPLE: Final = 1_000
_MOST: Final = 100_000
_PLANNED: Final = (
    1_000_000  # rows; of a longer list to count the domains takes longer than one waits for a page
)
_HOUR: Final = 3_600.0
_DAY: Final = 86_400.0
_PRIORITIES: Final = {priority.value: priority for priority in Priority}


@router.post("/lists")
async def upload(request: Request, visitor: Member) -> Response:
    """Take a list: a form's file, or from a script the file itself, which is stored as it comes in."""
    if request.headers.get("content-type", "").startswith(_FORM):
        draft = await _from_form(request, visitor)
    else:
        check_token(request, request.headers.get(HEADER))
        name = unquote(request.headers.get(_NAME, ""), errors="replace")
        drafts = parts_of(request).drafts
        draft = await drafts.receive(visitor.account_id, request.stream(), printable_name(name) or "list")
    href = f"/lists/{draft.id}"
    return JSONResponse({"href": href}) if FRAGMENT in request.headers else see(href)


async def _from_form(request: Request, visitor: Visitor) -> Draft:
    try:
        file = (await read_form(request)).get("file")
        if not isinstance(file, UploadFile) or not file.filename:
            raise MailsiftError("bad_option", "Choose a file first.")
        drafts = parts_of(request).drafts
        return await drafts.receive(
            visitor.account_id, _pieces(file), printable_name(file.filename) or "list"
        )
    finally:
        await request.close()  # what was set aside of the file


@router.get("/lists/{draft_id:uuid}")
async def inspect(request: Request, visitor: Reader, draft_id: UUID) -> HTMLResponse:
    """Show what is in a list, and ask what to do with it."""
    drafts = parts_of(request).drafts
    draft = await drafts.get(visitor.account_id, draft_id)
    try:
        found = await drafts.inspect(visitor.account_id, draft_id)
    except MailsiftError as error:
        if error.code == "draft_not_found":
            raise
        return render(request, "list.html", draft=draft, inspection=None, error=error)
    return render(
        request,
        "list.html",
        draft=draft,
        inspection=found,
        error=None,
        plan=await _plan(request, visitor, draft_id, found),
        columns=_columns(found),
        modes=MODES,
        sample=min(_SAMPLE, max(1, found.rows // 2)),
        most=_MOST,
    )


async def _plan(request: Request, visitor: Visitor, draft_id: UUID, found: Inspection) -> ListPlan | None:
    """Return what the list would take in mode deep, None when no column looks like one with addresses."""
    if found.guess is None or found.rows > _PLANNED:
        return None
    try:
        return await parts_of(request).plans.plan(visitor.account_id, JobId(draft_id))
    except MailsiftError:
        return None  # the job will say why, and so does this page where it matters


@router.post("/lists/{draft_id:uuid}/start")
async def start(request: Request, visitor: Member, draft_id: UUID) -> Response:
    """Make the list a job."""
    form, parts = await read_form(request), parts_of(request)
    draft = await _known(parts, visitor, draft_id)
    job_id = await parts.drafts.start(visitor.account_id, draft_id, _options(form))
    if draft is not None:
        await parts.people.members.note(visitor, "job.create", subject=str(job_id))
    return see(f"/jobs/{job_id}")


@router.post("/lists/{draft_id:uuid}/discard")
async def discard(request: Request, visitor: Member, draft_id: UUID) -> Response:
    """Delete a list that was not started."""
    await read_form(request)
    await parts_of(request).drafts.discard(visitor.account_id, draft_id)
    return see("/", "The list is discarded.")


async def _known(parts: ApiParts, visitor: Visitor, draft_id: UUID) -> Draft | None:
    """Return the list, None when it is gone: a second click on Start leads to the job all the same."""
    try:
        return await parts.drafts.get(visitor.account_id, draft_id)
    except MailsiftError as error:
        if error.code != "draft_not_found":
            raise
        return None


def _options(form: FormData) -> JobOptions:
    return JobOptions(
        mode=Mode(choice(form, "mode", {mode.value: mode for mode in Mode})),
        column=text(form, "column", most=500),
        name=text(form, "name"),
        evidence=form.get("evidence") == "on",
        repair=form.get("repair") == "on",
        max_age=0.0 if form.get("again") == "on" else _DAY,
        deadline_s=_number(form, "hours", most=1_000) * _HOUR,
        priority=_PRIORITIES[choice(form, "priority", _PRIORITIES)],
        preview=int(_number(form, "sample", most=_MOST)) if form.get("what") == "sample" else 0,
    )


def _number(form: FormData, name: str, *, most: int) -> float:
    """Return a field's number, 0 when it is empty.

    Raises:
        MailsiftError: `bad_option`.
    """
    given = text(form, name) or "0"
    if not re.fullmatch(r"\d{1,9}(\.\d{1,3})?", given, re.ASCII) or float(given) > most:
        raise MailsiftError("bad_option", f"The field “{name}” takes a number up to {most:,}.")
    return float(given)


def _columns(inspection: Inspection) -> list[tuple[str, str]]:
    """Return value and label of the columns that can be chosen; the guess is what intake finds by itself."""
    choices = []
    for place, column in enumerate(inspection.columns):
        guessed = place == inspection.guess
        share = f" ({column.share:.0%} look like addresses)" if column.share else ""
        if guessed or column.key:
            choices.append(("" if guessed else column.key, f"{column.name or f'Column {place + 1}'}{share}"))
    return choices


async def _pieces(file: UploadFile) -> AsyncIterator[bytes]:
    while data := await file.read(_PIECE):
        yield data
