"""Where a job may go: one table, and nothing else decides it."""

from __future__ import annotations

from enum import StrEnum

from jobs.views import TERMINAL, JobState


class Step(StrEnum):
    """What can happen to a job."""

    TAKE_IN = "take_in"  # a worker leases the intake
    PLAN = "plan"  # the chunks are there
    START = "start"  # the first chunk is claimed
    PAUSE = "pause"
    RESUME = "resume"
    CLOSE = "close"  # the last open chunk is done
    COMPLETE = "complete"  # the results are written
    FAIL = "fail"
    CANCEL = "cancel"


_S = JobState

TRANSITIONS: dict[tuple[JobState, Step], JobState] = {
    (_S.UPLOADING, Step.TAKE_IN): _S.INTAKE,
    (_S.INTAKE, Step.TAKE_IN): _S.INTAKE,  # after a crash, by another worker
    (_S.INTAKE, Step.PLAN): _S.QUEUED,
    (_S.QUEUED, Step.START): _S.RUNNING,
    (_S.RUNNING, Step.START): _S.RUNNING,
    (_S.QUEUED, Step.PAUSE): _S.PAUSED,
    (_S.RUNNING, Step.PAUSE): _S.PAUSED,
    (_S.PAUSED, Step.RESUME): _S.QUEUED,
    (_S.RUNNING, Step.CLOSE): _S.FINALIZING,
    (_S.QUEUED, Step.CLOSE): _S.FINALIZING,  # resumed while its last leased chunk was finishing
    (_S.PAUSED, Step.CLOSE): _S.FINALIZING,  # leased chunks may finish; nothing is left to pause
    (_S.FINALIZING, Step.COMPLETE): _S.COMPLETED,
    (_S.INTAKE, Step.FAIL): _S.FAILED,
    (_S.FINALIZING, Step.FAIL): _S.FAILED,
    **{
        (state, Step.CANCEL): _S.CANCELLED
        for state in JobState
        if state not in TERMINAL and state is not _S.FINALIZING
    },
}


def sources(step: Step) -> frozenset[JobState]:
    """Return the states in which the step may happen."""
    return frozenset(state for (state, taken) in TRANSITIONS if taken is step)


def target(step: Step) -> JobState:
    """Return where the step leads; every step leads to one state."""
    (state,) = {to for (_, taken), to in TRANSITIONS.items() if taken is step}
    return state
