"""/schedules: lists that run again by the clock: made, changed, paused, run now, deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from starlette.datastructures import FormData

from mailsift.accounts.people import Visitor
from mailsift.api.pages.forms import Form, attempt, choice, id_from, mendable, once, text
from mailsift.api.pages.page import now_of, render, see_other
from mailsift.api.pages.visitor import Member, Reader
from mailsift.api.parts import parts_of
from mailsift.jobs.schedules import (
    CatchUp,
    Overlap,
    Recheck,
    ScheduleService,
    ScheduleSpec,
    ScheduleView,
    check_cron,
    in_words,
)
from mailsift.jobs.views import AccountId, JobId, JobOptions
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.zones import in_zone, local_text, zone_named

router = APIRouter(prefix="/schedules", include_in_schema=False)

_LISTS, _RUNS = 50, 20
_NAME: Final = 100
_NAMELESS: Final = "List without a name"
_SPARE: Final = UUID(int=0)  # whose slots a preview shows; only jitter depends on it
_TROUBLES: Final = {
    "missed": "The last run was skipped: the service was not running.",
    "still_running": "The last run was skipped: the one before it was still running.",
    "nothing_to_retry": "The last run was skipped: no row is risky any more.",
    "no_results_yet": "The last run was skipped: there are no earlier results to start from.",
    "schedule_zone_invalid": "The next run waits: the service’s tables don’t know this time zone.",
    "schedule_source_gone": "Paused: its list was deleted.",
    "job_not_found": "Paused: its list was deleted.",
    "blob_not_found": "Paused: its list is no longer kept.",
    "runs_failed": "Paused: too many runs failed in a row.",
}
_ACTIONS: Final[Mapping[str, tuple[Callable[[ScheduleService, AccountId, UUID], Awaitable[object]], str]]] = {
    "pause": (ScheduleService.pause, "Schedule paused."),
    "resume": (ScheduleService.resume, "Schedule resumed."),
    "run": (ScheduleService.run_now, "A run has started."),
}
"""What is done, and what is said then."""
_RHYTHMS: Final = {
    "0 6 * * *": "Every day at 06:00",
    "0 6 * * 1-5": "Monday to Friday at 06:00",
    "0 6 * * 1": "Every Monday at 06:00",
    "0 6 1 * *": "On the first day of every month at 06:00",
    "0 6 1 1,4,7,10 *": "On the first day of every quarter at 06:00",
    "": "Custom (cron line)",
}
_RECHECKS: Final = {
    Recheck.ALL.value: "Every address, even if asked recently",
    Recheck.STALE.value: "Addresses whose verdict is out of date",
    Recheck.RISKY.value: "Only rows that were risky last time",
}
_OVERLAPS: Final = {
    Overlap.SKIP.value: "Skip the new run",
    Overlap.QUEUE.value: "Let the new run wait",
    Overlap.CANCEL_PREVIOUS.value: "Cancel the old run",
}
_CATCH_UPS: Final = {
    CatchUp.LATEST.value: "Run the latest one",
    CatchUp.ALL.value: "Run all of the last 24 hours",
    CatchUp.NONE.value: "Skip them",
}
_JITTERS: Final = {
    "0": "Exactly on time",
    "300": "Up to 5 minutes later",
    "1800": "Up to 30 minutes later",
    "3600": "Up to 1 hour later",
}
_FAILURES: Final = {
    "1": "1 failed run",
    "3": "3 failed runs in a row",
    "5": "5 failed runs in a row",
    "0": "Never",
}


@router.get("")
async def schedules(request: Request, visitor: Reader) -> Response:
    """List the account's schedules."""
    parts = parts_of(request)
    found = await parts.schedules.list(visitor.account_id)
    recent = [] if found else (await parts.jobs.page(visitor.account_id, limit=1)).jobs
    return render(
        request,
        "schedules.html",
        schedules=[(view, in_words(view.spec.cron)) for view in found],
        troubles=_TROUBLES,
        has_jobs=bool(found or recent),
    )


@router.get("/preview")
async def preview(request: Request, _: Reader) -> Response:
    """Say in words what the form would do: a fragment that the form fetches while it is filled in."""
    rhythm, cron, zone = (request.query_params.get(name, "")[:200] for name in ("rhythm", "cron", "zone"))
    try:
        spec = _ScheduleForm(rhythm=rhythm, cron=" ".join(cron.split()), zone=zone.strip()).spec()
    except MailsiftError as error:
        return render(request, "schedule_preview.html", status=200, error=error)
    now = now_of(request)
    runs = spec.timetable(_SPARE).starts(now, now=now, count=5)
    return render(request, "schedule_preview.html", words=in_words(spec.cron), runs=runs, zone=spec.zone)


