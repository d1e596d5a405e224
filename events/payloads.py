"""The events of the contract: their envelope and the data of a finished job, as bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID


class EventType(StrEnum):
    """The events a customer can be told of."""

    COMPLETED = "bulk.validation.completed"
    FAILED = "bulk.validation.failed"
    TEST = "webhook.test"


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


def job_end(end: JobEnd) -> tuple[EventType, dict[str, Any]]:
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
    moment = created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    body = {"id": str(event_id), "type": type_.value, "created_at": moment, "data": dict(data)}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _whole_second(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
