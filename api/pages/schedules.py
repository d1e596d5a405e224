"""/schedules: lists that run again by the clock: made, changed, paused, run now, deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from starlette.datastructures import FormData

from api.pages import schedule_form as fields
from api.pages.attempts import attempt, is_mendable
from api.pages.forms import read_form, text
from api.pages.page import now_of, render, see
from api.pages.schedule_form import Filled
from api.pages.visitor import Role, Signed, Visitor
from api.parts import parts_of
from jobs.cron_words import in_words
from jobs.schedule_views import ScheduleView
from jobs.views import AccountId, JobId
from pipeline.errors import MailsiftError

router = APIRouter(prefix="/schedules", include_in_schema=False)

Reader = Annotated[Visitor, Depends(Signed(Role.VIEWER))]
Member = Annotated[Visitor, Depends(Signed(Role.MEMBER))]

_LISTS, _RUNS = 50, 20
_SPARE: Final = UUID(int=0)  # whose slots a preview shows; only jitter depends on it
TROUBLES: Final = {
    "missed": "The last run was left out: nothing worked at the time.",
    "still_running": "The last run was left out: the one before had not ended.",
    "nothing_to_retry": "The last run was left out: no row is risky any more.",
    "no_results_yet": "The last run was left out: there are no results to go on from.",
    "schedule_source_gone": "It paused itself: the list it runs was deleted.",
    "job_not_found": "It paused itself: the list it runs was deleted.",
    "blob_not_found": "It paused itself: the list it runs is no longer kept.",
    "runs_failed": "It paused itself: too many runs failed one after the other.",
}


@router.get("")
async def schedules(request: Request, visitor: Reader) -> Response:
    """List the account's schedules."""
    parts = parts_of(request)
    found = await parts.schedules.list(visitor.account_id)
    recent = [] if found else (await parts.queries.page(visitor.account_id, limit=1)).jobs
    return render(
        request,
        "schedules.html",
        schedules=[(view, in_words(view.spec.cron)) for view in found],
        troubles=TROUBLES,
        has_jobs=bool(found or recent),
    )


@router.get("/preview")
async def preview(request: Request, _: Reader) -> Response:
    """Say in words what the form would do: a fragment that the form fetches while it is filled in."""
    rhythm, cron, zone = (request.query_params.get(name, "")[:200] for name in ("rhythm", "cron", "zone"))
    try:
        spec = Filled(rhythm=rhythm, cron=" ".join(cron.split()), zone=zone.strip()).spec()
    except MailsiftError as error:
        return render(request, "schedule_preview.html", words="", runs=(), zone="", error=error)
    now = now_of(request)
    runs = spec.timetable(_SPARE).starts(now, now=now, count=5)
    return render(
        request, "schedule_preview.html", words=in_words(spec.cron), runs=runs, zone=spec.zone, error=None
    )


@router.get("/new")
async def new(request: Request, visitor: Member, job: UUID | None = None) -> Response:
    """Show the form for a schedule, for the list of a job."""
    return await _new(request, visitor, job, Filled())


@router.post("/new")
async def create(request: Request, visitor: Member) -> Response:
    """Make a schedule."""
    form, parts = await read_form(request), parts_of(request)
    filled, job_id = fields.read(form), _job(form)
    try:
        view = await parts.schedules.create(visitor.account_id, JobId(job_id), filled.spec())
    except MailsiftError as error:
        if not is_mendable(error):
            raise
        return await _new(request, visitor, job_id, filled, error=error)
    await parts.people.members.note(visitor, "schedule.create", view.spec.name, cron=view.spec.cron)
    return see(request, f"/schedules/{view.id}", "The schedule is made.")


@router.get("/{schedule_id:uuid}")
async def schedule(request: Request, visitor: Reader, schedule_id: UUID) -> Response:
    """Show a schedule, its next runs and those that were."""
    service = parts_of(request).schedules
    view = await service.get(visitor.account_id, schedule_id)
    return render(
        request,
        "schedule.html",
        schedule=view,
        words=in_words(view.spec.cron),
        runs=await service.runs(visitor.account_id, schedule_id, limit=_RUNS),
        trouble=TROUBLES.get(view.last_error, view.last_error),
        rechecks=fields.RECHECKS,
        overlaps=fields.OVERLAPS,
        catch_ups=fields.CATCH_UPS,
    )


@router.get("/{schedule_id:uuid}/edit")
async def editing(request: Request, visitor: Member, schedule_id: UUID) -> Response:
    """Show the form to change a schedule."""
    view = await parts_of(request).schedules.get(visitor.account_id, schedule_id)
    return _form(request, fields.filled_from(view.spec), schedule=view)