@router.get("/new")
async def new(
    request: Request,
    visitor: Member,
    job: UUID | None = None,
    q: Annotated[str, Query(max_length=_NAME)] = "",
) -> Response:
    """Show the form for a schedule, for the list of a job, or of one whose name has `q` in it."""
    return await _new_page(
        request, visitor, job, _ScheduleForm(zone=visitor.account_zone), q=q.strip().replace("\0", "")
    )


@router.post("/new")
@once
async def create(request: Request, visitor: Member, form: Form) -> Response:
    """Make a schedule."""
    parts = parts_of(request)
    filled, job_id = _read_schedule(form), id_from(text(form, "job"))
    try:
        spec = filled.spec()
        if filled.repair:
            source = await parts.jobs.get(visitor.account_id, JobId(job_id))
            spec = replace(spec, options=replace(source.options, repair=True))
        view = await parts.schedules.create(visitor.account_id, JobId(job_id), spec)
    except MailsiftError as error:
        return await _new_page(request, visitor, job_id, filled, error=mendable(error))
    return see_other(f"/schedules/{view.id}", "Schedule created.")


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
        trouble=_TROUBLES.get(view.last_error, view.last_error),
        rechecks=_RECHECKS,
        overlaps=_OVERLAPS,
        catch_ups=_CATCH_UPS,
    )


@router.get("/{schedule_id:uuid}/edit")
async def editing(request: Request, visitor: Member, schedule_id: UUID) -> Response:
    """Show the form to change a schedule."""
    view = await parts_of(request).schedules.get(visitor.account_id, schedule_id)
    return _form(request, _filled_from(view.spec), schedule=view)


@router.post("/{schedule_id:uuid}/edit")
async def edit(request: Request, visitor: Member, schedule_id: UUID, form: Form) -> Response:
    """Change a schedule."""
    parts = parts_of(request)
    filled = _read_schedule(form)
    view = await parts.schedules.get(visitor.account_id, schedule_id)
    try:
        wanted = filled.spec()
        view = await parts.schedules.update(
            visitor.account_id,
            schedule_id,
            lambda before: replace(
                wanted,
                options=replace(before.options or JobOptions(), repair=filled.repair),
                ends_at=before.ends_at if filled.ends_as(_filled_from(before)) else wanted.ends_at,
            ),
        )
    except MailsiftError as error:
        return _form(request, filled, schedule=view, error=mendable(error))
    return see_other(f"/schedules/{schedule_id}", "Schedule saved.")


@router.post("/{schedule_id:uuid}/delete")
async def delete(request: Request, visitor: Member, schedule_id: UUID, _form: Form) -> Response:
    """Delete a schedule; its jobs stay."""
    await parts_of(request).schedules.delete(visitor.account_id, schedule_id)
    return see_other("/schedules", "Schedule deleted. Its jobs stay.")


@router.post("/{schedule_id:uuid}/{action}")
async def act(request: Request, visitor: Member, schedule_id: UUID, action: str, _form: Form) -> Response:
    """Pause a schedule, resume it from its next slot on, or make a run now."""
    if action not in _ACTIONS:
        raise MailsiftError("not_found", "There is nothing here.")
    do, done = _ACTIONS[action]
    change = do(parts_of(request).schedules, visitor.account_id, schedule_id)
    return await attempt(f"/schedules/{schedule_id}", change, done)


async def _new_page(
    request: Request,
    visitor: Visitor,
    job_id: UUID | None,
    filled: _ScheduleForm,
    *,
    q: str = "",
    error: MailsiftError | None = None,
) -> Response:
    parts = parts_of(request)
    page = await parts.jobs.page(visitor.account_id, limit=_LISTS, name=q)
    lists = [
        (str(job.id), f"{job.name or _NAMELESS}, {local_text(job.created_at, visitor.zone)}")
        for job in page.jobs
    ]
    if job_id is not None and str(job_id) not in dict(lists):
        job = await parts.jobs.get(visitor.account_id, JobId(job_id))
        lists.append((str(job.id), job.name or _NAMELESS))
    offered = _ListChoices(lists, str(job_id or ""), q, more=bool(page.next_cursor))
    return _form(request, filled, offered=offered, error=error)


def _form(
    request: Request,
    filled: _ScheduleForm,
    *,
    schedule: ScheduleView | None = None,
    offered: _ListChoices | None = None,
    error: MailsiftError | None = None,
) -> Response:
    return render(
        request,
        "schedule_form.html",
        filled=filled,
        schedule=schedule,
        offered=offered or _ListChoices(),
        rhythms=_RHYTHMS,
        rechecks=_RECHECKS,
        overlaps=_OVERLAPS,
        catch_ups=_CATCH_UPS,
        jitters=_with_this(_JITTERS, filled.jitter, "Up to {} seconds later"),
        failures=_with_this(_FAILURES, filled.failures, "{} failed runs in a row"),
        error=error,
    )


