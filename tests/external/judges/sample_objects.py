"""What must be there before a judge comes: an object in every state that an operation needs to succeed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import httpx

JOBS, HOOKS, SCHEDULES = "/v1/bulk/jobs", "/v1/webhooks", "/v1/bulk/schedules"
_WITHIN = 90.0
_COPIES = 3

# Verdicts of every class, one of them (the resolver fails) such that a retry makes sense.
_LIST = [
    "known1@ordinary.sandbox.test",
    "nobody1@ordinary.sandbox.test",
    "jane@servfail.sandbox.test",
    "a@b@c",
]
_HELD = ["known1@greylist.sandbox.test", "known2@ordinary.sandbox.test"]
_HOOK = "https://hooks.ordinary.sandbox.test/hook"
_CRON = {"cron": "0 6 * * 1", "zone": "Europe/Berlin"}


def plant(client: httpx.Client) -> dict[str, list[str]]:
    """Make the objects.

    Returns:
        Their ids by what they are good for; what is doomed may be deleted, cancelled or switched off.
    """
    hooks, doomed_hooks = (_several(client, HOOKS, {"url": _HOOK}) for _ in range(2))
    ended, doomed_jobs = (_several(client, JOBS, {"emails": _LIST, "mode": "deep"}) for _ in range(2))
    previews = _several(client, JOBS, {"emails": _LIST, "mode": "deep", "preview": 3})
    held, doomed_held = (_several(client, JOBS, {"emails": _HELD, "mode": "deep"}) for _ in range(2))
    _wait(client, (*ended, *doomed_jobs, *previews), lambda job: job["status"] == "completed")
    _wait(client, (*held, *doomed_held), lambda job: job["status"] == "running" and bool(job["waiting"]))
    runs = [_made(client.post(f"{JOBS}/{job_id}/rerun"))["job_id"] for job_id in ended]
    _wait(client, runs, lambda job: job["status"] == "completed")
    schedules, doomed_schedules = (
        _several(client, SCHEDULES, {"job_id": ended[0], **_CRON}) for _ in range(2)
    )
    return {
        "ended": ended,
        "doomed_jobs": doomed_jobs,
        "previews": previews,
        "held": held,
        "doomed_held": doomed_held,
        "runs": runs,
        "hooks": hooks,
        "doomed_hooks": doomed_hooks,
        "deliveries": _deliveries(client, hooks),
        "events": [event["id"] for event in client.get("/v1/events").json()["data"]["events"][:_COPIES]],
        "schedules": schedules,
        "doomed_schedules": doomed_schedules,
    }


def _several(client: httpx.Client, path: str, body: Mapping[str, object]) -> list[str]:
    made = [_made(client.post(path, json=body)) for _ in range(_COPIES)]
    return [one["job_id" if path == JOBS else "id"] for one in made]


def _made(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code in {201, 202}, answer.text
    data: dict[str, str] = answer.json()["data"]
    return data


def _wait(client: httpx.Client, jobs: Iterable[str], there: Callable[[Any], bool]) -> None:
    for job_id in jobs:
        limit = time.monotonic() + _WITHIN
        while not there(job := client.get(f"{JOBS}/{job_id}").json()["data"]):
            assert time.monotonic() < limit, job
            time.sleep(0.1)


def _deliveries(client: httpx.Client, hooks: Iterable[str]) -> list[str]:
    """Return deliveries of real events: those of a test cannot be sent again."""
    found = [
        one["id"]
        for hook in hooks
        for one in client.get(f"{HOOKS}/{hook}/deliveries").json()["data"]["deliveries"]
    ]
    assert found
    return found
