"""What the API tells of a job is its view under the contract's names."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from mailsift.api.v1.jobs import job_response
from mailsift.jobs.views import JobOptions, Priority
from mailsift.pipeline.facts import Mode
from mailsift.storage.sql.chunks import Waiting
from tests.support.job_views import RUNNING, START

VIEW = replace(
    RUNNING,
    waiting=(Waiting("google", "throttled", 20, START + timedelta(minutes=5)),),
    options=JobOptions(mode=Mode.FAST, priority=Priority.HIGH, metadata={"a": "b"}, preview=9),
)


def test_a_running_job_says_how_far_it_is_and_what_it_waits_for() -> None:
    response = job_response(VIEW, START.timestamp() + 10).model_dump(mode="json")
    expected = {
        "job_id": str(VIEW.id),
        "status": "running",
        "mode": "fast",
        "priority": "high",
        "metadata": {"a": "b"},
        "preview": 9,
        "total_emails": 2_000,
        "duplicates": 100,
        "percent": 25.0,
        "rate": 50.0,
    }
    assert {name: response[name] for name in expected} == expected
    (wait,) = response["waiting"]
    assert (wait["lane"], wait["reason"], wait["addresses"]) == ("google", "throttled", 20)
    assert wait["until"].startswith("2026-11-21T12:05:00")
