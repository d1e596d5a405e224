"""/jobs: every list that was started; each of them, live, what can be done with it, its rows and its runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from pydantic import BaseModel, Field

from mailsift.accounts.people import Visitor
from mailsift.api.http.downloads import ExportOptions, download
from mailsift.api.http.responses import server_event
from mailsift.api.pages import cookies
from mailsift.api.pages.charts import STATUS_ORDER
from mailsift.api.pages.evidence import verdict_detail
from mailsift.api.pages.forms import Form, choice, id_from, is_mendable, text
from mailsift.api.pages.page import (
    HEADERS,
    LONGEST_GOAL,
    inside,
    now_of,
    render,
    see_other,
    visitor_known,
    with_query,
    zone_of,
)
from mailsift.api.pages.validate import first_steps_context
from mailsift.api.pages.visitor import JobMember, JobReader, Member, Reader, look_for_visitor
from mailsift.api.pages.words import (
    AFTER_FAILURE,
    MODES,
    TIER_COLOURS,
    TIER_NAMES,
    TIER_REASONS,
    TIERS,
    WARNINGS,
    duration,
    number,
    percent,
    provider_key,
    provider_name,
    result_choices,
    result_name,
    time_lines,
    waits,
    waits_beyond_rates,
)
from mailsift.api.parts import ApiParts, parts_of
from mailsift.jobs.results.breakdown import Diff
from mailsift.jobs.results.browse import PageRequest, RowFilter, SortBy, canonical_domain
from mailsift.jobs.results.export import ExportFormat
from mailsift.jobs.results.parts import estimate_of
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobSnapshot, JobView
from mailsift.pipeline.errors import MailsiftError, SuppressCodes
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.tiers import Tier
from mailsift.pipeline.verdict import Result, Status
from mailsift.pipeline.wording import counted
from mailsift.pipeline.zones import zone_named
from mailsift.storage.states import DOING, ENDED, JobState, JobTransition

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class _JobOnPage:
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


def _job_on_page(view: JobView, request: Request) -> _JobOnPage:
    """Return a job as pages show it."""
    now, zone = now_of(request), zone_of(request)
    snapshot = JobSnapshot(view, now.timestamp())
    ended = view.state in ENDED
    return _JobOnPage(
        view=view,
        doing=DOING[view.state],
        mode=MODES[view.mode][0],
        ended=ended,
        stage=f"{view.state.value}{' with verdicts' if view.processed else ''} {view.warning}".rstrip(),
        percent=percent(view.processed, view.total) if view.total else "",
        rate="" if view.state is JobState.PAUSED else rate_text(snapshot.rate),
        eta=_time_left_text(view, snapshot.eta_seconds),
        took=duration((view.finished_at - view.started_at).total_seconds())
        if view.finished_at and view.started_at
        else "",
        sentence=sentence_of(view),
        tiers=tiers_of(view),
        lines=tuple(time_lines(view.time_left.lines)) if view.time_left else (),
        waits=tuple((waits_beyond_rates if view.time_left else waits)(view.waiting, zone)),
        warning=WARNINGS.get(view.warning, view.warning),
        may=_allowed_now(view),
    )


def _live_fields(job: _JobOnPage) -> dict[str, Any]:
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


def _time_left_text(view: JobView, seconds: float | None) -> str:
    if view.state in ENDED or seconds is None:
        return ""
    if view.state is JobState.FINALIZING:
        return "in a moment"
    return duration(seconds)


def _allowed_now(view: JobView) -> frozenset[str]:
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


@dataclass(frozen=True, slots=True)
class TierOnPage:
    """One thing to do with rows."""

    tier: Tier  # the word that filters for these rows
    colour: Status  # whose colour they have
    label: str
    advice: str
    rows: int
    share: str  # which part of the rows with a verdict
    change: str  # how many more than in the run before, "" for as many, or when there was none


def tiers_of(view: JobView, earlier: JobView | None = None) -> tuple[TierOnPage, ...]:
    """Return what to do with a job's rows; `earlier` is a completed run of the same list."""
    return tuple(
        TierOnPage(
            tier,
            colour,
            label,
            advice,
            rows := view.tiers[tier],
            percent(rows, view.processed) if view.processed else "",
            _change(rows - earlier.tiers[tier]) if earlier else "",
        )
        for tier, colour, label, advice in TIERS
    )


