"""/v1/bulk/jobs: lists come in, are watched, stopped, repeated and deleted."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from api.auth import Needs
from api.described import errors
from api.envelope import Envelope, answer
from api.keys import Caller, Scope
from api.parts import ApiParts, parts_of
from api.uploads import RAW_TYPES, JsonList, ListOptions, upload_of
from api.v1.progress import progress
from api.v1.shown import JobShown, shown
from jobs.views import JobId, JobState, JobView
from pipeline.errors import MailsiftError

router = APIRouter(prefix="/v1/bulk/jobs", tags=["jobs"])

Reader = Annotated[Caller, Depends(Needs(Scope.JOBS_READ))]
Writer = Annotated[Caller, Depends(Needs(Scope.JOBS_WRITE))]

_LOOK_SECONDS: Final = 0.25
_IDEMPOTENCY = re.compile(r'"([!#-[\]-~]{1,255})"|([!#-~]{1,255})')
IdempotencyKey = Annotated[
    str,
    Header(
        max_length=300,
        description="at most one job in 24 hours",
        json_schema_extra={"pattern": f"^({_IDEMPOTENCY.pattern})?$"},
    ),
]


class Jobs(BaseModel):
    """One page of jobs."""

    jobs: list[JobShown]
    next_cursor: str
    has_more: bool


def _parameters() -> list[dict[str, Any]]:
    """Describe the options as parameters of the URL."""
    schema = ListOptions.model_json_schema(ref_template="#/components/schemas/{model}")
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": shape.get("description", ""),
            **_as_written(name, shape),
        }
        for name, shape in schema["properties"].items()
    ]


def _as_written(name: str, shape: dict[str, Any]) -> dict[str, Any]:
    """Say that an object is written as JSON, not in one of OpenAPI's styles."""
    return {"content": {"application/json": {"schema": shape}}} if name == "metadata" else {"schema": shape}


def _form() -> dict[str, Any]:
    schema = ListOptions.model_json_schema(ref_template="#/components/schemas/{model}")
    file = {"type": "string", "format": "binary", "description": "CSV, XLSX, JSON lines, Parquet or text"}
    fields = {"file": file, **schema["properties"]}
    described = {
        "type": "object",
        "required": ["file"],
        "properties": fields,
        "additionalProperties": False,
    }
    return {
        "schema": described,
        "encoding": {"metadata": {"contentType": "application/json"}},
    }


_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/JsonList"}},
            "multipart/form-data": _form(),
            **{
                kind: {"schema": {"type": "string", "format": "binary", "minLength": 1}} for kind in RAW_TYPES
            },
        },
    },
    "parameters": _parameters(),
}
SCHEMAS: Final = (JsonList,)
"""Models that only `_BODY` names."""

_LIST_ERRORS = ("empty_file", "unsupported_media_type")


@router.post(
    "",
    status_code=202,
    summary="Validate a list",
    operation_id="create_job",
    response_model=Envelope[JobShown],
    responses={
        200: {"model": Envelope[JobShown], "description": "The job this Idempotency-Key has already made."},
        **errors("bad_idempotency_key", "idempotency_key_reused", *_LIST_ERRORS),
    },
    openapi_extra=_BODY,
)
async def create(
    request: Request,
    caller: Writer,
    idempotency_key: IdempotencyKey = "",
) -> JSONResponse:
    """Take a list and start its job. The same Idempotency-Key with the same list gives the same job."""
    parts, once = parts_of(request), _once(idempotency_key)
    async with upload_of(request) as upload:
        submitted = await parts.submissions.receive(
            caller.account_id, upload.pieces, upload.options, source_name=upload.source_name, once=once
        )
    view = await parts.jobs.get(caller.account_id, submitted.job_id)
    headers = {"Location": f"/v1/bulk/jobs/{view.id}"}
    if submitted.fresh:
        return answer(shown(view, parts.clock()), "The list was taken.", status=202, headers=headers)
    return answer(
        shown(view, parts.clock()), "This job exists.", headers={**headers, "Idempotency-Replayed": "true"}
    )


def _once(header: str) -> str:
    """Read the Idempotency-Key: a structured-field string, or the bare text most people send.

    Raises:
        MailsiftError: `bad_idempotency_key`.
    """
    if not header:
        return ""
    found = _IDEMPOTENCY.fullmatch(header)
    if found is None:
        text = "An Idempotency-Key has 1 to 255 visible ASCII characters, no spaces, quotes or backslashes."
        raise MailsiftError("bad_idempotency_key", text)
    return found[1] or found[2]


