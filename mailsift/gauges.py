"""The gauges of the whole installation: read from the database and Redis when somebody looks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

import structlog
from prometheus_client import Gauge, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from mailsift.pipeline.errors import error_fields
from mailsift.pipeline.metrics import OTHER, from_zero, provider_label
from mailsift.storage.database import Database
from mailsift.storage.redis import broker
from mailsift.storage.redis.connection import Client
from mailsift.storage.redis.throttle_view import ThrottleInspector
from mailsift.storage.sql import stats
from mailsift.storage.sql.stats import Snapshot
from mailsift.storage.states import ENDED, JobState

_CACHED_SECONDS: Final = 5.0
_MOST_SECONDS: Final = 5.0
"""What one look may take, at the database and at Redis."""
_PAGE_SECONDS: Final = 15.0
_DEFAULT_ROUTE: Final = "default"
"""The label of the source without an address."""
_OPEN_STATES: Final = tuple(state.value for state in JobState if state not in ENDED)

JOBS: Final = from_zero(
    Gauge("mailsift_jobs", "Jobs that have not ended", ["state"], registry=None), _OPEN_STATES
)
OLDEST_JOB: Final = from_zero(
    Gauge(
        "mailsift_job_oldest_queued_seconds",
        "Age of the oldest job that nobody has begun, by the size of its list: up to 256 KiB is small",
        ["class"],
        registry=None,
    ),
    ["small", "large"],
)
CHUNKS: Final = from_zero(
    Gauge("mailsift_chunks", "Chunks that are not done", ["state", "lane_class"], registry=None),
    stats.CHUNK_STATES,
    stats.KEY_CLASSES,
)
BACKLOG: Final = from_zero(
    Gauge(
        "mailsift_chunk_addresses",
        "Addresses in chunks that are not done",
        ["state", "lane_class"],
        registry=None,
    ),
    stats.CHUNK_STATES,
    stats.KEY_CLASSES,
)
OLDEST_CHUNK: Final = from_zero(
    Gauge(
        "mailsift_chunk_oldest_ready_seconds",
        "How long the oldest chunk that could be claimed has been waiting for it",
        ["lane_class"],
        registry=None,
    ),
    stats.KEY_CLASSES,
)
OUTBOX: Final = from_zero(
    Gauge("mailsift_outbox_pending", "Webhook deliveries that are not over", ["state"], registry=None),
    stats.OUTBOX_STATES,
)
OLDEST_DELIVERY: Final = Gauge(
    "mailsift_outbox_oldest_seconds",
    "How long the oldest delivery that nothing stands before has been due",
    registry=None,
)
ENDPOINTS: Final = from_zero(
    Gauge("mailsift_webhook_endpoints", "Webhook endpoints", ["state"], registry=None),
    stats.ENDPOINT_STATES,
)
LATE: Final = Gauge("mailsift_schedule_late_seconds", "How late the most overdue schedule is", registry=None)
DRIFT: Final = from_zero(
    Gauge(
        "mailsift_count_drift",
        "By how much counters of open jobs differ from what they count: always 0",
        ["counter"],
        registry=None,
    ),
    ["chunks", "chunks_open", "rows"],
)
QUEUED: Final = Gauge("mailsift_broker_queue_len", "Wake-ups in the broker's queue", registry=None)
UNACKED: Final = Gauge(
    "mailsift_broker_unacked", "Wake-ups that a worker took and has not confirmed", registry=None
)
PENALTY: Final = Gauge(
    "mailsift_throttle_penalty_seconds",
    "How much longer a provider is left alone that asked for it or refuses us, 0 where it is not",
    ["provider", "source"],
    registry=None,
)
RATE_SHARE: Final = Gauge(
    "mailsift_throttle_pace_ratio",
    "The learned share of the usual rate of a provider, 1 where nothing had to be learned",
    ["provider", "source"],
    registry=None,
)
READABLE: Final = from_zero(
    Gauge(
        "mailsift_gauges_up",
        "Whether the gauges of the installation could be read; those of a source that is away are missing",
        ["source"],
        registry=None,
    ),
    ["database", "redis"],
)

_OF_DATABASE: Final = (
    *(JOBS, OLDEST_JOB, CHUNKS, BACKLOG, OLDEST_CHUNK, OUTBOX, OLDEST_DELIVERY, ENDPOINTS, LATE, DRIFT),
)
_OF_REDIS: Final = (QUEUED, UNACKED, PENALTY, RATE_SHARE)
METRICS: Final = (*_OF_DATABASE, *_OF_REDIS, READABLE)

_log = structlog.get_logger()


class InstallationGauges(Collector):
    """Reads them, at most once in five seconds however many look.

    Args:
        database, redis: of the installation.
        queue: of the wake-ups.
        monotonic: seconds, for the age of what was read.
    """

    def __init__(
        self,
        *,
        database: Database,
        redis: Client,
        queue: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._redis = redis
        self._queue = queue
        self._monotonic = monotonic
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")
        self._up: set[str] = set()

    @override
    def collect(self) -> Iterable[Metric]:
        """Return the gauges; what cannot be read is left out, and `mailsift_gauges_up` says so.

        Called in any thread but that of the loop this was made on, which has to read.
        """
        asyncio.run_coroutine_threadsafe(self.read(), self._loop).result(_PAGE_SECONDS)
        return [family for gauge in self._readable() for family in gauge.collect()]

    async def read(self) -> None:
        """Bring the gauges up to date."""
        async with self._lock:
            if self._monotonic() - self._read_at < _CACHED_SECONDS:
                return
            await asyncio.gather(
                self._try("database", self._read_database), self._try("redis", self._read_redis)
            )
            self._read_at = self._monotonic()

    def _readable(self) -> Iterable[Gauge]:
        if "database" in self._up:
            yield from _OF_DATABASE
        if "redis" in self._up:
            yield from _OF_REDIS
        yield READABLE

    async def _try(self, source: str, read: Callable[[], Awaitable[None]]) -> None:
        try:
            await read()
            self._up.add(source)
        except Exception as error:  # noqa: BLE001 - whatever is wrong there, the other half is worth having
            _log.warning("gauges.unreadable", source=source, **error_fields(error))
            self._up.discard(source)
        READABLE.labels(source).set(source in self._up)

    async def _read_database(self) -> None:
        async with self._database.begin() as connection:
            await stats.limit_time(connection, _MOST_SECONDS)
            _set_all(await stats.snapshot(connection))

    async def _read_redis(self) -> None:
        async with asyncio.timeout(_MOST_SECONDS):
            level = await broker.counts(self._redis, self._queue)
            learned = await ThrottleInspector(self._redis).read()
        QUEUED.set(level.queued)
        UNACKED.set(level.unacked)
        PENALTY.clear()
        RATE_SHARE.clear()
        for one in learned:
            if provider_label(one.provider) != OTHER:
                labels = one.provider, one.source or _DEFAULT_ROUTE
                PENALTY.labels(*labels).set(one.closed_s)
                RATE_SHARE.labels(*labels).set(one.share)


def _set_all(seen: Snapshot) -> None:
    ready = [level for level in seen.chunks if level.state == "ready"]
    due = [level.oldest_s for level in seen.outbox.levels if level.state == "due"]
    _set(JOBS, {(state,): count for state, count in seen.jobs.items()})
    _set(OLDEST_JOB, {(size,): seconds for size, seconds in seen.oldest_jobs.items()})
    _set(CHUNKS, {(level.state, level.key_class): level.chunks for level in seen.chunks})
    _set(BACKLOG, {(level.state, level.key_class): level.addresses for level in seen.chunks})
    _set(OLDEST_CHUNK, {(level.key_class,): level.claimable_s for level in ready})
    for counter in ("chunks", "chunks_open", "rows"):
        DRIFT.labels(counter).set(sum(getattr(one, counter) for one in seen.drift))
    _set(OUTBOX, {(level.state,): level.deliveries for level in seen.outbox.levels})
    OLDEST_DELIVERY.set(max(due, default=0.0))
    _set(ENDPOINTS, {(state,): count for state, count in seen.endpoints.items()})
    LATE.set(max(seen.late_schedules, default=0.0))


def _set(gauge: Gauge, found: Mapping[tuple[str, ...], float]) -> None:
    """Give the gauge a value for all its labels can be: 0 where nothing was found."""
    known = [tuple(sample.labels.values()) for family in gauge.collect() for sample in family.samples]
    for labels in known:
        gauge.labels(*labels).set(found.get(labels, 0))
