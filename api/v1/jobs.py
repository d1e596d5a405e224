"""/v1/bulk/jobs: lists come in, are watched, stopped, repeated, compared and fetched."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from itertools import count
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Depends, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import AliasChoices, AliasGenerator, AliasPath, BaseModel, ConfigDict, Field

from mailsift.accounts.keys import Caller, Scope
from mailsift.api.http.auth import RequireScope
from mailsift.api.http.downloads import (
    TYPES,
    ExportOptions,
    check_unchanged,
    download,
    entity_tag,
    has_already,
)
from mailsift.api.http.idempotency import IdempotencyKey, read_key
from mailsift.api.http.inputs import RequestModel, ShortText
from mailsift.api.http.openapi import error_responses, operation, v1_router
from mailsift.api.http.responses import (
    PROBABILITY,
    ChanceFields,
    Cursor,
    Envelope,
    Limit,
    PageResponse,
    UtcTime,
    ViewModel,
    answer,
    chance_fields,
    page_end,
    server_event,
)
from mailsift.api.http.uploads import UPLOAD_OPENAPI, TierPolicyBody, Upload, upload_of
from mailsift.api.parts import ApiParts, parts_of
from mailsift.api.v1.email import FullVerdict
from mailsift.jobs.results.browse import BEGINNING, PageRequest, RowFilter, SortBy, canonical_domain
from mailsift.jobs.results.export import ExportFormat
from mailsift.jobs.results.parts import estimate_of
from mailsift.jobs.submissions import Submitted
from mailsift.jobs.views import JobId, JobSnapshot, JobView, Priority, bad_cursor
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.tiers import Tier
from mailsift.pipeline.verdict import Result, Status
from mailsift.storage.states import JobState

router = v1_router("/bulk/jobs", "jobs")

JobReader = Annotated[Caller, Depends(RequireScope(Scope.JOBS_READ))]
JobWriter = Annotated[Caller, Depends(RequireScope(Scope.JOBS_WRITE))]

PLACE_ERRORS: Final = (
    "bad_place",
    "place_not_allowed",
    "unknown_export_format",
    "webhook_url_invalid",
    "webhook_url_blocked",
)
"""What may be said of the places of a list; of a web server's URL the same as of a webhook's."""
_WAIT_LOOK_SECONDS: Final = 0.25
FOLLOW_LOOK_SECONDS: Final = 0.5
_OF_PAGES: Final = ("sort", "limit", "cursor")
_CURSOR: Final = re.compile(r"([0-9a-f]{12})\.([0-9]{1,10})", re.ASCII)
_STREAM: Final = 'event: end\ndata: {"job_id": "7f5c3a52-6f5e-4f44-9f0c-6d3f0f2f9f11"}\n\n'
_RESULT_TYPES: Final = {
    "application/json": {},  # first: generators of clients know one type of an answer
    **{kind.partition(";")[0]: {"schema": {"type": "string"}} for kind in TYPES.values()},
}
_KEPT: Final = "The job has this policy now."
_QUIET_LOOKS: Final = 30  # then a comment keeps the connection alive
_KEY_LOOKS: Final = 20  # then the key is looked at again


def _view_path(name: str) -> AliasPath:
    return AliasPath("view", name)


def _any_path(name: str) -> AliasChoices:
    """Find a field in the snapshot, in its view or in its options."""
    return AliasChoices(name, _view_path(name), AliasPath("view", "options", name))


class WaitingResponse(ViewModel):
    """Addresses that wait."""

    lane: str = Field(
        validation_alias="throttle_key", description="whose mail servers; a mail provider or a domain"
    )
    reason: str
    addresses: int
    until: UtcTime


class TiersResponse(BaseModel):
    """Rows by what to do with them, by the job's policy."""

    send: int
    review: int
    remove: int


class JobResponse(ViewModel):
    """A job; counts are rows of the list, of a preview those of the sample."""

    model_config = ConfigDict(alias_generator=AliasGenerator(validation_alias=_any_path))

    job_id: JobId = Field(validation_alias=_view_path("id"))
    parent_id: UUID | None
    name: str
    status: JobState = Field(validation_alias=_view_path("state"))
    mode: Mode
    priority: Priority
    metadata: dict[str, str]
    preview: int = Field(description="addresses in the sample; 0 for a whole list")
    list_rows: int
    list_addresses: int
    total_emails: int = Field(validation_alias=_view_path("total"))
    addresses: int
    duplicates: int
    processed: int
    valid: int
    invalid: int
    risky: int
    tiers: TiersResponse
    policy: TierPolicyBody = Field(description="the rules that turn verdicts into tiers")
    percent: float
    rate: float = Field(description="rows a second since the start")
    eta_seconds: float | None = Field(description="seconds until the end; null when unknown")
    eta_reason: str = Field(description="what decides when it ends, in words; empty when nothing waits")
    waiting: list[WaitingResponse]
    created_at: UtcTime
    started_at: UtcTime | None
    finished_at: UtcTime | None
    expires_at: UtcTime | None
    warning: str = Field(description="what readers of the results should know; empty when nothing")
    error_code: str
    error: str = Field(validation_alias=_view_path("error_detail"))


