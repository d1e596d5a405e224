from __future__ import annotations

import itertools

import pytest

from jobs.states import TRANSITIONS, Step, sources, target
from jobs.views import TERMINAL, JobState
from storage.tables import JOB_STATES

ALLOWED = {
    Step.TAKE_IN: {JobState.UPLOADING, JobState.INTAKE},
    Step.PLAN: {JobState.INTAKE},
    Step.START: {JobState.QUEUED, JobState.RUNNING},
    Step.PAUSE: {JobState.QUEUED, JobState.RUNNING},
    Step.RESUME: {JobState.PAUSED},
    Step.CLOSE: {JobState.QUEUED, JobState.RUNNING, JobState.PAUSED},
    Step.COMPLETE: {JobState.FINALIZING},
    Step.FAIL: {JobState.INTAKE, JobState.FINALIZING},
    Step.CANCEL: {
        JobState.UPLOADING,
        JobState.INTAKE,
        JobState.QUEUED,
        JobState.RUNNING,
        JobState.PAUSED,
    },
}


@pytest.mark.parametrize(("state", "step"), list(itertools.product(JobState, Step)))
def test_every_pair_of_state_and_step_is_allowed_or_not_as_written_here(state: JobState, step: Step) -> None:
    assert ((state, step) in TRANSITIONS) == (state in ALLOWED[step])


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_terminal_state_never_changes(state: JobState) -> None:
    assert not [step for step in Step if (state, step) in TRANSITIONS]


@pytest.mark.parametrize("step", list(Step))
def test_a_step_leads_to_one_state(step: Step) -> None:
    assert {TRANSITIONS[state, step] for state in sources(step)} == {target(step)}


def test_every_state_can_be_reached_and_left() -> None:
    reached = {JobState.UPLOADING, *TRANSITIONS.values()}
    left = {state for state, _ in TRANSITIONS}
    assert reached == set(JobState)
    assert left == set(JobState) - TERMINAL


def test_the_database_knows_the_same_states() -> None:
    assert set(JOB_STATES) == {state.value for state in JobState}
