"""/jobs/{id}/live: what changes while a job runs, as server-sent events (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Final
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from api.pages.job_shown import job_on_page, live_fields
from api.pages.jobs import Viewer
from api.pages.page import HEADERS, now_of
from api.pages.visitor import Visitor, look_for_visitor
from api.parts import parts_of
from jobs.views import JobId
from pipeline.errors import MailsiftError

router = APIRouter(include_in_schema=False)

_LOOK_SECONDS: Final = 0.5
_LOOKS: Final = 30  # then who looks is asked again whether they may


@router.get("/jobs/{job_id:uuid}/live")
async def live(request: Request, visitor: Viewer, job_id: UUID) -> StreamingResponse:
    """Follow a job: a `progress` event for every change and an `end` event once."""
    await parts_of(request).jobs.get(visitor.account_id, JobId(job_id))
    return StreamingResponse(
        _events(request, visitor, JobId(job_id)),
        media_type="text/event-stream",
        headers={**HEADERS, "X-Accel-Buffering": "no"},
    )


async def _events(request: Request, visitor: Visitor, job_id: JobId) -> AsyncIterator[bytes]:
    told: dict[str, object] = {}
    while await look_for_visitor(request) == visitor:
        for _ in range(_LOOKS):
            try:
                view = await parts_of(request).jobs.get(visitor.account_id, job_id)
            except MailsiftError:
                return  # deleted meanwhile, or the database is away: the browser will ask again
            job = job_on_page(view, now_of(request))
            fields = live_fields(job)
            changed = {name: value for name, value in fields.items() if told.get(name) != value}
            if job.ended:
                yield _event("end", fields)
                return
            if changed:
                told = fields
                yield _event("progress", changed)
            await asyncio.sleep(_LOOK_SECONDS)
        yield b": still here\n\n"


def _event(name: str, fields: dict[str, object]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(fields)}\n\n".encode()
