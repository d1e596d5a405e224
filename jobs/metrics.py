"""What jobs count: chunks, steps, verdicts, and how the processes that work on them fare."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge, Histogram

from mailsift.pipeline.facts import TRIAGE, WaitReason
from mailsift.pipeline.metrics import LONG_SECONDS, SECONDS, declare
from mailsift.pipeline.verdict import VERDICT_ROWS
from mailsift.storage.states import JobTransition

if TYPE_CHECKING:
    import polars as pl

_ENDS: Final = ("done", "error", "lease_lost", "stopped")
_STEPS: Final = (JobTransition.TAKE_IN.target, *JobTransition.COMPLETE.sources)

CLAIM: Final = declare(
    Histogram, "mailsift_chunk_claim_seconds", "How long the claim of a chunk took", buckets=SECONDS
)
RUN: Final = declare(
    Histogram,
    "mailsift_chunk_run_seconds",
    "How long a chunk was worked on, whatever came of it",
    buckets=LONG_SECONDS,
)
PHASES: Final = declare(
    Counter,
    "mailsift_chunk_phase_seconds_total",
    "Where the time of chunks went",
    {"phase": ["claim", "read", "sift", "store", "commit"]},
)
ATTEMPTS: Final = declare(
    Counter, "mailsift_chunk_attempts_total", "Attempts at chunks, by how they ended", {"outcome": _ENDS}
)
STEP_RUN: Final = declare(
    Histogram,
    "mailsift_step_run_seconds",
    "How long the intake or the finish of a job took",
    {"step": _STEPS},
    buckets=LONG_SECONDS,
)
STEP_ATTEMPTS: Final = declare(
    Counter,
    "mailsift_step_attempts_total",
    "Attempts at intake and finish, by how they ended",
    {"step": _STEPS, "outcome": _ENDS},
)
ADDRESSES: Final = declare(
    Counter,
    "mailsift_addresses_total",
    "Addresses judged, each distinct one of a list once",
    {"verdict": (), "result": ()},
)
for _status, _result in sorted({(row.status, row.result) for row in VERDICT_ROWS}):
    ADDRESSES.labels(_status, _result)
DEFERRED: Final = declare(
    Counter,
    "mailsift_residual_total",
    "Addresses that were not finished in their chunk and come back, by what they wait for",
    {"reason": [TRIAGE, *WaitReason]},
)
FAILING_CHUNKS: Final = declare(
    Counter,
    "mailsift_poison_total",
    "Chunks that kept killing their workers: split, or a single address judged without looking",
    {"action": ["split", "given_up"]},
)
LEASES_EXPIRED: Final = declare(
    Counter,
    "mailsift_lease_expired_total",
    "Leases of dead workers that a sweep has freed",
    {"kind": ["chunk", "delivery"]},
)
JOBS_ENDED: Final = declare(
    Counter,
    "mailsift_jobs_ended_total",
    "Jobs that came to their end, those of test mode too",
    {"state": [end.target for end in (JobTransition.COMPLETE, JobTransition.FAIL, JobTransition.CANCEL)]},
)
WAKE_UPS: Final = declare(
    Counter,
    "mailsift_wakeups_total",
    "Wake-ups given to the broker, or lost as it was away",
    {"fate": ["sent", "lost"]},
)
SWEPT: Final = declare(
    Gauge,
    "mailsift_sweeper_last_tick_timestamp_seconds",
    "When a process of this worker last swept, in seconds since the epoch",
    multiprocess_mode="max",
)
SCHEDULE_RUNS: Final = declare(Counter, "mailsift_schedule_runs_total", "Jobs that schedules have started")
SCHEDULE_MISSED: Final = declare(
    Counter,
    "mailsift_schedule_missed_total",
    "Slots of schedules that were left out",
    {"reason": ["missed", "still_running", "nothing_to_retry", "failed"]},
)
UP: Final = declare(
    Gauge, "mailsift_worker_up", "Processes of this worker whose engine runs", multiprocess_mode="livesum"
)
SLOTS: Final = declare(
    Gauge,
    "mailsift_worker_slots",
    "Chunks and steps this worker may have in flight, and how many of them may be surveys",
    {"kind": ["all", "survey"]},
    multiprocess_mode="livesum",
)
IN_FLIGHT: Final = declare(
    Gauge,
    "mailsift_worker_inflight",
    "What this worker has in flight",
    {"kind": ["chunk", "survey", "step", "delivery"]},
    multiprocess_mode="livesum",
)
LOOP_LAG: Final = declare(
    Gauge,
    "mailsift_worker_loop_lag_seconds",
    "How long the event loop of the slowest process was blocked at worst since its last heartbeat",
    multiprocess_mode="livemax",
)
MEMORY: Final = declare(
    Gauge,
    "mailsift_worker_memory_bytes",
    "Resident memory of this worker's processes",
    multiprocess_mode="livesum",
)

SHARED: Final = (ADDRESSES, JOBS_ENDED, WAKE_UPS)
"""What the API counts too."""
METRICS: Final = (
    *(CLAIM, RUN, PHASES, ATTEMPTS, STEP_RUN, STEP_ATTEMPTS, DEFERRED, FAILING_CHUNKS, LEASES_EXPIRED),
    *(SWEPT, SCHEDULE_RUNS, SCHEDULE_MISSED, UP, SLOTS, IN_FLIGHT, LOOP_LAG, MEMORY),
)
"""What only workers count."""


def count_verdicts(finished: pl.DataFrame) -> None:
    """Count the verdicts of a frame by status and result."""
    # By one key, which polars counts in this thread: where lists are small, to change threads takes longer.
    verdicts = finished[["status", "result"]].to_struct()
    for verdict, times in verdicts.value_counts().iter_rows():
        _addresses_of(verdict["status"], verdict["result"]).inc(times)


def count_verdict(status: str, result: str) -> None:
    """Count one verdict."""
    _addresses_of(status, result).inc()


@lru_cache(maxsize=256)
def _addresses_of(status: str, result: str) -> Counter:
    """Return what counts such verdicts; to look it up by its labels takes longer than to count."""
    return ADDRESSES.labels(status, result)


def count_waiting(waiting: pl.DataFrame) -> None:
    """Count the addresses that come back by reason."""
    for reason, times in waiting["reason"].value_counts().iter_rows():
        DEFERRED.labels(reason).inc(times)


_NO_FAULTS: Final[Mapping[str, str]] = {
    "missed": "missed",
    "still_running": "still_running",
    "nothing_to_retry": "nothing_to_retry",
    "no_results_yet": "nothing_to_retry",
}


def count_missed(code: str) -> None:
    """Count a slot that was left out; codes of errors are one reason."""
    SCHEDULE_MISSED.labels(_NO_FAULTS.get(code, "failed")).inc()
