from __future__ import annotations

import re
from pathlib import Path

import pytest

import mailsift.storage.sql
from mailsift.events.retry import DeliveryState
from mailsift.storage import states
from mailsift.storage.states import ENDED, SQL_PIECES, ChunkState, ChunkTransition, JobState, JobTransition
from tests.support.states_page import PAGE, states_page

STATEMENTS = sorted(Path(mailsift.storage.sql.__path__[0]).glob("*.py"))


def test_a_job_that_has_ended_never_changes_and_every_other_state_is_reached_and_left() -> None:
    left = {state for transition in JobTransition for state in transition.sources}
    assert left == set(JobState) - ENDED
    assert {JobState.UPLOADING} | {transition.target for transition in JobTransition} == set(JobState)


def test_a_chunk_that_has_ended_never_changes_and_every_other_state_is_reached_and_left() -> None:
    left = {state for transition in ChunkTransition for state in transition.sources}
    assert left == set(ChunkState) - {ChunkState.DONE, ChunkState.CANCELLED}
    assert {ChunkState.READY} | {transition.target for transition in ChunkTransition} == set(ChunkState)


@pytest.mark.parametrize("path", STATEMENTS, ids=lambda path: path.stem)
def test_a_statement_takes_its_lists_of_states_from_the_table_and_invents_none(path: Path) -> None:
    text = path.read_text()
    lists = re.findall(r"state (?:NOT )?IN \(([^)]*)\)", text)
    assert [listed for listed in lists if set(re.findall(r"\w+", listed)) & {*JobState, *ChunkState}] == []
    named = set(re.findall(r"state (?:=|<>|WHEN) '(\w+)'", text))
    assert named <= {*JobState, *ChunkState, *DeliveryState}
    assert set(re.findall(r"state (?:NOT )?IN \{(\w+)\}", text)) <= set(SQL_PIECES)


def test_a_list_in_sql_is_the_states_in_quotes() -> None:
    assert states.sql_list(states.CLAIMABLE) == "('queued', 'running')"
    assert SQL_PIECES["ended"] == "('completed', 'failed', 'cancelled')"


def test_the_page_shows_the_machines_as_they_are() -> None:
    assert PAGE.read_text(encoding="utf-8") == states_page(), "python -m tests.support.states_page"
