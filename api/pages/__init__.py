"""The pages people look at: server-rendered, one module a subject."""

from __future__ import annotations

from typing import Final

from mailsift.api.pages import (
    account,
    jobs,
    keys,
    lists,
    ops,
    outcomes,
    page,
    policy,
    schedules,
    sign_in,
    validate,
    webhooks,
)

ROUTERS: Final = (
    page.router,
    sign_in.router,
    validate.router,
    lists.router,
    lists.uploads_router,
    policy.what_if_router,  # before what takes any word behind a job
    jobs.router,
    outcomes.router,
    policy.router,
    account.router,
    keys.router,
    webhooks.router,
    schedules.router,
    ops.router,
)
