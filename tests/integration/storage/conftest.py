"""A throttle on a real Valkey, with time moved by hand."""

from __future__ import annotations

from random import Random

import pytest
from redis.asyncio import Redis

from mailsift.storage.redis.throttle import RedisThrottle
from tests.support.throttling import CONFIG, Time, row


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def shared(redis: Redis, time: Time) -> RedisThrottle:
    return RedisThrottle(redis, row=row, config=CONFIG, clock=time, random=Random(1))
