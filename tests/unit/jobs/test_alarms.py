"""What is wrong, told from numbers alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from mailsift.jobs.admin.alarms import RULES, Installation, Level, alarms
from mailsift.pipeline.throttle import SessionOutcome
from mailsift.storage.redis.connection import BrokerCounts
from mailsift.storage.redis.throttle import LearnedRate
from mailsift.storage.sql.stats import ChunkLevel, CounterDrift, Interval, Outbox, OutboxLevel, Snapshot
from mailsift.storage.sql.workers import ProcessHealth, Worker

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
    drain_seen=False,
    gone=False,
)
BROKER = BrokerCounts(queued=0, unacked=0, oldest_unacked_s=0.0, memory_bytes=1, version="9")
WELL = Installation(stats=Snapshot(workers=[WORKER]), broker=BROKER, version="1")
BUSY = replace(WORKER, in_hand=7)
DEAD = replace(WORKER, gone=True, beat_age=40.0)
WAITING = [ChunkLevel("ready", "provider", 3, 300, oldest_s=61.0, claimable_s=61.0)]
RESTING = replace(WORKER, claim_age=61.0)


def with_stats(**change: object) -> Installation:
    return replace(WELL, stats=replace(Snapshot(workers=[WORKER]), **change))  # type: ignore[arg-type]  # of its field's type


def changed(change: dict[str, object]) -> Installation:
    """What is well but for this, in what the database says or what Redis says."""
    other = {
        name: change[name] for name in ("throttles", "broker", "own", "version", "stats") if name in change
    }
    of_database = {name: value for name, value in change.items() if name not in other}
    return replace(with_stats(**of_database), **other)  # type: ignore[arg-type]  # see above


def minute(chunks: int, expired: int) -> Interval:
    return Interval(AT, chunks, 0, 0, 0, 0, expired)


def health(**seen: object) -> Worker:
    """A worker that sees this."""
    return replace(WORKER, health=ProcessHealth(**seen))  # type: ignore[arg-type]  # of its field's type


def codes(seen: Installation) -> list[str]:
    return [alarm.code for alarm in alarms(seen)]


def test_where_all_is_well_there_is_no_alarm() -> None:
    assert alarms(WELL) == []


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"stats": None}, "database_gone"),
        ({"throttles": None}, "redis_gone"),
        ({"broker": None}, "redis_gone"),
        ({"workers": []}, "no_workers"),
        ({"chunks": WAITING, "workers": [RESTING]}, "ready_too_long"),
        ({"chunks": WAITING, "workers": [BUSY], "minutes": [minute(0, 0)] * 3}, "work_stands_still"),
        ({"chunks": [replace(WAITING[0], claimable_s=901.0)], "workers": [BUSY]}, "workers_behind"),
        ({"oldest_jobs": {"small": 61.0}}, "reading_slow"),
        ({"workers": [replace(WORKER, sweep_age=31.0)]}, "sweep_late"),
        ({"drift": [CounterDrift(uuid4(), 0, 1, 0)]}, "counter_drift"),
        ({"workers": [health(port25="closed")]}, "port25_closed"),
        ({"workers": [health(port25="away"), health(port25="open")]}, "network_away"),
        ({"waits": {"our_network": 5}}, "network_away"),  # workers of an older release
        ({"workers": [health(resolvers=2, distrusted=2), WORKER]}, "resolver_distrusted"),
        ({"waits": {"resolver": 5}}, "resolver_distrusted"),
        ({"workers": [health(resolvers=2, distrusted=1)]}, "resolver_doubtful"),
        ({"throttles": [LearnedRate("google", "", closed_s=5.0, refuses=True)]}, "provider_refuses"),
        ({"throttles": [LearnedRate("google", "", closed_s=5.0)]}, "provider_closed"),
        ({"workers": [health(disk_free=200 * 2**20, disk_size=10 * 2**30)]}, "disk_full"),
        ({"own": ProcessHealth(disk_free=2**30, disk_size=200 * 2**30)}, "disk_full"),
        ({"workers": [health(disk_free=4 * 2**30, disk_size=100 * 2**30)]}, "disk_low"),
        ({"workers": [WORKER, health(store="blob_store_failed")]}, "store_away"),
        ({"own": ProcessHealth(store="storage_full")}, "store_away"),
        ({"failing_chunks": 1}, "chunks_fail"),
        ({"minutes": [minute(200, 3)]}, "leases_expire"),
        ({"outbox": Outbox([OutboxLevel("due", 1, 61.0)])}, "deliveries_late"),
        ({"endpoints": {"healthy": 90, "failing": 1}, "failing_lately": 1}, "webhooks_fail"),
        ({"endpoints": {"healthy": 7, "failing": 3}}, "webhooks_fail"),
        ({"failing_mail": 1}, "mail_fails"),
        ({"late_schedules": [5.0, 11.0]}, "schedules_late"),
        ({"workers": [WORKER, replace(WORKER, version="2")]}, "versions_differ"),
        ({"version": "2"}, "versions_differ"),
        ({"workers": [WORKER, DEAD]}, "worker_gone"),
        ({"workers": [replace(WORKER, lag_s=1.5)]}, "loop_lag"),
        ({"broker": replace(BROKER, unacked=1, oldest_unacked_s=601.0)}, "broker_stranded"),
        ({"broker": replace(BROKER, spoilt=1)}, "broker_spoilt"),
        (
            {"throttles": [LearnedRate(f"{n}.test", "a", closed_s=5.0, refuses=True) for n in range(3)]},
            "source_refused",
        ),
        ({"held_sources": {"192.0.2.7": "listed"}}, "source_held"),
    ],
)
def test_each_trouble_has_its_alarm_and_no_other(change: dict[str, object], code: str) -> None:
    found = alarms(changed(change))
    assert [alarm.code for alarm in found] == [code]
    assert found[0].text.endswith(".")


def test_every_alarm_of_the_table_was_made_to_ring() -> None:
    cases = test_each_trouble_has_its_alarm_and_no_other.pytestmark[0].args[1]  # type: ignore[attr-defined]  # its marks
    assert {code for _, code in cases} | {"worker_idle"} == {rule.code for rule in RULES if rule.check}


@pytest.mark.parametrize(
    "change",
    [
        {"chunks": [replace(WAITING[0], claimable_s=59.0)], "workers": [RESTING]},
        {
            "chunks": [replace(WAITING[0], claimable_s=0.0)],
            "workers": [RESTING],
        },  # its provider is being asked
        {"chunks": WAITING, "workers": [RESTING, WORKER]},  # of a large list, and somebody claims
        {"chunks": WAITING, "workers": [replace(RESTING, in_hand=6)]},  # the last slot is for small lists
        {"chunks": WAITING, "workers": [replace(WORKER, in_hand=7)]},  # all slots are taken: only busy
        {"workers": [replace(WORKER, sweep_age=31.0), WORKER]},
        {"minutes": [minute(10, 2)]},  # one machine that was switched off
        {"minutes": [minute(1000, 5)]},
        {"minutes": [minute(10, 9)] + [minute(0, 0)] * 15},  # long ago
        {"late_schedules": [9.0]},
        {
            "throttles": [
                LearnedRate("tiny.example", "", closed_s=5.0),
                *(LearnedRate(f"{n}.test", f"{n % 2}", closed_s=5.0, refuses=True) for n in range(4)),
                LearnedRate("google", "", share=0.5),
            ]
        },
        {"broker": replace(BROKER, unacked=4, oldest_unacked_s=3.0)},
        {"waits": {"throttled": 5_000}},
        # what has been mended
        {"waits": {"our_network": 5}, "workers": [health(port25="open")]},
        {"waits": {"resolver": 5}, "workers": [health(resolvers=1)]},
        {"workers": [WORKER, DEAD, replace(WORKER, up_s=39.0)]},
        {"workers": [WORKER, replace(DEAD, beat_age=3_601.0)]},
        # what is not wrong at all
        {"workers": [WORKER, replace(WORKER, version="2", up_s=200.0)]},  # an upgrade that goes on
        {"workers": [BUSY], "chunks": WAITING, "minutes": [minute(0, 0), replace(minute(1, 0), addresses=9)]},
        {"endpoints": {"healthy": 90, "failing": 2}},  # for days, as their owners know
        {"workers": [health(disk_free=20 * 2**30, disk_size=1000 * 2**30)]},
        {"oldest_jobs": {"large": 900.0}},
    ],
)
def test_what_is_usual_is_no_alarm(change: dict[str, object]) -> None:
    assert alarms(changed(change)) == []


def test_idle_processes_are_named_when_work_lies_ready() -> None:
    idle = replace(RESTING, in_hand=0)
    never = replace(idle, claim_age=None)
    assert codes(with_stats(chunks=WAITING, workers=[idle, never])) == ["ready_too_long", "worker_idle"]
    assert codes(with_stats(chunks=WAITING, workers=[idle, WORKER])) == ["worker_idle"]
    assert codes(with_stats(chunks=WAITING, workers=[replace(idle, up_s=59.0)])) == []
    assert codes(with_stats(workers=[idle])) == []  # nothing to claim
    assert codes(with_stats(chunks=WAITING, workers=[replace(never, up_s=2.0)])) == []


def test_drained_workers_are_nobody_and_what_waits_is_said() -> None:
    (alarm,) = alarms(with_stats(workers=[replace(WORKER, draining=True)], chunks=WAITING))
    assert (alarm.code, alarm.level) == ("no_workers", Level.CRITICAL)
    assert "300 addresses" in alarm.text


def test_every_death_wants_a_birth_of_its_own() -> None:
    born = replace(WORKER, up_s=10.0)
    assert codes(with_stats(workers=[WORKER, DEAD, DEAD, born])) == ["worker_gone"]
    assert codes(with_stats(workers=[WORKER, DEAD, DEAD, born, born])) == []
    second = replace(DEAD, up_s=39.0, beat_age=20.0)  # took the place of a dead one and died
    assert codes(with_stats(workers=[DEAD, second, born])) == []
    assert codes(with_stats(workers=[WORKER, DEAD, second])) == ["worker_gone"]
    before = replace(WORKER, up_s=41.0)
    assert codes(with_stats(workers=[before, DEAD])) == ["worker_gone"]


def test_a_sweeper_is_no_worker() -> None:
    sweeper = replace(WORKER, slots=0, in_hand=0)
    assert codes(with_stats(workers=[sweeper])) == ["no_workers"]
    assert Snapshot(workers=[sweeper, WORKER]).free_slots == 5


def test_room_on_a_disk_is_counted_as_on_the_page_of_workers() -> None:
    """By powers of 1000: of one disk there would else be two numbers."""
    (alarm,) = alarms(changed({"workers": [health(disk_free=3_000_000_000, disk_size=120_000_000_000)]}))
    assert "3.0 GB of 120.0 GB" in alarm.text
    (alarm,) = alarms(changed({"workers": [health(disk_free=90_000_000, disk_size=8_000_000_000)]}))
    assert "90 MB of 8.0 GB" in alarm.text


def test_the_worst_comes_first() -> None:
    seen = with_stats(workers=[], late_schedules=[120.0], chunks=WAITING)
    assert codes(seen) == ["no_workers", "schedules_late"]


def test_a_provider_that_refuses_us_is_told_from_one_that_is_asked_too_fast() -> None:
    fast = LearnedRate("google", "", closed_s=30.0, strikes=1, mix={SessionOutcome.RATE: 1})
    refusing = LearnedRate("yahoo", "", closed_s=800.0, refuses=True)
    texts = [alarm.text for alarm in alarms(replace(WELL, throttles=[fast, refusing]))]
    assert "refuses us" in texts[0]
    assert "too fast" in texts[1]


@pytest.mark.parametrize(
    ("worker", "state"),
    [
        (WORKER, "active"),
        (replace(WORKER, draining=True), "draining"),
        (replace(WORKER, draining=True, in_hand=0), "draining"),  # its chunks say otherwise
        (replace(WORKER, draining=True, in_hand=0, chunks=0), "draining"),  # it does not know yet
        (replace(WORKER, draining=True, drain_seen=True, in_hand=0, chunks=0), "drained"),
        (replace(WORKER, draining=True, gone=True), "gone"),
    ],
)
def test_the_state_of_a_worker_is_one_word(worker: Worker, state: str) -> None:
    assert worker.state == state
