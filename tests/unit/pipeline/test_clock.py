"""The time that all machines share."""

from __future__ import annotations

from mailsift.pipeline.clock import SharedClock


def test_a_clock_that_jumps_is_not_looked_at_once_the_time_was_learned() -> None:
    day, steady = 1_000.0, 5.0
    clock = SharedClock(system=lambda: day, monotonic=lambda: steady)
    assert clock() == 1_000.0
    clock.learn(2_000.0)
    day, steady = 99_999.0, 7.5
    assert clock() == 2_002.5
    clock.learn(3_000.0)
    assert clock() == 3_000.0