class JobPageResponse(PageResponse):
    """One page of jobs."""

    jobs: list[JobResponse]


class ShareResponse(ViewModel):
    """A share of the list: what the sample says, and where the truth is with 95 %."""

    share: float = Field(validation_alias="value")
    low: float
    high: float


class EstimateResponse(BaseModel):
    """What a preview says of the whole list."""

    sample_rows: int
    list_rows: int
    confidence: float
    shares: dict[str, ShareResponse]


class Side(BaseModel):
    """A verdict, or the class of one."""

    status: Status
    result: str
    score: int | None = None


class Move(BaseModel):
    """How many addresses went from one result to another."""

    before: Side
    after: Side
    addresses: int


class ChangedAddress(BaseModel):
    """An address whose verdict changed."""

    email: str
    before: Side
    after: Side


class DiffResponse(BaseModel):
    """Two runs compared."""

    compared: int
    only_before: int
    only_after: int
    moves: list[Move]
    changed: list[ChangedAddress]


class ProbesResponse(BaseModel):
    """Mailboxes to ask for at one provider."""

    provider: str = Field(description="`mixed`: many small hosts; empty: its mail servers are not known yet")
    addresses: int


class PlanLineResponse(ViewModel):
    """Something that takes time."""

    waits_for: str = Field(validation_alias="key", description="a provider, `triage` or `mixed`")
    addresses: int
    rate: float = Field(description="addresses a second; 0 while an operator holds the provider")
    seconds: float | None
    reason: str = Field(validation_alias="text", description="the same in words")


class PlanResponse(BaseModel):
    """What a list takes from now on."""

    seconds: float | None = Field(description="until its end; null when unknown")
    reason: str = Field(description="what decides, in words; empty when nothing waits")
    addresses: int = Field(description="distinct ones without a verdict")
    unknown: int = Field(description="addresses whose mail servers are not known yet")
    probes: list[ProbesResponse]
    lines: list[PlanLineResponse] = Field(description="the slowest first")


def job_response(view: JobView, now: float) -> JobResponse:
    """Return what is told of a job; `now` is in seconds since the epoch."""
    return JobResponse.model_validate(JobSnapshot(view, now))


async def _respond(
    request: Request, caller: Caller, job_id: JobId, message: str = "OK", **how: Any
) -> JSONResponse:
    """Answer with a job as it stands; `how`: status and headers."""
    parts = parts_of(request)
    view = await parts.jobs.get(caller.account_id, job_id)
    return answer(job_response(view, parts.clock()), message, **how)


async def _respond_new(request: Request, caller: Caller, job_id: JobId) -> JSONResponse:
    headers = {"Location": f"/v1/bulk/jobs/{job_id}"}
    return await _respond(request, caller, job_id, "A new job was made.", status=202, headers=headers)


async def _submit(parts: ApiParts, caller: Caller, upload: Upload, once: str) -> Submitted:
    if upload.source:
        places = (upload.source, upload.sink)
        return await parts.jobs.fetch(caller.account_id, *places, upload.options, once=once)
    return await parts.jobs.receive(
        caller.account_id,
        upload.pieces,
        upload.options,
        source_name=upload.source_name,
        sink=upload.sink,
        once=once,
    )


