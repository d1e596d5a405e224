"""/ops/jobs: the jobs of all accounts, and what is done to one or to all that match."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response

from mailsift.api.pages.charts import cells
from mailsift.api.pages.forms import Form, choice, id_from, text
from mailsift.api.pages.ops.listing import ROWS_A_PAGE, Listed
from mailsift.api.pages.page import now_of, render, render_live, see
from mailsift.api.pages.visitor import Operator
from mailsift.api.parts import parts_of
from mailsift.events.audit import audit_line
from mailsift.jobs.admin.actions import ActionResult, JobAction
from mailsift.jobs.admin.console import BROKEN, MOST_COUNTED, JobDetails, read_filter, timeline
from mailsift.jobs.intake.models import LIST_FAULTS
from mailsift.jobs.views import JobId
from mailsift.pipeline.wording import counted
from mailsift.storage.sql.jobs import SEARCH_NEWEST, SEARCH_ORDERS
from mailsift.storage.sql.stats import ChunkSpan
from mailsift.storage.states import ENDED, JobState, JobTransition

router = APIRouter(prefix="/ops/jobs", include_in_schema=False)

STATES: Final = {
    "open": "Open: not ended",
    "": "All",
    "ended": "Ended",
    BROKEN: "Failed through our fault",
    **{state.value: state.value.capitalize() for state in JobState},
}
AGES: Final = {
    "": "Any age",
    "<1h": "Younger than an hour",
    "<24h": "Younger than a day",
    "<7d": "Younger than a week",
    ">1h": "Older than an hour",
    ">24h": "Older than a day",
    ">7d": "Older than a week",
}


class ActionOnPage(NamedTuple):
    """What may be done to jobs: its name, what has been done then, and in which states one job offers it."""

    label: str
    done: str
    states: Collection[JobState] = ()


_OPEN: Final = frozenset(JobState) - ENDED
ACTIONS: Final[Mapping[JobAction, ActionOnPage]] = {
    JobAction.PAUSE: ActionOnPage("Pause", "paused", JobTransition.PAUSE.sources),
    JobAction.RESUME: ActionOnPage("Resume", "resumed", JobTransition.RESUME.sources),
    JobAction.CANCEL: ActionOnPage("Cancel", "cancelled", JobTransition.CANCEL.sources),
    JobAction.RETRY: ActionOnPage("Retry what ended unknown", "started again", ENDED),
    JobAction.RESTART: ActionOnPage("Restart what failed through our fault", "restarted", {JobState.FAILED}),
    JobAction.RAISE: ActionOnPage("Priority: high", "raised", _OPEN),
    JobAction.LEVEL: ActionOnPage("Priority: normal", "set to normal"),
    JobAction.LOWER: ActionOnPage("Priority: low", "lowered", _OPEN),
}
_LAST_PAGE: Final = MOST_COUNTED // ROWS_A_PAGE
_WORDS: Final = ("state", "account", "text", "age")
_CELL: Final = (
    ("leased", "c-accent"),
    ("waiting", "c-risky"),
    ("ready", "c-idle"),
    ("cancelled", "c-none"),
    ("done", "c-valid"),
)
"""Which state colours a span of chunks: the first that occurs in it."""


@router.get("")
async def jobs(request: Request, _: Operator) -> Response:
    """List jobs that match."""
    given = request.query_params
    words = {"state": "open", **{name: given[name] for name in _WORDS if name in given}}
    sort = given.get("sort", "")
    sort = sort if sort.removeprefix("-") in SEARCH_ORDERS else SEARCH_NEWEST
    number = _page_number(given.get("page", ""))
    wanted = read_filter(words, now=now_of(request).timestamp())
    console = parts_of(request).operations.console
    page = await console.jobs(wanted, page=number, limit=ROWS_A_PAGE, sort=sort)
    pages = max(1, -(-page.matching // ROWS_A_PAGE))
    if number > pages:  # jobs that were here have ended meanwhile
        number = pages
        page = await console.jobs(wanted, page=number, limit=ROWS_A_PAGE, sort=sort)
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
        states=STATES,
        ages=AGES,
        actions=[(action.value, row.label) for action, row in ACTIONS.items()],
        list_faults=LIST_FAULTS,
    )


def _page_number(asked: str) -> int:
    return min(max(1, int(asked)), _LAST_PAGE) if asked.isdecimal() and len(asked) < 6 else 1


@router.post("")
async def apply(request: Request, visitor: Operator, form: Form) -> Response:
    """Do something to every job that matches."""
    words = {name: text(form, name) for name in _WORDS}
    action = JobAction(choice(form, "action", ACTIONS))
    wanted = read_filter(words, now=now_of(request).timestamp())
    done = await parts_of(request).operations.jobs.all_matching(visitor.email, action, wanted)
    kind = "good" if done.done or not done.refused else "bad"
    return see(f"/ops/jobs?{urlencode(words)}", _outcome_text(action, done), kind=kind)


@router.get("/{job_id}")
@router.get("/{job_id}/live")
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
        possible=[(action.value, row.label) for action, row in ACTIONS.items() if state in row.states],
        strip=_strip(seen),
        audit=[audit_line(row) for row in seen.audit],
        timeline=timeline(seen.job.view, seen.history),
    )


@router.post("/{job_id}")
async def act(request: Request, visitor: Operator, job_id: str, form: Form) -> Response:
    """Do something to one job."""
    action = JobAction(choice(form, "action", ACTIONS))
    found = JobId(id_from(job_id))
    await parts_of(request).operations.jobs.one(visitor.email, action, found)
    return see(f"/ops/jobs/{found}", f"The job was {ACTIONS[action].done}.")


def _strip(seen: JobDetails) -> object:
    colours = [next(colour for name, colour in _CELL if getattr(span, name)) for span in seen.strip]
    label = f"{sum(span.done for span in seen.strip):,} of {counted(seen.job.view.chunks, 'chunk')} done"
    return cells(colours, label=label, titles=[_title(span) for span in seen.strip])


def _title(span: ChunkSpan) -> str:
    where = f"Chunk {span.first}" if span.first == span.last else f"Chunks {span.first} to {span.last}"
    counts = ", ".join(f"{count:,} {name}" for name, _ in reversed(_CELL) if (count := getattr(span, name)))
    return f"{where}: {counts}"


def _outcome_text(action: JobAction, done: ActionResult) -> str:
    sentence = f"{counted(done.done, 'job was', 'jobs were')} {ACTIONS[action].done}."
    if refused := sum(done.refused.values()):
        sentence += f" {refused:,} could not be: {', '.join(sorted(done.refused))}."
    return sentence