def _change(rows: int) -> str:
    return f"{'+' if rows > 0 else '−'}{number(abs(rows))}" if rows else ""


_CUT_SHORT: Final = {JobState.CANCELLED: "was cancelled", JobState.FAILED: "failed"}


def sentence_of(view: JobView) -> str:
    """Say in one sentence what a job has come to, "" when it has no verdicts."""
    rows, safe = view.processed, view.send
    if not rows:
        return ""
    if view.state in _CUT_SHORT:
        begun = f"The job {_CUT_SHORT[view.state]} with {number(rows)} of {counted(view.total, 'row')}"
        return f"{begun} validated; {number(safe)} {_is_or_are(safe)} safe to send."
    if view.state not in ENDED:
        done = f"{counted(rows, 'row')} validated so far"
        return f"{number(safe)} of the {done} {_is_or_are(safe)} safe to send."
    whole = counted(rows, "row") + (" in the sample" if view.options.preview else "")
    if rows == 1:
        return f"The only row is {'' if safe else 'not '}safe to send."
    if not safe:
        return f"None of {whole} is safe to send."
    return (
        f"All {whole} are safe to send."
        if safe == rows
        else f"{number(safe)} of {whole} {_is_or_are(safe)} safe to send."
    )


def _is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"


_MODE_NOTES: Final = {
    Mode.FAST: "Fast mode does not ask mail servers, so some of these mailboxes may not exist.",
    Mode.MEDIUM: "Medium mode does not ask mail servers, so some of these mailboxes may not exist.",
    Mode.DEEP: "",
}


def _note_of(view: JobView) -> str:
    """Return what the mode leaves open about the rows that are safe to send."""
    return _MODE_NOTES[view.mode] if view.send else ""


def run_before(view: JobView, runs: Iterable[JobView]) -> JobView | None:
    """Return the last completed run of the whole list before this one."""
    if not _is_whole(view):
        return None
    earlier = (run for run in runs if run.created_at < view.created_at and _is_whole(run))
    return max(earlier, key=lambda run: run.created_at, default=None)


def _is_whole(run: JobView) -> bool:
    """Say whether a run has the verdicts of the whole list: no sample, and not only what was risky before."""
    return run.state is JobState.COMPLETED and not run.options.preview and not run.options.part


_JOBS_A_PAGE: Final = 25
_LONGEST_NAME: Final = 100

_TEST_JOBS: Final = "test"
_NOBODY: Final = AccountId(UUID(int=0))
_JOB_FILTERS: Final[Mapping[str, tuple[str, frozenset[JobState]]]] = {
    "": ("All", frozenset()),
    "active": ("Active", frozenset(JobState) - ENDED),
    "completed": ("Completed", frozenset({JobState.COMPLETED})),
    "failed": ("Failed", frozenset({JobState.FAILED})),
    "cancelled": ("Cancelled", frozenset({JobState.CANCELLED})),
    _TEST_JOBS: ("Test", frozenset()),
}
"""Label and states by the word in the address; behind _TEST_JOBS are the jobs of the test account."""


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
    q: str = Field(default="", max_length=_LONGEST_NAME)
    cursor: str = Field(default="", max_length=1_000)


@router.get("/jobs")
async def jobs(request: Request, visitor: Reader, query: Annotated[JobListQuery, Query()]) -> HTMLResponse:
    """List the jobs."""
    listed = await _list_context(request, visitor, query)
    return render(request, "jobs.html", **listed, **await first_steps_context(request, visitor))


@router.get("/jobs/rows")
async def job_table(
    request: Request, visitor: Reader, query: Annotated[JobListQuery, Query()]
) -> HTMLResponse:
    """Return the table alone, for a page that keeps it up to date."""
    return render(request, "jobs_rows.html", **await _list_context(request, visitor, query))


