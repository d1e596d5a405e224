"""What is wrong, told from numbers alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from jobs.operations.alarms import Level, Numbers, alarms
from pipeline.ports import Outcome
from storage.backlog_rows import Backlog, Drift
from storage.broker import BrokerCounts
from storage.late_rows import Outbox
from storage.throttle_view import Learned
from storage.throughput_rows import Minute
from storage.worker_rows import Worker

AT = datetime(2026, 11, 21, tzinfo=UTC)
WORKER = Worker(
    owner="w:1:a",
    crew="c",
    host="w",
    pid=1,
    version="1",
    slots=7,
    in_hand=2,
    chunks=2,
    lag_s=0.01,
    rss_bytes=1,
    started_at=AT,
    beat_age=2.0,
    claim_age=1.0,
    sweep_age=3.0,
    draining=False,
    heard=False,
    gone=False,
)
OUTBOX = Outbox(pending=0, delivering=0, due=0, oldest_due_s=0.0, exhausted=0, succeeded=0)
BROKER = BrokerCounts(queued=0, unacked=0, oldest_unacked_s=0.0, memory_bytes=1, version="9")
WELL = Numbers(backlog=Backlog(), workers=[WORKER], outbox=OUTBOX, broker=BROKER)
WAITING = Backlog(ready_chunks=3, ready_addresses=300, oldest_ready_s=61.0)


def minute(chunks: int, expired: int) -> Minute:
    return Minute(AT, chunks, 0, 0, 0, 0, expired)


def codes(numbers: Numbers) -> list[str]:
    return [alarm.code for alarm in alarms(numbers)]


def test_where_all_is_well_there_is_no_alarm() -> None:
    assert alarms(WELL) == []


@pytest.mark.parametrize(
    ("change", "code", "level"),
    [
        ({"backlog": WAITING}, "ready_too_long", Level.CRITICAL),
        ({"workers": [replace(WORKER, sweep_age=31.0)]}, "sweep_late", Level.CRITICAL),
        ({"minutes": [minute(200, 3)]}, "leases_expire", Level.WARNING),
        ({"outbox": replace(OUTBOX, due=1, oldest_due_s=61.0)}, "deliveries_late", Level.WARNING),
        ({"late_schedules": [5.0, 61.0]}, "schedules_late", Level.WARNING),
        ({"drift": [Drift(uuid4(), 3, 4)]}, "counter_drift", Level.CRITICAL),
        ({"throttles": [Learned("google", "", closed_s=5.0)]}, "provider_closed", Level.WARNING),
        ({"throttles": None}, "redis_gone", Level.CRITICAL),
        ({"broker": None}, "redis_gone", Level.CRITICAL),
        ({"broker": replace(BROKER, unacked=1, oldest_unacked_s=601.0)}, "broker_stranded", Level.WARNING),
        ({"workers": [WORKER, replace(WORKER, gone=True)]}, "worker_gone", Level.WARNING),
        ({"workers": [replace(WORKER, lag_s=1.5)]}, "loop_lag", Level.WARNING),
        ({"workers": []}, "no_workers", Level.WARNING),
    ],
)
def test_each_trouble_has_its_alarm_and_no_other(change: dict[str, object], code: str, level: Level) -> None:
    found = alarms(replace(WELL, **change))  # type: ignore[arg-type]  # each is of its field's type
    assert [(alarm.code, alarm.level) for alarm in found] == [(code, level)]
    assert found[0].text.endswith(".")


@pytest.mark.parametrize(
    "change",
    [
        {"backlog": replace(WAITING, oldest_ready_s=59.0)},
        {"backlog": WAITING, "workers": [replace(WORKER, in_hand=7)]},  # all slots are taken: only busy
        {"workers": [replace(WORKER, sweep_age=31.0), WORKER]},
        {"minutes": [minute(10, 2)]},  # one machine that was switched off
        {"minutes": [minute(1000, 5)]},
        {"minutes": [minute(10, 9)] + [minute(0, 0)] * 15},  # long ago
        {"late_schedules": [59.0]},
        {"throttles": [Learned("tiny.example", "", closed_s=5.0), Learned("google", "", share=0.5)]},
        {"broker": replace(BROKER, unacked=4, oldest_unacked_s=3.0)},
    ],
)
def test_what_is_usual_is_no_alarm(change: dict[str, object]) -> None:
    assert alarms(replace(WELL, **change)) == []  # type: ignore[arg-type]  # see above


def test_idle_processes_are_named_when_work_lies_ready() -> None:
    idle = replace(WORKER, in_hand=0, claim_age=61.0)
    never = replace(WORKER, in_hand=0, claim_age=None)
    assert codes(replace(WELL, backlog=WAITING, workers=[idle, never])) == ["ready_too_long", "worker_idle"]
    assert codes(replace(WELL, workers=[idle])) == []  # nothing to claim


def test_without_workers_a_backlog_is_critical() -> None:
    drained = replace(WORKER, draining=True)
    (alarm,) = alarms(replace(WELL, workers=[drained], backlog=Backlog(steps=1)))
    assert (alarm.code, alarm.level) == ("no_workers", Level.CRITICAL)


def test_a_sweeper_is_no_worker() -> None:
    sweeper = replace(WORKER, slots=0, in_hand=0)
    assert codes(replace(WELL, workers=[sweeper])) == ["no_workers"]
    assert replace(WELL, workers=[sweeper, WORKER]).free_slots == 5


def test_the_worst_comes_first() -> None:
    numbers = replace(WELL, workers=[], late_schedules=[120.0], backlog=WAITING)
    assert codes(numbers) == ["no_workers", "schedules_late"]


def test_a_provider_that_refuses_us_is_told_from_one_that_is_asked_too_fast() -> None:
    fast = Learned("google", "", closed_s=30.0, strikes=1, mix={Outcome.RATE: 1})
    refusing = Learned("yahoo", "", closed_s=800.0, refuses=True)
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
