"""/ops: does it flow, and if not, why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from api.pages.charts import columns, nice_top
from api.pages.ops.entrance import Someone, desk_of
from api.pages.page import render
from jobs.operations.looks import Overview
from storage.throughput_rows import Minute

router = APIRouter(prefix="/ops", include_in_schema=False)

WHERE: Final = {
    "no_workers": "/ops/workers",
    "ready_too_long": "/ops/workers",
    "worker_idle": "/ops/workers",
    "worker_gone": "/ops/workers",
    "loop_lag": "/ops/workers",
    "sweep_late": "/ops/workers",
    "leases_expire": "/ops/leases",
    "counter_drift": "/ops/jobs?state=open",
    "redis_gone": "/ops/broker",
    "broker_stranded": "/ops/broker",
    "deliveries_late": "/ops/deliveries",
    "schedules_late": "/ops/schedules",
    "provider_closed": "/ops/throttles",
}
"""The page where an alarm is looked into."""


@dataclass(frozen=True, slots=True)
class Throughput:
    """The last hour as a chart: its upper edge in addresses a second, and the best minute."""

    drawn: Markup
    top: float
    best: float


@router.get("")
async def overview(request: Request, _: Someone) -> Response:
    """Show the overview."""
    return render(request, "ops/overview.html", **_context(await desk_of(request).console.overview()))


@router.get("/live")
async def live(request: Request, _: Someone) -> Response:
    """Return what changes on it."""
    seen = await desk_of(request).console.overview()
    return render(request, "ops/overview_live.html", **_context(seen))


def _context(seen: Overview) -> dict[str, Any]:
    live = seen.numbers.live
    slots = sum(worker.slots for worker in live)
    return {
        "seen": seen,
        "numbers": seen.numbers,
        "where": WHERE,
        "chart": _chart(seen.numbers.minutes[:-1]),  # the minute that runs would look like a slump
        "slots": slots,
        "busy": slots - seen.numbers.free_slots,
    }


def _chart(minutes: Sequence[Minute]) -> Throughput:
    rates = [one.addresses / 60 for one in minutes]
    best = max(rates, default=0.0)
    top = nice_top(best)
    titles = [
        f"{one.minute:%H:%M} UTC: {one.addresses:,} addresses, {one.chunks:,} chunks" for one in minutes
    ]
    label = f"Addresses a second in each of the last {len(minutes)} minutes, at best {best:,.1f}"
    return Throughput(columns(rates, label=label, titles=titles, top=top), top, best)