@router.post(
    "",
    status_code=202,
    summary="Validate a list",
    response_model=Envelope[JobResponse],
    responses={
        200: {
            "model": Envelope[JobResponse],
            "description": "The job this Idempotency-Key has already made.",
        },
        **error_responses(
            "bad_idempotency_key",
            "idempotency_key_reused",
            "empty_file",
            "file_too_large",
            *PLACE_ERRORS,
            "storage_full",
            "blob_store_failed",
        ),
    },
    openapi_extra=UPLOAD_OPENAPI,
)
async def create_job(
    request: Request,
    caller: JobWriter,
    idempotency_key: IdempotencyKey = "",
) -> JSONResponse:
    """Submit a list and start its job. The same Idempotency-Key with the same list gives the same job."""
    once = read_key(idempotency_key)
    async with upload_of(request) as upload:
        submitted = await _submit(parts_of(request), caller, upload, once)
    headers = {"Location": f"/v1/bulk/jobs/{submitted.job_id}"}
    if submitted.fresh:
        message, status = "The list was taken.", 202
    else:
        message, status = "This job exists.", 200
        headers["Idempotency-Replayed"] = "true"
    return await _respond(request, caller, submitted.job_id, message, status=status, headers=headers)


@router.get("", **operation("List jobs", JobPageResponse, "bad_cursor"))
async def list_jobs(
    request: Request,
    caller: JobReader,
    status: Annotated[list[JobState], Query(description="only these")] = [],  # noqa: B006 - pydantic copies it
    limit: Limit = 20,
    cursor: Cursor = "",
) -> JSONResponse:
    """List the account's jobs, newest first."""
    parts = parts_of(request)
    page = await parts.jobs.page(caller.account_id, limit=limit, cursor=cursor, states=set(status))
    now = parts.clock()
    listed = [job_response(view, now) for view in page.jobs]
    return answer(JobPageResponse(jobs=listed, **page_end(page.next_cursor)))


@router.get("/{job_id:uuid}", **operation("Look at a job", JobResponse, "job_not_found"))
async def get_job(
    request: Request,
    caller: JobReader,
    job_id: JobId,
    wait: Annotated[float, Query(ge=0, le=60, description="seconds to wait for the job's end")] = 0.0,
) -> JSONResponse:
    """Return a job; with `wait` the answer comes when the job ends, or after that many seconds.

    It comes sooner when this server ends: whoever waits asks again.
    """
    parts = parts_of(request)
    view = await watched(parts, caller, job_id, wait)
    return answer(job_response(view, parts.clock()))


async def watched(parts: ApiParts, caller: Caller, job_id: JobId, wait: float) -> JobView:
    """Return a job once it has ended, or after that many seconds, or when the API ends.

    Raises:
        MailsiftError: `job_not_found`.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + wait
    view = await parts.jobs.get(caller.account_id, job_id)
    if view.finished_at is not None or not wait:
        return view
    while (left := until - loop.time()) > 0:
        ending = await parts.ends_within(min(_WAIT_LOOK_SECONDS, left))
        if ending or await parts.jobs.has_ended(caller.account_id, job_id):
            break
    return await parts.jobs.get(caller.account_id, job_id)


@router.get(
    "/{job_id:uuid}/events",
    summary="Follow a job",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {"text/event-stream": {"example": _STREAM}},
            "description": "Server-sent events (WHATWG HTML, 9.2): `progress` as it changes, `end` once."
            " `data` is a JobResponse as JSON; lines that begin with a colon keep the connection alive.",
        },
        **error_responses("job_not_found"),
    },
)
async def follow_job(request: Request, caller: JobReader, job_id: JobId) -> StreamingResponse:
    """Follow a job as server-sent events until it ends; `data` is the job."""
    parts = parts_of(request)
    first = await parts.jobs.get(caller.account_id, job_id)
    return StreamingResponse(
        _progress(request, caller, first),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def _progress(request: Request, caller: Caller, view: JobView) -> AsyncIterator[bytes]:
    """Yield a server-sent event for every change of a job and one for its end (WHATWG HTML, section 9.2).

    A key that has ended meanwhile ends it, too, and so does the API when it ends.
    """
    parts, sent, quiet = parts_of(request), "", 0
    for looks in count(1):
        fields = job_response(view, parts.clock()).model_dump(mode="json")
        if view.finished_at is not None:
            yield server_event("end", fields)
            return
        state = f"{view.state} {view.processed} {[wait.until for wait in view.waiting]}"
        quiet += 1
        if state != sent:
            sent, quiet = state, 0
            yield server_event("progress", fields)
        elif quiet >= _QUIET_LOOKS:
            quiet = 0
            yield b": still here\n\n"
        if await parts.ends_within(FOLLOW_LOOK_SECONDS):
            return
        try:
            if looks % _KEY_LOOKS == 0 and not await parts.authenticator.is_still_open(request):
                return
            view = await parts.jobs.get(caller.account_id, view.id)
        except MailsiftError:
            return  # deleted meanwhile, or the database is away: who follows will ask again


@router.post(
    "/{job_id:uuid}/pause", **operation("Pause a job", JobResponse, "job_not_found", "job_state_conflict")
)
async def pause_job(request: Request, caller: JobWriter, job_id: JobId) -> JSONResponse:
    """Stop working on a job; chunks already being worked on are finished."""
    await parts_of(request).jobs.pause(caller.account_id, job_id)
    return await _respond(request, caller, job_id, "The job is paused.")


@router.post(
    "/{job_id:uuid}/resume", **operation("Resume a job", JobResponse, "job_not_found", "job_state_conflict")
)
async def resume_job(request: Request, caller: JobWriter, job_id: JobId) -> JSONResponse:
    """Continue a paused job."""
    await parts_of(request).jobs.resume(caller.account_id, job_id)
    return await _respond(request, caller, job_id, "The job goes on.")


@router.post(
    "/{job_id:uuid}/cancel", **operation("Cancel a job", JobResponse, "job_not_found", "job_state_conflict")
)
async def cancel_job(request: Request, caller: JobWriter, job_id: JobId) -> JSONResponse:
    """End a job now; the verdicts found so far stay."""
    await parts_of(request).jobs.cancel(caller.account_id, job_id)
    return await _respond(request, caller, job_id, "The job is cancelled.")


@router.delete("/{job_id:uuid}", **operation("Delete a job", None, "job_not_found", "job_state_conflict"))
async def delete_job(request: Request, caller: JobWriter, job_id: JobId) -> JSONResponse:
    """Delete an ended job with its list and its results."""
    await parts_of(request).jobs.delete(caller.account_id, job_id)
    return answer(None, "The job is deleted.")


@router.get(
    "/{job_id:uuid}/estimate",
    **operation(
        "What a preview says of the list",
        EstimateResponse,
        "job_not_found",
        "not_a_preview",
        "no_preview_yet",
    ),
)
async def get_estimate(request: Request, caller: JobReader, job_id: JobId) -> JSONResponse:
    """Estimate the shares of the whole list from a preview, with Wilson's 95 % intervals."""
    view = await parts_of(request).jobs.get(caller.account_id, job_id)
    if not view.options.preview:
        raise MailsiftError("not_a_preview", "This job isn’t a preview.")
    shares = estimate_of(view)
    if not shares:
        raise MailsiftError("no_preview_yet", "The preview hasn’t finished yet.", retryable=True)
    rows = view.list_rows or view.total
    found = {"sample_rows": view.processed, "list_rows": rows, "confidence": 0.95, "shares": shares}
    return answer(EstimateResponse.model_validate(found))


