"""Every router of pages."""

from __future__ import annotations

from typing import Final

from api.pages import (
    account,
    deliveries,
    diff,
    doors,
    job,
    job_live,
    jobs,
    keys,
    lists,
    results,
    schedules,
    static,
    validate,
    webhooks,
    you,
)
from api.pages.ops.routers import OPS

PAGES: Final = (
    static.router,
    doors.router,
    validate.router,
    lists.router,
    jobs.router,
    job.router,
    job_live.router,
    results.router,
    diff.router,
    account.router,
    you.router,
    keys.router,
    webhooks.router,
    deliveries.router,
    schedules.router,
    *OPS,
)
