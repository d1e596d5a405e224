"""/jobs: every list that was started, and /jobs/{id}: one of them, live, and what can be done with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from mailsift.accounts.people import Visitor
from mailsift.api.http.responses import server_event
from mailsift.api.pages import cookies
from mailsift.api.pages.charts import STATUS_ORDER
from mailsift.api.pages.filters import duration, number, percent
from mailsift.api.pages.forms import Form, choice, id_from, is_mendable, text
from mailsift.api.pages.page import (
    HEADERS,
    LONGEST_GOAL,
    inside,
    now_of,
    render,
    see,
    visitor_known,
    with_query,
    zone_of,
)
from mailsift.api.pages.tiers import TierOnPage, note_of, run_before, sentence_of, tiers_of
from mailsift.api.pages.validate import first_steps_context
from mailsift.api.pages.visitor import JobMember, JobReader, Member, Reader, look_for_visitor
from mailsift.api.pages.words import (
    AFTER_FAILURE,
    MODES,
    WARNINGS,
    time_lines,
    waits,
    waits_beyond_rates,
)
from mailsift.api.parts import ApiParts, parts_of
from mailsift.jobs.results.parts import estimate_of as preview_shares
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobSnapshot, JobView
from mailsift.pipeline.errors import MailsiftError, SuppressCodes
from mailsift.pipeline.verdict import Status
from mailsift.pipeline.wording import counted
from mailsift.pipeline.zones import zone_named
from mailsift.storage.states import DOING, ENDED, JobState, JobTransition

router = APIRouter(include_in_schema=False)

_A_PAGE: Final = 25
_FEW: Final = 5  # reasons and providers at first sight
_NAME: Final = 100
_LOOK_SECONDS: Final = 0.5
_LOOKS: Final = 30  # then who looks is asked again whether they may

TEST: Final = "test"
_NOBODY: Final = AccountId(UUID(int=0))
FILTERS: Final[Mapping[str, tuple[str, frozenset[JobState]]]] = {
    "": ("All", frozenset()),
    "active": ("Active", frozenset(JobState) - ENDED),
    "completed": ("Completed", frozenset({JobState.COMPLETED})),
    "failed": ("Failed", frozenset({JobState.FAILED})),
    "cancelled": ("Cancelled", frozenset({JobState.CANCELLED})),
    TEST: ("Test", frozenset()),
}
"""Label and states by the word in the address; behind TEST are the jobs of the test account."""
_Action = Callable[[JobService, AccountId, JobId], Awaitable[JobId | None]]
_ACTIONS: Final[Mapping[str, tuple[_Action, str]]] = {
    "pause": (JobService.pause, "The job is paused. Work under way will still finish."),
    "resume": (JobService.resume, "The job is running again."),
    "cancel": (JobService.cancel, "The job is cancelled. You keep the verdicts found so far."),
    "rerun": (
        JobService.repeat,
        "A new run of this list has started. Every mail server is asked again.",
    ),
    "promote": (
        JobService.promote,
        "The whole list has started. Addresses in the sample are not asked twice.",
    ),
    "retry": (JobService.retry, "A new job has started for the rows without a clear answer."),
    "delete": (JobService.delete, "The job, its list and its results have been deleted."),
}
"""What is done, which may make a new job, and what is said then."""


_MANY: Final[Mapping[str, str]] = {
    "pause": "paused",
    "resume": "resumed",
    "cancel": "cancelled",
    "delete": "deleted",
}
"""What can be done with many jobs at once, and what has been done then."""


@dataclass(frozen=True, slots=True)
class JobOnPage:
    """What templates say of a job beside its view; texts are "" when nothing can be said."""

    view: JobView
    doing: str  # its state
    mode: str
    ended: bool  # nothing more will happen
    stage: str  # while this stays, only numbers on the page change
    percent: str
    rate: str
    eta: str
    took: str
    sentence: str  # what it has come to
    tiers: tuple[TierOnPage, ...]  # what to do with its rows
    lines: tuple[str, ...]  # one sentence for everything its end depends on, the slowest first
    waits: tuple[str, ...]  # one for everything it waits for
    warning: str  # what makes its verdicts poorer than they could be
    may: frozenset[str]  # the names of what may be done with it now


def job_on_page(view: JobView, request: Request) -> JobOnPage:
    """Return a job as pages show it."""
    now, zone = now_of(request), zone_of(request)
    snapshot = JobSnapshot(view, now.timestamp())
    ended = view.state in ENDED
    return JobOnPage(
        view=view,
        doing=DOING[view.state],
        mode=MODES[view.mode][0],
        ended=ended,
        stage=f"{view.state.value}{' with verdicts' if view.processed else ''} {view.warning}".rstrip(),
        percent=percent(view.processed, view.total) if view.total else "",
        rate="" if view.state is JobState.PAUSED else rate_text(snapshot.rate),
        eta=_eta(view, snapshot.eta_seconds),
        took=duration((view.finished_at - view.started_at).total_seconds())
        if view.finished_at and view.started_at
        else "",
        sentence=sentence_of(view),
        tiers=tiers_of(view),
        lines=tuple(time_lines(view.time_left.lines)) if view.time_left else (),
        waits=tuple((waits_beyond_rates if view.time_left else waits)(view.waiting, zone)),
        warning=WARNINGS.get(view.warning, view.warning),
        may=_may(view),
    )


def live_fields(job: JobOnPage) -> dict[str, Any]:
    """Return what changes while a job runs, by the names the template gives its places."""
    view = job.view
    return {
        "stage": job.stage,
        "doing": job.doing,
        "processed": view.processed,
        "processed_text": f"{number(view.processed)} of {number(view.total)}" if view.total else "",
        "percent": job.percent,
        "rate": job.rate or "–",
        "eta": job.eta or "–",
        "sentence": job.sentence,
        "lines": "\n".join(job.lines),
        "waits": "\n".join(job.waits),
        **{tier.tier.value: number(tier.rows) for tier in job.tiers},
        **{f"{tier.tier.value}_share": tier.share for tier in job.tiers},
    }


def rate_text(rows: float) -> str:
    """Write rows a second, of slow jobs rows a minute; "" for none."""
    if rows <= 0:
        return ""
    count, unit = (rows, "s") if rows >= 1 else (60 * rows, "min")
    written = number(round(count, 1) if count < 10 else round(count)) if count >= 0.1 else "< 0.1"
    return f"{written} rows/{unit}"


def _eta(view: JobView, seconds: float | None) -> str:
    if view.state in ENDED or seconds is None:
        return ""
    if view.state is JobState.FINALIZING:
        return "in a moment"
    return duration(seconds)


def _may(view: JobView) -> frozenset[str]:
    able = {
        "pause": view.state in JobTransition.PAUSE.sources,
        "resume": view.state in JobTransition.RESUME.sources,
        "cancel": view.state in JobTransition.CANCEL.sources,
        "rerun": view.state in ENDED,
        "retry": view.state in ENDED and view.risky > 0,
        "promote": view.state in ENDED and view.options.preview > 0,
        "delete": view.state in ENDED,
        "schedule": view.state is JobState.COMPLETED,
    }
    return frozenset(name for name, may in able.items() if may)


class DayRange(BaseModel):
    """From one day to another."""

    since: str = Field(default="", max_length=10)
    until: str = Field(default="", max_length=10)

    def days(self, zone: str) -> tuple[datetime | None, datetime | None]:
        """Return the first moment, and the one behind the last; what is no date narrows nothing."""
        return _day_of(self.since, zone), _day_of(self.until, zone, later=1)


def _day_of(given: str, zone: str, *, later: int = 0) -> datetime | None:
    """Return when a day begins, or so many days later, in a zone; None for what is no date."""
    try:
        return datetime.combine(date.fromisoformat(given) + timedelta(days=later), time(), zone_named(zone))
    except (ValueError, OverflowError):
        return None


class JobListQuery(DayRange):
    """Which jobs are listed: of a state, with this in their name, made from one day to another."""

    state: str = ""
    q: str = Field(default="", max_length=_NAME)
    cursor: str = Field(default="", max_length=1_000)


@router.get("/jobs")
async def jobs(request: Request, visitor: Reader, query: Annotated[JobListQuery, Query()]) -> HTMLResponse:
    """List the jobs."""
    listed = await _list_context(request, visitor, query)
    return render(request, "jobs.html", **listed, **await first_steps_context(request, visitor))


@router.get("/jobs/rows")
async def rows(request: Request, visitor: Reader, query: Annotated[JobListQuery, Query()]) -> HTMLResponse:
    """Return the table alone, for a page that keeps it up to date."""
    return render(request, "jobs_rows.html", **await _list_context(request, visitor, query))


async def _list_context(request: Request, visitor: Visitor, query: JobListQuery) -> dict[str, Any]:
    state = query.state if query.state in FILTERS else ""
    owner = visitor.account_id
    if state == TEST:  # an account that is not there yet has none, and neither has nobody
        owner = await parts_of(request).jobs.test_account(owner) or _NOBODY
    name, days = query.q.strip().replace("\0", ""), query.days(zone_of(request))
    page = await parts_of(request).jobs.page(
        owner,
        limit=_A_PAGE,
        cursor=query.cursor,
        states=FILTERS[state][1],
        name=name,
        days=days,
    )
    first, end = days
    dates = {"since": query.since if first else "", "until": query.until if end else ""}
    asked = {"state": state, "q": name, **dates}
    listed = [job_on_page(view, request) for view in page.jobs]
    return {
        "jobs": listed,
        "filters": [
            (word, label, with_query("/jobs", {**asked, "state": word}))
            for word, (label, _) in FILTERS.items()
        ],
        **asked,
        "narrowed": any(asked.values()),
        "again": with_query("/jobs/rows", {**asked, "cursor": query.cursor}),
        "lively": any(not job.ended for job in listed),
        "next_href": with_query("/jobs", {**asked, "cursor": page.next_cursor}) if page.next_cursor else "",
        "first_href": with_query("/jobs", asked) if query.cursor else "",
    }


@router.post("/jobs")
async def act_on_many(request: Request, visitor: Member, form: Form) -> Response:
    """Do something with every job that is ticked, and say with how many it could be done."""
    parts = parts_of(request)
    action = choice(form, "do", _MANY)
    goal = text(form, "next", most=LONGEST_GOAL)
    here = inside(goal) if goal else "/jobs"
    ids = [JobId(id_from(str(value))) for value in form.getlist("job")[:_A_PAGE]]
    done, refused = 0, ""
    for job_id in ids:
        try:
            owner = await parts.jobs.owner(visitor.account_id, job_id)
            await _ACTIONS[action][0](parts.jobs, owner, job_id)
        except MailsiftError as error:
            if not is_mendable(error) and error.code != "job_not_found":
                raise
            refused = error.message
        else:
            done += 1
    if not ids:
        return see(here, "Tick the jobs first.", kind="bad")
    message = f"{counted(done, 'job')} {_MANY[action]}."
    left = len(ids) - done
    return see(
        here,
        f"{message} {counted(left, 'left as it was', 'left as they were')}: {refused}" if left else message,
        kind="bad" if left else "good",
    )


@router.get("/jobs/{job_id:uuid}")
async def job(request: Request, visitor: JobReader, job_id: JobId) -> HTMLResponse:
    """Show a job: progress, verdicts, where they come from, downloads."""
    parts = parts_of(request)
    view = await parts.jobs.get(visitor.account_id, job_id)
    about = await parts.jobs.history(visitor.account_id, job_id)
    earlier = run_before(view, about.runs)
    return render(
        request,
        "job.html",
        job=job_on_page(view, request),
        about=about,
        earlier=earlier,
        tiers=tiers_of(view, earlier),
        note=note_of(view),
        after_failure=AFTER_FAILURE.get(view.error_code, ""),
        format=cookies.read(request, cookies.FORMAT),
        **await _breakdown_context(parts, visitor.account_id, view),
        estimate=estimate_of(view),
    )


@router.get("/jobs/{job_id:uuid}/breakdown")
async def breakdown(request: Request, visitor: JobReader, job_id: JobId) -> HTMLResponse:
    """Return reasons, domains and providers alone, for a page that keeps them up to date."""
    parts = parts_of(request)
    view = await parts.jobs.get(visitor.account_id, job_id)
    return render(
        request,
        "job_breakdown.html",
        job=job_on_page(view, request),
        **await _breakdown_context(parts, visitor.account_id, view),
    )


async def _breakdown_context(parts: ApiParts, account_id: AccountId, view: JobView) -> dict[str, Any]:
    """Return what job_breakdown.html needs beside the job; nothing is broken down without verdicts."""
    found = None
    if view.processed:
        with SuppressCodes("no_results_yet", "blob_not_found"):
            found = await parts.jobs.browser.breakdown(account_id, view.id)
    return {"breakdown": found, "few": _FEW}


@router.post("/jobs/{job_id:uuid}/{action}")
async def act(request: Request, visitor: JobMember, job_id: JobId, action: str, _form: Form) -> Response:
    """Do something with a job."""
    if action not in _ACTIONS:
        raise MailsiftError("not_found", "There is nothing here.")
    parts, (do, message) = parts_of(request), _ACTIONS[action]
    new_job = await do(parts.jobs, visitor.account_id, job_id)
    return see("/jobs" if action == "delete" else f"/jobs/{new_job or job_id}", message)


def estimate_of(view: JobView) -> list[tuple[Status, float, float, float]]:
    """Return for each status the share of the whole list that a preview's sample says, and its interval."""
    shares = preview_shares(view)
    return [
        (status, found.value, found.low, found.high)
        for status in STATUS_ORDER
        if (found := shares.get(status.value))
    ]


