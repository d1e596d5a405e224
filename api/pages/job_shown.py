"""A job as pages show it: what it does, how fast, what it waits for, and what may be done with it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from markupsafe import Markup

from api.pages.filters import duration, number, percent
from api.pages.mix_chart import arcs, bar
from api.pages.words import DOING, MODES, WARNINGS, waits
from api.v1.shown import shown
from jobs.states import Step, sources
from jobs.views import TERMINAL, JobState, JobView

_RERUN: Final = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})


@dataclass(frozen=True, slots=True)
class JobOnPage:
    """What templates say of a job beside its view.

    Attributes:
        view: the job.
        doing: its state in words.
        mode: name of the mode.
        ended: nothing more will happen.
        stage: while this stays, only numbers on the page change.
        percent, rate, eta, took: of its rows, as text; "" when nothing can be said.
        waits: one sentence for everything it waits for.
        warning: what makes its verdicts poorer than they could be, "" when nothing does.
        may: the names of what may be done with it now.
        bar: the mix of its verdicts as SVG.
    """

    view: JobView
    doing: str
    mode: str
    ended: bool
    stage: str
    percent: str
    rate: str
    eta: str
    took: str
    waits: tuple[str, ...]
    warning: str
    may: frozenset[str]
    bar: Markup


def job_on_page(view: JobView, now: datetime) -> JobOnPage:
    """Return a job as pages show it."""
    told = shown(view, now.timestamp())
    ended = view.state in TERMINAL
    return JobOnPage(
        view=view,
        doing=DOING[view.state],
        mode=MODES[view.mode][0],
        ended=ended,
        stage=f"{view.state.value} with verdicts" if view.processed else view.state.value,
        percent=percent(view.processed, view.total) if view.total else "",
        rate=_rate(told["rate"]),
        eta=_eta(view, told["eta_seconds"]),
        took=duration((view.finished_at - view.started_at).total_seconds())
        if view.finished_at and view.started_at
        else "",
        waits=tuple(waits(view.waiting)),
        warning=WARNINGS.get(view.warning, view.warning),
        may=_may(view),
        bar=bar(view.valid, view.invalid, view.risky),
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
        "waits": "\n".join(job.waits),
        **{f"{name}_arc": dashes for name, dashes in arcs(view.valid, view.invalid, view.risky).items()},
        **{name: number(getattr(view, name)) for name in ("valid", "risky", "invalid")},
        **{
            f"{name}_share": percent(getattr(view, name), view.processed)
            for name in ("valid", "risky", "invalid")
        },
    }


def _rate(rows: float) -> str:
    return f"{number(rows if rows < 10 else round(rows))} rows/s" if rows > 0 else ""


def _eta(view: JobView, seconds: float | None) -> str:
    if view.state in TERMINAL or seconds is None:
        return ""
    if view.state is JobState.FINALIZING:
        return "in a moment"
    return duration(seconds)


def _may(view: JobView) -> frozenset[str]:
    able = {
        "pause": view.state in sources(Step.PAUSE),
        "resume": view.state in sources(Step.RESUME),
        "cancel": view.state in sources(Step.CANCEL),
        "rerun": view.state in _RERUN,
        "retry": view.state in _RERUN and view.risky > 0,
        "promote": view.state in _RERUN and view.options.preview > 0,
        "delete": view.state in TERMINAL,
        "schedule": view.state is JobState.COMPLETED,
    }
    return frozenset(name for name, may in able.items() if may)
