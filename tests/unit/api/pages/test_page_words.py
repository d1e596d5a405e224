"""What pages call things: every state, mode and result has a name, and waiting becomes a sentence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from mailsift.api.pages.jobs import RowsQuery, chips_of
from mailsift.api.pages.words import (
    AFTER_FAILURE,
    ANSWERS,
    DOMAIN_STATES,
    MODES,
    REASON_OF,
    provider_name,
    result_choices,
    result_name,
    waits,
)
from mailsift.jobs.intake.models import LIST_FAULTS
from mailsift.jobs.views import JobId
from mailsift.pipeline.facts import Answer, DomainState, Mode, WaitReason
from mailsift.pipeline.providers import PROVIDERS
from mailsift.pipeline.verdict import Result
from mailsift.storage.sql.chunks import Waiting
from mailsift.storage.states import DOING, JobState

NOON = datetime(2026, 11, 21, 12, 3, tzinfo=UTC)


@pytest.mark.parametrize("what", ["storage", "memory", "threads"])
def test_a_job_waits_for_what_the_machine_lacks_as_a_whole(what: str) -> None:
    until = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
    assert waits([Waiting("", what, 40, until)]) == [f"The job waits for {what}, until 12:30:00 UTC"]


def wait(lane: str, reason: str, addresses: int, minutes: int = 0) -> Waiting:
    return Waiting(lane, reason, addresses, NOON + timedelta(minutes=minutes))


def test_everything_there_is_has_a_name() -> None:
    assert set(DOING) == set(JobState)
    assert set(MODES) == set(Mode)
    assert set(AFTER_FAILURE) == set(LIST_FAULTS)
    assert set(REASON_OF) == set(Result)
    assert set(ANSWERS) == set(Answer)
    assert set(DOMAIN_STATES) == set(DomainState)
    assert [value for value, _ in result_choices()] == [result.value for result in Result]
    assert (result_name("mailbox_not_found"), result_name("null_mx")) == ("Mailbox not found", "Null MX")


def test_a_provider_is_found_by_what_pages_call_it_and_by_its_key() -> None:
    for key in (*(row.key for row in PROVIDERS), "mixed", "mx.example.net"):
        name = provider_name(key)
        for typed in (key, name, f" {name.upper()} "):
            asked = RowsQuery(provider=typed)
            assert asked.wanted().provider == key, typed
            (chip,) = chips_of(asked, JobId(UUID(int=1)))
            assert chip.words == f"Provider: {name}"


def test_a_result_of_several_rows_of_the_table_is_explained_for_all_of_them() -> None:
    assert "neither" not in REASON_OF[Result.PASSED]
    assert "greylisting" not in REASON_OF[Result.DEFERRED]


def test_waiting_is_one_sentence_a_reason() -> None:
    sentences = waits(
        [
            wait("mx.one.test", "greylisted", 3),
            wait("slow.test", "deferred", 1),
            wait("mx.two.test", "greylisted", 309),
            wait("~", "slow", 2_000, 1),
            wait("*", "slow", 1, 5),
        ]
    )
    assert sentences == [
        "312 addresses wait for greylisting at 2 providers, until 12:03:00 UTC",
        "1 address waits because the server said “later” at slow.test, until 12:03:00 UTC",
        "2,001 addresses wait for slow servers, from 12:04:00 to 12:08:00 UTC",
    ]
    assert waits([wait("microsoft365", "throttled", 2)]) == [
        "2 addresses wait for the provider rate limit at Microsoft 365, until 12:03:00 UTC"
    ]
    assert waits([]) == []


def test_every_reason_to_wait_is_told_in_words_and_an_unknown_one_all_the_same() -> None:
    for reason in WaitReason:
        (sentence,) = waits([wait("", reason, 2)])
        assert f"({reason.value}" not in sentence
    assert waits([wait("", "error", 2)]) == ["2 addresses wait (error), until 12:03:00 UTC"]
