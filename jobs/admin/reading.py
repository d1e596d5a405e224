"""Reads what the alarms look at: from the database, from Redis, and what this process sees itself."""

from __future__ import annotations

import asyncio
from datetime import datetime
from importlib.metadata import version
from typing import Final

import structlog

from mailsift.jobs.admin.alarms import Installation
from mailsift.jobs.engine.heartbeat import HealthWatch
from mailsift.pipeline.errors import MailsiftError, error_fields
from mailsift.storage.database import Database, DatabaseError
from mailsift.storage.redis import broker
from mailsift.storage.redis.broker import BrokerCounts
from mailsift.storage.redis.connection import Client, RedisCircuitBreaker
from mailsift.storage.redis.throttle_view import LearnedRate, ThrottleInspector
from mailsift.storage.sql import stats
from mailsift.storage.sql.stats import Snapshot

MOST_SECONDS: Final = 5.0
"""What one look may take, at the database and at Redis."""

_log = structlog.get_logger()


class InstallationReader:
    """Reads the same numbers for pages, terminal and metrics."""

    def __init__(self, *, database: Database, redis: Client, queue: str, health: HealthWatch) -> None:
        self._database = database
        self._redis = redis
        self._queue = queue
        self._health = health
        self._throttle = ThrottleInspector(redis)
        self._breaker = RedisCircuitBreaker("The operator console")
        self._version = version("mailsift")

    async def read(self, *, today: datetime | None = None) -> Installation:
        """Return everything; what does not answer is None.

        Args:
            today: when the day began whose verdicts are counted; None = in UTC.
        """
        snapshot, (throttles, broker), _ = await asyncio.gather(
            self._snapshot(today), self._read_redis(), self._health.recheck()
        )
        return Installation(
            stats=snapshot,
            throttles=throttles,
            broker=broker,
            own=self._health.current(),
            version=self._version,
        )

    async def broker(self) -> BrokerCounts | None:
        """Return what lies in the broker; None while it is gone."""
        return await self._breaker.call(broker.counts, self._redis, self._queue)

    async def _snapshot(self, today: datetime | None) -> Snapshot | None:
        try:
            async with asyncio.timeout(MOST_SECONDS), self._database.begin() as connection:
                await stats.limit_time(connection, MOST_SECONDS)
                return await stats.snapshot(connection, today=today)
        except (DatabaseError, MailsiftError, OSError) as error:
            _log.warning("installation.unreadable", source="database", **error_fields(error))
            return None

    async def _read_redis(self) -> tuple[list[LearnedRate] | None, BrokerCounts | None]:
        return await self._breaker.call(self._throttle.read), await self.broker()
