"""A job as the API tells of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from jobs.views import JobState, JobView
from pipeline.facts import Mode


class WaitShown(BaseModel):
    """Addresses that wait."""

    lane: str = Field(description="whose mail servers; a mail provider or a domain")
    reason: str
    addresses: int
    until: datetime


class JobShown(BaseModel):
    """A job; counts are rows of the list, of a preview those of the sample."""

    job_id: str
    parent_id: str | None
    name: str
    status: JobState
    mode: Mode
    priority: Literal["low", "normal", "high"]
    metadata: dict[str, str]
    preview: int = Field(description="addresses asked for as a sample; 0 for a whole list")
    list_rows: int
    list_addresses: int
    total_emails: int
    addresses: int
    duplicates: int
    processed: int
    valid: int
    invalid: int
    risky: int
    percent: float
    rate: float = Field(description="rows a second since the start")
    eta_seconds: float | None = Field(description="null when nothing can be said")
    waiting: list[WaitShown]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime | None
    warning: str = Field(description="what the reader of the results should know, empty when nothing")
    error_code: str
    error: str


def shown(view: JobView, now: float) -> dict[str, Any]:
    """Return the job as JSON types; `now` is in seconds since the epoch."""
    rate = _rate(view, now)
    return {
        "job_id": str(view.id),
        "parent_id": str(view.parent_id) if view.parent_id else None,
        "name": view.name,
        "status": view.state.value,
        "mode": view.mode.value,
        "priority": view.options.priority.value,
        "metadata": view.options.metadata,
        "preview": view.options.preview,
        "list_rows": view.list_rows or view.total,
        "list_addresses": view.list_addresses or view.addresses,
        "total_emails": view.total,
        "addresses": view.addresses,
        "duplicates": view.duplicates,
        "processed": view.processed,
        "valid": view.valid,
        "invalid": view.invalid,
        "risky": view.risky,
        "percent": round(100 * view.processed / view.total, 2) if view.total else 0.0,
        "rate": round(rate, 2),
        "eta_seconds": _eta(view, rate, now),
        "waiting": [
            {
                "lane": wait.lane,
                "reason": wait.reason,
                "addresses": wait.addresses,
                "until": moment(wait.until),
            }
            for wait in view.waiting
        ],
        "created_at": moment(view.created_at),
        "started_at": moment(view.started_at),
        "finished_at": moment(view.finished_at),
        "expires_at": moment(view.expires_at),
        "warning": view.warning,
        "error_code": view.error_code,
        "error": view.error_detail,
    }


def moment(at: datetime | None) -> str | None:
    """Write a moment as ISO 8601 in UTC."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if at else None


def _rate(view: JobView, now: float) -> float:
    """Return rows a second between start and end, or now."""
    if view.started_at is None:
        return 0.0
    seconds = (view.finished_at.timestamp() if view.finished_at else now) - view.started_at.timestamp()
    return view.processed / seconds if seconds > 0 else 0.0


def _eta(view: JobView, rate: float, now: float) -> float | None:
    """Return seconds until the end: at the rate so far, and not before what waits may go on."""
    if view.finished_at is not None:
        return 0.0
    if rate <= 0 or view.state is JobState.PAUSED:
        return None
    waits = max((wait.until.timestamp() - now for wait in view.waiting), default=0.0)
    return round(max((view.total - view.processed) / rate, waits), 1)
