"""A job as others may see it, half way through."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from mailsift.jobs.views import AccountId, JobId, JobView
from mailsift.storage.states import JobState

START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
RUNNING = JobView(
    id=JobId(UUID(int=7)),
    account_id=AccountId(UUID(int=1)),
    parent_id=None,
    name="list.csv",
    state=JobState.RUNNING,
    total=2_000,
    addresses=1_900,
    processed=500,
    valid=400,
    invalid=60,
    risky=40,
    send=390,
    review=40,
    remove=70,
    chunks=3,
    chunks_open=2,
    created_at=START,
    started_at=START,
    finished_at=None,
    error_code="",
    error_detail="",
    address_column="Work email",
)
