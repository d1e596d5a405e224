"""What others may see of a job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NewType
from uuid import UUID

from pipeline.facts import Mode

AccountId = NewType("AccountId", UUID)
JobId = NewType("JobId", UUID)


class JobState(StrEnum):
    """Where a job stands; the last three are terminal and never change."""

    UPLOADING = "uploading"
    INTAKE = "intake"
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What the customer asked for.

    Attributes:
        mode: how far to look.
        column: name of the address column, "" to find it.
        name: what people call the list.
        evidence: write the evidence beside every verdict.
        max_age: seconds a mailbox verdict may be reused; 0 = always ask again.
        deadline_s: seconds after which waiting ends with `deferred`; 0 = never.
    """

    mode: Mode = Mode.DEEP
    column: str = ""
    name: str = ""
    evidence: bool = False
    max_age: float = 86_400.0
    deadline_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Addresses of a job that wait: for whom, why and until when (UTC)."""

    lane: str
    reason: str
    addresses: int
    until: datetime


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as the command line and the API show it; counts are rows of the list, times are UTC."""

    id: JobId
    account_id: AccountId
    parent_id: JobId | None
    name: str
    state: JobState
    mode: Mode
    total: int
    addresses: int
    duplicates: int
    processed: int
    valid: int
    invalid: int
    risky: int
    chunks: int
    chunks_open: int
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    error_code: str
    error_detail: str
    waiting: tuple[Waiting, ...] = ()
