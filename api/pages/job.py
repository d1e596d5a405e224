"""/jobs/{id}: one job, and what can be done with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, Response

from api.downloads import Order, download
from api.pages import mix_chart
from api.pages.forms import read_form
from api.pages.job_shown import job_on_page
from api.pages.jobs import Viewer
from api.pages.page import now_of, render, see
from api.pages.visitor import Role, Signed, Visitor
from api.pages.words import REASON_OF, result_name
from api.parts import ApiParts, parts_of
from jobs.breakdown import Breakdown
from jobs.export import ExportFormat
from jobs.previews import estimate
from jobs.views import AccountId, JobId, JobView
from pipeline.errors import MailsiftError
from pipeline.verdict import Status

router = APIRouter(include_in_schema=False)

Act = Callable[[ApiParts, AccountId, JobView], Awaitable[str]]


@router.get("/jobs/{job_id:uuid}")
async def job(request: Request, visitor: Viewer, job_id: UUID) -> HTMLResponse:
    """Show a job: progress, verdicts, where they come from, downloads."""
    parts = parts_of(request)
    view = await parts.jobs.get(visitor.account_id, JobId(job_id))
    about = await parts.history.about(visitor.account_id, JobId(job_id))
    return render(
        request,
        "job.html",
        job=job_on_page(view, now_of(request)),
        about=about,
        breakdown=await breakdown_of(parts, visitor.account_id, view),
        ring=mix_chart.ring(view.valid, view.invalid, view.risky),
        charts=mix_chart,
        estimate=estimate_of(view),
        formats=list(ExportFormat),
        statuses=mix_chart.ORDER,
        result_name=result_name,
        reason_of=REASON_OF,
    )


@router.get("/jobs/{job_id:uuid}/breakdown")
async def breakdown(request: Request, visitor: Viewer, job_id: UUID) -> HTMLResponse:
    """Return reasons, domains and providers alone, for a page that keeps them up to date."""
    parts = parts_of(request)
    view = await parts.jobs.get(visitor.account_id, JobId(job_id))
    return render(
        request,
        "job_breakdown.html",
        job=job_on_page(view, now_of(request)),
        breakdown=await breakdown_of(parts, visitor.account_id, view),
        charts=mix_chart,
        result_name=result_name,
        reason_of=REASON_OF,
    )


@router.get("/jobs/{job_id:uuid}/download")
async def get_file(
    request: Request,
    visitor: Viewer,
    job_id: UUID,
    format: ExportFormat = ExportFormat.CSV,  # noqa: A002 - the word for it
    status: str = "",
) -> Response:
    """Return the results as a file, all rows or those with one status."""
    statuses = {Status(status)} if status in set(Status) else set()
    return await download(parts_of(request), visitor.account_id, JobId(job_id), Order(format, statuses))


@router.post("/jobs/{job_id:uuid}/{action}")
async def act(
    request: Request, visitor: Annotated[Visitor, Depends(Signed(Role.MEMBER))], job_id: UUID, action: str
) -> Response:
    """Do something with a job."""
    await read_form(request)
    if action not in _ACTIONS:
        raise MailsiftError("not_found", "There is nothing here.")
    parts = parts_of(request)
    view = await parts.jobs.get(visitor.account_id, JobId(job_id))
    do, message = _ACTIONS[action]
    goal = await do(parts, visitor.account_id, view)
    await parts.people.members.note(visitor, f"job.{action}", subject=str(job_id))
    return see(request, goal, message)


async def breakdown_of(parts: ApiParts, account_id: AccountId, view: JobView) -> Breakdown | None:
    """Return what a job amounts to, None when it has no verdicts (yet)."""
    if not view.processed:
        return None
    try:
        return await parts.browser.breakdown(account_id, view.id)
    except MailsiftError as error:
        if error.code not in {"no_results_yet", "blob_not_found"}:
            raise
        return None


def estimate_of(view: JobView) -> list[tuple[Status, float, float, float]]:
    """Return for each status the share of the whole list that a preview's sample says, and its interval."""
    if not view.options.preview or view.finished_at is None or not view.processed:
        return []
    counts = {status.value: int(getattr(view, status.value)) for status in mix_chart.ORDER}
    shares = estimate(counts, view.list_rows or view.total)
    return [
        (status, found.share, found.low, found.high)
        for status in mix_chart.ORDER
        for found in [shares[status.value]]
    ]


def _place(job_id: JobId) -> str:
    return f"/jobs/{job_id}"


async def _pause(parts: ApiParts, account_id: AccountId, view: JobView) -> str:
    await parts.jobs.pause(account_id, view.id)
    return _place(view.id)


async def _resume(parts: ApiParts, account_id: AccountId, view: JobView) -> str:
    await parts.jobs.resume(account_id, view.id)
    return _place(view.id)


async def _cancel(parts: ApiParts, account_id: AccountId, view: JobView) -> str:
    await parts.jobs.cancel(account_id, view.id)
    return _place(view.id)


async def _rerun(parts: ApiParts, account_id: AccountId, view: JobView) -> str:
    options = replace(view.options, max_age=0.0, name=view.name)
    return _place(await parts.jobs.rerun(account_id, view.id, options))


async def _promote(parts: ApiParts, account_id: AccountId, view: JobView) -> str:
    if not view.options.preview:
        raise MailsiftError("not_a_preview", "This job is no preview.")
    options = replace(view.options, preview=0, name=view.name)
    return _place(await parts.jobs.rerun(account_id, view.id, options))


async def _retry(parts: ApiParts, account_id: AccountId, view: JobView) -> str:
    return _place(await parts.jobs.retry(account_id, view.id))


async def _delete(parts: ApiParts, account_id: AccountId, view: JobView) -> str:
    await parts.queries.delete(account_id, view.id)
    return "/jobs"


_ACTIONS: Final[Mapping[str, tuple[Act, str]]] = {
    "pause": (_pause, "The job is paused; what is being worked on is finished."),
    "resume": (_resume, "The job goes on."),
    "cancel": (_cancel, "The job is cancelled; the verdicts found so far stay."),
    "rerun": (_rerun, "A new job over the same list has started; every mail server is asked again."),
    "promote": (_promote, "The whole list has started; what the sample asked is not asked again."),
    "retry": (_retry, "A new job over the rows without a clear answer has started."),
    "delete": (_delete, "The job, its list and its results are deleted."),
}
