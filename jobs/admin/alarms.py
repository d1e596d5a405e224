"""What is wrong right now: a pure function over the numbers of the overview."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mailsift.pipeline.facts import WaitReason
from mailsift.pipeline.providers import PROVIDERS
from mailsift.storage.redis.broker import BrokerCounts
from mailsift.storage.redis.throttle_view import LearnedRate
from mailsift.storage.sql.stats import Snapshot

READY_SECONDS: Final = 60.0
SWEEP_SECONDS: Final = 30.0
DELIVERY_SECONDS: Final = 60.0
SCHEDULE_SECONDS: Final = 60.0
UNACKED_SECONDS: Final = 600.0
EXPIRY_SHARE: Final = 0.01
EXPIRY_MINUTES: Final = 15
EXPIRY_LEAST: Final = 3  # one machine that was switched off is no alarm
LAG_SECONDS: Final = 1.0

_NO_WORKERS: Final = "No worker may claim work: none is running, or all are drained."
_BIG: Final = frozenset(row.key for row in PROVIDERS)


class Level(StrEnum):
    """How bad it is."""

    CRITICAL = "critical"  # nothing flows, or a number is wrong
    WARNING = "warning"  # it flows more slowly than it could


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing that is wrong.

    Attributes:
        code: stable.
        page: where operators look into it, below `/ops/`.
        text: one English sentence.
    """

    code: str
    level: Level
    page: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What the alarms look at.

    Attributes:
        stats: what the database says.
        throttles, broker: what Redis says; None while it does not answer.
    """

    stats: Snapshot
    throttles: Sequence[LearnedRate] | None = ()
    broker: BrokerCounts | None = None


@dataclass(frozen=True, slots=True)
class AlarmRule:
    """Gives an alarm for every sentence that `check` finds to say."""

    code: str
    level: Level
    page: str
    check: Callable[[Installation], Iterator[str]]


def alarms(seen: Installation) -> list[Alarm]:
    """Return what is wrong, the worst first."""
    found = [Alarm(rule.code, rule.level, rule.page, text) for rule in RULES for text in rule.check(seen)]
    return sorted(found, key=lambda alarm: list(Level).index(alarm.level))


def _nobody_works(seen: Installation) -> Iterator[str]:
    if not seen.stats.live and _work(seen):
        yield _NO_WORKERS


def _nobody_would_work(seen: Installation) -> Iterator[str]:
    if not seen.stats.live and not _work(seen):
        yield _NO_WORKERS


def _nothing_is_claimed(seen: Installation) -> Iterator[str]:
    if _ready_too_long(seen):
        waited = _seconds(seen.stats.oldest_ready_s)
        yield f"Work has been ready for {waited} while {seen.stats.free_slots} slots are free."


def _processes_are_idle(seen: Installation) -> Iterator[str]:
    waiting = [worker for worker in seen.stats.live if worker.in_hand == 0]
    # One that never claimed may only just have started.
    idle = [one for one in waiting if (one.up_s if one.claim_age is None else one.claim_age) > READY_SECONDS]
    if _ready_too_long(seen) and idle:
        yield f"{_count(len(idle), 'process')} up, but claimed nothing for a minute: restart them."


def _nobody_sweeps(seen: Installation) -> Iterator[str]:
    workers = [worker for worker in seen.stats.workers if not worker.gone]
    ages = [worker.sweep_age for worker in workers if worker.sweep_age is not None]
    if ages and min(ages) > SWEEP_SECONDS:
        yield f"The last sweep was {_seconds(min(ages))} ago: leases of dead workers are not freed."


def _counters_lie(seen: Installation) -> Iterator[str]:
    if wrong := [one for one in seen.stats.drift if one.chunks_open]:
        yield f"The counter of open chunks is wrong in {len(wrong)} running jobs."


def _redis_is_gone(seen: Installation) -> Iterator[str]:
    if seen.throttles is None or seen.broker is None:
        yield "Redis does not answer: nobody is woken, and every process keeps to its share of the limits."


def _no_resolver_is_trusted(seen: Installation) -> Iterator[str]:
    if waiting := seen.stats.waits.get(WaitReason.RESOLVER):
        yield (
            f"No resolver can be trusted: {waiting:,} addresses wait. What it said is asked again; "
            "look at DNS_SERVERS and DNS_CANARIES."
        )


def _our_network_is_away(seen: Installation) -> Iterator[str]:
    if waiting := seen.stats.waits.get(WaitReason.OUR_NETWORK):
        yield (
            f"Mail servers cannot be reached from here: {waiting:,} addresses wait. They are asked again by "
            "themselves; look at routes, port 25 and SOURCE_ADDRESSES."
        )


def _leases_expire(seen: Installation) -> Iterator[str]:
    recent = seen.stats.minutes[-EXPIRY_MINUTES:]
    expired = sum(minute.leases_expired for minute in recent)
    share = expired / max(1, expired + sum(minute.chunks for minute in recent))
    if expired >= EXPIRY_LEAST and share > EXPIRY_SHARE:
        span = f"the last {len(recent)} minutes"
        yield f"{share:.0%} of the leases of {span} ran out: workers die or hang."


def _deliveries_are_late(seen: Installation) -> Iterator[str]:
    late = seen.stats.outbox.oldest_due_s
    if late > DELIVERY_SECONDS:
        yield f"A webhook has been due for {_seconds(late)}."


def _schedules_are_late(seen: Installation) -> Iterator[str]:
    late = [seconds for seconds in seen.stats.late_schedules if seconds > SCHEDULE_SECONDS]
    if late:
        yield f"{_count(len(late), 'schedule')} late, by up to {_seconds(max(late))}."


def _providers_are_closed(seen: Installation) -> Iterator[str]:
    for one in seen.throttles or ():
        if one.closed_s > 0 and one.provider in _BIG:
            why = "refuses us" if one.refuses else "said we are too fast"
            yield f"{one.provider} {why}: closed for another {_seconds(one.closed_s)}."


def _workers_are_gone(seen: Installation) -> Iterator[str]:
    if gone := [worker for worker in seen.stats.workers if worker.gone]:
        yield f"{_count(len(gone), 'process')} gone without a goodbye in the last day."


def _loops_are_late(seen: Installation) -> Iterator[str]:
    worst = max((worker.lag_s for worker in seen.stats.live), default=0.0)
    if worst > LAG_SECONDS:
        yield f"An event loop came {worst:.1f} s late: something computes where it should wait."


def _messages_are_stranded(seen: Installation) -> Iterator[str]:
    broker = seen.broker
    if broker is not None and broker.unacked and broker.oldest_unacked_s > UNACKED_SECONDS:
        yield f"{broker.unacked} wake-ups were never acknowledged. Harmless: the sweep wakes the workers."


RULES: Final = (
    AlarmRule("no_workers", Level.CRITICAL, "workers", _nobody_works),
    AlarmRule("no_workers", Level.WARNING, "workers", _nobody_would_work),
    AlarmRule("ready_too_long", Level.CRITICAL, "workers", _nothing_is_claimed),
    AlarmRule("worker_idle", Level.CRITICAL, "workers", _processes_are_idle),
    AlarmRule("sweep_late", Level.CRITICAL, "workers", _nobody_sweeps),
    AlarmRule("counter_drift", Level.CRITICAL, "jobs?state=open", _counters_lie),
    AlarmRule("redis_gone", Level.CRITICAL, "broker", _redis_is_gone),
    AlarmRule("resolver_distrusted", Level.CRITICAL, "jobs?state=open", _no_resolver_is_trusted),
    AlarmRule("network_away", Level.CRITICAL, "jobs?state=open", _our_network_is_away),
    AlarmRule("leases_expire", Level.WARNING, "leases", _leases_expire),
    AlarmRule("deliveries_late", Level.WARNING, "deliveries", _deliveries_are_late),
    AlarmRule("schedules_late", Level.WARNING, "schedules", _schedules_are_late),
    AlarmRule("provider_closed", Level.WARNING, "throttles", _providers_are_closed),
    AlarmRule("worker_gone", Level.WARNING, "workers", _workers_are_gone),
    AlarmRule("loop_lag", Level.WARNING, "workers", _loops_are_late),
    AlarmRule("broker_stranded", Level.WARNING, "broker", _messages_are_stranded),
)
"""Every alarm there is."""


def _work(seen: Installation) -> int:
    return seen.stats.backlog or seen.stats.steps


def _ready_too_long(seen: Installation) -> bool:
    return seen.stats.oldest_ready_s > READY_SECONDS and seen.stats.free_slots > 0


def _count(number: int, noun: str) -> str:
    """Write "1 job is", "2 jobs are"."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"1 {noun} is" if number == 1 else f"{number} {plural} are"


def _seconds(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
