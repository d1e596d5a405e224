"""What jobs and chunks may be and become: the SQL takes its states from here, docs/states.md its pictures.

And which processes are there, of those that have told of themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, StrEnum
from typing import Final


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


DOING: Final = {
    JobState.UPLOADING: "Waiting for a worker to read the list",
    JobState.INTAKE: "Reading the list",
    JobState.QUEUED: "Waiting for its turn",
    JobState.RUNNING: "Validating",
    JobState.PAUSED: "Paused",
    JobState.FINALIZING: "Writing the results",
    JobState.COMPLETED: "Completed",
    JobState.FAILED: "Failed",
    JobState.CANCELLED: "Cancelled",
}
"""What a job does in a state, for people."""


class ChunkState(StrEnum):
    """Where a chunk stands; the last two are terminal. A deferred chunk is `ready` at a later time."""

    READY = "ready"
    LEASED = "leased"
    DONE = "done"
    CANCELLED = "cancelled"


_J, _C = JobState, ChunkState


class JobTransition(Enum):
    """What can happen to a job: the states in which it may, the state it leads to, and when it does."""

    TAKE_IN = (_J.UPLOADING, _J.INTAKE), _J.INTAKE, "a worker leases the intake, again after a crash"
    PLAN = (_J.INTAKE,), _J.QUEUED, "the list is read and cut into chunks"
    START = (_J.QUEUED, _J.RUNNING), _J.RUNNING, "a chunk is claimed"
    PAUSE = (_J.QUEUED, _J.RUNNING), _J.PAUSED, "somebody pauses it"
    RESUME = (_J.PAUSED,), _J.QUEUED, "somebody resumes it"
    # Leased chunks may finish while a job is paused or has just been resumed.
    CLOSE = (_J.QUEUED, _J.RUNNING, _J.PAUSED), _J.FINALIZING, "its last open chunk is done"
    REDO = (_J.FINALIZING,), _J.QUEUED, "verdicts are lost or damaged: their addresses are asked again"
    COMPLETE = (_J.FINALIZING,), _J.COMPLETED, "its results are written"
    FAIL = (_J.INTAKE, _J.FINALIZING), _J.FAILED, "the list cannot be read, or the results cannot be written"
    CANCEL = (
        (_J.UPLOADING, _J.INTAKE, _J.QUEUED, _J.RUNNING, _J.PAUSED, _J.FINALIZING),
        _J.CANCELLED,
        "somebody cancels it",
    )

    def __init__(self, sources: tuple[JobState, ...], target: JobState, when: str) -> None:
        self.sources = sources
        self.target = target
        self.when = when


class ChunkTransition(Enum):
    """What can happen to a chunk, as JobTransition says it of a job."""

    CLAIM = (_C.READY,), _C.LEASED, "a worker claims it"
    CLOSE = (_C.LEASED,), _C.DONE, "its verdicts are committed"
    RELEASE = (_C.LEASED,), _C.READY, "its worker gives it back"
    EXPIRE = (_C.LEASED,), _C.READY, "its lease runs out"
    TAKE_BACK = (_C.LEASED,), _C.READY, "an operator ends its lease"
    CANCEL = (_C.READY, _C.LEASED), _C.CANCELLED, "its job is cancelled"

    def __init__(self, sources: tuple[ChunkState, ...], target: ChunkState, when: str) -> None:
        self.sources = sources
        self.target = target
        self.when = when


_T = JobTransition

ENDED: Final = frozenset({_T.COMPLETE.target, _T.FAIL.target, _T.CANCEL.target})
"""Terminal states of a job."""
UNREAD: Final = _T.TAKE_IN.sources
"""States of a job whose list nobody has read."""
CLAIMABLE: Final = _T.START.sources
"""States of a job whose chunks may be claimed."""
WORKED: Final = _T.CLOSE.sources
"""States of a job that may have open chunks."""
STEP_HELD: Final = (_T.TAKE_IN.target, *_T.COMPLETE.sources)
"""States of a job whose intake or finish may be leased."""
STEP_DUE: Final = tuple(dict.fromkeys((*_T.TAKE_IN.sources, *_T.COMPLETE.sources)))
"""States of a job whose intake or finish may be claimed."""
UNSTARTED: Final = (*_T.TAKE_IN.sources, _T.PLAN.target)
"""States of a job of which no chunk has been claimed, unless it was resumed."""
UNFINISHED: Final = (*WORKED, _T.CLOSE.target)
"""States of a job that has its chunks and not yet its results."""
UNPAUSED: Final = (*_T.TAKE_IN.sources, *CLAIMABLE, _T.CLOSE.target)
"""States of a job that is on its way."""
OPEN_CHUNK: Final = ChunkTransition.CANCEL.sources
"""States of a chunk that is not at its end."""


class JobPhase(Enum):
    """What a state amounts to, for who knows only this much."""

    UNSTARTED = "unstarted"
    UNDER_WAY = "under way"
    COMPLETED = "completed"
    FAILED = "failed"


def phase_of(state: JobState) -> JobPhase:
    """Return the phase that a state belongs to; a cancelled job has failed."""
    if state in ENDED:
        return JobPhase.COMPLETED if state is _T.COMPLETE.target else JobPhase.FAILED
    return JobPhase.UNSTARTED if state in UNSTARTED else JobPhase.UNDER_WAY


def sql_list(states: Iterable[str]) -> str:
    """Return states as SQL writes them behind IN: `('queued', 'running')`."""
    return "(" + ", ".join(f"'{state}'" for state in states) + ")"


_MISSED_BEATS: Final = 2
"""A process that misses so many heartbeats in a row is gone."""
_HEARD_OF: Final = f"(beat_at >= clock_timestamp() - make_interval(secs => {_MISSED_BEATS} * beat_s + 1))"
_OPEN_CHUNKS: Final = """open_chunk AS (
        SELECT job_id, lane, state, waits_for, ready_at, addresses, domains,
            lease_owner, lease_until, leased_at, source_key
        FROM chunk WHERE state = 'ready'
        UNION ALL
        SELECT job_id, lane, state, waits_for, ready_at, addresses, domains,
            lease_owner, lease_until, leased_at, source_key
        FROM chunk WHERE state = 'leased'
    )"""
"""By both partial indexes: no chunk that is done is looked at."""

SQL_PIECES: Final = {
    "take_in": sql_list(_T.TAKE_IN.sources),
    "ended": sql_list(state for state in JobState if state in ENDED),
    "claimable": sql_list(CLAIMABLE),
    "worked": sql_list(WORKED),
    "step_held": sql_list(STEP_HELD),
    "step_due": sql_list(STEP_DUE),
    "finish_due": sql_list(_T.COMPLETE.sources),
    "unstarted": sql_list(UNSTARTED),
    "unfinished": sql_list(UNFINISHED),
    "unpaused": sql_list(UNPAUSED),
    "open_chunk": sql_list(OPEN_CHUNK),
    "open_chunks": _OPEN_CHUNKS,
    "heard_of": _HEARD_OF,
    "live_worker": f"stopped_at IS NULL AND drain_since IS NULL AND {_HEARD_OF}",
}
"""What a statement may name in braces (mailsift.storage.database.statement)."""