@router.get(
    "/{job_id:uuid}/plan",
    **operation(
        "What a list will take", PlanResponse, "job_not_found", "no_address_column", "column_not_found"
    ),
)
async def get_plan(
    request: Request,
    caller: JobReader,
    job_id: JobId,
    mode: Annotated[Mode, Query(description="of a list that was uploaded and not started")] = Mode.DEEP,
) -> JSONResponse:
    """Show how long a list still takes, whom it will ask, and what it waits for. Starts nothing."""
    plan = await parts_of(request).plans.plan(caller.account_id, job_id, mode)
    left = plan.left
    response = PlanResponse(
        seconds=None if left.seconds is None else round(left.seconds, 1),
        reason=left.reason,
        addresses=plan.addresses,
        unknown=plan.unknown,
        probes=[ProbesResponse(provider=key, addresses=count) for key, count in plan.probes.items()],
        lines=[PlanLineResponse.model_validate(line) for line in left.lines],
    )
    return answer(response)


@router.post(
    "/{job_id:uuid}/promote",
    status_code=202,
    **operation("Run a preview's whole list", JobResponse, "job_not_found", "not_a_preview", "source_gone"),
)
async def promote_job(request: Request, caller: JobWriter, job_id: JobId) -> JSONResponse:
    """Start a job over the whole list; what the preview has just asked is not asked again."""
    made = await parts_of(request).jobs.promote(caller.account_id, job_id)
    return await _respond_new(request, caller, made)


@router.post(
    "/{job_id:uuid}/rerun",
    status_code=202,
    **operation("Run the list again", JobResponse, "job_not_found", "source_gone"),
)
async def rerun_job(request: Request, caller: JobWriter, job_id: JobId) -> JSONResponse:
    """Run the same list again as a new job with this one as its parent; every mail server is asked again."""
    made = await parts_of(request).jobs.repeat(caller.account_id, job_id)
    return await _respond_new(request, caller, made)


