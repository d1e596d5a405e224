"""/ops/broker, /ops/poison, /ops/schedules and /ops/audit: what else an operator looks at."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from api.pages.audit_words import told
from api.pages.forms import read_form, text
from api.pages.ops.entrance import Someone, desk_of, id_from
from api.pages.page import render, see
from jobs.operations.looks import MAX_ATTEMPTS, fate_of
from pipeline.errors import MailsiftError

router = APIRouter(prefix="/ops", include_in_schema=False)

_AUDIT_LINES = 100


@router.get("/broker")
async def broker(request: Request, _: Someone) -> Response:
    """Show what lies in the broker."""
    return render(request, "ops/broker.html", counts=await desk_of(request).console.broker())


@router.get("/broker/live")
async def broker_live(request: Request, _: Someone) -> Response:
    """Return what changes there."""
    return render(request, "ops/broker_live.html", counts=await desk_of(request).console.broker())


@router.post("/broker")
async def wake(request: Request, visitor: Someone) -> Response:
    """Wake every worker."""
    await read_form(request)
    workers = await desk_of(request).console.workers()
    count = max(1, sum(worker.state == "active" for worker in workers))
    await desk_of(request).actions.wake(visitor.email, count)
    return see(request, "/ops/broker", f"{count} wake-ups were sent.")


@router.get("/poison")
async def poison(request: Request, _: Someone) -> Response:
    """List chunks that were tried again and again."""
    chunks = await desk_of(request).console.troubled()
    return render(request, "ops/poison.html", chunks=chunks, fate_of=fate_of, max_attempts=MAX_ATTEMPTS)


@router.post("/poison")
async def start_afresh(request: Request, visitor: Someone) -> Response:
    """Let one be tried now, with all its attempts."""
    form = await read_form(request)
    job_id, n = id_from(text(form, "job")), _number(text(form, "n"))
    await desk_of(request).actions.start_afresh(visitor.email, job_id, n)
    return see(request, "/ops/poison", f"Chunk {n} is tried again now, with all its attempts.")


@router.get("/schedules")
async def schedules(request: Request, _: Someone) -> Response:
    """List the schedules of all accounts."""
    return render(request, "ops/schedules.html", schedules=await desk_of(request).console.schedules())


@router.get("/audit")
async def audit(request: Request, _: Someone, before: str = "") -> Response:
    """List what was done."""
    last = _number(before) if before else None
    lines = await desk_of(request).console.audit(limit=_AUDIT_LINES + 1, before=last)
    more = f"/ops/audit?before={lines[_AUDIT_LINES - 1].id}" if len(lines) > _AUDIT_LINES else ""
    return render(
        request,
        "ops/audit.html",
        lines=[(row, told(row)) for row in lines[:_AUDIT_LINES]],
        more=more,
        first="/ops/audit" if before else "",
    )


def _number(given: str) -> int:
    if not given.isdecimal() or len(given) > 18:
        raise MailsiftError("bad_cursor", "This is not a number of this list.")
    return int(given)
