"""/ops: does it flow; and the deliveries, the schedules and the audit log of all accounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from mailsift.api.pages.charts import columns, robust_top
from mailsift.api.pages.forms import Form, choice, id_from, number_from
from mailsift.api.pages.ops.listing import ListFilter, Listing
from mailsift.api.pages.page import now_of, render, render_live, see, with_query, zone_of
from mailsift.api.pages.visitor import Operator
from mailsift.api.parts import parts_of
from mailsift.events.audit import audit_line
from mailsift.jobs.admin.alarms import RULES, SCHEDULE_SECONDS
from mailsift.pipeline.wording import counted
from mailsift.pipeline.zones import abbreviation, midnight, zone_named
from mailsift.storage.sql.stats import EndpointRow, Interval, ScheduleRow
from mailsift.storage.states import JobState

router = APIRouter(prefix="/ops", include_in_schema=False)
_AUDIT_LINES = 100
_NEVER: Final = datetime.min.replace(tzinfo=UTC)
SPANS: Final = {"24": "of 1 day", "72": "of 3 days", "720": "of 30 days"}


@dataclass(frozen=True, slots=True)
class ChartSpan:
    """A time the throughput is shown for: so many intervals of so many seconds, and what one is called."""

    label: str
    seconds: float
    count: int
    interval: str


THROUGHPUT: Final = {
    "hour": ChartSpan("Hour", 60, 60, "minute"),
    "day": ChartSpan("Day", 900, 96, "quarter of an hour"),
    "week": ChartSpan("Week", 7_200, 84, "two hours"),
}
_TIMES: Final = {"hour": "%H:%M", "day": "%H:%M", "week": "%a %d %b %H:%M"}


@dataclass(frozen=True, slots=True)
class Throughput:
    """Some time as a chart: its upper edge in addresses a second, and how many columns are cut there."""

    drawn: Markup
    top: float
    cut: int


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
_FAILING: Final[ListFilter[EndpointRow]] = ListFilter("Failing", lambda one: one.enabled and one.failures > 0)
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
            "failing": _FAILING,
            "disabled": ListFilter("Disabled", lambda one: not one.enabled),
            "given-up": ListFilter("With deliveries given up", lambda one: one.given_up > 0),
            "pending": ListFilter("With deliveries pending", lambda one: one.pending > 0),
        }
    },
    text=lambda one: f"{one.url} {one.account}",
)


@router.get("")
@router.get("/live")
async def overview(request: Request, _: Operator, span: str = "hour") -> Response:
    """Show the overview."""
    span = span if span in THROUGHPUT else "hour"
    console, chosen = parts_of(request).operations.console, THROUGHPUT[span]
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
        spans=THROUGHPUT,
        chart=throughput_chart(intervals[:-1], span, zone),  # the one that runs would look like a slump
    )


def throughput_chart(intervals: Sequence[Interval], span: str, zone: str) -> Throughput:
    """Draw what was done, on an axis that one spike does not set."""
    chosen = THROUGHPUT[span]
    rates = [one.addresses / chosen.seconds for one in intervals]
    top = robust_top(rates)
    titles = [
        f"{there:{_TIMES[span]}} {abbreviation(there)}: "
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
    return Throughput(columns(rates, label=label, titles=titles, top=top), top, cut)


@router.get("/runbook")
async def runbook(request: Request, _: Operator) -> Response:
    """Show what every alarm means, and which ring."""
    ringing = {alarm.code for alarm in await parts_of(request).operations.console.alarms()}
    return render(request, "ops/runbook.html", rules=RULES, ringing=ringing)


@router.get("/schedules")
async def schedules(request: Request, _: Operator) -> Response:
    """List the schedules of all accounts."""
    found = await parts_of(request).operations.console.schedules()
    listed = _SCHEDULES.of(found, request.query_params)
    return render(request, "ops/schedules.html", listed=listed, late_from=SCHEDULE_SECONDS)


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


@router.get("/deliveries")
async def deliveries(request: Request, _: Operator) -> Response:
    """Show how the deliveries of all accounts stand."""
    outbox, endpoints = await parts_of(request).operations.console.deliveries()
    listed = _ENDPOINTS.of(endpoints, request.query_params)
    failing = sum(map(_FAILING.keeps, endpoints))
    return render(request, "ops/deliveries.html", outbox=outbox, listed=listed, failing=failing, spans=SPANS)


@router.post("/deliveries/{endpoint_id}")
async def replay(request: Request, visitor: Operator, endpoint_id: str, form: Form) -> Response:
    """Send what was given up again."""
    hours = float(choice(form, "hours", SPANS))
    found = id_from(endpoint_id, "webhook_not_found", "There is no such webhook.")
    count = await parts_of(request).operations.actions.replay(visitor.email, found, hours=hours)
    return see("/ops/deliveries", f"{counted(count, 'delivery is', 'deliveries are')} sent again.")
