"""The operator console: what flows, what does not and why, and the levers."""

from __future__ import annotations

from typing import Final

from mailsift.api.pages import accuracy
from mailsift.api.pages.ops import jobs, overview, throttles, workers

ROUTERS: Final = (
    overview.router,
    jobs.router,
    workers.router,
    throttles.router,
    accuracy.ops_router,
)
