"""A job's progress as server-sent events (WHATWG HTML, section 9.2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Final

from api.keys import Caller
from api.parts import ApiParts
from api.v1.shown import shown
from jobs.views import JobView

_LOOK_SECONDS: Final = 0.5
_QUIET_LOOKS: Final = 30  # then a comment keeps the connection alive


async def progress(parts: ApiParts, caller: Caller, view: JobView) -> AsyncIterator[bytes]:
    """Yield an event for every change of a job and one for its end."""
    told, quiet = "", 0
    while True:
        data = json.dumps(shown(view, parts.clock()))
        state = f"{view.state} {view.processed} {[wait.until for wait in view.waiting]}"
        if view.finished_at is not None:
            yield f"event: end\ndata: {data}\n\n".encode()
            return
        quiet += 1
        if state != told:
            told, quiet = state, 0
            yield f"event: progress\ndata: {data}\n\n".encode()
        elif quiet >= _QUIET_LOOKS:
            quiet = 0
            yield b": still here\n\n"
        await asyncio.sleep(_LOOK_SECONDS)
        view = await parts.jobs.get(caller.account_id, view.id)
