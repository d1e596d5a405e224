"""/v1/bulk/schedules: lists that run again by the clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final
from uuid import UUID

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import AliasChoices, AliasGenerator, AliasPath, BaseModel, ConfigDict, Field

from mailsift.api.http.inputs import WHOLE, Moment, RequestModel, ShortText
from mailsift.api.http.openapi import operation, v1_router
from mailsift.api.http.responses import (
    Cursor,
    Limit,
    PageResponse,
    UtcTime,
    ViewModel,
    after_cursor,
    answer,
    id_of_cursor,
    page_of,
)
from mailsift.api.http.uploads import ListOptions, PlaceText
from mailsift.api.parts import parts_of
from mailsift.api.v1.jobs import PLACE_ERRORS, JobReader, JobResponse, JobWriter, job_response
from mailsift.jobs.schedules import CatchUp, Overlap, Recheck, ScheduleSpec
from mailsift.jobs.views import JobId

router = v1_router("/bulk/schedules", "schedules")
_CLOCK_ERRORS: Final = (
    "schedule_cron_invalid",
    "schedule_zone_invalid",
    "schedule_jitter_too_long",
    "schedule_ended",
)
_DAY: Final = 86_400

Jitter = Annotated[
    int,
    Field(ge=0, le=_DAY, description="every run starts up to this many seconds after its slot"),
    WHOLE,
]
Ends = Annotated[Moment | None, Field(description="no later slot is run; null = never ends")]
Failures = Annotated[
    int, Field(ge=0, le=1_000, description="this many failed runs in a row pause it; 0 = never"), WHOLE
]


class ScheduleResponse(ViewModel):
    """A schedule."""

    # each field is in the view, or in what the schedule does
    model_config = ConfigDict(
        alias_generator=AliasGenerator(
            validation_alias=lambda name: AliasChoices(name, AliasPath("spec", name))
        )
    )

    schedule_id: UUID = Field(validation_alias="id")
    id: UUID = Field(description="the old name of schedule_id; removed in the next release", deprecated=True)
    job_id: UUID | None = Field(
        validation_alias="source_job_id",
        description="whose list it is; null when that job was deleted, or the list is fetched from a place",
    )
    name: str
    cron: str
    zone: str
    recheck: Recheck
    overlap: Overlap
    catch_up: CatchUp
    jitter_seconds: int
    ends_at: UtcTime | None
    pause_after_failures: int
    repair: bool = Field(
        validation_alias=AliasPath("spec", "options", "repair"),
        description="whether cells that are not an address but clearly mean one are validated as that one",
    )
    enabled: bool
    next_runs: list[UtcTime] = Field(description="when the next five start; none while it is paused")
    last_run_at: UtcTime | None = Field(description="the last slot that was run")
    last_error: str = Field(
        description="why the last slot was not run or the schedule paused itself, else empty"
    )
    failures: int = Field(description="failed runs in a row")
    created_at: UtcTime


class SchedulesResponse(PageResponse):
    """One page of the account's schedules."""

    schedules: list[ScheduleResponse]


class RunResponse(BaseModel):
    """A run: its job, and the slot it was made for."""

    scheduled_for: UtcTime | None = Field(description="null when it was run by hand")
    job: JobResponse


class RunsResponse(PageResponse):
    """One page of the runs of a schedule, newest first."""

    runs: list[RunResponse]


class NewRunResponse(BaseModel):
    """The job of a run."""

    job_id: UUID


class ScheduleRequest(RequestModel):
    """Which list to run again, and when."""

    job_id: UUID | None = Field(default=None, description="the job whose list is used, instead of a source")
    source: PlaceText = Field(
        default="",
        description="where the list is fetched from for every run: https://, s3://, gs://, az:// or "
        "postgresql://host/database?query=SELECT…",
    )
    sink: PlaceText = Field(
        default="",
        description="where the results of every run are put; left out: where the job put them",
    )
    cron: ShortText = Field(examples=["0 6 * * 1"], description="minute, hour, day, month, weekday")
    zone: ShortText = Field(default="", description="IANA name of a time zone; left out: the account's")
    name: ShortText = ""
    recheck: Recheck = Recheck.ALL
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LATEST
    jitter_seconds: Jitter = 0
    ends_at: Ends = None
    pause_after_failures: Failures = 5
    options: ListOptions | None = Field(default=None, description="left out: those of the job")


class ScheduleUpdateRequest(RequestModel):
    """What to change; what is left out stays."""

    cron: ShortText | None = None
    zone: ShortText | None = None
    name: ShortText | None = None
    recheck: Recheck | None = None
    overlap: Overlap | None = None
    catch_up: CatchUp | None = None
    jitter_seconds: Jitter | None = None
    ends_at: Ends = None
    pause_after_failures: Failures | None = None
    repair: bool | None = Field(
        default=None,
        description="if a cell is not an address but clearly means one, validate that one",
    )

    def changed(self, spec: ScheduleSpec) -> ScheduleSpec:
        """Return the spec with what was given."""
        changes = self.given(nullable="ends_at")
        repair = changes.pop("repair", None)
        if repair is not None and spec.options is not None:
            changes["options"] = replace(spec.options, repair=repair)
        return replace(spec, **changes)


