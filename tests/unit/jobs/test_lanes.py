from __future__ import annotations

import polars as pl

from jobs.lanes import LanePlan, plan
from pipeline.frames import WAITING

CUT = LanePlan(own_lane=3, lane_chunk=4, mixed_chunk=5)


def waiting(*rows: tuple[str, str, float]) -> pl.DataFrame:
    """Addresses that wait: (lane, reason, delay)."""
    base = [
        {
            "n": n,
            "rows": 1,
            "address": f"a{n}@x.test",
            "local": f"a{n}",
            "domain": "x.test",
            "rule": "",
            "tries": 0,
        }
        for n in range(len(rows))
    ]
    told = [{"lane": lane, "reason": reason, "delay": delay} for lane, reason, delay in rows]
    return pl.DataFrame(
        [{**one, **two} for one, two in zip(base, told, strict=True)],
        schema={**WAITING, "lane": pl.String, "reason": pl.String, "delay": pl.Float64},
    )


def test_nothing_waiting_is_no_chunk() -> None:
    assert plan(waiting(), CUT) == []


def test_a_busy_provider_gets_lanes_of_its_own_and_the_rest_is_mixed() -> None:
    rows = [("google", "survey", 0.0)] * 6 + [("tiny.test", "survey", 0.0)] + [("small.test", "survey", 0.0)]
    made = plan(waiting(*rows), CUT)
    assert [(chunk.lane, len(chunk.frame)) for chunk in made] == [("google", 4), ("google", 2), ("*", 2)]
    assert all(chunk.reason == "" and chunk.delay == 0 for chunk in made)


def test_slow_hosts_come_together_whoever_they_are() -> None:
    made = plan(waiting(*[("google", "slow", 0.0)] * 3, ("tiny.test", "slow", 0.0)), CUT)
    assert [(chunk.lane, len(chunk.frame)) for chunk in made] == [("~", 4)]


def test_close_delays_wait_for_the_longest_and_far_ones_do_not() -> None:
    made = plan(waiting(*[("a.test", "greylisted", delay) for delay in (300.0, 310.0, 3600.0)]), CUT)
    assert [(chunk.delay, len(chunk.frame)) for chunk in made] == [(310.0, 2), (3600.0, 1)]
    assert {chunk.reason for chunk in made} == {"greylisted"}


def test_every_address_is_in_exactly_one_chunk() -> None:
    rows = [(f"p{n % 7}", ("survey", "greylisted", "slow")[n % 3], float(n % 5)) for n in range(100)]
    made = plan(waiting(*rows), CUT)
    assert sorted(pl.concat([chunk.frame for chunk in made])["n"].to_list()) == list(range(100))
