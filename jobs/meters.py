"""What jobs count: chunks, steps, verdicts, and how the processes that work on them fare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from jobs.states import Step, sources, target
from pipeline.judge.table import ROWS
from pipeline.meter import LONG_SECONDS, Counter, Gauge, Histogram, Label, Merge, Meter
from pipeline.probe.words import SURVEY, WaitReason
from pipeline.verdict import Result, Status

if TYPE_CHECKING:
    import polars as pl

_ENDS: Final = ("done", "error", "lease_lost", "stopped")
_STEPS: Final = Label("step", (target(Step.TAKE_IN), *sources(Step.COMPLETE)))

CLAIM: Final = Histogram("mailsift_chunk_claim_seconds", "How long the claim of a chunk took")
RUN: Final = Histogram(
    "mailsift_chunk_run_seconds", "How long a chunk was worked on, whatever came of it", buckets=LONG_SECONDS
)
PHASES: Final = Counter(
    "mailsift_chunk_phase_seconds_total",
    "Where the time of chunks went",
    Label("phase", ("claim", "read", "sift", "store", "commit")),
)
ATTEMPTS: Final = Counter(
    "mailsift_chunk_attempts_total", "Attempts at chunks, by how they ended", Label("outcome", _ENDS)
)
STEP_RUN: Final = Histogram(
    "mailsift_step_run_seconds",
    "How long the intake or the finish of a job took",
    _STEPS,
    buckets=LONG_SECONDS,
)
STEP_ATTEMPTS: Final = Counter(
    "mailsift_step_attempts_total",
    "Attempts at intake and finish, by how they ended",
    _STEPS,
    Label("outcome", _ENDS),
)
ADDRESSES: Final = Counter(
    "mailsift_addresses_total",
    "Addresses judged, each distinct one of a list once",
    Label("verdict", tuple(Status)),
    Label("result", tuple(Result)),
    starts=sorted({(row.status.value, row.result.value) for row in ROWS}),
)
RESIDUAL: Final = Counter(
    "mailsift_residual_total",
    "Addresses that were not finished in their chunk and come back, by what they wait for",
    Label("reason", (SURVEY, *WaitReason)),
)
POISON: Final = Counter(
    "mailsift_poison_total",
    "Chunks that kept killing their workers: split, or a single address judged without looking",
    Label("action", ("split", "given_up")),
)
LEASES_EXPIRED: Final = Counter(
    "mailsift_lease_expired_total",
    "Leases of dead workers that a sweep has freed",
    Label("kind", ("chunk", "delivery")),
)
JOBS_ENDED: Final = Counter(
    "mailsift_jobs_ended_total",
    "Jobs that came to their end",
    Label("state", tuple(target(step) for step in (Step.COMPLETE, Step.FAIL, Step.CANCEL))),
)
WAKE_UPS: Final = Counter(
    "mailsift_wakeups_total",
    "Wake-ups given to the broker, or lost as it was away",
    Label("fate", ("sent", "lost")),
)
SWEPT: Final = Gauge(
    "mailsift_sweeper_last_tick_timestamp_seconds",
    "When a process of this worker last swept, in seconds since the epoch",
    merge=Merge.LATEST,
)
SCHEDULE_RUNS: Final = Counter("mailsift_schedule_runs_total", "Jobs that schedules have started")
SCHEDULE_MISSED: Final = Counter(
    "mailsift_schedule_missed_total",
    "Slots of schedules that were left out",
    Label("reason", ("missed", "still_running", "failed")),
)
UP: Final = Gauge("mailsift_worker_up", "Processes of this worker whose engine runs")
SLOTS: Final = Gauge(
    "mailsift_worker_slots",
    "Chunks and steps this worker may have in flight, and how many of them may be surveys",
    Label("kind", ("all", "survey")),
)
IN_FLIGHT: Final = Gauge(
    "mailsift_worker_inflight",
    "What this worker has in flight",
    Label("kind", ("chunk", "survey", "step", "delivery")),
)
LOOP_LAG: Final = Gauge(
    "mailsift_worker_loop_lag_seconds",
    "How long the event loop of the slowest process was blocked at worst since its last heartbeat",
    merge=Merge.MOST,
)
MEMORY: Final = Gauge("mailsift_worker_memory_bytes", "Resident memory of this worker's processes")

SHARED: Final[tuple[Meter, ...]] = (ADDRESSES, JOBS_ENDED, WAKE_UPS)
"""What the API counts too."""
METERS: Final[tuple[Meter, ...]] = (
    *(CLAIM, RUN, PHASES, ATTEMPTS, STEP_RUN, STEP_ATTEMPTS, RESIDUAL, POISON, LEASES_EXPIRED),
    *(SWEPT, SCHEDULE_RUNS, SCHEDULE_MISSED, UP, SLOTS, IN_FLIGHT, LOOP_LAG, MEMORY),
)
"""What only workers count."""


def count_verdicts(finished: pl.DataFrame) -> None:
    """Count the verdicts of a frame by status and result."""
    for status, result, times in finished.group_by("status", "result").len().iter_rows():
        ADDRESSES.add(status, result, amount=times)


def count_waiting(waiting: pl.DataFrame) -> None:
    """Count the addresses that come back by reason."""
    for reason, times in waiting.group_by("reason").len().iter_rows():
        RESIDUAL.add(reason, amount=times)


def count_phases(seconds: Mapping[str, float]) -> None:
    """Count where the time of a chunk went."""
    for phase, spent in seconds.items():
        PHASES.add(phase, amount=spent)


def count_missed(code: str) -> None:
    """Count a slot that was left out; codes of errors are one reason."""
    SCHEDULE_MISSED.add(code if code in {"missed", "still_running"} else "failed")
