"""Simulated events, as `POST /v1/webhooks/test` sends them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from events.payloads import EventType, JobEnd, job_end


class Sample(StrEnum):
    """What can be simulated."""

    WEBHOOK = "test_webhook"
    SUCCESS = "bulk_validate_success"
    FAILED = "bulk_validate_failed"


def sample(kind: Sample, job_id: UUID, now: datetime) -> tuple[EventType, dict[str, Any]]:
    """Return the type and the data of a simulated event."""
    return _SAMPLES[kind](job_id, now)


def _webhook(_job_id: UUID, _now: datetime) -> tuple[EventType, dict[str, Any]]:
    return EventType.TEST, {"message": "This is a test of your webhook."}


def _ended(error: str) -> Callable[[UUID, datetime], tuple[EventType, dict[str, Any]]]:
    def make(job_id: UUID, now: datetime) -> tuple[EventType, dict[str, Any]]:
        return job_end(
            JobEnd(
                job_id=job_id,
                total=1_000,
                processed=250 if error else 1_000,
                valid=200 if error else 850,
                invalid=25 if error else 100,
                started_at=now - timedelta(minutes=5),
                finished_at=now,
                error=error,
            )
        )

    return make


_SAMPLES = {
    Sample.WEBHOOK: _webhook,
    Sample.SUCCESS: _ended(""),
    Sample.FAILED: _ended("simulated: This is a test, no job has failed."),
}