@dataclass(frozen=True, slots=True)
class _ListChoices:
    """The jobs whose lists can be chosen: id and words, the one that is, and what they were found by."""

    lists: Sequence[tuple[str, str]] = ()
    job_id: str = ""
    q: str = ""
    more: bool = False


@dataclass(frozen=True, slots=True)
class _ScheduleForm:
    """The fields as texts, as they are shown again when something is wrong with them."""

    name: str = ""
    rhythm: str = "0 6 * * 1"
    cron: str = ""
    zone: str = "UTC"
    recheck: str = Recheck.ALL.value
    overlap: str = Overlap.SKIP.value
    catch_up: str = CatchUp.LATEST.value
    jitter: str = "0"
    failures: str = "5"
    ends: str = ""
    repair: bool = False

    def ends_as(self, other: _ScheduleForm) -> bool:
        """Say whether both end on the same day: the end need not be that day's, and then stays."""
        return (self.ends, self.zone) == (other.ends, other.zone)

    def spec(self) -> ScheduleSpec:
        """Return what the schedule does.

        Raises:
            MailsiftError: `schedule_cron_invalid`, `schedule_zone_invalid`, `bad_option`.
        """
        if self.rhythm and self.cron not in {"", self.rhythm}:
            chosen = _RHYTHMS.get(self.rhythm, self.rhythm)
            text = f"“{chosen}” is chosen, and a cron line typed: choose “{_RHYTHMS['']}”, or empty the line."
            raise MailsiftError("bad_option", text)
        cron = self.rhythm or self.cron
        check_cron(cron, self.zone)
        return ScheduleSpec(
            cron=cron,
            zone=self.zone,
            name=self.name,
            recheck=Recheck(self.recheck),
            overlap=Overlap(self.overlap),
            catch_up=CatchUp(self.catch_up),
            jitter_seconds=int(self.jitter),
            pause_after_failures=int(self.failures),
            ends_at=_end_of(self.ends, self.zone),
        )


def _read_schedule(form: FormData) -> _ScheduleForm:
    """Return the fields of the form."""
    return _ScheduleForm(
        name=text(form, "name"),
        rhythm=choice(form, "rhythm", _RHYTHMS),
        cron=" ".join(text(form, "cron").split()),
        zone=text(form, "zone", most=64),
        recheck=choice(form, "recheck", _RECHECKS),
        overlap=choice(form, "overlap", _OVERLAPS),
        catch_up=choice(form, "catch_up", _CATCH_UPS),
        jitter=_whole_number(form, "jitter"),
        failures=_whole_number(form, "failures"),
        ends=text(form, "ends", most=10),
        repair="repair" in form,
    )


def _filled_from(spec: ScheduleSpec) -> _ScheduleForm:
    """Return the form of a schedule that exists."""
    filled = _ScheduleForm(
        name=spec.name,
        zone=spec.zone,
        recheck=spec.recheck.value,
        overlap=spec.overlap.value,
        catch_up=spec.catch_up.value,
        jitter=str(spec.jitter_seconds),
        failures=str(spec.pause_after_failures),
        ends=in_zone(spec.ends_at, spec.zone).date().isoformat() if spec.ends_at else "",
        repair=bool(spec.options and spec.options.repair),
    )
    known = spec.cron in _RHYTHMS
    return replace(filled, rhythm=spec.cron if known else "", cron="" if known else spec.cron)


def _with_this(known: dict[str, str], value: str, words: str) -> list[tuple[str, str]]:
    """Return the choices of a field, with the value it has by other ways among them."""
    return [*known.items(), *([] if value in known else [(value, words.format(value))])]


def _whole_number(form: FormData, name: str) -> str:
    value = text(form, name, most=6)
    if not (value.isascii() and value.isdecimal()) or int(value) > 86_400:
        raise MailsiftError("bad_option", f"Choose one of the options for “{name}”.")
    return str(int(value))


def _end_of(day: str, zone: str) -> datetime | None:
    """Return the last moment of a day, in UTC."""
    if not day:
        return None
    try:
        start = datetime.combine(datetime.strptime(day, "%Y-%m-%d").date(), time(), zone_named(zone))  # noqa: DTZ007 - only its date
    except ValueError:
        raise MailsiftError("bad_option", "The last day must be a date.") from None
    try:
        return (start + timedelta(days=1)).astimezone(UTC) - timedelta(seconds=1)
    except OverflowError:
        text = "The last day is too far away. Leave it empty for a schedule that never ends."
        raise MailsiftError("bad_option", text) from None
