"""Which topic of /help explains which page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "validate": ("validate",),
    "list": ("list",),
    "jobs": ("jobs",),
    "job": ("job",),
    "results": ("results",),
    "row": ("row",),
    "runs": ("runs",),
    "what-if": ("what_if",),
    "schedules": ("schedules", "schedule", "schedule_form"),
    "outcomes": ("outcomes",),
    "receivers": ("receiver", "receiver_new"),
    "suppressions": ("suppressions",),
    "policy": ("policy",),
    "accuracy": ("accuracy",),
    "webhooks": ("webhooks", "webhook", "webhook_form", "webhook_secret"),
    "deliveries": ("deliveries", "delivery"),
    "keys": ("keys", "key_new", "key_made", "key_roll"),
    "account": ("account",),
    "data": ("account_data",),
    "log": ("account_log",),
    "you": ("you", "you_code", "you_codes"),
    "sign-in": ("login", "login_code", "invite", "password", "welcome"),
    "probing": ("probing",),
    "errors": ("error",),
    "ops": ("ops/overview", "ops/runbook"),
    "ops-workers": ("ops/workers", "ops/leases", "ops/broker"),
    "ops-jobs": ("ops/jobs", "ops/job", "ops/schedules"),
    "ops-failing-chunks": ("ops/failing_chunks",),
    "ops-limits": ("ops/throttles", "ops/throttle"),
    "ops-ledger": ("ops/ledger",),
    "ops-opt-outs": ("ops/opt_outs",),
    "ops-accuracy": ("ops/accuracy",),
    "ops-facts": ("ops/cache",),
    "ops-deliveries": ("ops/deliveries",),
    "ops-audit": ("ops/audit",),
}
TOPICS: Final[Mapping[str, str]] = {
    f"{name}.html": topic for topic, names in _TEMPLATES.items() for name in names
}
"""The topic of help.html by the template of a page."""
