"""What is wrong, told from numbers alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from mailsift.jobs.admin.alarms import Installation, Level, alarms
from mailsift.pipeline.ports import SessionOutcome
from mailsift.storage.redis.broker import BrokerCounts
from mailsift.storage.redis.throttle_view import LearnedRate
from mailsift.storage.sql.stats import ChunkLevel, CounterDrift, Minute, Outbox, OutboxLevel, Snapshot
from mailsift.storage.sql.workers import Worker

AT = datetime(2026, 11, 21, tzinfo=UTC)
WORKER = Worker(
    owner="w:1:a",
    worker_id="c",
    host="w",
    pid=1,
    version="1",
    slots=7,
    in_hand=2,
    chunks=2,
    lag_s=0.01,
    rss_bytes=1,
    started_at=AT,
    up_s=3600.0,
    beat_age=2.0,
    claim_age=1.0,
    sweep_age=3.0,
    draining=False,
    heard=False,
    gone=False,
)
BROKER = BrokerCounts(queued=0, unacked=0, oldest_unacked_s=0.0, memory_bytes=1, version="9")
WELL = Installation(stats=Snapshot(workers=[WORKER]), broker=BROKER)
WAITING = [ChunkLevel("ready", "provider", 3, 300, oldest_s=61.0)]


def with_stats(**change: object) -> Installation:
    return replace(WELL, stats=replace(WELL.stats, **change))  # type: ignore[arg-type]  # each is of its field's type


def changed(change: dict[str, object]) -> Installation:
    """What is well but for this, in what the database says or what Redis says."""
    of_redis = {name: change[name] for name in ("throttles", "broker") if name in change}
    of_database = {name: value for name, value in change.items() if name not in of_redis}
    return replace(with_stats(**of_database), **of_redis)  # type: ignore[arg-type]  # see above


def minute(chunks: int, expired: int) -> Minute:
    return Minute(AT, chunks, 0, 0, 0, 0, expired)


def codes(seen: Installation) -> list[str]:
    return [alarm.code for alarm in alarms(seen)]


def test_where_all_is_well_there_is_no_alarm() -> None:
    assert alarms(WELL) == []


@pytest.mark.parametrize(
    ("change", "code", "level"),
    [
        ({"chunks": WAITING}, "ready_too_long", Level.CRITICAL),
        ({"workers": [replace(WORKER, sweep_age=31.0)]}, "sweep_late", Level.CRITICAL),
        ({"minutes": [minute(200, 3)]}, "leases_expire", Level.WARNING),
        ({"outbox": Outbox([OutboxLevel("due", 1, 61.0)])}, "deliveries_late", Level.WARNING),
        ({"late_schedules": [5.0, 61.0]}, "schedules_late", Level.WARNING),
        ({"drift": [CounterDrift(uuid4(), 0, 1, 0)]}, "counter_drift", Level.CRITICAL),
        ({"throttles": [LearnedRate("google", "", closed_s=5.0)]}, "provider_closed", Level.WARNING),
        ({"throttles": None}, "redis_gone", Level.CRITICAL),
        ({"broker": None}, "redis_gone", Level.CRITICAL),
        ({"broker": replace(BROKER, unacked=1, oldest_unacked_s=601.0)}, "broker_stranded", Level.WARNING),
        ({"workers": [WORKER, replace(WORKER, gone=True)]}, "worker_gone", Level.WARNING),
        ({"workers": [replace(WORKER, lag_s=1.5)]}, "loop_lag", Level.WARNING),
        ({"workers": []}, "no_workers", Level.WARNING),
        ({"waits": {"resolver": 5}}, "resolver_distrusted", Level.CRITICAL),
        ({"waits": {"our_network": 5}}, "network_away", Level.CRITICAL),
    ],
)
def test_each_trouble_has_its_alarm_and_no_other(change: dict[str, object], code: str, level: Level) -> None:
    found = alarms(changed(change))
    assert [(alarm.code, alarm.level) for alarm in found] == [(code, level)]
    assert found[0].text.endswith(".")


@pytest.mark.parametrize(
    "change",
    [
        {"chunks": [replace(WAITING[0], oldest_s=59.0)]},
        {"chunks": WAITING, "workers": [replace(WORKER, in_hand=7)]},  # all slots are taken: only busy
        {"workers": [replace(WORKER, sweep_age=31.0), WORKER]},
        {"minutes": [minute(10, 2)]},  # one machine that was switched off
        {"minutes": [minute(1000, 5)]},
        {"minutes": [minute(10, 9)] + [minute(0, 0)] * 15},  # long ago
        {"late_schedules": [59.0]},
        {
            "throttles": [
                LearnedRate("tiny.example", "", closed_s=5.0),
                LearnedRate("google", "", share=0.5),
            ]
        },
        {"broker": replace(BROKER, unacked=4, oldest_unacked_s=3.0)},
        {"waits": {"throttled": 5_000}},
    ],
)
def test_what_is_usual_is_no_alarm(change: dict[str, object]) -> None:
    assert alarms(changed(change)) == []


def test_idle_processes_are_named_when_work_lies_ready() -> None:
    idle = replace(WORKER, in_hand=0, claim_age=61.0)
    never = replace(WORKER, in_hand=0, claim_age=None)
    assert codes(with_stats(chunks=WAITING, workers=[idle, never])) == ["ready_too_long", "worker_idle"]
    assert codes(with_stats(workers=[idle])) == []  # nothing to claim
    young = replace(never, up_s=2.0)
    assert codes(with_stats(chunks=WAITING, workers=[young])) == ["ready_too_long"]


def test_without_workers_a_backlog_is_critical() -> None:
    drained = replace(WORKER, draining=True)
    (alarm,) = alarms(with_stats(workers=[drained], steps=1))
    assert (alarm.code, alarm.level) == ("no_workers", Level.CRITICAL)


def test_a_sweeper_is_no_worker() -> None:
    sweeper = replace(WORKER, slots=0, in_hand=0)
    assert codes(with_stats(workers=[sweeper])) == ["no_workers"]
    assert Snapshot(workers=[sweeper, WORKER]).free_slots == 5


def test_the_worst_comes_first() -> None:
    seen = with_stats(workers=[], late_schedules=[120.0], chunks=WAITING)
    assert codes(seen) == ["no_workers", "schedules_late"]


def test_a_provider_that_refuses_us_is_told_from_one_that_is_asked_too_fast() -> None:
    fast = LearnedRate("google", "", closed_s=30.0, strikes=1, mix={SessionOutcome.RATE: 1})
    refusing = LearnedRate("yahoo", "", closed_s=800.0, refuses=True)
    texts = [alarm.text for alarm in alarms(replace(WELL, throttles=[fast, refusing]))]
    assert "too fast" in texts[0]
    assert "refuses us" in texts[1]


@pytest.mark.parametrize(
    ("worker", "state"),
    [
        (WORKER, "active"),
        (replace(WORKER, draining=True), "draining"),
        (replace(WORKER, draining=True, in_hand=0), "draining"),  # its chunks say otherwise
        (replace(WORKER, draining=True, in_hand=0, chunks=0), "draining"),  # it does not know yet
        (replace(WORKER, draining=True, heard=True, in_hand=0, chunks=0), "drained"),
        (replace(WORKER, draining=True, gone=True), "gone"),
    ],
)
def test_the_state_of_a_worker_is_one_word(worker: Worker, state: str) -> None:
    assert worker.state == state
