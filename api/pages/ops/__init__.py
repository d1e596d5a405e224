"""The operator console: what flows, what does not and why, and the levers."""

from __future__ import annotations

from typing import Final

from mailsift.api.pages.ops import accuracy, jobs, overview, throttles, workers

ROUTERS: Final = (
    overview.router,
    jobs.router,
    workers.router,
    throttles.router,
    accuracy.router,
)
