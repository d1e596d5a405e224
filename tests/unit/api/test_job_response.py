"""What the API tells of a job is its view under the contract's names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from mailsift.api.v1.jobs import job_response
from mailsift.jobs.views import AccountId, JobId, JobOptions, JobView, Priority
from mailsift.pipeline.facts import Mode
from mailsift.storage.sql.chunks import Waiting
from mailsift.storage.states import JobState

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
VIEW = JobView(
    id=JobId(UUID(int=7)),
    account_id=AccountId(UUID(int=1)),
    parent_id=None,
    name="list.csv",
    state=JobState.RUNNING,
    total=200,
    addresses=190,
    processed=50,
    valid=40,
    invalid=6,
    risky=4,
    chunks=3,
    chunks_open=2,
    created_at=START,
    started_at=START,
    finished_at=None,
    error_code="",
    error_detail="",
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
        "total_emails": 200,
        "duplicates": 10,
        "percent": 25.0,
        "rate": 5.0,
    }
    assert {name: response[name] for name in expected} == expected
    (wait,) = response["waiting"]
    assert (wait["lane"], wait["reason"], wait["addresses"]) == ("google", "throttled", 20)
    assert wait["until"].startswith("2026-11-21T12:05:00")
