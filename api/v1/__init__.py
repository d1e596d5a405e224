"""The operations under /v1."""

from __future__ import annotations

from typing import Final

from mailsift.api.v1 import email, jobs, outcomes, schedules, usage, webhooks, widget

ROUTERS: Final = (
    email.router,
    email.batch_router,
    jobs.router,
    schedules.router,
    webhooks.router,
    webhooks.deliveries_router,
    webhooks.events_router,
    usage.router,
    outcomes.router,
    usage.accuracy_router,
    outcomes.policy_router,
    widget.public_keys_router,
    outcomes.suppressions_router,
    outcomes.receiving_router,
    widget.router,
)
"""The first is asked most."""