async def _list_context(request: Request, visitor: Visitor, query: JobListQuery) -> dict[str, Any]:
    state = query.state if query.state in _JOB_FILTERS else ""
    owner = visitor.account_id
    if state == _TEST_JOBS:  # an account that is not there yet has none, and neither has nobody
        owner = await parts_of(request).jobs.test_account(owner) or _NOBODY
    name, days = query.q.strip().replace("\0", ""), query.days(zone_of(request))
    page = await parts_of(request).jobs.page(
        owner,
        limit=_JOBS_A_PAGE,
        cursor=query.cursor,
        states=_JOB_FILTERS[state][1],
        name=name,
        days=days,
    )
    first, end = days
    dates = {"since": query.since if first else "", "until": query.until if end else ""}
    asked = {"state": state, "q": name, **dates}
    listed = [_job_on_page(view, request) for view in page.jobs]
    return {
        "jobs": listed,
        "filters": [
            (word, label, with_query("/jobs", {**asked, "state": word}))
            for word, (label, _) in _JOB_FILTERS.items()
        ],
        **asked,
        "narrowed": any(asked.values()),
        "again": with_query("/jobs/rows", {**asked, "cursor": query.cursor}),
        "lively": any(not job.ended for job in listed),
        "next_href": with_query("/jobs", {**asked, "cursor": page.next_cursor}) if page.next_cursor else "",
        "first_href": with_query("/jobs", asked) if query.cursor else "",
    }


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


@router.post("/jobs")
async def act_on_many(request: Request, visitor: Member, form: Form) -> Response:
    """Do something with every job that is ticked, and say with how many it could be done."""
    parts = parts_of(request)
    action = choice(form, "do", _MANY)
    goal = text(form, "next", most=LONGEST_GOAL)
    here = inside(goal) if goal else "/jobs"
    ids = [JobId(id_from(str(value))) for value in form.getlist("job")[:_JOBS_A_PAGE]]
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
        return see_other(here, "Tick the jobs first.", kind="bad")
    message = f"{counted(done, 'job')} {_MANY[action]}."
    left = len(ids) - done
    return see_other(
        here,
        f"{message} {counted(left, 'left as it was', 'left as they were')}: {refused}" if left else message,
        kind="bad" if left else "good",
    )


_FEW_REASONS: Final = 5  # reasons and providers at first sight


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
        job=_job_on_page(view, request),
        about=about,
        earlier=earlier,
        tiers=tiers_of(view, earlier),
        note=_note_of(view),
        after_failure=AFTER_FAILURE.get(view.error_code, ""),
        format=cookies.read(request, cookies.FORMAT),
        **await _breakdown_context(parts, visitor.account_id, view),
        estimate=_sample_shares(view),
    )


def _sample_shares(view: JobView) -> list[tuple[Status, float, float, float]]:
    """Return for each status the share of the whole list that a preview's sample says, and its interval."""
    shares = estimate_of(view)
    return [
        (status, found.value, found.low, found.high)
        for status in STATUS_ORDER
        if (found := shares.get(status.value))
    ]


@router.get("/jobs/{job_id:uuid}/breakdown")
async def breakdown(request: Request, visitor: JobReader, job_id: JobId) -> HTMLResponse:
    """Return reasons, domains and providers alone, for a page that keeps them up to date."""
    parts = parts_of(request)
    view = await parts.jobs.get(visitor.account_id, job_id)
    return render(
        request,
        "job_breakdown.html",
        job=_job_on_page(view, request),
        **await _breakdown_context(parts, visitor.account_id, view),
    )


async def _breakdown_context(parts: ApiParts, account_id: AccountId, view: JobView) -> dict[str, Any]:
    """Return what job_breakdown.html needs beside the job; nothing is broken down without verdicts here."""
    found = None
    if view.processed:
        with SuppressCodes("no_results_yet", "blob_not_found", "blob_store_failed"):
            found = await parts.jobs.browser.breakdown(account_id, view.id)
    return {"breakdown": found, "few": _FEW_REASONS}


@router.post("/jobs/{job_id:uuid}/{action}")
async def act(request: Request, visitor: JobMember, job_id: JobId, action: str, _form: Form) -> Response:
    """Do something with a job."""
    if action not in _ACTIONS:
        raise MailsiftError("not_found", "There is nothing here.")
    parts, (do, message) = parts_of(request), _ACTIONS[action]
    new_job = await do(parts.jobs, visitor.account_id, job_id)
    return see_other("/jobs" if action == "delete" else f"/jobs/{new_job or job_id}", message)


