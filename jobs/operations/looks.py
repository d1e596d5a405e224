"""What operators see: the pictures that pages and terminal show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from jobs.operations.alarms import Alarm, Numbers
from jobs.views import JobView
from pipeline.provider_table import Provider
from storage import lease_rows
from storage.backlog_rows import ChunkSpan, LaneRow
from storage.lease_rows import Lease, TroubledChunk
from storage.people_rows import AuditRow
from storage.throttle_edits import MOST_RAISE, Edit, most_sessions
from storage.throttle_view import Learned


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane and how fast its provider may be asked.

    Attributes:
        row: what is in it.
        title: its name for people.
        rate: recipients a second that are allowed there now, all sources together; None = no limit of one
            provider.
        seconds: how long what remains takes at least at this rate; None when there is no rate.
        held: an operator holds the provider.
    """

    row: LaneRow
    title: str
    rate: float | None
    seconds: float | None
    held: bool


@dataclass(frozen=True, slots=True)
class Overview:
    """Whether it flows.

    Attributes:
        numbers: what the alarms look at, for the figures too.
        rate: addresses a second that got a verdict in the last minutes.
        empty_s: seconds until the backlog is empty at this rate; None when nothing flows.
        today: rows that got a verdict since midnight UTC: valid, invalid, risky.
        jobs: how many are in each state.
        troubled: open chunks that were tried more than twice.
        lanes: the fullest ones.
    """

    numbers: Numbers
    alarms: Sequence[Alarm]
    rate: float
    empty_s: float | None
    today: tuple[int, int, int]
    jobs: Mapping[str, int]
    troubled: int
    lanes: Sequence[Lane]


@dataclass(frozen=True, slots=True)
class SeenJob:
    """A job with the name of its account."""

    account: str
    view: JobView


@dataclass(frozen=True, slots=True)
class JobsPage:
    """Some jobs, newest first; `matching` counts all that match, up to MOST_COUNTED."""

    jobs: Sequence[SeenJob]
    matching: int
    next_cursor: str


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """Something that was told of a job, and how many endpoints have heard of it."""

    type: str
    at: datetime
    deliveries: int
    delivered: int


MAX_ATTEMPTS: Final = 4  # of jobs.work.WorkPlan, which brings what computes; a test compares them

_ERRORS: Final[Mapping[str, str]] = {
    lease_rows.LEASE_EXPIRED: "its worker died or hung: the lease ran out",
    lease_rows.TAKEN_BACK: "an operator took it back",
    "": "nothing was said yet",
}


def fate_of(chunk: TroubledChunk) -> str:
    """Say what happened to a chunk that was tried again and again."""
    if chunk.state == "cancelled":
        return "its job was cancelled"
    if chunk.state != "done":
        return _ERRORS.get(chunk.last_error, chunk.last_error)
    if chunk.attempt <= MAX_ATTEMPTS:
        return "went well in the end"
    return "was split in two" if chunk.addresses > 1 else "its address was judged without asking anybody"


@dataclass(frozen=True, slots=True)
class JobPicture:
    """A job as operators see it."""

    job: SeenJob
    priority: str
    lanes: Sequence[Lane]
    strip: Sequence[ChunkSpan]
    leases: Sequence[Lease]
    troubled: Sequence[TroubledChunk]
    events: Sequence[SeenEvent]
    audit: Sequence[AuditRow]


@dataclass(frozen=True, slots=True)
class ThrottleRow:
    """A provider at one source (ANY_SOURCE: an edit for every one).

    Attributes:
        learned: what the throttle knows.
        base: the provider table's row, with the overrides file.
        now: the same as edited.
        held: an operator holds it.
        edit: what operators changed, and who.
        waiting: addresses in its lane.
    """

    learned: Learned
    base: Provider
    now: Provider
    held: bool
    edit: Edit | None
    waiting: int

    @property
    def rate(self) -> float:
        """Recipients a second that are allowed at this moment, as edited and as learned."""
        return 0.0 if self.held or self.learned.closed_s > 0 else self.now.rate * self.learned.share

    @property
    def highest_rate(self) -> float:
        """The most an edit may set."""
        return self.base.rate * MOST_RAISE

    @property
    def most_sessions(self) -> int:
        """The most an edit may set."""
        return most_sessions(self.base)

    @property
    def state(self) -> str:
        """One word: held, refused (it refuses us), closed (a penalty), slowed (it was learned) or open."""
        if self.held:
            return "held"
        if self.learned.closed_s > 0:
            return "refused" if self.learned.refuses else "closed"
        return "slowed" if self.learned.share < 1 else "open"
