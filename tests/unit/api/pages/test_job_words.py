"""What a job has come to and what it waits for, in sentences."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from mailsift.api.pages.jobs import rate_text, run_before, sentence_of, tiers_of
from mailsift.api.pages.words import provider_name, time_lines
from mailsift.jobs.eta import MIXED_LINE, TRIAGE_LINE, EtaLine
from mailsift.jobs.views import AccountId, JobId, JobOptions, JobView
from mailsift.storage.states import JobState

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


def job(
    send: int = 0,
    review: int = 0,
    remove: int = 0,
    *,
    state: JobState = JobState.COMPLETED,
    total: int = 0,
    preview: int = 0,
    part: bool = False,
    at: datetime = NOW,
) -> JobView:
    processed = send + review + remove
    return JobView(
        id=JobId(uuid4()),
        account_id=AccountId(uuid4()),
        parent_id=None,
        name="",
        state=state,
        total=total or processed,
        addresses=processed,
        processed=processed,
        valid=send,
        invalid=remove,
        risky=review,
        send=send,
        review=review,
        remove=remove,
        chunks=1,
        chunks_open=0,
        created_at=at,
        started_at=at,
        finished_at=at,
        error_code="",
        error_detail="",
        options=JobOptions(preview=preview, part=part),
    )


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (job(45_112, 3_204, 1_684), "45,112 of 50,000 rows are safe to send."),
        (job(7), "All 7 rows are safe to send."),
        (job(1), "The only row is safe to send."),
        (job(1, 1), "1 of 2 rows is safe to send."),
        (job(0, 0, 1), "The only row is not safe to send."),
        (job(30, 10, preview=40), "30 of 40 rows in the sample are safe to send."),
        (job(state=JobState.FAILED), ""),
        (
            job(800, 400, state=JobState.CANCELLED, total=6_000),
            "The job was cancelled with 1,200 of 6,000 rows validated; 800 are safe to send.",
        ),
        (
            job(9, 1, state=JobState.RUNNING, total=6_000),
            "9 of the 10 rows validated so far are safe to send.",
        ),
    ],
)
def test_a_job_is_told_in_one_sentence(view: JobView, expected: str) -> None:
    assert sentence_of(view) == expected


def test_tiers_add_up_and_tell_what_changed() -> None:
    before, now = job(10, 5, 5), job(12, 3, 5)
    tiers = tiers_of(now, before)
    assert [(tier.label, tier.rows, tier.share, tier.change) for tier in tiers] == [
        ("Safe to send", 12, "60.0 %", "+2"),
        ("To review", 3, "15.0 %", "−2"),
        ("To remove", 5, "25.0 %", ""),
    ]
    assert {tier.change for tier in tiers_of(now)} == {""}


def test_the_run_before_is_the_last_whole_one() -> None:
    hour = timedelta(hours=1)
    old, last = job(1, at=NOW - 3 * hour), job(1, at=NOW - 2 * hour)
    others = [
        job(1, at=NOW + hour),
        job(1, at=NOW - hour, preview=5),
        job(1, at=NOW - hour, part=True),
        job(1, at=NOW - hour, state=JobState.FAILED),
    ]
    assert run_before(job(1), [old, *others, last]) is last
    assert run_before(job(1), others) is None
    assert run_before(job(1, state=JobState.RUNNING), [last]) is None
    assert run_before(job(1, part=True), [last]) is None


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (0.0, ""),
        (441.4, "441 rows/s"),
        (9.96, "10 rows/s"),
        (1.0, "1 rows/s"),
        (0.96, "58 rows/min"),
        (0.03, "1.8 rows/min"),
        (0.001, "< 0.1 rows/min"),
    ],
)
def test_a_slow_job_has_a_pace_that_is_not_0(rows: float, expected: str) -> None:
    assert rate_text(rows) == expected


def test_what_the_end_depends_on_is_told_in_words() -> None:
    assert time_lines(
        [
            EtaLine("google", 16_279, 2.0, 8_139.0),
            EtaLine("tonline", 61, 0.5, 122.0, jobs=2),
            EtaLine("mx.example", 1, 0.0, None),
        ]
    ) == [
        "Google takes 2 a second from us: 16,279 addresses, about 2 h 16 min.",
        "T-Online takes 30 a minute from us, shared with 2 other jobs: 61 addresses, about 2 min.",
        "mx.example is on hold until an operator releases it: 1 address.",
    ]
    later = [EtaLine("google", 70, 2.0, 4_500.0, again=5), EtaLine(MIXED_LINE, 9, 10.0, 4_500.0, again=9)]
    assert time_lines(later) == [
        "Google takes 2 a second from us: 70 addresses, about 1 h 15 min; 5 put off again and again.",
        "Many small providers: 9 addresses, about 1 h 15 min; 9 put off again and again.",
    ]
    others = [EtaLine(MIXED_LINE, 800, 10.0, 80.0), EtaLine(TRIAGE_LINE, 12_000, 2_000.0, 6.0)]
    assert time_lines(others, most=1) == [
        "Many small providers: 800 addresses, about 1 min 20 s.",
        "1 more, done sooner.",
    ]
    assert time_lines(others[1:]) == ["Not looked at yet: 12,000 addresses, about 6 s."]
    assert time_lines([]) == []


def test_providers_are_called_what_people_call_them() -> None:
    named = ("google", "microsoft365", "mountain-photo.com", "yahoo_japan", "proofpoint")
    assert [provider_name(key) for key in named] == [
        "Google", "Microsoft 365", "mountain-photo.com", "Yahoo! Japan", "Proofpoint",
    ]  # fmt: skip
