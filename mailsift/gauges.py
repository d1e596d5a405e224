"""The gauges of the whole installation: read from the database and Redis when somebody looks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

import structlog

from jobs.faults import told
from jobs.views import TERMINAL, JobState
from pipeline.meter import OTHER, PROVIDER, Gauge, Label, Meter, provider_label
from storage import broker, gauge_rows, late_rows
from storage.database import Connection, Database
from storage.redis import Client
from storage.throttle_view import ThrottleDesk

Readings: TypeAlias = list[tuple[Gauge, tuple[str, ...], float]]
"""A gauge, the values of its labels, its value."""

_CACHED_SECONDS: Final = 5.0
_MOST_SECONDS: Final = 5.0
"""What one look may take, at the database and at Redis."""
_DEFAULT_ROUTE: Final = "default"
"""The label of the source without an address."""
_OPEN_STATES: Final = tuple(state.value for state in JobState if state not in TERMINAL)
_SOURCE: Final = Label("source", about="our address, a proxy, or `default`")
_LANE_CLASS: Final = Label("lane_class", gauge_rows.LANE_CLASSES)

JOBS: Final = Gauge("mailsift_jobs", "Jobs that have not ended", Label("state", _OPEN_STATES))
OLDEST_JOB: Final = Gauge(
    "mailsift_job_oldest_queued_seconds",
    "Age of the oldest job that nobody has begun, by the size of its list: up to 256 KiB is small",
    Label("class", ("small", "large")),
)
CHUNKS: Final = Gauge(
    "mailsift_chunks", "Chunks that are not done", Label("state", gauge_rows.CHUNK_STATES), _LANE_CLASS
)
BACKLOG: Final = Gauge(
    "mailsift_chunk_addresses",
    "Addresses in chunks that are not done",
    Label("state", gauge_rows.CHUNK_STATES),
    _LANE_CLASS,
)
OLDEST_CHUNK: Final = Gauge(
    "mailsift_chunk_oldest_ready_seconds",
    "How long the oldest chunk that could be claimed has been waiting for it",
    _LANE_CLASS,
)
OUTBOX: Final = Gauge(
    "mailsift_outbox_pending",
    "Webhook deliveries that are not over",
    Label("state", gauge_rows.OUTBOX_STATES),
)
OLDEST_DELIVERY: Final = Gauge(
    "mailsift_outbox_oldest_seconds", "How long the oldest delivery that nothing stands before has been due"
)
ENDPOINTS: Final = Gauge(
    "mailsift_webhook_endpoints", "Webhook endpoints", Label("state", gauge_rows.ENDPOINT_STATES)
)
LATE: Final = Gauge("mailsift_schedule_late_seconds", "How late the most overdue schedule is")
DRIFT: Final = Gauge(
    "mailsift_count_drift",
    "By how much counters of open jobs differ from what they count: always 0",
    Label("counter", ("chunks", "chunks_open", "rows")),
)
QUEUED: Final = Gauge("mailsift_broker_queue_len", "Wake-ups in the broker's queue")
UNACKED: Final = Gauge("mailsift_broker_unacked", "Wake-ups that a worker took and has not confirmed")
PENALTY: Final = Gauge(
    "mailsift_throttle_penalty_seconds",
    "How much longer a provider is left alone that asked for it or refuses us, 0 where it is not",
    PROVIDER,
    _SOURCE,
)
PACE: Final = Gauge(
    "mailsift_throttle_pace_ratio",
    "The learned share of the usual pace of a provider, 1 where nothing had to be learned",
    PROVIDER,
    _SOURCE,
)
READABLE: Final = Gauge(
    "mailsift_gauges_up",
    "Whether the gauges of the installation could be read; those of a source that is away are missing",
    Label("source", ("database", "redis")),
)

METERS: Final[tuple[Meter, ...]] = (
    *(JOBS, OLDEST_JOB, CHUNKS, BACKLOG, OLDEST_CHUNK, OUTBOX, OLDEST_DELIVERY, ENDPOINTS, LATE, DRIFT),
    *(QUEUED, UNACKED, PENALTY, PACE, READABLE),
)

_log = structlog.get_logger()


class InstallationGauges:
    """Reads them, at most once in five seconds however many look.

    Args:
        database, redis: of the installation.
        queue: of the wake-ups.
        small_bytes: lists up to this size are small.
        job_cap: chunks of one job that may be leased at once.
    """

    def __init__(
        self,
        *,
        database: Database,
        redis: Client,
        queue: str,
        small_bytes: int,
        job_cap: int,
    ) -> None:
        self._database = database
        self._redis = redis
        self._queue = queue
        self._small_bytes = small_bytes
        self._job_cap = job_cap
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")
        self._readings: Readings = []

    async def read(self) -> Readings:
        """Return the gauges; what cannot be read is left out, and `mailsift_gauges_up` says so."""
        async with self._lock:
            if time.monotonic() - self._read_at >= _CACHED_SECONDS:
                both = await asyncio.gather(
                    _tried("database", self._of_database), _tried("redis", self._of_redis)
                )
                self._readings = [reading for readings in both for reading in readings]
                self._read_at = time.monotonic()
            return self._readings

    async def _of_database(self) -> Readings:
        async with self._database.begin() as connection:
            await gauge_rows.limit_time(connection, _MOST_SECONDS)
            return [*await self._of_jobs(connection), *await _of_webhooks(connection)]

    async def _of_jobs(self, connection: Connection) -> Readings:
        oldest = await gauge_rows.oldest_jobs(connection, small_bytes=self._small_bytes)
        levels = await gauge_rows.chunks(connection, job_cap=self._job_cap)
        drift = await gauge_rows.drift(connection)
        ready = [level for level in levels if level.state == "ready"]
        return [
            *_all(JOBS, (((state,), count) for state, count in (await gauge_rows.jobs(connection)).items())),
            *_all(OLDEST_JOB, (((size,), seconds) for size, seconds in oldest.items())),
            *_all(CHUNKS, (((level.state, level.lane_class), level.chunks) for level in levels)),
            *_all(BACKLOG, (((level.state, level.lane_class), level.addresses) for level in levels)),
            *_all(OLDEST_CHUNK, (((level.lane_class,), level.oldest_s) for level in ready)),
            (DRIFT, ("chunks",), drift.chunks),
            (DRIFT, ("chunks_open",), drift.chunks_open),
            (DRIFT, ("rows",), drift.rows),
        ]

    async def _of_redis(self) -> Readings:
        async with asyncio.timeout(_MOST_SECONDS):
            level = await broker.counts(self._redis, self._queue)
            learned = await ThrottleDesk(self._redis).look()
        places = [
            (one, (one.provider, one.source or _DEFAULT_ROUTE))
            for one in learned
            if provider_label(one.provider) != OTHER
        ]
        return [
            (QUEUED, (), level.queued),
            (UNACKED, (), level.unacked),
            *((PENALTY, labels, one.closed_s) for one, labels in places),
            *((PACE, labels, one.share) for one, labels in places),
        ]


async def _of_webhooks(connection: Connection) -> Readings:
    levels = await gauge_rows.outbox(connection)
    endpoints = await gauge_rows.endpoints(connection)
    return [
        *_all(OUTBOX, (((level.state,), level.deliveries) for level in levels)),
        (OLDEST_DELIVERY, (), max((level.oldest_s for level in levels if level.state == "due"), default=0.0)),
        *_all(ENDPOINTS, (((state,), count) for state, count in endpoints.items())),
        (LATE, (), max(await late_rows.lateness(connection), default=0.0)),
    ]


def _all(gauge: Gauge, pairs: Iterable[tuple[tuple[str, ...], float]]) -> Readings:
    """Give the gauge a value for all its labels can be: 0 where nothing was found."""
    found = dict(pairs)
    return [(gauge, labels, found.get(labels, 0)) for labels in gauge.starts]


async def _tried(source: str, look: Callable[[], Awaitable[Readings]]) -> Readings:
    try:
        readings = await look()
    except Exception as error:  # noqa: BLE001 - whatever is wrong there, the other half is still worth having
        _log.warning("gauges.unreadable", source=source, **told(error))
        return [(READABLE, (source,), 0)]
    return [*readings, (READABLE, (source,), 1)]