@router.post(
    "",
    status_code=201,
    **operation(
        "Make a schedule",
        ScheduleResponse,
        "schedule_needs_list",
        "job_not_found",
        *PLACE_ERRORS,
        *_CLOCK_ERRORS,
        "schedule_limit",
    ),
)
async def create_schedule(request: Request, wanted: ScheduleRequest, caller: JobWriter) -> JSONResponse:
    """Run a list on a schedule: that of a job, or one that is fetched from a place for every run."""
    same = wanted.model_dump(exclude={"job_id", "source", "sink", "options"})
    spec = ScheduleSpec(**same, options=wanted.options.options() if wanted.options else None)
    job_id = JobId(wanted.job_id) if wanted.job_id else None
    places = {"source": wanted.source, "sink": wanted.sink}
    view = await parts_of(request).schedules.create(caller.account_id, job_id, spec, **places)
    headers = {"Location": f"/v1/bulk/schedules/{view.id}"}
    return answer(ScheduleResponse.model_validate(view), "The schedule is made.", status=201, headers=headers)


@router.get("", **operation("List schedules", SchedulesResponse, "bad_cursor"))
async def list_schedules(
    request: Request, caller: JobReader, limit: Limit = 100, cursor: Cursor = ""
) -> JSONResponse:
    """List the account's schedules, oldest first."""
    views = await parts_of(request).schedules.list(caller.account_id)
    page, end = page_of(after_cursor(views, cursor), limit)
    return answer(SchedulesResponse.model_validate({"schedules": page, **end}))


@router.get("/{schedule_id:uuid}", **operation("Look at a schedule", ScheduleResponse, "schedule_not_found"))
async def get_schedule(request: Request, caller: JobReader, schedule_id: UUID) -> JSONResponse:
    """Return a schedule and its next five runs."""
    return answer(
        ScheduleResponse.model_validate(await parts_of(request).schedules.get(caller.account_id, schedule_id))
    )


@router.patch(
    "/{schedule_id:uuid}",
    **operation("Change a schedule", ScheduleResponse, "schedule_not_found", *_CLOCK_ERRORS),
)
async def update_schedule(
    request: Request, wanted: ScheduleUpdateRequest, caller: JobWriter, schedule_id: UUID
) -> JSONResponse:
    """Change a schedule."""
    view = await parts_of(request).schedules.update(caller.account_id, schedule_id, wanted.changed)
    return answer(ScheduleResponse.model_validate(view), "The schedule is changed.")


@router.delete("/{schedule_id:uuid}", **operation("Delete a schedule", None, "schedule_not_found"))
async def delete_schedule(request: Request, caller: JobWriter, schedule_id: UUID) -> JSONResponse:
    """Delete a schedule; its jobs stay."""
    await parts_of(request).schedules.delete(caller.account_id, schedule_id)
    return answer(None, "The schedule is deleted.")


@router.post(
    "/{schedule_id:uuid}/pause", **operation("Pause a schedule", ScheduleResponse, "schedule_not_found")
)
async def pause_schedule(request: Request, caller: JobWriter, schedule_id: UUID) -> JSONResponse:
    """Pause a schedule: nothing runs until it is resumed."""
    view = await parts_of(request).schedules.pause(caller.account_id, schedule_id)
    return answer(ScheduleResponse.model_validate(view), "The schedule is paused.")


@router.post(
    "/{schedule_id:uuid}/resume",
    **operation("Resume a schedule", ScheduleResponse, "schedule_not_found", "schedule_ended"),
)
async def resume_schedule(request: Request, caller: JobWriter, schedule_id: UUID) -> JSONResponse:
    """Resume a schedule, from its next slot on."""
    view = await parts_of(request).schedules.resume(caller.account_id, schedule_id)
    return answer(ScheduleResponse.model_validate(view), "The schedule goes on.")


@router.post(
    "/{schedule_id:uuid}/run",
    status_code=202,
    **operation(
        "Run a schedule now",
        NewRunResponse,
        "schedule_not_found",
        "schedule_source_gone",
        "no_results_yet",
        "nothing_to_retry",
    ),
)
async def run_schedule(request: Request, caller: JobWriter, schedule_id: UUID) -> JSONResponse:
    """Start a run now, whatever still runs; for `overlap`, it is the run before the next scheduled one."""
    job_id = await parts_of(request).schedules.run_now(caller.account_id, schedule_id)
    return answer(NewRunResponse(job_id=job_id), "A run is made.", status=202)


@router.get(
    "/{schedule_id:uuid}/runs",
    **operation("List a schedule's runs", RunsResponse, "schedule_not_found", "bad_cursor"),
)
async def list_schedule_runs(
    request: Request, caller: JobReader, schedule_id: UUID, limit: Limit = 20, cursor: Cursor = ""
) -> JSONResponse:
    """List the runs of a schedule, newest first."""
    parts = parts_of(request)
    found = await parts.schedules.runs(
        caller.account_id, schedule_id, limit=limit + 1, after=id_of_cursor(cursor)
    )
    page, end = page_of(found, limit, lambda run: run.job.id)
    now = parts.clock()
    listed = [RunResponse(scheduled_for=run.scheduled_for, job=job_response(run.job, now)) for run in page]
    return answer(RunsResponse(runs=listed, **end))
