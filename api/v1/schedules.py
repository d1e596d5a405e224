"""/v1/bulk/schedules: lists that run again by the clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from api.described import errors
from api.envelope import Envelope, answer
from api.parts import parts_of
from api.scalars import WHOLE
from api.strict_json import StrictRoute
from api.texts import ShortText
from api.uploads import ListOptions
from api.v1.jobs import Reader, Writer
from api.v1.shown import JobShown, moment, shown
from api.v1.webhook_shapes import plain
from jobs.schedule_views import Overlap, Recheck, ScheduleSpec, ScheduleView
from jobs.timetable import CatchUp
from jobs.views import JobId

router = APIRouter(prefix="/v1/bulk/schedules", tags=["schedules"], route_class=StrictRoute)
_CLOCK_ERRORS: Final = ("schedule_cron_invalid", "schedule_zone_invalid", "schedule_ended")
_DAY: Final = 86_400

Jitter = Annotated[
    int,
    Field(ge=0, le=_DAY, description="every run starts up to so many seconds after its slot"),
    WHOLE,
]
Ends = Annotated[AwareDatetime | None, Field(description="no later slot is run; null = for ever")]
Failures = Annotated[
    int, Field(ge=0, le=1_000, description="failed runs in a row that pause it; 0 = never"), WHOLE
]


class ScheduleShown(BaseModel):
    """A schedule."""

    id: str
    job_id: str | None = Field(description="whose list it is; null when that job was deleted")
    name: str
    cron: str
    zone: str
    recheck: Recheck
    overlap: Overlap
    catch_up: CatchUp
    jitter_seconds: int
    ends_at: datetime | None
    pause_after_failures: int
    enabled: bool
    next_runs: list[datetime] = Field(description="when the next five start; none while it is paused")
    last_run_at: datetime | None = Field(description="the slot that was run last")
    last_error: str = Field(description="why the last slot was not run or it paused itself, else empty")
    failures: int = Field(description="failed runs in a row")
    created_at: datetime


class Schedules(BaseModel):
    """The account's schedules."""

    schedules: list[ScheduleShown]


class RunShown(BaseModel):
    """A run: its job, and the slot it was made for."""

    scheduled_for: datetime | None = Field(description="null when it was run by hand")
    job: JobShown


class Runs(BaseModel):
    """The runs of a schedule, newest first."""

    runs: list[RunShown]


class Run(BaseModel):
    """The job of a run."""

    job_id: str


class NewSchedule(BaseModel):
    """Which list to run again, and when."""

    model_config = ConfigDict(extra="forbid")

    job_id: UUID = Field(description="the job whose list it is")
    cron: ShortText = Field(examples=["0 6 * * 1"], description="minute, hour, day, month, weekday")
    zone: ShortText = "UTC"
    name: ShortText = ""
    recheck: Recheck = Recheck.ALL
    overlap: Overlap = Overlap.SKIP
    catch_up: CatchUp = CatchUp.LATEST
    jitter_seconds: Jitter = 0
    ends_at: Ends = None
    pause_after_failures: Failures = 5
    options: ListOptions | None = Field(default=None, description="left out: those of the job")


class ScheduleChange(BaseModel):
    """What to change; what is left out stays."""

    model_config = ConfigDict(extra="forbid")

    cron: ShortText | None = None
    zone: ShortText | None = None
    name: ShortText | None = None
    recheck: Recheck | None = None
    overlap: Overlap | None = None
    catch_up: CatchUp | None = None
    jitter_seconds: Jitter | None = None
    ends_at: Ends = None
    pause_after_failures: Failures | None = None

    def changed(self, spec: ScheduleSpec) -> ScheduleSpec:
        """Return the spec with what was given; a null changes nothing but the end, which it takes away."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return replace(spec, **{name: x for name, x in given.items() if x is not None or name == "ends_at"})


def _shown(view: ScheduleView) -> dict[str, Any]:
    spec = view.spec
    return {
        "id": str(view.id),
        "job_id": str(view.source_job_id) if view.source_job_id else None,
        **plain({name: getattr(spec, name) for name in ("name", "cron", "zone")}),
        **plain({name: getattr(spec, name) for name in ("recheck", "overlap", "catch_up")}),
        "jitter_seconds": spec.jitter_seconds,
        "ends_at": moment(spec.ends_at),
        "pause_after_failures": spec.pause_after_failures,
        "enabled": view.enabled,
        "next_runs": [moment(at) for at in view.next_runs],
        "last_run_at": moment(view.last_run_at),
        "last_error": view.last_error,
        "failures": view.failures,
        "created_at": moment(view.created_at),
    }


@router.post(
    "",
    status_code=201,
    summary="Make a schedule",
    operation_id="create_schedule",
    response_model=Envelope[ScheduleShown],
    responses=errors("job_not_found", *_CLOCK_ERRORS, "schedule_limit"),
)
async def create(request: Request, wanted: NewSchedule, caller: Writer) -> JSONResponse:
    """Run the list of a job again by the clock."""
    spec = ScheduleSpec(
        cron=wanted.cron,
        zone=wanted.zone,
        name=wanted.name,
        recheck=wanted.recheck,
        overlap=wanted.overlap,
        catch_up=wanted.catch_up,
        options=wanted.options.options() if wanted.options else None,
        jitter_seconds=wanted.jitter_seconds,
        ends_at=wanted.ends_at,
        pause_after_failures=wanted.pause_after_failures,
    )
    view = await parts_of(request).schedules.create(caller.account_id, JobId(wanted.job_id), spec)
    headers = {"Location": f"/v1/bulk/schedules/{view.id}"}
    return answer(_shown(view), "The schedule is made.", status=201, headers=headers)


@router.get(
    "",
    summary="List schedules",
    operation_id="list_schedules",
    response_model=Envelope[Schedules],
    responses=errors(),
)
async def list_schedules(request: Request, caller: Reader) -> JSONResponse:
    """List the account's schedules, oldest first."""
    views = await parts_of(request).schedules.list(caller.account_id)
    return answer({"schedules": [_shown(view) for view in views]})


