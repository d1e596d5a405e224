"""The pages people look at: server-rendered, one module a subject."""

from __future__ import annotations

from typing import Final

from mailsift.api.pages import (
    account,
    accuracy,
    jobs,
    keys,
    lists,
    outcomes,
    policy,
    results,
    schedules,
    sign_in,
    static,
    uploads,
    validate,
    webhooks,
)

ROUTERS: Final = (
    static.router,
    sign_in.router,
    validate.router,
    lists.router,
    uploads.router,
    policy.what_if_router,  # before what takes any word behind a job
    jobs.router,
    results.router,
    outcomes.router,
    policy.router,
    account.router,
    accuracy.router,
    keys.router,
    webhooks.router,
    schedules.router,
)
