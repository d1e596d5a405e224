"""Which jobs an operator means, read from a form or a command."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mailsift.jobs.admin.console import read_filter
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.sql.jobs import JobFilter
from mailsift.storage.states import ENDED, JobState

NOW = 1_800_000_000.0
MOMENT = datetime.fromtimestamp(NOW, UTC)


def test_nothing_said_means_every_job() -> None:
    assert read_filter({}, now=NOW) == JobFilter()
    assert read_filter({"state": " ", "account": "", "text": "", "age": ""}, now=NOW) == JobFilter()
    assert read_filter({"account": "\0", "text": "a\0b"}, now=NOW) == JobFilter(text="ab")


def test_states_come_alone_or_as_a_group() -> None:
    assert read_filter({"state": "running"}, now=NOW).states == ("running",)
    assert set(read_filter({"state": "ended"}, now=NOW).states) == {state.value for state in ENDED}
    both = read_filter({"state": "ended"}, now=NOW).states + read_filter({"state": "open"}, now=NOW).states
    assert sorted(both) == sorted(JobState)


@pytest.mark.parametrize(
    ("age", "after", "before"),
    [
        ("<24h", MOMENT - timedelta(days=1), None),
        (">7d", None, MOMENT - timedelta(days=7)),
        (">90m", None, MOMENT - timedelta(minutes=90)),
    ],
)
def test_an_age_is_younger_or_older_than(age: str, after: datetime | None, before: datetime | None) -> None:
    found = read_filter({"age": age}, now=NOW)
    assert (found.after, found.before) == (after, before)


@pytest.mark.parametrize(
    "words",
    [
        {"state": "sleeping"},
        {"age": "24h"},
        {"age": "<0h"},
        {"age": "<1y"},
        {"age": "<999999d"},
        {"age": "="},
    ],
)
def test_what_nobody_can_mean_is_refused(words: dict[str, str]) -> None:
    with pytest.raises(MailsiftError) as refused:
        read_filter(words, now=NOW)
    assert refused.value.code == "bad_filter"