@router.get(
    "/{schedule_id:uuid}",
    summary="Look at a schedule",
    operation_id="get_schedule",
    response_model=Envelope[ScheduleShown],
    responses=errors("schedule_not_found"),
)
async def get(request: Request, caller: Reader, schedule_id: UUID) -> JSONResponse:
    """Look at a schedule and its next five runs."""
    return answer(_shown(await parts_of(request).schedules.get(caller.account_id, schedule_id)))


@router.patch(
    "/{schedule_id:uuid}",
    summary="Change a schedule",
    operation_id="update_schedule",
    response_model=Envelope[ScheduleShown],
    responses=errors("schedule_not_found", *_CLOCK_ERRORS),
)
async def update(request: Request, wanted: ScheduleChange, caller: Writer, schedule_id: UUID) -> JSONResponse:
    """Change a schedule."""
    view = await parts_of(request).schedules.update(caller.account_id, schedule_id, wanted.changed)
    return answer(_shown(view), "The schedule is changed.")


@router.delete(
    "/{schedule_id:uuid}",
    summary="Delete a schedule",
    operation_id="delete_schedule",
    response_model=Envelope[None],
    responses=errors("schedule_not_found"),
)
async def delete(request: Request, caller: Writer, schedule_id: UUID) -> JSONResponse:
    """Delete a schedule; its jobs stay."""
    await parts_of(request).schedules.delete(caller.account_id, schedule_id)
    return answer(None, "The schedule is deleted.")


@router.post(
    "/{schedule_id:uuid}/pause",
    summary="Pause a schedule",
    operation_id="pause_schedule",
    response_model=Envelope[ScheduleShown],
    responses=errors("schedule_not_found"),
)
async def pause(request: Request, caller: Writer, schedule_id: UUID) -> JSONResponse:
    """Run nothing until it is resumed."""
    view = await parts_of(request).schedules.pause(caller.account_id, schedule_id)
    return answer(_shown(view), "The schedule is paused.")


@router.post(
    "/{schedule_id:uuid}/resume",
    summary="Resume a schedule",
    operation_id="resume_schedule",
    response_model=Envelope[ScheduleShown],
    responses=errors("schedule_not_found", "schedule_ended"),
)
async def resume(request: Request, caller: Writer, schedule_id: UUID) -> JSONResponse:
    """Go on with the next slot."""
    view = await parts_of(request).schedules.resume(caller.account_id, schedule_id)
    return answer(_shown(view), "The schedule goes on.")


@router.post(
    "/{schedule_id:uuid}/run",
    status_code=202,
    summary="Run a schedule now",
    operation_id="run_schedule",
    response_model=Envelope[Run],
    responses=errors("schedule_not_found", "schedule_source_gone", "nothing_to_retry"),
)
async def run_now(request: Request, caller: Writer, schedule_id: UUID) -> JSONResponse:
    """Make a run at once, beside those of the clock."""
    job_id = await parts_of(request).schedules.run_now(caller.account_id, schedule_id)
    return answer({"job_id": str(job_id)}, "A run is made.", status=202)


@router.get(
    "/{schedule_id:uuid}/runs",
    summary="List a schedule's runs",
    operation_id="list_schedule_runs",
    response_model=Envelope[Runs],
    responses=errors("schedule_not_found"),
)
async def runs(
    request: Request, caller: Reader, schedule_id: UUID, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> JSONResponse:
    """List the runs of a schedule, newest first."""
    parts = parts_of(request)
    found = await parts.schedules.runs(caller.account_id, schedule_id, limit=limit)
    now = parts.clock()
    told = [{"scheduled_for": moment(run.scheduled_for), "job": shown(run.job, now)} for run in found]
    return answer({"runs": told})