_LOOK_SECONDS: Final = 0.5
_LOOKS: Final = 30  # then who looks is asked again whether they may


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
            job = _job_on_page(view, request)
            fields = _live_fields(job)
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


_ROWS_A_PAGE: Final = 50
_PAGE_SIZES: Final = (25, 50, 100)
_MOST_COLUMNS: Final = 8  # of the customer's, beside the address
_NARROWING: Final = ("tier", "status", "result", "domain", "provider", "q")
_SORT_LABELS: Final = {"row": "Row", "email": "Address", "score": "Score", "result": "Reason"}
_LONGEST_TEXT: Final = 320
_FORMAT_SECONDS: Final = 31_536_000
_LAST_ROW: Final = 2**31
_CELL_SHOWN: Final = 60  # characters shown of a cell in the table
_LONGEST_CELL: Final = 2_000  # characters shown of a cell


class RowsQuery(BaseModel):
    """What the address of the page says; the page begins behind the row `after`, or with the row `row`.

    `column` names the customer's columns to be shown; with `columns` they were chosen, even if none is named.
    """

    tier: str = ""
    status: str = ""
    result: str = ""
    domain: str = Field(default="", max_length=_LONGEST_TEXT)
    provider: str = Field(default="", max_length=_LONGEST_TEXT)
    q: str = Field(default="", max_length=_LONGEST_TEXT)
    at: str = ""
    sort: str = ""
    size: int = Field(default=_ROWS_A_PAGE, ge=1, le=max(_PAGE_SIZES))
    columns: str = ""
    column: list[str] = Field(default_factory=list, max_length=200)
    after: int = Field(default=-1, ge=-1, le=_LAST_ROW)
    row: str = Field(default="", max_length=12)

    @property
    def narrowed(self) -> bool:
        """Whether some rows are left out."""
        return any(getattr(self, name) for name in _NARROWING)

    @property
    def order(self) -> SortBy:
        """The order; a word that is none of ours is the list's."""
        return SortBy(self.sort) if self.sort in set(SortBy) else SortBy.ROW

    @property
    def chosen(self) -> list[str] | None:
        """The customer's columns that are shown, None where nobody has chosen."""
        return self.column[:_MOST_COLUMNS] if self.columns or self.column else None

    def wanted(self) -> RowFilter:
        """Return which rows are meant; a word that is none of ours narrows nothing."""
        return RowFilter(
            tiers=frozenset({Tier(self.tier)}) if self.tier in set(Tier) else frozenset(),
            statuses=frozenset({Status(self.status)}) if self.status in set(Status) else frozenset(),
            results=frozenset({self.result}) if self.result in set(Result) else frozenset(),
            domain=canonical_domain(self.domain),
            provider=provider_key(self.provider),
            text=self.q.strip(),
            at_start=self.at == "start",
        )

    def address(self, job_id: JobId, after: int | None = -1) -> str:
        """Return where the rows behind `after` are shown, "" for None."""
        if after is None:
            return ""
        return with_query(
            f"/jobs/{job_id}/results", {**self.query(), "after": str(after) if after >= 0 else ""}
        )

    def but(self, job_id: JobId, name: str, value: str = "") -> str:
        """Return where the same is shown, from the start, with one field asked otherwise."""
        return self.model_copy(update={name: value}).address(job_id)

    def query(self) -> dict[str, object]:
        """Return what the address has to say for these rows in this shape, from the start."""
        fields = self.model_dump(exclude={"after", "row"})
        return {
            name: value for name, value in fields.items() if value and (name, value) != ("size", _ROWS_A_PAGE)
        }


@dataclass(frozen=True, slots=True)
class ActiveFilter:
    """A filter that is set, and where the page is without it."""

    words: str
    href: str


def chips_of(asked: RowsQuery, job_id: JobId) -> list[ActiveFilter]:
    """Return the filters that are set, beside the verdict, which has tabs of its own."""
    texts = {
        "status": asked.status.capitalize(),
        "result": result_name(asked.result),
        "domain": f"Domain: {asked.domain}",
        "provider": f"Provider: {provider_name(provider_key(asked.provider))}",
        "q": f"{'Starts with' if asked.at == 'start' else 'Contains'}: {asked.q}",
    }
    return [
        ActiveFilter(words, asked.but(job_id, name)) for name, words in texts.items() if getattr(asked, name)
    ]


