"""What others may see of a job."""

from __future__ import annotations

from dataclasses import dataclass, field
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


class Priority(StrEnum):
    """Where a job stands among the others of its account."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


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
        priority: whose chunks go first among the account's own jobs.
        retention_s: seconds after which the job and everything of it is deleted; 0 = as the account says.
        preview: validate only a sample of so many addresses; 0 = the whole list.
        metadata: what the customer wants to find again with the job.
    """

    mode: Mode = Mode.DEEP
    column: str = ""
    name: str = ""
    evidence: bool = False
    max_age: float = 86_400.0
    deadline_s: float = 0.0
    priority: Priority = Priority.NORMAL
    retention_s: float = 0.0
    preview: int = 0
    metadata: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Addresses of a job that wait: for whom, why and until when (UTC)."""

    lane: str
    reason: str
    addresses: int
    until: datetime


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as the command line and the API show it; counts are rows of the list, times are UTC.

    `warning` is the code of what makes its verdicts poorer than they could be, so far `probe_unavailable`.
    """

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
    options: JobOptions = field(default_factory=JobOptions)
    list_rows: int = 0
    list_addresses: int = 0
    expires_at: datetime | None = None
    warning: str = ""