@router.get(
    "",
    summary="List jobs",
    operation_id="list_jobs",
    response_model=Envelope[Jobs],
    responses=errors("bad_cursor"),
)
async def list_jobs(
    request: Request,
    caller: Reader,
    status: Annotated[list[JobState], Query(description="only these")] = [],  # noqa: B006 - pydantic copies it
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    cursor: Annotated[str, Query(max_length=1_000, description="next_cursor of the page before")] = "",
) -> JSONResponse:
    """List the account's jobs, newest first."""
    parts = parts_of(request)
    page = await parts.queries.page(caller.account_id, limit=limit, cursor=cursor, states=set(status))
    now = parts.clock()
    return answer(
        {
            "jobs": [shown(view, now) for view in page.jobs],
            "next_cursor": page.next_cursor,
            "has_more": bool(page.next_cursor),
        }
    )


@router.get(
    "/{job_id:uuid}",
    summary="Look at a job",
    operation_id="get_job",
    response_model=Envelope[JobShown],
    responses=errors("job_not_found"),
)
async def get(
    request: Request,
    caller: Reader,
    job_id: UUID,
    wait: Annotated[float, Query(ge=0, le=60, description="seconds to wait for the job's end")] = 0.0,
) -> JSONResponse:
    """Look at a job; with `wait` the answer comes when the job ends, or after so many seconds."""
    parts = parts_of(request)
    view = await _watched(parts, caller, JobId(job_id), wait)
    return answer(shown(view, parts.clock()))


async def _watched(parts: ApiParts, caller: Caller, job_id: JobId, wait: float) -> JobView:
    loop = asyncio.get_running_loop()
    until = loop.time() + wait
    while True:
        view = await parts.jobs.get(caller.account_id, job_id)
        left = until - loop.time()
        if view.finished_at is not None or left <= 0:
            return view
        await asyncio.sleep(min(_LOOK_SECONDS, left))


@router.get(
    "/{job_id:uuid}/events",
    summary="Follow a job",
    operation_id="follow_job",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {}}, "description": "`progress` as it changes, `end` once."},
        **errors("job_not_found"),
    },
)
async def events(request: Request, caller: Reader, job_id: UUID) -> StreamingResponse:
    """Follow a job as server-sent events until it ends; `data` is the job."""
    parts = parts_of(request)
    first = await parts.jobs.get(caller.account_id, JobId(job_id))
    return StreamingResponse(
        progress(parts, caller, first), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )


@router.post(
    "/{job_id:uuid}/pause",
    summary="Pause a job",
    operation_id="pause_job",
    response_model=Envelope[JobShown],
    responses=errors("job_not_found", "job_state_conflict"),
)
async def pause(request: Request, caller: Writer, job_id: UUID) -> JSONResponse:
    """Stop working on a job; what is being worked on is finished."""
    parts = parts_of(request)
    await parts.jobs.pause(caller.account_id, JobId(job_id))
    return await _told(parts, caller, JobId(job_id), "The job is paused.")


@router.post(
    "/{job_id:uuid}/resume",
    summary="Resume a job",
    operation_id="resume_job",
    response_model=Envelope[JobShown],
    responses=errors("job_not_found", "job_state_conflict"),
)
async def resume(request: Request, caller: Writer, job_id: UUID) -> JSONResponse:
    """Go on with a paused job."""
    parts = parts_of(request)
    await parts.jobs.resume(caller.account_id, JobId(job_id))
    return await _told(parts, caller, JobId(job_id), "The job goes on.")


@router.post(
    "/{job_id:uuid}/cancel",
    summary="Cancel a job",
    operation_id="cancel_job",
    response_model=Envelope[JobShown],
    responses=errors("job_not_found", "job_state_conflict"),
)
async def cancel(request: Request, caller: Writer, job_id: UUID) -> JSONResponse:
    """End a job now; the verdicts found so far stay."""
    parts = parts_of(request)
    await parts.jobs.cancel(caller.account_id, JobId(job_id))
    return await _told(parts, caller, JobId(job_id), "The job is cancelled.")


@router.delete(
    "/{job_id:uuid}",
    summary="Delete a job",
    operation_id="delete_job",
    response_model=Envelope[None],
    responses=errors("job_not_found", "job_state_conflict"),
)
async def delete(request: Request, caller: Writer, job_id: UUID) -> JSONResponse:
    """Delete an ended job with its list and its results."""
    await parts_of(request).queries.delete(caller.account_id, JobId(job_id))
    return answer(None, "The job is deleted.")


async def _told(parts: ApiParts, caller: Caller, job_id: JobId, message: str) -> JSONResponse:
    view = await parts.jobs.get(caller.account_id, job_id)
    return answer(shown(view, parts.clock()), message)
