"""The broker is counted as Celery's own library keeps it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from mailsift.jobs.tasks import QUEUE, make_app, send_wake_ups
from mailsift.storage.redis.connection import RedisCircuitBreaker, broker_counts, connect
from tests.support.servers import RedisServer


async def test_an_empty_broker_holds_nothing(redis: Redis) -> None:
    found = await broker_counts(redis, QUEUE)
    assert (found.queued, found.unacked, found.oldest_unacked_s) == (0, 0, 0.0)
    assert found.memory_bytes > 0
    assert found.version[0].isdigit()


async def test_what_was_taken_and_not_acknowledged_is_counted_apart(redis: Redis, redis_url: str) -> None:
    app = make_app(redis_url)
    await asyncio.to_thread(send_wake_ups, app, 5)
    assert (await broker_counts(redis, QUEUE)).queued == 5

    def take_two(channel: Any) -> list[Any]:
        return [channel.basic_get(QUEUE) for _ in range(2)]

    with app.connection_for_read() as connection:
        channel: Any = connection.default_channel
        taken = await asyncio.to_thread(take_two, channel)
        found = await broker_counts(redis, QUEUE)
        assert (found.queued, found.unacked) == (3, 2)
        assert 0 <= found.oldest_unacked_s < 60
        taken[0].ack()
        assert (await broker_counts(redis, QUEUE)).unacked == 1
    app.close()


async def test_every_priority_is_counted(redis: Redis, redis_url: str) -> None:
    app = make_app(redis_url)
    for priority in (0, 3, 9):
        app.send_task("mailsift.pull", retry=False, priority=priority)
    assert (await broker_counts(redis, QUEUE)).queued == 3
    app.close()


@pytest.mark.parametrize("state", ["full", "replica"])
async def test_a_server_that_takes_nothing_is_one_that_is_gone(redis_server: RedisServer, state: str) -> None:
    redis = connect(redis_server.url, timeout=20.0)
    breaker = RedisCircuitBreaker("The operator console")
    assert await breaker.call(broker_counts, redis, QUEUE) is not None
    if state == "full":
        await redis.config_set("maxmemory-policy", "noeviction")
        await redis.config_set("maxmemory", 1)
    else:
        await redis.replicaof("127.0.0.1", 1)
    assert await breaker.call(broker_counts, redis, QUEUE) is None
    await redis.aclose()
