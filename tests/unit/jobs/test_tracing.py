from __future__ import annotations

import time

import pytest

from mailsift.jobs.tracing import Stopwatch


def test_the_time_of_a_phase_adds_up_even_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([1.0, 1.25, 2.0, 2.5, 7.0, 7.001])
    monkeypatch.setattr(time, "perf_counter", lambda: next(moments))
    watch = Stopwatch()
    with watch.phase("read"):
        pass
    with pytest.raises(ValueError, match="broken"), watch.phase("read"):
        raise ValueError("broken")
    with watch.phase("sift"):
        pass
    assert watch.fields() == {"read_ms": 750.0, "sift_ms": 1.0}


def test_a_new_watch_has_seen_nothing() -> None:
    assert Stopwatch().fields() == {}
