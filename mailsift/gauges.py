"""The gauges of the whole installation: read from the database and Redis when somebody looks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final

from prometheus_client import Gauge, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from mailsift.jobs.admin.alarms import RULES, Installation, alarms
from mailsift.pipeline.metrics import OTHER, declare, provider_label
from mailsift.storage.redis.connection import BrokerCounts
from mailsift.storage.redis.throttle import LearnedRate
from mailsift.storage.sql import stats
from mailsift.storage.sql.stats import Snapshot
from mailsift.storage.states import ENDED, JobState

_CACHED_SECONDS: Final = 3.0
_PAGE_SECONDS: Final = 15.0
_DEFAULT_ROUTE: Final = "default"
"""The label of the source without an address."""
_OPEN_STATES: Final = tuple(state.value for state in JobState if state not in ENDED)

JOBS: Final = declare(Gauge, "mailsift_jobs", "Jobs that have not ended", {"state": _OPEN_STATES})
OLDEST_JOB: Final = declare(
    Gauge,
    "mailsift_job_oldest_queued_seconds",
    "Age of the oldest job that nobody has begun, by the size of its list: up to 256 KiB is small",
    {"class": ["small", "large"]},
)
CHUNKS: Final = declare(
    Gauge,
    "mailsift_chunks",
    "Chunks that are not done",
    {"state": stats.CHUNK_STATES, "lane_class": stats.KEY_CLASSES},
)
BACKLOG: Final = declare(
    Gauge,
    "mailsift_chunk_addresses",
    "Addresses in chunks that are not done",
    {"state": stats.CHUNK_STATES, "lane_class": stats.KEY_CLASSES},
)
OLDEST_CHUNK: Final = declare(
    Gauge,
    "mailsift_chunk_oldest_ready_seconds",
    "How long the oldest chunk that could be claimed has been waiting for it",
    {"lane_class": stats.KEY_CLASSES},
)
OUTBOX: Final = declare(
    Gauge, "mailsift_outbox_pending", "Webhook deliveries that are not over", {"state": stats.OUTBOX_STATES}
)
OLDEST_DELIVERY: Final = declare(
    Gauge,
    "mailsift_outbox_oldest_seconds",
    "How long the oldest delivery that nothing stands before has been due",
)
ENDPOINTS: Final = declare(
    Gauge, "mailsift_webhook_endpoints", "Webhook endpoints", {"state": stats.ENDPOINT_STATES}
)
LATE: Final = declare(Gauge, "mailsift_schedule_late_seconds", "How late the most overdue schedule is")
DRIFT: Final = declare(
    Gauge,
    "mailsift_count_drift",
    "By how much counters of open jobs differ from what they count: always 0",
    {"counter": ["chunks", "chunks_open", "rows"]},
)
QUEUED: Final = declare(Gauge, "mailsift_broker_queue_len", "Wake-ups in the broker's queue")
UNACKED: Final = declare(
    Gauge, "mailsift_broker_unacked", "Wake-ups that a worker took and has not confirmed"
)
PENALTY: Final = declare(
    Gauge,
    "mailsift_throttle_penalty_seconds",
    "How much longer a provider is left alone that asked for it or refuses us, 0 where it is not",
    {"provider": (), "source": ()},
)
RATE_SHARE: Final = declare(
    Gauge,
    "mailsift_throttle_pace_ratio",
    "The learned share of the usual rate of a provider, 1 where nothing had to be learned",
    {"provider": (), "source": ()},
)
READABLE: Final = declare(
    Gauge,
    "mailsift_gauges_up",
    "Whether the gauges of the installation could be read; those of a source that is away are missing",
    {"source": ["database", "redis"]},
)

ALARMS: Final = declare(
    Gauge, "mailsift_alarm", "Whether an alarm of /ops rings now", {"alarm": (), "severity": ()}
)

_OF_DATABASE: Final = (
    *(JOBS, OLDEST_JOB, CHUNKS, BACKLOG, OLDEST_CHUNK, OUTBOX, OLDEST_DELIVERY, ENDPOINTS, LATE, DRIFT),
)
_OF_REDIS: Final = (QUEUED, UNACKED, PENALTY, RATE_SHARE)
METRICS: Final = (*_OF_DATABASE, *_OF_REDIS, READABLE, ALARMS)


class InstallationGauges(Collector):
    """Reads them, at most once in three seconds however many look; what does not answer is None."""

    def __init__(
        self, read: Callable[[], Awaitable[Installation]], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._read_installation = read
        self._monotonic = monotonic
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")

    @override
    def collect(self) -> Iterable[Metric]:
        """Return the gauges; what cannot be read is left out, and `mailsift_gauges_up` says so.

        Called in any thread but that of the loop this was made on, which has to read.
        """
        readable = asyncio.run_coroutine_threadsafe(self.read(), self._loop).result(_PAGE_SECONDS)
        return [family for gauge in readable for family in gauge.collect()]

    async def read(self) -> Sequence[Gauge]:
        """Bring the gauges up to date; returns those that can be read."""
        async with self._lock:
            if self._monotonic() - self._read_at >= _CACHED_SECONDS:
                self._seen = await self._read_installation()
                _set_all(self._seen)
                self._read_at = self._monotonic()
        of_database = _OF_DATABASE if self._seen.stats is not None else ()
        of_redis = _OF_REDIS if self._seen.broker is not None else ()
        return (*of_database, *of_redis, READABLE, ALARMS)


def _set_all(installation: Installation) -> None:
    READABLE.labels("database").set(installation.stats is not None)
    READABLE.labels("redis").set(installation.broker is not None)
    ringing = {alarm.code for alarm in alarms(installation)}
    for rule in RULES:
        if rule.check:
            ALARMS.labels(rule.code, rule.level.value).set(rule.code in ringing)
    if installation.stats is not None:
        _set_database(installation.stats)
    if installation.broker is not None:
        _set_redis(installation.broker, installation.throttles or ())


def _set_redis(broker: BrokerCounts, learned: Iterable[LearnedRate]) -> None:
    QUEUED.set(broker.queued)
    UNACKED.set(broker.unacked)
    PENALTY.clear()
    RATE_SHARE.clear()
    for one in learned:
        if provider_label(one.provider) != OTHER:
            labels = one.provider, one.source or _DEFAULT_ROUTE
            PENALTY.labels(*labels).set(one.closed_s)
            RATE_SHARE.labels(*labels).set(one.share)


def _set_database(seen: Snapshot) -> None:
    ready = [level for level in seen.chunks if level.state == "ready"]
    _set(JOBS, {(state,): count for state, count in seen.jobs.items()})
    _set(OLDEST_JOB, {(size,): seconds for size, seconds in seen.oldest_jobs.items()})
    _set(CHUNKS, {(level.state, level.key_class): level.chunks for level in seen.chunks})
    _set(BACKLOG, {(level.state, level.key_class): level.addresses for level in seen.chunks})
    _set(OLDEST_CHUNK, {(level.key_class,): level.claimable_s for level in ready})
    for counter in ("chunks", "chunks_open", "rows"):
        DRIFT.labels(counter).set(sum(getattr(one, counter) for one in seen.drift))
    _set(OUTBOX, {(level.state,): level.deliveries for level in seen.outbox.levels})
    OLDEST_DELIVERY.set(seen.outbox.oldest_due_s)
    _set(ENDPOINTS, {(state,): count for state, count in seen.endpoints.items()})
    LATE.set(max(seen.late_schedules, default=0.0))


def _set(gauge: Gauge, found: Mapping[tuple[str, ...], float]) -> None:
    """Give the gauge a value for all its labels can be: 0 where nothing was found."""
    known = [tuple(sample.labels.values()) for family in gauge.collect() for sample in family.samples]
    for labels in known:
        gauge.labels(*labels).set(found.get(labels, 0))
