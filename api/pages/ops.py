"""The operator console, below /ops: what flows, what does not and why, and the levers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup
from starlette.datastructures import FormData

from mailsift.api.pages.charts import cells, columns, robust_top, stack
from mailsift.api.pages.forms import Form, choice, id_from, number_from, text
from mailsift.api.pages.outcomes import accuracy_context, accuracy_file
from mailsift.api.pages.page import now_of, render, render_live, see_other, with_query, zone_of
from mailsift.api.pages.visitor import Operator
from mailsift.api.parts import parts_of
from mailsift.events.audit import audit_line
from mailsift.jobs.admin.actions import ActionResult, JobAction, ProviderLimits
from mailsift.jobs.admin.alarms import RULES, SCHEDULE_SECONDS, is_low
from mailsift.jobs.admin.console import BROKEN, MOST_COUNTED, JobDetails, ThrottleRow, read_filter, timeline
from mailsift.jobs.intake.models import LIST_FAULTS
from mailsift.jobs.outcomes.accuracy import GroupBy
from mailsift.jobs.views import JobId
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.throttle import LedgerKind, SessionOutcome
from mailsift.pipeline.wording import counted
from mailsift.pipeline.zones import abbreviation, midnight, zone_named
from mailsift.storage.sql.chunks import MAX_ATTEMPTS, FailingChunk, Lease
from mailsift.storage.sql.jobs import SEARCH_NEWEST, SEARCH_ORDERS
from mailsift.storage.sql.stats import ChunkSpan, EndpointRow, Interval, ScheduleRow
from mailsift.storage.sql.throttles import ANY_SOURCE
from mailsift.storage.sql.workers import Worker
from mailsift.storage.states import ENDED, OPEN_CHUNK, JobState, JobTransition

router = APIRouter(prefix="/ops", include_in_schema=False)

T = TypeVar("T")

N = TypeVar("N", int, float)

_ROWS_A_PAGE: Final = 50


@dataclass(frozen=True, slots=True)
class ListFilter(Generic[T]):
    """One value a filter may have: what it is called, and which rows it leaves."""

    label: str
    keeps: Callable[[T], bool]


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """One page of a list, and the way to the others."""

    path: str
    rows: Sequence[T]
    matching: int  # rows the filters leave
    known: int  # all of them
    page: int  # which page this is, from 1
    pages: int
    words: Mapping[str, str]  # what was asked, by parameter; what is unknown is left out
    choices: Mapping[str, Sequence[tuple[str, str]]]  # what each filter offers: value and label

    @property
    def query(self) -> str:
        """What a live part of this page asks again; "" for the page as it is without a question."""
        asked = urlencode(self.words)
        return f"?{asked}" if asked else ""

    def link(self, **change: str | int) -> str:
        """Return the address of this list with another page, order or filter; without a page the first."""
        words = {name: value for name, value in self.words.items() if name != "page"}
        asked = urlencode(words | {name: str(value) for name, value in change.items()})
        return f"{self.path}?{asked}" if asked else self.path

    def sorted_by(self, column: str) -> str:
        """Say how a column is sorted, as `aria-sort` does; "" where it is not."""
        asked = self.words.get("sort", "")
        return {column: "ascending", f"-{column}": "descending"}.get(asked, "")

    def sort_link(self, column: str) -> str:
        """Return the address that sorts by a column, or the other way round where it is sorted by it."""
        return self.link(sort=f"-{column}" if self.sorted_by(column) == "ascending" else column)


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """What can be asked of a list that is held in memory as a whole; unasked, rows stay as they came."""

    path: str
    columns: Mapping[str, Callable[[T], Any]]  # what each is sorted by
    filters: Mapping[str, Mapping[str, ListFilter[T]]]  # what each parameter may be
    text: Callable[[T], str]  # what is searched for the words of `text`

    def of(self, rows: Sequence[T], asked: Mapping[str, str]) -> Listed[T]:
        """Return the page of these rows that is asked for; a question that cannot be meant is left out."""
        words = self._known(asked)
        left = [row for row in rows if self._keeps(row, words)]
        if sort := words.get("sort", ""):
            left.sort(key=self.columns[sort.removeprefix("-")], reverse=sort.startswith("-"))
        pages = max(1, -(-len(left) // _ROWS_A_PAGE))
        page = min(int(words.get("page", "1")), pages)
        return Listed(
            path=self.path,
            rows=left[(page - 1) * _ROWS_A_PAGE : page * _ROWS_A_PAGE],
            matching=len(left),
            known=len(rows),
            page=page,
            pages=pages,
            words=words,
            choices={
                name: [("", "All"), *((value, one.label) for value, one in choices.items())]
                for name, choices in self.filters.items()
            },
        )

    def _known(self, asked: Mapping[str, str]) -> dict[str, str]:
        words = {name: asked[name] for name, choices in self.filters.items() if asked.get(name) in choices}
        if text := asked.get("text", "").strip()[:200]:
            words["text"] = text
        if asked.get("sort", "").removeprefix("-") in self.columns:
            words["sort"] = asked["sort"]
        if (page := asked.get("page", "")).isdecimal() and int(page[:6]) > 1:
            words["page"] = page[:6]
        return words

    def _keeps(self, row: T, words: Mapping[str, str]) -> bool:
        if words.get("text", "").lower() not in self.text(row).lower():
            return False
        return all(self.filters[name][words[name]].keeps(row) for name in self.filters if name in words)


@dataclass(frozen=True, slots=True)
class _ChartSpan:
    """A time the throughput is shown for: so many intervals of so many seconds, and what one is called."""

    label: str
    seconds: float
    count: int
    interval: str


_CHART_SPANS: Final = {
    "hour": _ChartSpan("Hour", 60, 60, "minute"),
    "day": _ChartSpan("Day", 900, 96, "quarter of an hour"),
    "week": _ChartSpan("Week", 7_200, 84, "two hours"),
}
_CHART_TIMES: Final = {"hour": "%H:%M", "day": "%H:%M", "week": "%a %d %b %H:%M"}


@dataclass(frozen=True, slots=True)
class _ThroughputChart:
    """Some time as a chart: its upper edge in addresses a second, and how many columns are cut there."""

    drawn: Markup
    top: float
    cut: int


@router.get("")
@router.get("/live")
async def overview(request: Request, _: Operator, span: str = "hour") -> Response:
    """Show the overview."""
    span = span if span in _CHART_SPANS else "hour"
    console, chosen = parts_of(request).operations.console, _CHART_SPANS[span]
    zone = zone_of(request)
    seen = await console.overview(today=midnight(now_of(request), zone))
    intervals = await console.throughput(seconds=chosen.seconds, count=chosen.count + 1)
    return render_live(
        request,
        "ops/overview.html",
        seen=seen,
        stats=seen.stats,
        states=[state.value for state in JobState],
        left=seen.left,
        span=span,
        spans=_CHART_SPANS,
        chart=_throughput_chart(intervals[:-1], span, zone),  # the one that runs would look like a slump
    )


def _throughput_chart(intervals: Sequence[Interval], span: str, zone: str) -> _ThroughputChart:
    """Draw what was done, on an axis that one spike does not set."""
    chosen = _CHART_SPANS[span]
    rates = [one.addresses / chosen.seconds for one in intervals]
    top = robust_top(rates)
    titles = [
        f"{there:{_CHART_TIMES[span]}} {abbreviation(there)}: "
        f"{counted(one.addresses, 'address')}, {counted(one.chunks, 'chunk')}"
        for one in intervals
        for there in [one.at.astimezone(zone_named(zone))]
    ]
    best = max(rates, default=0.0)
    label = (
        f"Addresses a second in each {chosen.interval} of the last {chosen.label.lower()},"
        f" at best {best:,.1f}"
    )
    cut = sum(rate > top for rate in rates)
    return _ThroughputChart(columns(rates, label=label, titles=titles, top=top), top, cut)


@router.get("/runbook")
async def runbook(request: Request, _: Operator) -> Response:
    """Show what every alarm means, and which ring."""
    ringing = {alarm.code for alarm in await parts_of(request).operations.console.alarms()}
    return render(request, "ops/runbook.html", rules=RULES, ringing=ringing)


_JOB_STATES: Final = {
    "open": "Open: not ended",
    "": "All",
    "ended": "Ended",
    BROKEN: "Failed through our fault",
    **{state.value: state.value.capitalize() for state in JobState},
}
_JOB_AGES: Final = {
    "": "Any age",
    "<1h": "Younger than an hour",
    "<24h": "Younger than a day",
    "<7d": "Younger than a week",
    ">1h": "Older than an hour",
    ">24h": "Older than a day",
    ">7d": "Older than a week",
}


class _ActionOnPage(NamedTuple):
    """What may be done to jobs: its name, what has been done then, and in which states one job offers it."""

    label: str
    done: str
    states: Collection[JobState] = ()


_OPEN_JOBS: Final = frozenset(JobState) - ENDED
_JOB_ACTIONS: Final[Mapping[JobAction, _ActionOnPage]] = {
    JobAction.PAUSE: _ActionOnPage("Pause", "paused", JobTransition.PAUSE.sources),
    JobAction.RESUME: _ActionOnPage("Resume", "resumed", JobTransition.RESUME.sources),
    JobAction.CANCEL: _ActionOnPage("Cancel", "cancelled", JobTransition.CANCEL.sources),
    JobAction.RETRY: _ActionOnPage("Retry what ended unknown", "started again", ENDED),
    JobAction.RESTART: _ActionOnPage("Restart what failed through our fault", "restarted", {JobState.FAILED}),
    JobAction.RAISE: _ActionOnPage("Priority: high", "raised", _OPEN_JOBS),
    JobAction.LEVEL: _ActionOnPage("Priority: normal", "set to normal"),
    JobAction.LOWER: _ActionOnPage("Priority: low", "lowered", _OPEN_JOBS),
}
_LAST_JOB_PAGE: Final = MOST_COUNTED // _ROWS_A_PAGE
_JOB_WORDS: Final = ("state", "account", "text", "age")


@router.get("/jobs")
async def jobs(request: Request, _: Operator) -> Response:
    """List jobs that match."""
    given = request.query_params
    words = {"state": "open", **{name: given[name] for name in _JOB_WORDS if name in given}}
    sort = given.get("sort", "")
    sort = sort if sort.removeprefix("-") in SEARCH_ORDERS else SEARCH_NEWEST
    number = _page_asked(given.get("page", ""))
    wanted = read_filter(words, now=now_of(request).timestamp())
    console = parts_of(request).operations.console
    page = await console.jobs(wanted, page=number, limit=_ROWS_A_PAGE, sort=sort)
    pages = max(1, -(-page.matching // _ROWS_A_PAGE))
    if number > pages:  # jobs that were here have ended meanwhile
        number = pages
        page = await console.jobs(wanted, page=number, limit=_ROWS_A_PAGE, sort=sort)
    listed = Listed(
        path="/ops/jobs",
        rows=page.jobs,
        matching=page.matching,
        known=page.matching,
        page=number,
        pages=pages,
        words={**words, "sort": sort},
        choices={},
    )
    return render(
        request,
        "ops/jobs.html",
        listed=listed,
        words=words,
        states=_JOB_STATES,
        ages=_JOB_AGES,
        actions=[(action.value, row.label) for action, row in _JOB_ACTIONS.items()],
        list_faults=LIST_FAULTS,
    )


def _page_asked(asked: str) -> int:
    return min(max(1, int(asked)), _LAST_JOB_PAGE) if asked.isdecimal() and len(asked) < 6 else 1


@router.post("/jobs")
async def act_on_jobs(request: Request, visitor: Operator, form: Form) -> Response:
    """Do something to every job that matches."""
    words = {name: text(form, name) for name in _JOB_WORDS}
    action = JobAction(choice(form, "action", _JOB_ACTIONS))
    wanted = read_filter(words, now=now_of(request).timestamp())
    done = await parts_of(request).operations.jobs.all_matching(visitor.email, action, wanted)
    kind = "good" if done.done or not done.refused else "bad"
    return see_other(f"/ops/jobs?{urlencode(words)}", _action_text(action, done), kind=kind)


@router.get("/jobs/{job_id}")
@router.get("/jobs/{job_id}/live")
async def job(request: Request, _: Operator, job_id: str) -> Response:
    """Show one job."""
    seen = await parts_of(request).operations.console.job(JobId(id_from(job_id)))
    state = seen.job.view.state
    return render_live(
        request,
        "ops/job.html",
        seen=seen,
        view=seen.job.view,
        lively=state not in ENDED,
        possible=[(action.value, row.label) for action, row in _JOB_ACTIONS.items() if state in row.states],
        strip=_chunk_strip(seen),
        audit=[audit_line(row) for row in seen.audit],
        timeline=timeline(seen.job.view, seen.history),
    )


@router.post("/jobs/{job_id}")
async def act_on_job(request: Request, visitor: Operator, job_id: str, form: Form) -> Response:
    """Do something to one job."""
    action = JobAction(choice(form, "action", _JOB_ACTIONS))
    found = JobId(id_from(job_id))
    await parts_of(request).operations.jobs.one(visitor.email, action, found)
    return see_other(f"/ops/jobs/{found}", f"The job was {_JOB_ACTIONS[action].done}.")


_SPAN_COLOURS: Final = (
    ("leased", "c-accent"),
    ("waiting", "c-risky"),
    ("ready", "c-idle"),
    ("cancelled", "c-none"),
    ("done", "c-valid"),
)
"""Which state colours a span of chunks: the first that occurs in it."""


def _chunk_strip(seen: JobDetails) -> object:
    colours = [next(colour for name, colour in _SPAN_COLOURS if getattr(span, name)) for span in seen.strip]
    label = f"{sum(span.done for span in seen.strip):,} of {counted(seen.job.view.chunks, 'chunk')} done"
    return cells(colours, label=label, titles=[_span_title(span) for span in seen.strip])


def _span_title(span: ChunkSpan) -> str:
    where = f"Chunk {span.first}" if span.first == span.last else f"Chunks {span.first} to {span.last}"
    counts = ", ".join(
        f"{count:,} {name}" for name, _ in reversed(_SPAN_COLOURS) if (count := getattr(span, name))
    )
    return f"{where}: {counts}"


def _action_text(action: JobAction, done: ActionResult) -> str:
    sentence = f"{counted(done.done, 'job was', 'jobs were')} {_JOB_ACTIONS[action].done}."
    if refused := sum(done.refused.values()):
        sentence += f" {refused:,} could not be: {', '.join(sorted(done.refused))}."
    return sentence


_DRAIN_ORDERS = {"drain": True, "undrain": False}

_WORKERS: Final[Listing[Worker]] = Listing(
    "/ops/workers",
    columns={
        "process": lambda one: (one.host, one.pid),
        "state": lambda one: one.state,
        "version": lambda one: one.version,
        "hand": lambda one: one.in_hand,
        "lag": lambda one: one.lag_s,
        "memory": lambda one: one.rss_bytes,
        "beat": lambda one: one.beat_age,
        "claim": lambda one: math.inf if one.claim_age is None else one.claim_age,
        "up": lambda one: one.up_s,
    },
    filters={
        "state": {
            "active": ListFilter("Active", lambda one: one.state == "active"),
            "draining": ListFilter("Draining or drained", lambda one: one.state in {"draining", "drained"}),
            "gone": ListFilter("Gone", lambda one: one.gone),
        },
        "health": {
            "port25": ListFilter("Port 25 closed", lambda one: one.health.port25 in {"closed", "away"}),
            "resolver": ListFilter("Resolver in doubt", lambda one: one.health.distrusted > 0),
            "disk": ListFilter("Disk nearly full", lambda one: is_low(one.health)),
            "store": ListFilter("Store fails", lambda one: bool(one.health.store)),
        },
    },
    text=lambda one: f"{one.host}:{one.pid} {one.version}",
)


@router.get("/workers")
@router.get("/workers/live")
async def workers(request: Request, _: Operator) -> Response:
    """List the worker processes."""
    console = parts_of(request).operations.console
    listed = _WORKERS.of(await console.workers(), request.query_params)
    return render_live(request, "ops/workers.html", listed=listed, sources=await console.sources())


@router.post("/workers")
async def drain(request: Request, visitor: Operator, form: Form) -> Response:
    """Let the worker of a process, all of a host, or all there are claim nothing more, or claim again."""
    on = _DRAIN_ORDERS[choice(form, "order", _DRAIN_ORDERS)]
    owner, host = text(form, "owner", most=300), text(form, "host", most=300)
    changed = await parts_of(request).operations.actions.drain(
        visitor.email,
        drain=on,
        owners=[owner] if owner else (),
        hosts=[host] if host else (),
        everywhere=not owner and not host,
    )
    what = "will claim nothing more" if on else "will claim again"
    count = f"{len(changed)} {'process' if len(changed) == 1 else 'processes'}"
    return see_other("/ops/workers", f"{count} {what} from the next heartbeat on.")


_LEASES: Final[Listing[Lease]] = Listing(
    "/ops/leases",
    columns={
        "job": lambda one: one.job_name.lower(),
        "owner": lambda one: one.owner,
        "addresses": lambda one: one.addresses,
        "attempt": lambda one: one.attempt,
        "held": lambda one: one.held_s or 0.0,
        "ends": lambda one: one.left_s,
    },
    filters={
        "state": {
            "expired": ListFilter("Ran out", lambda one: one.left_s < 0),
            "held": ListFilter("Held", lambda one: one.left_s >= 0),
        },
        "work": {
            "chunk": ListFilter("Chunks", lambda one: one.n is not None),
            "step": ListFilter("Reading and finishing", lambda one: one.n is None),
        },
    },
    text=lambda one: f"{one.job_name} {one.account} {one.owner} {one.job_id}",
)


@router.get("/leases")
@router.get("/leases/live")
async def leases(request: Request, _: Operator) -> Response:
    """List what is leased."""
    found = await parts_of(request).operations.console.leases()
    return render_live(request, "ops/leases.html", listed=_LEASES.of(found, request.query_params))


@router.post("/leases")
async def take_back(request: Request, visitor: Operator, form: Form) -> Response:
    """Take one lease back, or all that have run out."""
    token = text(form, "token")
    tokens = [id_from(token, "lease_not_found", "There is no such lease.")] if token else None
    taken = await parts_of(request).operations.actions.take_back(visitor.email, tokens)
    if not taken:
        return see_other("/ops/leases", "There was nothing to take back any more.")
    what = "lease was" if taken == 1 else "leases were"
    return see_other("/ops/leases", f"{taken} {what} taken back; the next claim gets the work.")


@router.get("/broker")
@router.get("/broker/live")
async def broker(request: Request, _: Operator) -> Response:
    """Show what lies in the broker."""
    return render_live(request, "ops/broker.html", counts=await parts_of(request).operations.reader.broker())


@router.post("/broker")
async def wake(request: Request, visitor: Operator, _form: Form) -> Response:
    """Wake every worker."""
    workers = await parts_of(request).operations.console.workers()
    count = max(1, sum(worker.state == "active" for worker in workers))
    await parts_of(request).operations.actions.wake(visitor.email, count)
    return see_other("/ops/broker", f"{count} wake-ups were sent.")


_FAILING_CHUNKS: Final[Listing[FailingChunk]] = Listing(
    "/ops/failing-chunks",
    columns={
        "job": lambda one: one.job_name.lower(),
        "attempts": lambda one: one.attempt,
        "addresses": lambda one: one.addresses,
        "next": lambda one: one.ready_at,
    },
    filters={
        "state": {
            "open": ListFilter("Open", lambda one: one.state in OPEN_CHUNK),
            "ended": ListFilter("Ended", lambda one: one.state not in OPEN_CHUNK),
        }
    },
    text=lambda one: f"{one.job_name} {one.account} {one.last_error} {one.job_id}",
)


@router.get("/failing-chunks")
async def failing_chunks(request: Request, _: Operator) -> Response:
    """List chunks that were tried again and again."""
    chunks = await parts_of(request).operations.console.failing_chunks()
    listed = _FAILING_CHUNKS.of(chunks, request.query_params)
    return render(request, "ops/failing_chunks.html", listed=listed, max_attempts=MAX_ATTEMPTS)


@router.get("/poison")
async def old_failing_chunks(_: Operator) -> Response:
    """Lead on who comes by the old name, which goes with the next release."""
    return RedirectResponse("/ops/failing-chunks", 308)


@router.post("/failing-chunks")
async def start_afresh(request: Request, visitor: Operator, form: Form) -> Response:
    """Let one be tried now, with all its attempts."""
    job_id, n = id_from(text(form, "job")), number_from(text(form, "n"))
    await parts_of(request).operations.actions.start_afresh(visitor.email, job_id, n)
    return see_other("/ops/failing-chunks", f"Chunk {n} is tried again now, with all its attempts.")


_HOLDS: Final = {
    "900": "15 minutes",
    "3600": "1 hour",
    "14400": "4 hours",
    "86400": "1 day",
    "0": "Until someone lets go",
}
_THROTTLES: Final[Listing[ThrottleRow]] = Listing(
    "/ops/throttles",
    columns={
        "provider": lambda row: (row.learned.provider, row.learned.source),
        "state": lambda row: row.state,
        "rate": lambda row: row.rate,
        "sessions": lambda row: row.learned.in_use,
        "waiting": lambda row: row.waiting,
        "day": lambda row: row.learned.sessions,
    },
    filters={
        "state": {
            "held": ListFilter("Held", lambda row: row.state == "held"),
            "refused": ListFilter("Refuses us", lambda row: row.state == "refused"),
            "closed": ListFilter("Left alone", lambda row: row.state == "closed"),
            "slowed": ListFilter("Slowed", lambda row: row.state == "slowed"),
            "open": ListFilter("Open", lambda row: row.state == "open"),
            "waiting": ListFilter("With addresses waiting", lambda row: row.waiting > 0),
            "edited": ListFilter("Changed by operators", lambda row: row.edit is not None),
        }
    },
    text=lambda row: f"{row.learned.provider} {row.learned.source or 'default route'}",
)


@router.get("/throttles")
@router.get("/throttles/live")
async def throttles(request: Request, _: Operator) -> Response:
    """List the providers that are asked most, wait, or were edited."""
    rows = await parts_of(request).operations.console.throttles()
    listed = None if rows is None else _THROTTLES.of(rows, request.query_params)
    mixes = [_session_mix(row) for row in listed.rows] if listed else []
    return render_live(request, "ops/throttles.html", listed=listed, mixes=mixes)


@router.get("/throttles/edit")
async def throttle(request: Request, _: Operator, provider: str = "", source: str = ANY_SOURCE) -> Response:
    """Show one provider with everything that can be changed."""
    row = await parts_of(request).operations.console.throttle(provider, source)
    return render(
        request,
        "ops/throttle.html",
        row=row,
        sources=[one.source.identity for one in await parts_of(request).operations.console.sources()],
        holds=_HOLDS,
        mix=_session_mix(row),
        meaning=_SESSION_MEANING,
    )


@router.post("/throttles/limits")
async def set_limits(request: Request, visitor: Operator, form: Form) -> Response:
    """Change rate and sessions."""
    provider, source = _throttle_in(form)
    limits = ProviderLimits(
        _limit_in(form, "rate", float, "The rate must be a number of recipients per second."),
        _limit_in(form, "sessions", int, "The number of sessions must be a whole number."),
        text(form, "note"),
    )
    await parts_of(request).operations.throttles.edit_limits(visitor.email, provider, source, limits)
    return _see_throttle(provider, source, "Saved. The limits apply in every process within seconds.")


@router.post("/throttles/hold")
async def hold_throttle(request: Request, visitor: Operator, form: Form) -> Response:
    """Ask a provider nothing more."""
    provider, source = _throttle_in(form)
    seconds = float(choice(form, "seconds", _HOLDS))
    await parts_of(request).operations.throttles.hold(
        visitor.email, provider, source, seconds=seconds, note=text(form, "note")
    )
    return _see_throttle(provider, source, "Held. Open sessions may finish; no new one begins.")


@router.post("/throttles/let-go")
async def let_go_throttle(request: Request, visitor: Operator, form: Form) -> Response:
    """End a hold."""
    provider, source = _throttle_in(form)
    held = await parts_of(request).operations.throttles.let_go(visitor.email, provider, source)
    message = "Let go: what waited is picked up again now." if held else "It was not held."
    return _see_throttle(provider, source, message)


@router.post("/throttles/reset")
async def reset_throttle(request: Request, visitor: Operator, form: Form) -> Response:
    """Forget what was learned."""
    provider, source = _throttle_in(form)
    count = await parts_of(request).operations.throttles.reset(visitor.email, provider, source)
    message = "Forgotten: it is asked at its full rate." if count else "Nothing was learned."
    return _see_throttle(provider, source, message)


_SESSION_COLOURS: Final = {
    SessionOutcome.CLEAN: "c-valid",
    SessionOutcome.RATE: "c-risky",
    SessionOutcome.BLOCKED: "c-invalid",
    SessionOutcome.FAILED: "c-idle",
}
_SESSION_MEANING: Final = {
    SessionOutcome.CLEAN: "went well",
    SessionOutcome.RATE: "told we are too fast",
    SessionOutcome.BLOCKED: "refused us",
    SessionOutcome.FAILED: "failed to connect",
}


def _session_mix(row: ThrottleRow) -> Markup:
    counts = row.learned.mix
    mix = ", ".join(f"{count:,} {_SESSION_MEANING[outcome]}" for outcome, count in counts.items())
    parts = {colour: counts.get(outcome, 0) for outcome, colour in _SESSION_COLOURS.items()}
    return stack(parts, label=f"Sessions: {mix}" if mix else "No session yet")


def _throttle_in(form: FormData) -> tuple[str, str]:
    return text(form, "provider", most=253), text(form, "source")


def _limit_in(form: FormData, name: str, read: Callable[[str], N], wrong: str) -> N | None:
    """Return a limit, None where none is typed."""
    given = text(form, name)
    try:
        return read(given) if given else None
    except ValueError:
        raise MailsiftError("bad_limit", wrong) from None


def _see_throttle(provider: str, source: str, message: str) -> Response:
    asked = urlencode({"provider": provider, "source": source})
    return see_other(f"/ops/throttles/edit?{asked}", message)


@router.get("/facts")
async def facts(request: Request, _: Operator, domain: str = "") -> Response:
    """Look up a domain."""
    found = await parts_of(request).operations.console.facts(domain[:300]) if domain else None
    return render(request, "ops/cache.html", asked=domain[:300], found=found, at=_time_of)


@router.post("/facts")
async def forget_facts(request: Request, visitor: Operator, form: Form) -> Response:
    """Forget a domain."""
    domain = text(form, "domain", most=300)
    gone = await parts_of(request).operations.throttles.forget(visitor.email, domain)
    message = (
        "Forgotten: it is looked up again when it is next met." if gone else "There was nothing to forget."
    )
    return see_other(f"/ops/facts?{urlencode({'domain': domain})}", message)


def _time_of(seconds: float) -> datetime | None:
    return utc_datetime(seconds) if seconds else None


_LEDGER_DAYS: Final = {"1": "1 day", "7": "7 days", "30": "30 days", "90": "90 days"}
_LEDGER_WORDS: Final = {
    LedgerKind.RATE: "too fast",
    LedgerKind.REPUTATION: "listed or a bad name",
    LedgerKind.IDENTITY: "our name or sender",
    LedgerKind.POLICY: "another reason",
}


@router.get("/ledger")
async def ledger(request: Request, _: Operator, days: str = "1") -> Response:
    """Show the ledger of some days."""
    span = days if days in _LEDGER_DAYS else "1"
    rows = await parts_of(request).operations.console.ledger(hours=24 * int(span))
    return render(
        request,
        "ops/ledger.html",
        rows=rows,
        span=span,
        spans=_LEDGER_DAYS,
        kinds=LedgerKind,
        meaning=_LEDGER_WORDS,
    )


@router.get("/opt-outs")
async def opt_outs(request: Request, _: Operator) -> Response:
    """Show who opted out."""
    return render(request, "ops/opt_outs.html", rows=await parts_of(request).operations.throttles.opt_outs())


@router.post("/opt-outs/add")
async def opt_out(request: Request, visitor: Operator, form: Form) -> Response:
    """Ask a domain nothing more."""
    domain = await parts_of(request).operations.throttles.opt_out(
        visitor.email, text(form, "domain", most=300), note=text(form, "note")
    )
    return see_other("/ops/opt-outs", f"{domain} and what is below it is not asked any more.")


@router.post("/opt-outs/remove")
async def opt_in(request: Request, visitor: Operator, form: Form) -> Response:
    """Let a domain be asked again."""
    domain = text(form, "domain", most=300)
    gone = await parts_of(request).operations.throttles.opt_in(visitor.email, domain)
    return see_other("/ops/opt-outs", f"{domain} may be asked again." if gone else "It had not opted out.")


_NEVER: Final = datetime.min.replace(tzinfo=UTC)

_SCHEDULES: Final[Listing[ScheduleRow]] = Listing(
    "/ops/schedules",
    columns={
        "schedule": lambda one: one.name.lower(),
        "account": lambda one: one.account,
        "next": lambda one: one.next_run_at,
        "last": lambda one: one.last_run_at or _NEVER,
        "late": lambda one: one.late_s,
    },
    filters={
        "state": {
            "late": ListFilter("Late", lambda one: one.late_s > SCHEDULE_SECONDS),
            "trouble": ListFilter("With trouble", lambda one: bool(one.last_error)),
            "on": ListFilter("On", lambda one: one.enabled),
            "paused": ListFilter("Paused", lambda one: not one.enabled),
        }
    },
    text=lambda one: f"{one.name} {one.account} {one.id}",
)


@router.get("/schedules")
async def schedules(request: Request, _: Operator) -> Response:
    """List the schedules of all accounts."""
    found = await parts_of(request).operations.console.schedules()
    listed = _SCHEDULES.of(found, request.query_params)
    return render(request, "ops/schedules.html", listed=listed, late_from=SCHEDULE_SECONDS)


_REPLAY_SPANS: Final = {"24": "of 1 day", "72": "of 3 days", "720": "of 30 days"}
_FAILING_ENDPOINT: Final[ListFilter[EndpointRow]] = ListFilter(
    "Failing", lambda one: one.enabled and one.failures > 0
)
_ENDPOINTS: Final[Listing[EndpointRow]] = Listing(
    "/ops/deliveries",
    columns={
        "endpoint": lambda one: one.url,
        "account": lambda one: one.account,
        "since": lambda one: one.failing_since or _NEVER,
        "pending": lambda one: one.pending,
        "given": lambda one: one.given_up,
    },
    filters={
        "state": {
            "failing": _FAILING_ENDPOINT,
            "disabled": ListFilter("Disabled", lambda one: not one.enabled),
            "given-up": ListFilter("With deliveries given up", lambda one: one.given_up > 0),
            "pending": ListFilter("With deliveries pending", lambda one: one.pending > 0),
        }
    },
    text=lambda one: f"{one.url} {one.account}",
)


@router.get("/deliveries")
async def deliveries(request: Request, _: Operator) -> Response:
    """Show how the deliveries of all accounts stand."""
    outbox, endpoints = await parts_of(request).operations.console.deliveries()
    listed = _ENDPOINTS.of(endpoints, request.query_params)
    failing = sum(map(_FAILING_ENDPOINT.keeps, endpoints))
    return render(
        request, "ops/deliveries.html", outbox=outbox, listed=listed, failing=failing, spans=_REPLAY_SPANS
    )


@router.post("/deliveries/{endpoint_id}")
async def replay_deliveries(request: Request, visitor: Operator, endpoint_id: str, form: Form) -> Response:
    """Send what was given up again."""
    hours = float(choice(form, "hours", _REPLAY_SPANS))
    found = id_from(endpoint_id, "webhook_not_found", "There is no such webhook.")
    count = await parts_of(request).operations.actions.replay(visitor.email, found, hours=hours)
    return see_other("/ops/deliveries", f"{counted(count, 'delivery is', 'deliveries are')} sent again.")


_AUDIT_LINES = 100


@router.get("/audit")
async def audit(request: Request, _: Operator, before: str = "", text: str = "") -> Response:
    """List what was done."""
    last, words = number_from(before) if before else None, text.replace("\0", "").strip()[:200]
    console = parts_of(request).operations.console
    lines = await console.audit(limit=_AUDIT_LINES + 1, before=last, words=words)
    older = {"text": words, "before": lines[_AUDIT_LINES - 1].id} if len(lines) > _AUDIT_LINES else {}
    return render(
        request,
        "ops/audit.html",
        lines=[(row, audit_line(row)) for row in lines[:_AUDIT_LINES]],
        words=words,
        more=with_query("/ops/audit", older) if older else "",
        first=with_query("/ops/audit", {"text": words}) if before else "",
    )


@router.get("/accuracy")
async def accuracy(
    request: Request, _: Operator, by: Annotated[GroupBy, Query()] = GroupBy.RESULT
) -> Response:
    """Show how the verdicts of the last 90 days held, of all accounts together."""
    return render(request, "ops/accuracy.html", **await accuracy_context(request, None, by))


@router.get("/accuracy/export.csv")
async def export_accuracy(request: Request, _: Operator) -> Response:
    """Return all numbers as CSV."""
    return await accuracy_file(request, None)
