"""/v1/bulk/jobs/{job_id}: what a preview says of the whole list, and jobs made of jobs."""

from __future__ import annotations

from dataclasses import asdict, replace
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from api.described import errors
from api.envelope import Envelope, answer
from api.keys import Caller
from api.parts import ApiParts, parts_of
from api.v1.jobs import Reader, Writer
from api.v1.shown import JobShown, shown
from jobs.previews import estimate
from jobs.views import JobId
from pipeline.errors import MailsiftError

router = APIRouter(prefix="/v1/bulk/jobs", tags=["jobs"])


class ShareShown(BaseModel):
    """A share of the list: what the sample says, and where the truth is with 95 %."""

    share: float
    low: float
    high: float


class EstimateShown(BaseModel):
    """What a preview says of the whole list."""

    sample_rows: int
    list_rows: int
    confidence: float
    shares: dict[str, ShareShown]


@router.get(
    "/{job_id:uuid}/estimate",
    summary="What a preview says of the list",
    operation_id="get_estimate",
    response_model=Envelope[EstimateShown],
    responses=errors("job_not_found", "not_a_preview", "no_preview_yet"),
)
async def get_estimate(request: Request, caller: Reader, job_id: UUID) -> JSONResponse:
    """Estimate the shares of the whole list from a preview, with Wilson's 95 % intervals."""
    view = await parts_of(request).jobs.get(caller.account_id, JobId(job_id))
    if not view.options.preview:
        raise MailsiftError("not_a_preview", "This job is no preview.")
    if view.finished_at is None or not view.processed:
        raise MailsiftError("no_preview_yet", "The preview has not ended yet.", retryable=True)
    counts = {"valid": view.valid, "risky": view.risky, "invalid": view.invalid}
    rows = view.list_rows or view.total
    shares = {name: asdict(share) for name, share in estimate(counts, rows).items()}
    return answer({"sample_rows": view.processed, "list_rows": rows, "confidence": 0.95, "shares": shares})


@router.post(
    "/{job_id:uuid}/promote",
    status_code=202,
    summary="Run a preview's whole list",
    operation_id="promote_job",
    response_model=Envelope[JobShown],
    responses=errors("job_not_found", "not_a_preview", "source_gone"),
)
async def promote(request: Request, caller: Writer, job_id: UUID) -> JSONResponse:
    """Make a job of the whole list; what the preview has just asked is not asked again."""
    parts = parts_of(request)
    view = await parts.jobs.get(caller.account_id, JobId(job_id))
    if not view.options.preview:
        raise MailsiftError("not_a_preview", "This job is no preview.")
    options = replace(view.options, preview=0, name=view.name)
    return await _made(parts, caller, await parts.jobs.rerun(caller.account_id, JobId(job_id), options))


@router.post(
    "/{job_id:uuid}/rerun",
    status_code=202,
    summary="Run the list again",
    operation_id="rerun_job",
    response_model=Envelope[JobShown],
    responses=errors("job_not_found", "source_gone"),
)
async def rerun(request: Request, caller: Writer, job_id: UUID) -> JSONResponse:
    """Run the same list again as a new job with this one as its parent; every mail server is asked again."""
    parts = parts_of(request)
    view = await parts.jobs.get(caller.account_id, JobId(job_id))
    options = replace(view.options, max_age=0.0, name=view.name)
    return await _made(parts, caller, await parts.jobs.rerun(caller.account_id, JobId(job_id), options))


@router.post(
    "/{job_id:uuid}/retry",
    status_code=202,
    summary="Run the unknown rows again",
    operation_id="retry_job",
    response_model=Envelope[JobShown],
    responses=errors("job_not_found", "job_state_conflict", "no_results_yet", "nothing_to_retry"),
)
async def retry(request: Request, caller: Writer, job_id: UUID) -> JSONResponse:
    """Run again the rows of an ended job whose result says nothing about the mailbox, as a new job."""
    parts = parts_of(request)
    return await _made(parts, caller, await parts.jobs.retry(caller.account_id, JobId(job_id)))


async def _made(parts: ApiParts, caller: Caller, job_id: JobId) -> JSONResponse:
    view = await parts.jobs.get(caller.account_id, job_id)
    headers = {"Location": f"/v1/bulk/jobs/{job_id}"}
    return answer(shown(view, parts.clock()), "A new job was made.", status=202, headers=headers)