@router.post(
    "/{job_id:uuid}/retry",
    status_code=202,
    **operation(
        "Run the unknown rows again",
        JobResponse,
        "job_not_found",
        "job_state_conflict",
        "no_results_yet",
        "nothing_to_retry",
    ),
)
async def retry_job(request: Request, caller: JobWriter, job_id: JobId) -> JSONResponse:
    """Run again the rows of an ended job whose result says nothing about the mailbox, as a new job."""
    made = await parts_of(request).jobs.retry(caller.account_id, job_id)
    return await _respond_new(request, caller, made)


class ReplayRequest(RequestModel):
    """Another policy to try."""

    policy: TierPolicyBody
    keep: bool = Field(default=False, description="use it for the job from now on; exports follow")


class ReplayedResponse(ViewModel):
    """Rows that have the same verdict and come to the same by both policies."""

    status: Status
    result: str
    before: Tier
    after: Tier
    reason: str = Field(description="what decides under the other policy, empty to send")
    rows: int


class ReplayResponse(ViewModel):
    """What another policy would make of a job's verdicts."""

    before: TiersResponse = Field(description="by the job's policy")
    after: TiersResponse = Field(description="by the other one")
    moved: int = Field(description="rows with another tier")
    rows: list[ReplayedResponse]


@router.post(
    "/{job_id:uuid}/replay",
    **operation(
        "Try another policy", ReplayResponse, "job_not_found", "job_state_conflict", "no_results_yet"
    ),
)
async def replay_job(
    request: Request, caller: JobWriter, job_id: JobId, wanted: ReplayRequest
) -> JSONResponse:
    """Show what another policy would make of the verdicts; asks nobody. Only `keep` changes the job."""
    jobs, policy = parts_of(request).jobs, wanted.policy.policy()
    found = await jobs.replay(caller.account_id, job_id, policy, keep=wanted.keep)
    return answer(ReplayResponse.model_validate(found), _KEPT if wanted.keep else "OK")


class ResultRowResponse(ChanceFields, FullVerdict):
    """A row of the list with the 13 fields of its verdict."""

    row: int = Field(description="its number in the list, from 1")
    email: str = Field(description="the cell with the address, as it came")
    address: str = Field(description="the canonical address that was judged; empty for a cell that is none")
    cells: dict[str, str] = Field(description="the requested `columns`, as text")
    tier: Tier = Field(description="what to do with it, by the job's policy")
    tier_reason: str = Field(description="the member of the policy that decided, `invalid`, or empty to send")


class ResultsResponse(PageResponse):
    """One page of the rows that match."""

    rows: list[ResultRowResponse]
    matches: int = Field(description="how many rows match, on all pages")


class ResultFormat(StrEnum):
    """As what results can be had: JSON, or a file (mailsift.jobs.results.export.ExportFormat)."""

    CSV = "csv"
    XLSX = "xlsx"
    JSONL = "jsonl"
    PARQUET = "parquet"
    JSON = "json"


class ResultsQuery(RequestModel):
    """Which rows are wanted, and how."""

    format: ResultFormat = Field(
        default=ResultFormat.CSV,
        description="`json` comes in pages; the others are files; CSV and XLSX are safe to open",
    )
    status: list[Status] = Field(default=[], description="only rows with one of these")
    result: list[Result] = Field(default=[], description="only rows with one of these")
    tier: list[Tier] = Field(default=[], description="only rows with one of these")
    provider: ShortText = Field(default="", description="only rows whose mail server this provider runs")
    domain: ShortText = Field(default="", description="only rows at this domain, in any spelling")
    text: ShortText = Field(
        default="", description="only rows whose cell with the address has this in it; case does not matter"
    )
    repaired: bool = Field(
        default=False, description="only rows in whose cell's place another address was judged (`repair`)"
    )
    columns: list[ShortText] = Field(
        default=[],
        max_length=250,
        description="for a file: only these, in this order; for JSON: also these columns of the list",
    )
    probability: bool = Field(
        default=False,
        description=PROBABILITY,
    )
    sort: SortBy = Field(default=SortBy.ROW, description="of JSON; `-` is downwards")
    limit: int = Field(default=100, ge=1, le=1_000, description="rows per JSON page")
    cursor: Cursor = ""

    def rows(self) -> RowFilter:
        """Return which rows are meant."""
        return RowFilter(
            statuses=frozenset(self.status),
            results=frozenset(one.value for one in self.result),
            tiers=frozenset(self.tier),
            domain=canonical_domain(self.domain),
            provider=self.provider.strip(),
            text=self.text.strip(),
            repaired=self.repaired,
        )