@router.get("/jobs/{job_id:uuid}/live")
async def live(request: Request, visitor: JobReader, job_id: JobId) -> StreamingResponse:
    """Follow a job: a `progress` event for every change and an `end` event once."""
    await parts_of(request).jobs.get(visitor.account_id, job_id)
    return StreamingResponse(
        _events(request, visitor.account_id, job_id),
        media_type="text/event-stream",
        headers={**HEADERS, "X-Accel-Buffering": "no"},
    )


async def _events(request: Request, owner: AccountId, job_id: JobId) -> AsyncIterator[bytes]:
    sent: dict[str, object] = {}
    visitor = visitor_known(request)
    while await look_for_visitor(request) == visitor:
        for _ in range(_LOOKS):
            try:
                view = await parts_of(request).jobs.get(owner, job_id)
            except MailsiftError:
                return  # deleted meanwhile, or the database is away: the browser will ask again
            job = job_on_page(view, request)
            fields = live_fields(job)
            changed = {name: value for name, value in fields.items() if sent.get(name) != value}
            if job.ended:
                yield server_event("end", fields)
                return
            if changed:
                sent = fields
                yield server_event("progress", changed)
            if await parts_of(request).ends_within(_LOOK_SECONDS):
                return  # the browser will ask again
        yield b": still here\n\n"
