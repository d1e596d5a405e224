"""Schedules over HTTP: made, changed, run by hand, and what their runs came to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from mailsift.pipeline.clock import system_clock

JOBS, SCHEDULES = "/v1/bulk/jobs", "/v1/bulk/schedules"


async def _list(client: httpx.AsyncClient) -> str:
    sent = await client.post(JOBS, json={"emails": ["a@example.com"], "mode": "fast", "name": "weekly"})
    return str(sent.json()["data"]["job_id"])


@pytest.mark.usefixtures("worker")
async def test_a_schedule_is_made_changed_and_run_and_its_runs_are_listed(client: httpx.AsyncClient) -> None:
    job = await _list(client)
    ends = datetime.fromtimestamp(int(system_clock()) + 3 * 86_400, UTC)
    wanted = {
        "job_id": job,
        "cron": "0 6 * * *",
        "zone": "Europe/Berlin",
        "jitter_seconds": 900,
        "ends_at": ends.isoformat(),
        "pause_after_failures": 2,
    }
    made = await client.post(SCHEDULES, json=wanted)
    assert made.status_code == 201, made.text
    schedule: dict[str, Any] = made.json()["data"]
    path = f"{SCHEDULES}/{schedule['id']}"
    assert (schedule["jitter_seconds"], schedule["pause_after_failures"]) == (900, 2)
    assert datetime.fromisoformat(schedule["ends_at"]) == ends
    assert len(schedule["next_runs"]) == 3
    longer = (await client.patch(path, json={"ends_at": None, "name": None})).json()["data"]
    assert (longer["ends_at"], longer["name"], len(longer["next_runs"])) == (None, "weekly", 5)
    assert (await client.patch(path, json={"pause_after_failures": 0})).json()["data"][
        "jitter_seconds"
    ] == 900
    run = (await client.post(f"{path}/run")).json()["data"]["job_id"]
    await client.get(f"{JOBS}/{run}", params={"wait": 30})
    runs = (await client.get(f"{path}/runs")).json()["data"]["runs"]
    assert [(one["job"]["job_id"], one["scheduled_for"]) for one in runs] == [(run, None)]
    assert (runs[0]["job"]["status"], runs[0]["job"]["parent_id"]) == ("completed", job)


async def test_a_schedule_that_cannot_be_is_refused(client: httpx.AsyncClient) -> None:
    job = await _list(client)
    for field, value, code in (
        ("jitter_seconds", -1, "invalid_request"),
        ("jitter_seconds", 86_401, "invalid_request"),
        ("jitter_seconds", "60", "invalid_request"),
        ("ends_at", "2020-01-01T00:00:00Z", "schedule_ended"),
        ("ends_at", "2090-01-01T00:00:00", "invalid_request"),  # no zone
        ("ends_at", "9999-12-31T23:59:59-12:00", "invalid_request"),  # in UTC a year that is none
        ("pause_after_failures", 1_001, "invalid_request"),
        ("cron", "0 0 31 2 *", "schedule_cron_invalid"),
        ("zone", "Mars/Olympus", "schedule_zone_invalid"),
        ("jitter_seconds", 86_400, "schedule_jitter_too_long"),
    ):
        refused = await client.post(SCHEDULES, json={"job_id": job, "cron": "0 6 * * *", field: value})
        assert (refused.status_code, refused.json()["code"]) == (422, code), (field, value)
    assert (await client.get(SCHEDULES)).json()["data"]["schedules"] == []
