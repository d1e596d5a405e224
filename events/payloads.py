"""The events of the contract, real and simulated: their envelope and their data, as bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID


class EventType(StrEnum):
    """The events a customer can be told of."""

    COMPLETED = "bulk.validation.completed"
    FAILED = "bulk.validation.failed"
    TEST = "webhook.test"
    AUDIT = "audit.recorded"


EVENT_WORDS: Final = {
    EventType.COMPLETED: "A list is validated",
    EventType.FAILED: "A list could not be validated, or was cancelled",
    EventType.TEST: "A webhook is tested",
    EventType.AUDIT: "Something was changed in the account: a line of the audit log",
}
"""What has happened, for people."""
ON_REQUEST: Final = frozenset({EventType.AUDIT})
"""What is sent only to webhooks that name it."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """What the terminal event of a job tells; counts are rows of the list.

    Attributes:
        error: "" for a completed job, else "code: sentence".
    """

    job_id: UUID
    total: int
    processed: int
    valid: int
    invalid: int
    started_at: datetime
    finished_at: datetime
    error: str = ""


def job_event(end: JobEnd) -> tuple[EventType, dict[str, Any]]:
    """Return the type and data of a job's terminal event: exactly the fields of the contract."""
    if end.error:
        return EventType.FAILED, {
            "error": end.error,
            "job_id": str(end.job_id),
            "processed": end.processed,
            "status": "failed",
            "total_emails": end.total,
        }
    return EventType.COMPLETED, {
        "completed_at": _whole_second(end.finished_at),
        "invalid": end.invalid,
        "job_id": str(end.job_id),
        "processed": end.processed,
        "started_at": _whole_second(end.started_at),
        "status": "completed",
        "total_emails": end.total,
        "valid": end.valid,
    }


def envelope(event_id: UUID, type_: EventType, created_at: datetime, data: Mapping[str, Any]) -> bytes:
    """Serialise an event once; these bytes are stored, signed and sent."""
    time = created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    body = {"id": str(event_id), "type": type_.value, "created_at": time, "data": dict(data)}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _whole_second(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class SimulatedEvent(StrEnum):
    """What `POST /v1/webhooks/test` can simulate."""

    WEBHOOK = "test_webhook"
    SUCCESS = "bulk_validate_success"
    FAILED = "bulk_validate_failed"


def simulated_event(kind: SimulatedEvent, job_id: UUID, now: datetime) -> tuple[EventType, dict[str, Any]]:
    """Return the type and the data of a simulated event."""
    if kind is SimulatedEvent.WEBHOOK:
        return EventType.TEST, {"message": "This is a test of your webhook."}
    fails = kind is SimulatedEvent.FAILED
    return job_event(
        JobEnd(
            job_id=job_id,
            total=1_000,
            processed=250 if fails else 1_000,
            valid=200 if fails else 850,
            invalid=25 if fails else 100,
            started_at=now - timedelta(minutes=5),
            finished_at=now,
            error="simulated: This is a test, no job has failed." if fails else "",
        )
    )