@dataclass(frozen=True, slots=True)
class _SortLink:
    """A head of a column by which rows can be put in order; `state` is what aria-sort says."""

    label: str
    href: str
    state: str


def _sort_links(asked: RowsQuery, job_id: JobId) -> dict[str, _SortLink]:
    """Return the heads of the columns that sort; a second click turns the order round."""
    links = {}
    for name, label in _SORT_LABELS.items():
        turned = SortBy.ROW if name == "row" else SortBy(f"-{name}")
        up, down = asked.order == name, asked.order is turned and name != "row"
        to = turned if up else SortBy(name)
        state = "ascending" if up else "descending" if down else "none"
        links[name] = _SortLink(label, asked.but(job_id, "sort", "" if to is SortBy.ROW else to.value), state)
    return links


@router.get("/jobs/{job_id:uuid}/results")
async def results(
    request: Request, visitor: JobReader, job_id: JobId, asked: Annotated[RowsQuery, Query()]
) -> Response:
    """Show some rows with their verdicts."""
    view = await parts_of(request).jobs.get(visitor.account_id, job_id)
    begin = asked.row.replace(",", "")
    if begin.isdecimal():
        return see_other(asked.address(job_id, min(max(int(begin), 1), _LAST_ROW) - 2))
    page = None  # while there are no rows to be had
    with SuppressCodes("no_results_yet", "blob_not_found"):
        wanted = PageRequest(asked.size, asked.after, asked.order, asked.chosen)
        page = await parts_of(request).jobs.browser.page(visitor.account_id, job_id, asked.wanted(), wanted)
    return render(
        request,
        "results.html",
        job=_job_on_page(view, request),
        page=page,
        asked=asked,
        chips=chips_of(asked, job_id),
        tabs=[
            (word, colour, label, count, asked.but(job_id, "tier", word))
            for word, colour, label, count in (
                ("", "", "All", view.processed),
                *((tier.tier.value, tier.colour.value, tier.label, tier.rows) for tier in tiers_of(view)),
            )
        ],
        heads=_sort_links(asked, job_id),
        tier_names=TIER_NAMES,
        tier_colours=TIER_COLOURS,
        tier_reasons=TIER_REASONS,
        sizes=_PAGE_SIZES,
        most_columns=_MOST_COLUMNS,
        cut=_CELL_SHOWN,
        results=result_choices(),
        format=cookies.read(request, cookies.FORMAT),
        next_href=asked.address(job_id, page.next) if page else "",
        previous_href=asked.address(job_id, page.previous) if page else "",
    )


class FileQuery(RowsQuery):
    """Which rows are wanted as a file of which kind."""

    format: ExportFormat = ExportFormat.CSV


@router.get("/jobs/{job_id:uuid}/download")
async def get_file(
    request: Request, visitor: JobReader, job_id: JobId, asked: Annotated[FileQuery, Query()]
) -> Response:
    """Return the results as a file, all rows or those the page shows."""
    options = ExportOptions(asked.format, asked.wanted())
    file = await download(request, parts_of(request).jobs, visitor.account_id, job_id, options)
    cookies.put(file, cookies.FORMAT, asked.format.value, seconds=_FORMAT_SECONDS)
    return file


@router.get("/jobs/{job_id:uuid}/rows/{number:int}")
async def one_row(request: Request, visitor: JobReader, job_id: JobId, number: int) -> HTMLResponse:
    """Show one row, counted from 1, with its cells and what is behind its verdict."""
    if not 1 <= number <= _LAST_ROW:
        raise MailsiftError("row_not_found", "This list has no such row.")
    parts = parts_of(request)
    view = await parts.jobs.get(visitor.account_id, job_id)
    found = await parts.jobs.browser.row(visitor.account_id, job_id, number - 1)
    (chance,) = await parts.accuracy.chances_of_rows(
        visitor.account_id, job_id, [(found.judged, found.verdict)]
    )
    return render(
        request,
        "row.html",
        job=_job_on_page(view, request),
        number=number,
        cells=[(name, cell[:_LONGEST_CELL]) for name, cell in found.cells],
        detail=verdict_detail(
            found.address, found.verdict, found.evidence, judged=found.judged, chance=chance
        ),
        tier=(TIER_NAMES[found.tier], TIER_COLOURS[found.tier], TIER_REASONS.get(found.tier_reason, "")),
    )


