"""What the pipeline counts has few labels, whoever is asked."""

from __future__ import annotations

from mailsift.pipeline.facts import Answer
from mailsift.pipeline.metrics import METRICS, count_grants, count_replies, count_sessions
from mailsift.pipeline.throttle import Ask, Grant, Report, SessionOutcome
from tests.support.captured_metrics import Counted


def test_replies_are_counted_by_provider_and_class() -> None:
    replies = [("google", Answer.ACCEPTED)] * 3 + [
        ("google", Answer.NOT_FOUND),
        ("acme.example", Answer.ACCEPTED),
    ]
    counts = Counted(*METRICS)
    count_replies(replies)
    count_replies(("shop.example", Answer.ACCEPTED) for _ in range(2))
    assert counts == {
        ("smtp_reply_total", "google", "accepted"): 3,
        ("smtp_reply_total", "google", "not_found"): 1,
        ("smtp_reply_total", "other", "accepted"): 3,
    }


def test_what_the_throttle_grants_and_denies_is_counted() -> None:
    grants = [
        Grant(5, "lease"),
        Grant(0, retry_after=1.0),
        Grant(0, retry_after=900.0, blocked=True),
        Grant(2),
    ]
    counts = Counted(*METRICS)
    count_grants(["google", "google", "outlook", "acme.example"], grants)
    assert counts == {
        ("throttle_granted_total", "google"): 1,
        ("throttle_recipients_total", "google"): 5,
        ("throttle_denied_total", "google", "limit"): 1,
        ("throttle_denied_total", "outlook", "held"): 1,
        ("throttle_granted_total", "other"): 1,
        ("throttle_recipients_total", "other"): 2,
    }


def test_sessions_that_are_over_are_counted_by_what_was_learned() -> None:
    counts = Counted(*METRICS)
    count_sessions(
        Report(Ask(provider, "", "192.0.2.1", 1), "lease", outcome)
        for provider, outcome in (
            ("google", SessionOutcome.CLEAN),
            ("acme.example", SessionOutcome.BLOCKED),
        )
    )
    assert counts == {
        ("smtp_sessions_total", "google", "clean"): 1,
        ("smtp_sessions_total", "other", "blocked"): 1,
    }
