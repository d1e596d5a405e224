"""The operations under /v1."""

from __future__ import annotations

from typing import Final

from mailsift.api.v1 import email, jobs, schedules, webhooks

ROUTERS: Final = (email.router, jobs.router, schedules.router, webhooks.router)
"""The first is asked most."""
