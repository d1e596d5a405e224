from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

from mailsift.events.payloads import EventType, JobEnd, envelope, job_event

JOB = UUID("11111111-1111-4111-8111-111111111111")
EVENT = UUID("22222222-2222-4222-8222-222222222222")
STARTED = datetime(2026, 11, 21, 12, 0, 0, 999_999, tzinfo=UTC)
FINISHED = datetime(2026, 11, 21, 15, 30, 1, 5, tzinfo=timezone(timedelta(hours=2)))


def _end(error: str = "") -> JobEnd:
    return JobEnd(
        job_id=JOB,
        total=10,
        processed=9,
        valid=5,
        invalid=3,
        started_at=STARTED,
        finished_at=FINISHED,
        error=error,
    )


def test_a_completed_job_tells_exactly_the_fields_of_the_contract() -> None:
    assert job_event(_end()) == (
        EventType.COMPLETED,
        {
            "completed_at": "2026-11-21T13:30:01Z",
            "invalid": 3,
            "job_id": str(JOB),
            "processed": 9,
            "started_at": "2026-11-21T12:00:00Z",
            "status": "completed",
            "total_emails": 10,
            "valid": 5,
        },
    )


def test_a_failed_job_tells_exactly_the_fields_of_the_contract() -> None:
    assert job_event(_end("empty_file: The file is empty.")) == (
        EventType.FAILED,
        {
            "error": "empty_file: The file is empty.",
            "job_id": str(JOB),
            "processed": 9,
            "status": "failed",
            "total_emails": 10,
        },
    )


def test_the_envelope_carries_id_type_time_with_fraction_and_data() -> None:
    body = envelope(EVENT, EventType.COMPLETED, FINISHED, {"job_id": str(JOB)})
    assert json.loads(body) == {
        "id": str(EVENT),
        "type": "bulk.validation.completed",
        "created_at": "2026-11-21T13:30:01.000005Z",
        "data": {"job_id": str(JOB)},
    }
