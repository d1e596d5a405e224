"""/ops: does it flow; and the deliveries, the schedules and the audit log of all accounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from mailsift.api.pages.charts import columns, nice_top
from mailsift.api.pages.forms import choice, id_from, number_from, read_form
from mailsift.api.pages.page import render, render_live, see
from mailsift.api.pages.visitor import Operator
from mailsift.api.pages.words import audit_line
from mailsift.api.parts import parts_of
from mailsift.storage.sql.stats import Minute

router = APIRouter(prefix="/ops", include_in_schema=False)
_AUDIT_LINES = 100
SPANS: Final = {"24": "of 1 day", "72": "of 3 days", "720": "of 30 days"}


@dataclass(frozen=True, slots=True)
class Throughput:
    """The last hour as a chart: its upper edge in addresses a second, and the best minute."""

    drawn: Markup
    top: float
    best: float


@router.get("")
@router.get("/live")
async def overview(request: Request, _: Operator) -> Response:
    """Show the overview."""
    seen = await parts_of(request).operations.console.overview()
    return render_live(
        request,
        "ops/overview",
        seen=seen,
        stats=seen.stats,
        left=seen.left,
        chart=_chart(seen.stats.minutes[:-1]),  # the minute that runs would look like a slump
    )


def _chart(minutes: Sequence[Minute]) -> Throughput:
    rates = [one.addresses / 60 for one in minutes]
    best = max(rates, default=0.0)
    top = nice_top(best)
    titles = [
        f"{one.minute:%H:%M} UTC: {one.addresses:,} addresses, {one.chunks:,} chunks" for one in minutes
    ]
    label = f"Addresses a second in each of the last {len(minutes)} minutes, at best {best:,.1f}"
    return Throughput(columns(rates, label=label, titles=titles, top=top), top, best)


@router.get("/schedules")
async def schedules(request: Request, _: Operator) -> Response:
    """List the schedules of all accounts."""
    return render(
        request, "ops/schedules.html", schedules=await parts_of(request).operations.console.schedules()
    )


@router.get("/audit")
async def audit(request: Request, _: Operator, before: str = "") -> Response:
    """List what was done."""
    last = number_from(before) if before else None
    lines = await parts_of(request).operations.console.audit(limit=_AUDIT_LINES + 1, before=last)
    more = f"/ops/audit?before={lines[_AUDIT_LINES - 1].id}" if len(lines) > _AUDIT_LINES else ""
    return render(
        request,
        "ops/audit.html",
        lines=[(row, audit_line(row)) for row in lines[:_AUDIT_LINES]],
        more=more,
        first="/ops/audit" if before else "",
    )


@router.get("/deliveries")
async def deliveries(request: Request, _: Operator) -> Response:
    """Show how the deliveries of all accounts stand."""
    outbox, endpoints = await parts_of(request).operations.console.deliveries()
    return render(request, "ops/deliveries.html", outbox=outbox, endpoints=endpoints, spans=SPANS)


@router.post("/deliveries/{endpoint_id}")
async def replay(request: Request, visitor: Operator, endpoint_id: str) -> Response:
    """Send what was given up again."""
    hours = float(choice(await read_form(request), "hours", SPANS))
    found = id_from(endpoint_id, "webhook_not_found")
    count = await parts_of(request).operations.actions.replay(visitor.email, found, hours=hours)
    what = "delivery is" if count == 1 else "deliveries are"
    return see("/ops/deliveries", f"{count:,} {what} sent again.")