@router.get(
    "/{job_id:uuid}/results",
    summary="Fetch the results",
    response_class=Response,
    responses={
        200: {
            "description": "The rows of the list, each with its verdict. `Mailsift-Complete` is false while"
            " the job runs: the rows are those with a verdict so far.",
            "model": Envelope[ResultsResponse],
            "content": _RESULT_TYPES,
        },
        206: {"description": "The `Range` of a completed job's results; not of XLSX."},
        304: {"description": "`If-None-Match` has the ETag these results have; only of a completed job."},
        **error_responses(
            "job_not_found",
            "no_results_yet",
            "unknown_column",
            "bad_cursor",
            "wrong_for_format",
            "too_many_rows_for_xlsx",
            "range_not_satisfiable",
            "results_changed",
        ),
    },
)
async def get_results(
    request: Request,
    caller: JobReader,
    job_id: JobId,
    asked: Annotated[ResultsQuery, Query()],
) -> Response:
    """Fetch the results, also while the job runs: as a file, or as JSON in pages."""
    if asked.format is ResultFormat.JSON:
        return await _json_page(request, caller, job_id, asked)
    strange = [name for name in _OF_PAGES if name in asked.model_fields_set]
    if strange:
        text = f"`{strange[0]}` goes with format=json: a file has all rows, in the list's order."
        raise MailsiftError("wrong_for_format", text)
    parts = parts_of(request)
    add = partial(parts.accuracy.with_chances, caller.account_id, job_id) if asked.probability else None
    options = ExportOptions(ExportFormat(asked.format), asked.rows(), asked.columns, add)
    return await download(request, parts.jobs, caller.account_id, job_id, options)


async def _json_page(request: Request, caller: Caller, job_id: JobId, asked: ResultsQuery) -> Response:
    """Return one page of rows; of a completed job with an ETag."""
    parts, rows = parts_of(request), asked.rows()
    view = await parts.jobs.get(caller.account_id, job_id)
    complete = view.state is JobState.COMPLETED
    tag = entity_tag(view, asked.format, rows, [asked.sort, asked.limit, asked.cursor, asked.columns])
    lasts = complete and not asked.probability  # another outcome makes another chance
    headers = {"Mailsift-Complete": str(complete).lower(), **({"ETag": tag} if lasts else {})}
    check_unchanged(request, tag if lasts else "")
    if lasts and has_already(request, tag):
        return Response(status_code=304, headers=headers)
    place = entity_tag(view, asked.sort, rows, "cursor")[1:13]
    page = await parts.jobs.browser.checked_page(
        caller.account_id,
        job_id,
        rows,
        PageRequest(asked.limit, _row_of(asked.cursor, place), asked.sort, asked.columns),
    )
    likely: list[dict[str, Any]] = [{} for _ in page.rows]
    if asked.probability:
        judged = [(one.judged, one.verdict) for one in page.rows]
        chances = await parts.accuracy.chances_of_rows(caller.account_id, job_id, judged)
        likely = [*map(chance_fields, chances)]
    found = {
        "rows": [
            {"row": one.row + 1, "email": one.address, "address": one.judged, "cells": dict(one.cells)}
            | one.verdict
            | {"tier": one.tier, "tier_reason": one.tier_reason}
            | chance
            for one, chance in zip(page.rows, likely, strict=True)
        ],
        "matches": page.matches,
        **page_end("" if page.next is None else f"{place}.{page.next}"),
    }
    return answer(found, headers=headers)


def _row_of(cursor: str, place: str) -> int:
    """Return the row a cursor names, which is one of the same filter in the same order."""
    if not cursor:
        return BEGINNING
    found = _CURSOR.fullmatch(cursor)
    if found is None or found[1] != place:
        raise bad_cursor()
    return int(found[2])


@router.get(
    "/{job_id:uuid}/diff",
    **operation(
        "What changed between two runs", DiffResponse, "job_not_found", "no_results_yet", "not_the_same_list"
    ),
)
async def get_diff(
    request: Request,
    caller: JobReader,
    job_id: JobId,
    against: Annotated[JobId, Query(description="the earlier run")],
    limit: Annotated[int, Query(ge=0, le=1_000, description="how many changed addresses are named")] = 100,
) -> JSONResponse:
    """Compare this run of a list with another one, address by address."""
    found = await parts_of(request).jobs.diff(caller.account_id, against, job_id, limit=limit)
    return answer(asdict(found))
