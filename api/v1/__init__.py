"""The operations under /v1."""

from __future__ import annotations

from typing import Final

from mailsift.api.v1 import email, events, jobs, schedules, usage, webhooks

ROUTERS: Final = (
    email.router,
    email.batch_router,
    jobs.router,
    schedules.router,
    webhooks.router,
    webhooks.deliveries_router,
    events.router,
    usage.router,
)
"""The first is asked most."""
