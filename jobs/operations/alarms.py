"""What is wrong right now: a pure function over the numbers of the overview."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pipeline.provider_table import PROVIDERS
from storage.backlog_rows import Backlog, Drift
from storage.broker import BrokerCounts
from storage.late_rows import Outbox
from storage.throttle_view import Learned
from storage.throughput_rows import Minute
from storage.worker_rows import Worker

READY_SECONDS: Final = 60.0
SWEEP_SECONDS: Final = 30.0
DELIVERY_SECONDS: Final = 60.0
SCHEDULE_SECONDS: Final = 60.0
UNACKED_SECONDS: Final = 600.0
EXPIRY_SHARE: Final = 0.01
EXPIRY_MINUTES: Final = 15
EXPIRY_LEAST: Final = 3  # one machine that was switched off is no alarm
LAG_SECONDS: Final = 1.0

_BIG: Final = frozenset(row.key for row in PROVIDERS)


class Level(StrEnum):
    """How bad it is."""

    CRITICAL = "critical"  # nothing flows, or a number is wrong
    WARNING = "warning"  # it flows more slowly than it could


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing that is wrong; `code` is stable, `text` is one English sentence."""

    code: str
    level: Level
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What the alarms look at.

    Attributes:
        workers: every process that did not say goodbye.
        minutes: the last ones, in order.
        late_schedules: seconds each of the late ones is late.
        throttles, broker: None while Redis does not answer.
    """

    backlog: Backlog
    workers: Sequence[Worker] = ()
    minutes: Sequence[Minute] = ()
    outbox: Outbox
    late_schedules: Sequence[float] = ()
    drift: Sequence[Drift] = ()
    throttles: Sequence[Learned] | None = ()
    broker: BrokerCounts | None = None

    @property
    def live(self) -> list[Worker]:
        """The processes that are heard of and may claim; a sweeper does not."""
        return [worker for worker in self.workers if worker.state == "active" and worker.slots]

    @property
    def free_slots(self) -> int:
        """How many more chunks could be claimed now."""
        return sum(max(0, worker.slots - worker.in_hand) for worker in self.live)


def alarms(numbers: Numbers) -> list[Alarm]:
    """Return what is wrong, the worst first."""
    found = [alarm for rule in _RULES for alarm in rule(numbers)]
    return sorted(found, key=lambda alarm: list(Level).index(alarm.level))


def _nobody_works(numbers: Numbers) -> Iterator[Alarm]:
    if numbers.live:
        return
    work = numbers.backlog.addresses or numbers.backlog.steps
    text = "No worker may claim work: none is running, or all are drained."
    yield Alarm("no_workers", Level.CRITICAL if work else Level.WARNING, text)


def _nothing_is_claimed(numbers: Numbers) -> Iterator[Alarm]:
    waited = numbers.backlog.oldest_ready_s
    if waited <= READY_SECONDS or not numbers.free_slots:
        return
    text = f"Work has been ready for {_seconds(waited)} while {numbers.free_slots} slots are free."
    yield Alarm("ready_too_long", Level.CRITICAL, text)
    idle = [
        worker for worker in numbers.live if worker.in_hand == 0 and (worker.claim_age or 1e9) > READY_SECONDS
    ]
    if idle:
        text = f"{_count(len(idle), 'process')} up, but claimed nothing for a minute: restart them."
        yield Alarm("worker_idle", Level.CRITICAL, text)


def _nobody_sweeps(numbers: Numbers) -> Iterator[Alarm]:
    ages = [
        worker.sweep_age for worker in numbers.workers if worker.sweep_age is not None and not worker.gone
    ]
    if ages and min(ages) > SWEEP_SECONDS:
        text = f"The last sweep was {_seconds(min(ages))} ago: leases of dead workers are not freed."
        yield Alarm("sweep_late", Level.CRITICAL, text)


def _counters_lie(numbers: Numbers) -> Iterator[Alarm]:
    if numbers.drift:
        text = f"The counter of open chunks is wrong in {len(numbers.drift)} running jobs."
        yield Alarm("counter_drift", Level.CRITICAL, text)


def _redis_is_gone(numbers: Numbers) -> Iterator[Alarm]:
    if numbers.throttles is None or numbers.broker is None:
        text = "Redis does not answer: nobody is woken, and every process keeps to its share of the limits."
        yield Alarm("redis_gone", Level.CRITICAL, text)


def _leases_expire(numbers: Numbers) -> Iterator[Alarm]:
    recent = numbers.minutes[-EXPIRY_MINUTES:]
    expired = sum(minute.leases_expired for minute in recent)
    share = expired / max(1, expired + sum(minute.chunks for minute in recent))
    if expired >= EXPIRY_LEAST and share > EXPIRY_SHARE:
        span = f"the last {len(recent)} minutes"
        text = f"{share:.0%} of the leases of {span} ran out: workers die or hang."
        yield Alarm("leases_expire", Level.WARNING, text)


def _deliveries_are_late(numbers: Numbers) -> Iterator[Alarm]:
    late = numbers.outbox.oldest_due_s
    if late > DELIVERY_SECONDS:
        yield Alarm("deliveries_late", Level.WARNING, f"A webhook has been due for {_seconds(late)}.")


def _schedules_are_late(numbers: Numbers) -> Iterator[Alarm]:
    late = [seconds for seconds in numbers.late_schedules if seconds > SCHEDULE_SECONDS]
    if late:
        text = f"{_count(len(late), 'schedule')} late, by up to {_seconds(max(late))}."
        yield Alarm("schedules_late", Level.WARNING, text)


def _providers_are_closed(numbers: Numbers) -> Iterator[Alarm]:
    for one in numbers.throttles or ():
        if one.closed_s > 0 and one.provider in _BIG:
            why = "refuses us" if one.refuses else "said we are too fast"
            text = f"{one.provider} {why}: closed for another {_seconds(one.closed_s)}."
            yield Alarm("provider_closed", Level.WARNING, text)


def _workers_are_gone(numbers: Numbers) -> Iterator[Alarm]:
    if gone := [worker for worker in numbers.workers if worker.gone]:
        text = f"{_count(len(gone), 'process')} gone without a goodbye in the last day."
        yield Alarm("worker_gone", Level.WARNING, text)


def _loops_are_late(numbers: Numbers) -> Iterator[Alarm]:
    worst = max((worker.lag_s for worker in numbers.live), default=0.0)
    if worst > LAG_SECONDS:
        text = f"An event loop came {worst:.1f} s late: something computes where it should wait."
        yield Alarm("loop_lag", Level.WARNING, text)


def _messages_are_stranded(numbers: Numbers) -> Iterator[Alarm]:
    broker = numbers.broker
    if broker is not None and broker.unacked and broker.oldest_unacked_s > UNACKED_SECONDS:
        text = f"{broker.unacked} wake-ups were never acknowledged. Harmless: the sweep wakes the workers."
        yield Alarm("broker_stranded", Level.WARNING, text)


_RULES: Final[tuple[Callable[[Numbers], Iterator[Alarm]], ...]] = (
    _nobody_works,
    _nothing_is_claimed,
    _nobody_sweeps,
    _counters_lie,
    _redis_is_gone,
    _leases_expire,
    _deliveries_are_late,
    _schedules_are_late,
    _providers_are_closed,
    _workers_are_gone,
    _loops_are_late,
    _messages_are_stranded,
)


def _count(number: int, noun: str) -> str:
    """Write "1 job is", "2 jobs are"."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"1 {noun} is" if number == 1 else f"{number} {plural} are"


def _seconds(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
