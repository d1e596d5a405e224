"""Whatever a gateway says to whom in which order, it never sees enough unknown recipients to block us."""

from __future__ import annotations

from random import Random

import pytest

from mailsift.pipeline.probe.harvest_guard import WINDOW_SECONDS, HarvestGuard
from mailsift.pipeline.standing import Heard, LedgerKind

HERE = ("gateway", "192.0.2.1")


@pytest.mark.parametrize("bad", [0.1, 0.3, 0.6, 1.0])
def test_a_gateway_never_sees_five_unknown_that_are_half_of_a_minute(bad: float) -> None:
    random, guard, now = Random(3), HarvestGuard(), 0.0
    asked: list[tuple[float, bool]] = []
    for _ in range(400):
        now += random.random() * 8
        size = min(random.randint(1, 15), guard.room(HERE, most=5, now=now))
        if not size:
            now += guard.opens_in(HERE, now)
            continue
        guard.begin(HERE, size)
        fates = [random.random() < bad for _ in range(size)]
        for fate in fates:
            asked.append((now, fate))
            minute = [missing for at, missing in asked if now - at < 60]
            assert sum(minute) < 5 or 2 * sum(minute) < len(minute)
        counts = {LedgerKind.PROBES: size, LedgerKind.UNKNOWN: sum(fates)}
        guard.end(HERE, size, Heard(counts), sent=size, now=now)
    assert len(asked) > 100  # it goes on


def test_what_is_open_or_unanswered_counts_as_unknown() -> None:
    guard = HarvestGuard()
    guard.begin(HERE, 3)
    assert guard.room(HERE, most=5, now=0.0) == 1
    guard.end(HERE, 3, Heard(), sent=3, now=0.0)
    assert guard.room(HERE, most=5, now=1.0) == 1
    assert guard.opens_in(HERE, 1.0) == WINDOW_SECONDS - 1
    assert guard.room(HERE, most=5, now=WINDOW_SECONDS) == 4
    assert guard.room(("gateway", "192.0.2.2"), most=5, now=1.0) == 4
