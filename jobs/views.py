"""A job as its callers see it: what was asked for, its state, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NewType
from uuid import UUID

from mailsift.jobs.eta import TimeLeft
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Mode, WaitReason
from mailsift.pipeline.tiers import Tier, TierPolicy
from mailsift.storage.database import Row, from_row
from mailsift.storage.sql.chunks import Waiting
from mailsift.storage.states import STEP_HELD, JobState

AccountId = NewType("AccountId", UUID)
JobId = NewType("JobId", UUID)


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
        repair: judge the address that a cell clearly means which is none; its row says so.
        max_age: seconds a mailbox verdict may be reused; 0 = always ask again.
        outcome_age: seconds that an outcome of the account's may be old, the `max_age` that the caller has
            given; None = as long as the account's policy says.
        deadline_s: seconds after which waiting ends with `deferred`; 0 = never.
        priority: whose chunks go first among the account's own jobs.
        retention_s: seconds after which the job and everything of it is deleted; 0 = as the account says.
        preview: validate only a sample of so many addresses; 0 = the whole list.
        part: the list is some rows of the parent's, those that were risky there.
        policy: what makes a tier of a verdict; None = as the account says, or the default.
        metadata: what the customer wants to find again with the job.
        places: where the list is fetched from and the results are put, sealed (mailsift.jobs.places.service);
            "" for an upload and downloads.
    """

    mode: Mode = Mode.DEEP
    column: str = ""
    name: str = ""
    evidence: bool = False
    repair: bool = False
    max_age: float = 86_400.0
    outcome_age: float | None = None
    deadline_s: float = 0.0
    priority: Priority = Priority.NORMAL
    retention_s: float = 0.0
    preview: int = 0
    part: bool = False
    policy: TierPolicy | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    places: str = field(default="", repr=False)

    @property
    def tiers(self) -> TierPolicy:
        """What makes a tier of a verdict."""
        return self.policy or _TIERS


_TIERS: Final = TierPolicy()
_OPTIONS: Final = frozenset(field.name for field in fields(JobOptions))


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as the command line and the API show it; counts are rows of the list, times are UTC.

    `warning` is the code of what makes its verdicts poorer than they could be (`probe_unavailable`), or of
    the outage that it waits for the end of (`OUTAGES`); `time_left` is there while it may be worked on or
    waits to be read or finished; `address_column` is the name of the column that is judged, "" until it is
    known.
    """

    id: JobId
    account_id: AccountId
    parent_id: JobId | None
    name: str
    state: JobState
    total: int
    addresses: int
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
    deadline_at: datetime | None = None
    warning: str = ""
    time_left: TimeLeft | None = None
    send: int = 0
    review: int = 0
    remove: int = 0
    address_column: str = ""

    @property
    def mode(self) -> Mode:
        """How far to look."""
        return self.options.mode

    @property
    def tiers(self) -> dict[Tier, int]:
        """Rows by what to do with them."""
        return {Tier.SEND: self.send, Tier.REVIEW: self.review, Tier.REMOVE: self.remove}

    @property
    def policy(self) -> TierPolicy:
        """What makes a tier of a verdict."""
        return self.options.tiers

    @property
    def duplicates(self) -> int:
        """Rows whose address stands in an earlier row."""
        return self.total - self.addresses


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A job at a moment; `now` is in seconds since the epoch."""

    view: JobView
    now: float

    @property
    def list_rows(self) -> int:
        """Rows of the whole list, of which a preview takes a sample."""
        return self.view.list_rows or self.view.total

    @property
    def list_addresses(self) -> int:
        """Distinct addresses of the whole list."""
        return self.view.list_addresses or self.view.addresses

    @property
    def percent(self) -> float:
        """The part of its rows that has a verdict."""
        return round(100 * self.view.processed / self.view.total, 2) if self.view.total else 0.0

    @property
    def rate(self) -> float:
        """Rows a second between start and end, or now."""
        view = self.view
        if view.started_at is None:
            return 0.0
        end = view.finished_at.timestamp() if view.finished_at else self.now
        seconds = end - view.started_at.timestamp()
        return round(view.processed / seconds, 2) if seconds > 0 else 0.0

    @property
    def eta_seconds(self) -> float | None:
        """Seconds until the end (mailsift.jobs.eta); None: unknown."""
        view = self.view
        if view.finished_at is not None or (view.state is JobState.FINALIZING and view.time_left is None):
            return 0.0
        seconds = view.time_left.seconds if view.time_left else None
        return None if seconds is None else round(seconds, 1)

    @property
    def eta_reason(self) -> str:
        """What decides about the end, in words; "" when nothing waits or it is unknown."""
        return self.view.time_left.reason if self.view.time_left else ""


def dump_options(options: JobOptions) -> dict[str, Any]:
    """Return the options as JSON types."""
    dumped = {**asdict(options), "mode": options.mode.value, "priority": options.priority.value}
    return dumped if options.policy else {name: value for name, value in dumped.items() if name != "policy"}


def load_options(stored: Mapping[str, Any]) -> JobOptions:
    """Return the options; what an older or newer release stored beside them is left alone."""
    values = {name: value for name, value in stored.items() if name in _OPTIONS}
    priority = Priority(stored.get("priority", Priority.NORMAL))
    policy = TierPolicy.read(stored["policy"]) if stored.get("policy") else None
    return JobOptions(**{**values, "mode": Mode(stored["mode"]), "priority": priority, "policy": policy})


WAITS_FOR_STORAGE: Final = "storage"
WAITS_FOR_MEMORY: Final = "memory"
WAITS_FOR_THREADS: Final = "threads"
WAITS_FOR_PLACE: Final = "place"
"""Why a job waits, beside the reasons of its chunks (mailsift.pipeline.facts.WaitReason)."""


def _step_waits(row: Row) -> Iterator[Waiting]:
    """Yield what a job waits for whose intake or finish was given back.

    A release before this one does not write down why: most often the store or the disk was away.
    """
    if row["state"] in STEP_HELD and row["step_token"] is None and row["step_until"] is not None:
        reason = row["step_waits_for"] or WAITS_FOR_STORAGE
        yield Waiting("", reason, row["addresses"], row["step_until"])


OUTAGES: Final = {WaitReason.RESOLVER: "no_trusted_resolver", WaitReason.OUR_NETWORK: "no_way_out"}
"""Warnings of jobs whose wait has no known end, by why their addresses wait."""


def view_of(row: Row, waiting: Sequence[Waiting] = (), *, time_left: TimeLeft | None = None) -> JobView:
    """Return what others may see of a job's row."""
    outage = next((code for reason, code in OUTAGES.items() if any(w.reason == reason for w in waiting)), "")
    return from_row(
        JobView,
        row,
        state=JobState(row["state"]),
        waiting=(*_step_waits(row), *waiting),
        options=load_options(row["options"]),
        time_left=replace(time_left, seconds=None) if time_left and outage else time_left,
        warning=outage or row["warning"],
    )


def bad_cursor() -> MailsiftError:
    """Return the error of a cursor from elsewhere."""
    return MailsiftError("bad_cursor", "This cursor doesn’t belong to this list.")
