"""/ops/workers and /ops/leases: who works, what they hold, and how to stop or relieve them."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from api.pages.forms import choice, read_form, text
from api.pages.ops.entrance import Someone, desk_of, id_from
from api.pages.page import render, see

router = APIRouter(prefix="/ops", include_in_schema=False)

_ORDERS = {"drain": True, "undrain": False}


@router.get("/workers")
async def workers(request: Request, _: Someone) -> Response:
    """List the worker processes."""
    return render(request, "ops/workers.html", workers=await desk_of(request).console.workers())


@router.get("/workers/live")
async def workers_live(request: Request, _: Someone) -> Response:
    """Return what changes there."""
    return render(request, "ops/workers_live.html", workers=await desk_of(request).console.workers())


@router.post("/workers")
async def drain(request: Request, visitor: Someone) -> Response:
    """Let the worker of a process, all of a host, or all there are claim nothing more, or claim again."""
    form = await read_form(request)
    on = _ORDERS[choice(form, "order", _ORDERS)]
    owner, host = text(form, "owner", most=300), text(form, "host", most=300)
    told = await desk_of(request).actions.drain(
        visitor.email,
        drain=on,
        owners=[owner] if owner else (),
        hosts=[host] if host else (),
        everywhere=not owner and not host,
    )
    what = "will claim nothing more" if on else "will claim again"
    count = f"{len(told)} {'process' if len(told) == 1 else 'processes'}"
    return see(request, "/ops/workers", f"{count} {what} from the next heartbeat on.")


@router.get("/leases")
async def leases(request: Request, _: Someone) -> Response:
    """List what is leased."""
    return render(request, "ops/leases.html", leases=await desk_of(request).console.leases())


@router.get("/leases/live")
async def leases_live(request: Request, _: Someone) -> Response:
    """Return what changes there."""
    return render(request, "ops/leases_live.html", leases=await desk_of(request).console.leases())


@router.post("/leases")
async def take_back(request: Request, visitor: Someone) -> Response:
    """Take one lease back, or all that have run out."""
    token = text(await read_form(request), "token")
    tokens = [id_from(token, "lease_not_found")] if token else None
    taken = await desk_of(request).actions.take_back(visitor.email, tokens)
    if not taken:
        return see(request, "/ops/leases", "There was nothing to take back any more.")
    what = "lease was" if taken == 1 else "leases were"
    return see(request, "/ops/leases", f"{taken} {what} taken back; the next claim gets the work.")