@router.post("/{schedule_id:uuid}/edit")
async def edit(request: Request, visitor: Member, schedule_id: UUID) -> Response:
    """Change a schedule."""
    form, parts = await read_form(request), parts_of(request)
    filled = fields.read(form)
    view = await parts.schedules.get(visitor.account_id, schedule_id)
    try:
        wanted = filled.spec()
        view = await parts.schedules.update(
            visitor.account_id, schedule_id, lambda before: replace(wanted, options=before.options)
        )
    except MailsiftError as error:
        if not is_mendable(error):
            raise
        return _form(request, filled, schedule=view, error=error)
    await parts.people.members.note(visitor, "schedule.update", view.spec.name, cron=view.spec.cron)
    return see(request, f"/schedules/{schedule_id}", "The schedule is changed.")


@router.post("/{schedule_id:uuid}/pause")
async def pause(request: Request, visitor: Member, schedule_id: UUID) -> Response:
    """Run nothing until it is resumed."""
    change = parts_of(request).schedules.pause
    return await _changed(
        request, visitor, schedule_id, change, ("schedule.pause", "The schedule is paused.")
    )


@router.post("/{schedule_id:uuid}/resume")
async def resume(request: Request, visitor: Member, schedule_id: UUID) -> Response:
    """Go on with the next slot."""
    change = parts_of(request).schedules.resume
    return await _changed(request, visitor, schedule_id, change, ("schedule.resume", "The schedule goes on."))


@router.post("/{schedule_id:uuid}/run")
async def run(request: Request, visitor: Member, schedule_id: UUID) -> Response:
    """Make a run now."""
    change = parts_of(request).schedules.run_now
    return await _changed(request, visitor, schedule_id, change, ("schedule.run", "A run is made."))


@router.post("/{schedule_id:uuid}/delete")
async def delete(request: Request, visitor: Member, schedule_id: UUID) -> Response:
    """Delete a schedule; its jobs stay."""
    await read_form(request)
    parts = parts_of(request)
    view = await parts.schedules.get(visitor.account_id, schedule_id)
    await parts.schedules.delete(visitor.account_id, schedule_id)
    await parts.people.members.note(visitor, "schedule.delete", view.spec.name, cron=view.spec.cron)
    return see(request, "/schedules", "The schedule is deleted; its jobs stay.")


async def _changed(
    request: Request,
    visitor: Visitor,
    schedule_id: UUID,
    change: Callable[[AccountId, UUID], Awaitable[Any]],
    told: tuple[str, str],
) -> Response:
    """Make a change, note it, go back and say so; `told`: the audit log's action, and a sentence."""
    parts = parts_of(request)

    async def noted() -> None:
        await read_form(request)
        await change(visitor.account_id, schedule_id)
        view = await parts.schedules.get(visitor.account_id, schedule_id)
        await parts.people.members.note(visitor, told[0], view.spec.name)

    return await attempt(request, f"/schedules/{schedule_id}", noted(), told[1])


async def _new(
    request: Request,
    visitor: Visitor,
    job_id: UUID | None,
    filled: Filled,
    *,
    error: MailsiftError | None = None,
) -> Response:
    parts = parts_of(request)
    lists = [
        (str(job.id), job.name) for job in (await parts.queries.page(visitor.account_id, limit=_LISTS)).jobs
    ]
    if job_id is not None and str(job_id) not in dict(lists):
        job = await parts.jobs.get(visitor.account_id, JobId(job_id))
        lists.append((str(job.id), job.name))
    return _form(request, filled, lists=lists, job_id=str(job_id or ""), error=error)


def _form(
    request: Request,
    filled: Filled,
    *,
    schedule: ScheduleView | None = None,
    lists: list[tuple[str, str]] | None = None,
    job_id: str = "",
    error: MailsiftError | None = None,
) -> Response:
    return render(
        request,
        "schedule_form.html",
        status=422 if error else 200,
        filled=filled,
        schedule=schedule,
        lists=lists or [],
        job_id=job_id,
        rhythms=list(fields.RHYTHMS.items()),
        rechecks=list(fields.RECHECKS.items()),
        overlaps=list(fields.OVERLAPS.items()),
        catch_ups=list(fields.CATCH_UPS.items()),
        jitters=fields.with_this(fields.JITTERS, filled.jitter, "Up to {} seconds later"),
        failures=fields.with_this(fields.FAILURES, filled.failures, "{} failed runs in a row"),
        zones=fields.ZONES,
        error=error,
    )


def _job(form: FormData) -> UUID:
    try:
        return UUID(text(form, "job"))
    except ValueError:
        raise MailsiftError("job_not_found", "There is no such job.") from None
