"""Below /ops: workers, leases, broker, failing chunks: who works, what they hold, what waits, what fails."""

from __future__ import annotations

import math
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from mailsift.api.pages.forms import Form, choice, id_from, number_from, text
from mailsift.api.pages.ops.listing import ListFilter, Listing
from mailsift.api.pages.page import render, render_live, see
from mailsift.api.pages.visitor import Operator
from mailsift.api.parts import parts_of
from mailsift.jobs.admin.alarms import is_low
from mailsift.storage.sql.chunks import MAX_ATTEMPTS, Lease, TroubledChunk
from mailsift.storage.sql.workers import Worker
from mailsift.storage.states import OPEN_CHUNK

router = APIRouter(prefix="/ops", include_in_schema=False)

_ORDERS = {"drain": True, "undrain": False}

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
_TROUBLED: Final[Listing[TroubledChunk]] = Listing(
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
    on = _ORDERS[choice(form, "order", _ORDERS)]
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
    return see("/ops/workers", f"{count} {what} from the next heartbeat on.")


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
        return see("/ops/leases", "There was nothing to take back any more.")
    what = "lease was" if taken == 1 else "leases were"
    return see("/ops/leases", f"{taken} {what} taken back; the next claim gets the work.")


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
    return see("/ops/broker", f"{count} wake-ups were sent.")


@router.get("/failing-chunks")
async def failing_chunks(request: Request, _: Operator) -> Response:
    """List chunks that were tried again and again."""
    chunks = await parts_of(request).operations.console.troubled()
    listed = _TROUBLED.of(chunks, request.query_params)
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
    return see("/ops/failing-chunks", f"Chunk {n} is tried again now, with all its attempts.")
