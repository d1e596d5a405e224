"""Every router of the operator console."""

from __future__ import annotations

from typing import Final

from api.pages.ops import deliveries, facts, jobs, overview, state, throttles, workers

OPS: Final = (
    overview.router,
    jobs.router,
    workers.router,
    throttles.router,
    facts.router,
    deliveries.router,
    state.router,
)
