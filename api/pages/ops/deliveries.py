"""/ops/deliveries: webhooks that wait, endpoints that fail, and how to send again."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import Response

from api.pages.forms import choice, read_form
from api.pages.ops.entrance import Someone, desk_of, id_from
from api.pages.page import render, see

router = APIRouter(prefix="/ops/deliveries", include_in_schema=False)

SPANS: Final = {"24": "of 1 day", "72": "of 3 days", "720": "of 30 days"}


@router.get("")
async def deliveries(request: Request, _: Someone) -> Response:
    """Show how the deliveries of all accounts stand."""
    outbox, endpoints = await desk_of(request).console.deliveries()
    return render(request, "ops/deliveries.html", outbox=outbox, endpoints=endpoints, spans=SPANS)


@router.post("/{endpoint_id}")
async def replay(request: Request, visitor: Someone, endpoint_id: str) -> Response:
    """Send what was given up again."""
    hours = float(choice(await read_form(request), "hours", SPANS))
    found = id_from(endpoint_id, "webhook_not_found")
    count = await desk_of(request).actions.replay(visitor.email, found, hours=hours)
    what = "delivery is" if count == 1 else "deliveries are"
    return see(request, "/ops/deliveries", f"{count:,} {what} sent again.")