@router.get("/jobs/{job_id:uuid}/bounces")
async def bounces(request: Request, visitor: JobReader, job_id: JobId) -> HTMLResponse:
    """Return what would come back of the list, for a page that asks for it once."""
    found = None
    with SuppressCodes("blob_not_found"):  # as on every page of a job: results that are gone are none
        found = await parts_of(request).accuracy.expected_bounces(visitor.account_id, job_id)
    return render(request, "job_bounces.html", bounces=found)


_COMPARED: Final = 200_000  # rows of a run that is compared without being asked
_MOST_CHANGED: Final = 200  # changed addresses on the page of runs
_NOT_COMPARABLE: Final = frozenset({"no_results_yet", "not_the_same_list", "job_not_found", "blob_not_found"})


@router.get("/jobs/{job_id:uuid}/runs")
async def runs(request: Request, visitor: JobReader, job_id: JobId, against: str = "") -> HTMLResponse:
    """Show the runs of a list; with `against`, what changed since that one."""
    parts = parts_of(request)
    view = await parts.jobs.get(visitor.account_id, job_id)
    about = await parts.jobs.history(visitor.account_id, job_id)
    others = [_job_on_page(run, request) for run in about.runs]
    earlier = next((run for run in others if str(run.view.id) == against), None)
    diff, trouble = None, None
    if earlier is not None:
        diff, trouble = await _compared(request, visitor.account_id, earlier, job_id)
    return render(
        request,
        "runs.html",
        job=_job_on_page(view, request),
        about=about,
        runs=others,
        against=against,
        earlier=earlier,
        diff=diff,
        table=_status_table(diff) if diff else None,
        trouble=trouble,
        named=_MOST_CHANGED,
    )


@router.get("/jobs/{job_id:uuid}/changes")
async def changes(request: Request, visitor: JobReader, job_id: JobId, against: UUID) -> HTMLResponse:
    """Return one sentence about what changed since an earlier run, for a page that asks for it once."""
    parts = parts_of(request)
    earlier = _job_on_page(await parts.jobs.get(visitor.account_id, JobId(against)), request)
    diff = None
    if earlier.view.total <= _COMPARED:
        diff, _ = await _compared(request, visitor.account_id, earlier, job_id)
    table = _status_table(diff) if diff else None
    return render(
        request,
        "job_changes.html",
        job_id=job_id,
        earlier=earlier.view,
        diff=diff,
        changed=table.changed if table else 0,
        moves=table.moves if table else [],
    )


async def _compared(
    request: Request, account_id: AccountId, earlier: _JobOnPage, job_id: JobId
) -> tuple[Diff | None, MailsiftError | None]:
    try:
        found = await parts_of(request).jobs.diff(account_id, earlier.view.id, job_id, limit=_MOST_CHANGED)
    except MailsiftError as error:
        if error.code not in _NOT_COMPARABLE:
            raise
        return None, error
    return found, None


@dataclass(frozen=True, slots=True)
class _StatusTable:
    """Addresses by status before and after: `cells[before][after]`."""

    cells: dict[Status, dict[Status, int]]

    @property
    def moves(self) -> list[tuple[Status, Status, int]]:
        """From which status to which other one how many went, the most first."""
        found = [
            (before, after, count)
            for before, row in self.cells.items()
            for after, count in row.items()
            if count and before is not after
        ]
        return sorted(found, key=lambda move: -move[2])

    @property
    def changed(self) -> int:
        """How many changed theirs."""
        return sum(count for _, _, count in self.moves)


def _status_table(diff: Diff) -> _StatusTable:
    cells: dict[Status, dict[Status, int]] = {
        before: dict.fromkeys(STATUS_ORDER, 0) for before in STATUS_ORDER
    }
    for move in diff.moves:
        before, after = (Status(move[side]["status"]) for side in ("before", "after"))
        cells[before][after] += move["addresses"]
    return _StatusTable(cells)
