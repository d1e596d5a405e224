"""The timeline of a job, from rows as the database tells them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from mailsift.jobs.admin.console import JobTimeline, timeline
from mailsift.jobs.views import JobView
from mailsift.storage.sql.stats import ChunkHistory, DeliveryHistory, Failure, ObservedWait
from mailsift.storage.states import JobState

AT = datetime(2026, 11, 22, 10, tzinfo=UTC)


def after(minutes: int) -> datetime:
    return AT + timedelta(minutes=minutes)


def view(**change: Any) -> JobView:
    usual = {
        "created_at": AT,
        "finished_at": None,
        "state": JobState.RUNNING,
        "name": "spring.csv",
        "total": 1_200,
        "addresses": 1_100,
        "chunks": 4,
        "error_code": "",
        "error_detail": "",
    }
    return cast("JobView", SimpleNamespace(**{**usual, **change}))


def test_a_job_that_has_not_begun_was_uploaded_and_no_more() -> None:
    history = JobTimeline(None, ChunkHistory(None, None, 0), [], [])
    assert [one.title for one in timeline(view(), history)] == ["Uploaded"]


def test_what_happened_and_what_is_to_come_stand_in_the_order_of_time() -> None:
    failures = [Failure("builtins.MemoryError", 2, 3, after(4))]
    history = JobTimeline(
        after(1),
        ChunkHistory(after(2), after(9), 3, failures),
        [ObservedWait("greylisted", 40, after(30))],
        [DeliveryHistory("bulk.validation.completed", "hooks.example", "pending", 2, after(40))],
    )
    found = timeline(view(), history)
    assert [one.title for one in found] == [
        "Uploaded",
        "Read, and the first chunk begun",
        "Tried again",
        "Last chunk begun so far",
        "Goes on",
        "Will tell hooks.example",
    ]
    assert [one.at for one in found] == sorted(one.at for one in found)
    assert found[2].detail == "2 chunks, up to 3 tries: builtins.MemoryError"
    assert found[4].detail == "40 addresses wait for greylisting"


def test_the_end_says_how_it_came() -> None:
    history = JobTimeline(after(8), ChunkHistory(after(2), after(5), 4), [], [])
    failed = view(state=JobState.FAILED, finished_at=after(9), error_detail="No column holds addresses.")
    assert timeline(failed, history)[-1].kind == "bad"
    assert timeline(failed, history)[-1].detail == "No column holds addresses."
    ended = timeline(view(state=JobState.COMPLETED, finished_at=after(9)), history)
    assert [one.title for one in ended][-2:] == ["Finishing began", "Completed"]


def test_one_of_anything_is_told_as_one() -> None:
    history = JobTimeline(
        after(1),
        ChunkHistory(after(2), after(9), 1, [Failure("builtins.MemoryError", 1, 1, after(4))]),
        [ObservedWait("greylisted", 1, after(30))],
        [],
    )
    found = timeline(view(total=1, addresses=1, chunks=1), history)
    assert [one.detail for one in found if "1" in one.detail] == [
        "1 row, 1 address, 1 chunk",
        "1 chunk, up to 1 try: builtins.MemoryError",
        "1 of 1 are done",
        "1 address waits for greylisting",
    ]
