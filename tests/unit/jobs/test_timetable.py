"""Which slots are run and when they start: jitter, the end, and what was missed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest

from mailsift.jobs.schedules import CatchUp, DueRun, Timetable
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.sql.schedules import Slot


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


NOON = at("2026-05-04 12:00")
HOUR = timedelta(hours=1)
HOURLY = Timetable("0 * * * *", "UTC", UUID(int=7))
SPREAD = replace(HOURLY, jitter=1_800)


@pytest.mark.parametrize(
    ("catch_up", "late", "slot", "following"),
    [
        # hourly, first slot not looked at: noon
        (CatchUp.NONE, timedelta(minutes=1), NOON, NOON + timedelta(hours=1)),
        (CatchUp.LATEST, timedelta(minutes=1), NOON, NOON + timedelta(hours=1)),
        (CatchUp.ALL, timedelta(minutes=1), NOON, NOON + timedelta(hours=1)),
        (CatchUp.NONE, timedelta(minutes=6), None, NOON + timedelta(hours=1)),
        (CatchUp.LATEST, timedelta(minutes=6), NOON, NOON + timedelta(hours=1)),
        (
            CatchUp.NONE,
            timedelta(hours=3, minutes=1),
            NOON + timedelta(hours=3),
            NOON + timedelta(hours=4),
        ),
        (
            CatchUp.LATEST,
            timedelta(hours=3, minutes=9),
            NOON + timedelta(hours=3),
            NOON + timedelta(hours=4),
        ),
        (CatchUp.ALL, timedelta(hours=3, minutes=9), NOON, NOON + timedelta(hours=1)),
        # three days: no further back than one
        (CatchUp.ALL, timedelta(days=3), NOON + timedelta(days=2), NOON + timedelta(days=2, hours=1)),
        (CatchUp.LATEST, timedelta(days=3), NOON + timedelta(days=3), NOON + timedelta(days=3, hours=1)),
    ],
)
def test_missed_slots(catch_up: CatchUp, late: timedelta, slot: datetime | None, following: datetime) -> None:
    found = HOURLY.due(catch_up, slot=HOURLY.slot(NOON), now=NOON + late)
    assert found == DueRun(slot, HOURLY.slot(following))


@pytest.mark.parametrize(
    ("cron", "written", "stands_for"),
    [
        ("0 12 4 * *", NOON, NOON),
        ("0 12 4 * *", NOON + HOUR, NOON),  # its clocks were to go back, and do not
        ("0 12 4 * *", NOON - HOUR, NOON),
        ("0 12 4 * *", NOON + 4 * HOUR, at("2026-06-04 12:00")),  # of that no zone speaks
        ("0 * * * *", NOON + HOUR / 2, NOON),
    ],
)
def test_a_slot_stands_for_another_when_its_zone_gets_other_rules(
    cron: str, written: datetime, stands_for: datetime
) -> None:
    assert replace(HOURLY, cron=cron).standing(written).at == stands_for


def test_a_slot_missed_more_than_a_day_ago_is_not_caught_up() -> None:
    monthly = replace(HOURLY, cron="0 0 1 * *")
    found = monthly.due(CatchUp.ALL, slot=monthly.slot(at("2026-05-01 00:00")), now=at("2026-05-04 00:00"))
    assert found == DueRun(None, monthly.slot(at("2026-06-01 00:00")))


@pytest.mark.parametrize(
    ("catch_up", "freed", "late", "slot"),
    [
        # the run before ended hours after the slot: it was not missed meanwhile
        (CatchUp.NONE, timedelta(hours=3, minutes=30), timedelta(seconds=5), NOON + 3 * HOUR),
        (CatchUp.LATEST, timedelta(hours=3, minutes=30), timedelta(seconds=5), NOON + 3 * HOUR),
        (CatchUp.NONE, timedelta(hours=3, minutes=30), timedelta(minutes=6), None),  # nobody was there then
        (CatchUp.NONE, -HOUR, timedelta(hours=1, minutes=6), None),  # it had not to wait
    ],
)
def test_a_slot_that_waited_for_the_run_before_is_in_time_when_that_ends(
    catch_up: CatchUp, freed: timedelta, late: timedelta, slot: datetime | None
) -> None:
    freed_at = NOON + freed
    found = HOURLY.due(catch_up, slot=HOURLY.slot(NOON), now=freed_at + late, freed_at=freed_at)
    assert found.slot == slot


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_slot_that_waited_for_more_than_a_day_is_run(catch_up: CatchUp) -> None:
    weekly = replace(HOURLY, cron="0 12 * * 1")
    freed_at = NOON + 30 * HOUR
    slot, now = weekly.slot(NOON), freed_at + timedelta(seconds=5)
    found = weekly.due(catch_up, slot=slot, now=now, freed_at=freed_at)
    assert found == DueRun(NOON, weekly.slot(NOON + timedelta(days=7)))
    assert weekly.due(catch_up, slot=slot, now=now).slot is None


def test_the_delay_of_a_slot_is_within_the_jitter_and_the_same_for_everybody() -> None:
    slots = [SPREAD.slot(NOON + HOUR * n) for n in range(400)]
    delays = [(slot.starts_at - slot.at).total_seconds() for slot in slots]
    assert slots == [replace(SPREAD).slot(NOON + HOUR * n) for n in range(400)]
    assert min(delays) >= 0
    assert max(delays) <= 1_800
    assert min(delays) < 60
    assert max(delays) > 1_740  # the whole span is used
    other = replace(SPREAD, seed=UUID(int=8))
    same = sum(other.slot(slot.at) == slot for slot in slots)
    assert same < 5  # schedules of the same line are spread
    assert HOURLY.slot(NOON).starts_at == NOON


def _early_and_late(times: Timetable) -> tuple[Slot, Slot]:
    """Return two slots in a row, of which the first starts within a minute and the second after a while."""
    slots = (times.slot(NOON + HOUR * n) for n in range(2_000))
    return next(
        (one, two)
        for one, two in pairwise(slots)
        if one.starts_at - one.at < timedelta(minutes=1) and two.starts_at - two.at > timedelta(minutes=20)
    )


@pytest.mark.parametrize("catch_up", CatchUp)
def test_a_worker_that_comes_back_before_a_slot_starts_leaves_it_its_start(catch_up: CatchUp) -> None:
    missed, waiting = _early_and_late(SPREAD)
    found = SPREAD.due(catch_up, slot=missed, now=waiting.at + timedelta(minutes=10))
    assert found == DueRun(None if catch_up is CatchUp.NONE else missed.at, waiting)


def test_how_late_a_slot_is_counts_from_its_own_start() -> None:
    missed, in_time = _early_and_late(SPREAD)
    found = SPREAD.due(CatchUp.NONE, slot=missed, now=in_time.starts_at + timedelta(minutes=4))
    assert found == DueRun(in_time.at, SPREAD.slot(in_time.at + HOUR))
    late = SPREAD.due(CatchUp.NONE, slot=missed, now=in_time.starts_at + timedelta(minutes=6))
    assert late.slot is None


def test_a_slot_delayed_by_its_jitter_is_in_time() -> None:
    slot = next(
        slot
        for slot in (SPREAD.slot(NOON + HOUR * n) for n in range(20))
        if slot.starts_at - slot.at > timedelta(minutes=20)
    )
    found = SPREAD.due(CatchUp.NONE, slot=slot, now=slot.starts_at + timedelta(seconds=4))
    assert found == DueRun(slot.at, SPREAD.slot(slot.at + HOUR))
    late = SPREAD.due(CatchUp.NONE, slot=slot, now=slot.starts_at + timedelta(minutes=6))
    assert late.slot is None


def test_jitter_longer_than_the_interval_loses_no_slot() -> None:
    minutely = Timetable("* * * * *", "UTC", UUID(int=9), jitter=600)
    slot, now = minutely.slot(NOON), NOON
    ran: list[datetime] = []
    while len(ran) < 120:
        now = max(now, slot.starts_at)
        found = minutely.due(CatchUp.ALL, slot=slot, now=now)
        assert found.slot is not None
        ran.append(found.slot)
        slot = found.next
    assert {later - earlier for earlier, later in pairwise(ran)} == {timedelta(minutes=1)}


def test_nothing_runs_past_the_end() -> None:
    ending = replace(HOURLY, ends_at=NOON + HOUR)
    assert ending.upcoming(NOON) == ending.slot(NOON + HOUR)  # a slot at the very end is run
    with pytest.raises(MailsiftError, match="schedule_ended"):
        ending.upcoming(NOON + HOUR)
    found = ending.due(CatchUp.LATEST, slot=ending.slot(NOON), now=NOON + 5 * HOUR)
    assert found.slot == NOON + HOUR
    assert ending.is_over(found.next)
    nothing = ending.due(CatchUp.LATEST, slot=ending.slot(NOON + 2 * HOUR), now=NOON + 5 * HOUR)
    assert nothing.slot is None


def test_the_next_starts_are_the_ones_that_will_happen() -> None:
    slots = [SPREAD.slot(NOON + HOUR * n) for n in range(7)]
    between = slots[0].starts_at - timedelta(seconds=1)  # its slot is over, its start is not
    starts = SPREAD.starts(NOON, now=between, count=5)
    assert starts == tuple(slot.starts_at for slot in slots[:5])
    assert SPREAD.starts(NOON + HOUR, now=between, count=5) == tuple(slot.starts_at for slot in slots[1:6])
    ending = replace(SPREAD, ends_at=NOON + 2 * HOUR)
    assert len(ending.starts(NOON, now=between, count=5)) == 3
    assert ending.starts(NOON, now=NOON + 9 * HOUR, count=5) == ()
