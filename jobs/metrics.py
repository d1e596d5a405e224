"""What jobs count: chunks, steps, verdicts, and how the processes that work on them fare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge, Histogram

from mailsift.pipeline.facts import TRIAGE, WaitReason
from mailsift.pipeline.judge.table import ROWS
from mailsift.pipeline.metrics import LONG_SECONDS, SECONDS, from_zero
from mailsift.storage.states import JobTransition

if TYPE_CHECKING:
    import polars as pl

_ENDS: Final = ("done", "error", "lease_lost", "stopped")
UPKEEP_TASKS: Final = (
    *("clock", "schedule", "retention", "measure", "tidy", "drafts", "notice", "job_mail", "ledger"),
    *("listing", "attempts", "health", "webhook"),
)
"""What is done beside lists (`Maintenance`); a failure of one is logged as `<name>.error`."""
_STEPS: Final = (JobTransition.TAKE_IN.target, *JobTransition.COMPLETE.sources)

CLAIM: Final = Histogram(
    "mailsift_chunk_claim_seconds", "How long the claim of a chunk took", registry=None, buckets=SECONDS
)
RUN: Final = Histogram(
    "mailsift_chunk_run_seconds",
    "How long a chunk was worked on, whatever came of it",
    registry=None,
    buckets=LONG_SECONDS,
)
PHASES: Final = from_zero(
    Counter("mailsift_chunk_phase_seconds_total", "Where the time of chunks went", ["phase"], registry=None),
    ["claim", "read", "sift", "store", "commit"],
)
ATTEMPTS: Final = from_zero(
    Counter(
        "mailsift_chunk_attempts_total",
        "Attempts at chunks, by how they ended",
        ["outcome"],
        registry=None,
    ),
    _ENDS,
)
STEP_RUN: Final = from_zero(
    Histogram(
        "mailsift_step_run_seconds",
        "How long the intake or the finish of a job took",
        ["step"],
        registry=None,
        buckets=LONG_SECONDS,
    ),
    _STEPS,
)
STEP_ATTEMPTS: Final = from_zero(
    Counter(
        "mailsift_step_attempts_total",
        "Attempts at intake and finish, by how they ended",
        ["step", "outcome"],
        registry=None,
    ),
    _STEPS,
    _ENDS,
)
ADDRESSES: Final = Counter(
    "mailsift_addresses_total",
    "Addresses judged, each distinct one of a list once",
    ["verdict", "result"],
    registry=None,
)
for _status, _result in sorted({(row.status, row.result) for row in ROWS}):
    ADDRESSES.labels(_status, _result)
DEFERRED: Final = from_zero(
    Counter(
        "mailsift_residual_total",
        "Addresses that were not finished in their chunk and come back, by what they wait for",
        ["reason"],
        registry=None,
    ),
    [TRIAGE, *WaitReason],
)
FAILING_CHUNKS: Final = from_zero(
    Counter(
        "mailsift_poison_total",
        "Chunks that kept killing their workers: split, or a single address judged without looking",
        ["action"],
        registry=None,
    ),
    ["split", "given_up"],
)
LEASES_EXPIRED: Final = from_zero(
    Counter(
        "mailsift_lease_expired_total",
        "Leases of dead workers that a sweep has freed",
        ["kind"],
        registry=None,
    ),
    ["chunk", "delivery"],
)
UPKEEP_ERRORS: Final = from_zero(
    Counter(
        "mailsift_upkeep_errors_total",
        "Tasks beside lists that failed though nothing they need was away",
        ["task"],
        registry=None,
    ),
    UPKEEP_TASKS,
)
JOBS_ENDED: Final = from_zero(
    Counter(
        "mailsift_jobs_ended_total",
        "Jobs that came to their end, those of test mode too",
        ["state"],
        registry=None,
    ),
    [end.target for end in (JobTransition.COMPLETE, JobTransition.FAIL, JobTransition.CANCEL)],
)
WAKE_UPS: Final = from_zero(
    Counter(
        "mailsift_wakeups_total",
        "Wake-ups given to the broker, or lost as it was away",
        ["fate"],
        registry=None,
    ),
    ["sent", "lost"],
)
SWEPT: Final = Gauge(
    "mailsift_sweeper_last_tick_timestamp_seconds",
    "When a process of this worker last swept, in seconds since the epoch",
    registry=None,
    multiprocess_mode="max",
)
SCHEDULE_RUNS: Final = Counter(
    "mailsift_schedule_runs_total", "Jobs that schedules have started", registry=None
)
SCHEDULE_MISSED: Final = from_zero(
    Counter(
        "mailsift_schedule_missed_total",
        "Slots of schedules that were left out",
        ["reason"],
        registry=None,
    ),
    ["missed", "still_running", "failed"],
)
UP: Final = Gauge(
    "mailsift_worker_up",
    "Processes of this worker whose engine runs",
    registry=None,
    multiprocess_mode="livesum",
)
SLOTS: Final = from_zero(
    Gauge(
        "mailsift_worker_slots",
        "Chunks and steps this worker may have in flight, and how many of them may be surveys",
        ["kind"],
        registry=None,
        multiprocess_mode="livesum",
    ),
    ["all", "survey"],
)
IN_FLIGHT: Final = from_zero(
    Gauge(
        "mailsift_worker_inflight",
        "What this worker has in flight",
        ["kind"],
        registry=None,
        multiprocess_mode="livesum",
    ),
    ["chunk", "survey", "step", "delivery"],
)
LOOP_LAG: Final = Gauge(
    "mailsift_worker_loop_lag_seconds",
    "How long the event loop of the slowest process was blocked at worst since its last heartbeat",
    registry=None,
    multiprocess_mode="livemax",
)
MEMORY: Final = Gauge(
    "mailsift_worker_memory_bytes",
    "Resident memory of this worker's processes",
    registry=None,
    multiprocess_mode="livesum",
)

SHARED: Final = (ADDRESSES, JOBS_ENDED, WAKE_UPS)
"""What the API counts too."""
METRICS: Final = (
    *(CLAIM, RUN, PHASES, ATTEMPTS, STEP_RUN, STEP_ATTEMPTS, DEFERRED, FAILING_CHUNKS, LEASES_EXPIRED),
    UPKEEP_ERRORS,
    *(SWEPT, SCHEDULE_RUNS, SCHEDULE_MISSED, UP, SLOTS, IN_FLIGHT, LOOP_LAG, MEMORY),
)
"""What only workers count."""


def count_verdicts(finished: pl.DataFrame) -> None:
    """Count the verdicts of a frame by status and result."""
    # By one key, which polars counts in this thread: where lists are small, to change threads takes longer.
    verdicts = finished.select("status", "result").to_struct()
    for verdict, times in verdicts.value_counts().iter_rows():
        ADDRESSES.labels(verdict["status"], verdict["result"]).inc(times)


def count_verdict(status: str, result: str) -> None:
    """Count one verdict."""
    ADDRESSES.labels(status, result).inc()


def count_waiting(waiting: pl.DataFrame) -> None:
    """Count the addresses that come back by reason."""
    for reason, times in waiting.group_by("reason").len().iter_rows():
        DEFERRED.labels(reason).inc(times)


def count_phases(seconds: Mapping[str, float]) -> None:
    """Count where the time of a chunk went."""
    for phase, spent in seconds.items():
        PHASES.labels(phase).inc(spent)


def count_missed(code: str) -> None:
    """Count a slot that was left out; codes of errors are one reason."""
    SCHEDULE_MISSED.labels(code if code in {"missed", "still_running"} else "failed").inc()
