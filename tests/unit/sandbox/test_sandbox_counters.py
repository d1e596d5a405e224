"""Counters count peaks and rolling rates by a clock that is passed in."""

from __future__ import annotations

import pytest

from mailsift.sandbox.counters import Counters


class _Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_peak_rate_is_that_of_any_rolling_second() -> None:
    clock = _Clock()
    counters = Counters(clock)
    for at, expected in ((0.0, 1), (0.9, 2), (0.95, 3), (1.05, 3), (1.96, 2), (5.0, 1)):
        clock.now = 100.0 + at
        assert counters.rcpt("google") == expected
    assert counters.rcpt("yahoo") == 1
    assert counters.snapshot()["peak_rcpts_per_second_by_provider"] == {"google": 3, "yahoo": 1}


def test_peaks_are_kept_by_host_by_provider_and_over_all() -> None:
    counters = Counters(_Clock())
    counters.connected("127.16.0.1", "google")
    counters.connected("127.16.0.2", "google")
    counters.disconnected("127.16.0.1", "google")
    counters.connected("127.16.0.3", "yahoo")
    counts = counters.snapshot()
    assert counts["peak_sessions_by_provider"] == {"google": 2, "yahoo": 1}
    assert counts["peak_sessions_by_host"] == {"127.16.0.1": 1, "127.16.0.2": 1, "127.16.0.3": 1}
    assert (counts["peak_sessions"], counts["open_sessions"], counts["connections"]) == (2, 2, 3)


@pytest.mark.parametrize("resets", [1, 2])
def test_a_reset_keeps_the_open_sessions_as_the_new_peaks(resets: int) -> None:
    counters = Counters(_Clock())
    counters.connected("127.16.0.1", "google")
    counters.connected("127.16.0.1", "google")
    counters.disconnected("127.16.0.1", "google")
    for _ in range(resets):
        counters.reset()
    counts = counters.snapshot()
    assert counts["peak_sessions_by_host"] == {"127.16.0.1": 1}
    assert (counts["connections"], counts["peak_sessions"]) == (0, 1)
    counters.disconnected("127.16.0.1", "google")
    assert counters.snapshot()["open_sessions"] == 0
