"""The rate limit under many requests at once: exact, together in few calls, and each with its own answer."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import Redis

from mailsift.storage.redis.connection import connect
from mailsift.storage.redis.rate_limit import RateLimit, Zone
from tests.support.servers import RedisServer

ZONE = Zone("requests", quota=100, window=3_600)


async def _calls(redis: Redis) -> int:
    stats: dict[str, Any] = await redis.info("commandstats")
    return int(stats.get("cmdstat_evalsha", {}).get("calls", 0))


async def test_at_once_exactly_the_quota_is_allowed_in_few_calls(redis: Redis) -> None:
    limit, other = RateLimit(redis), RateLimit(redis)
    assert await limit.take(ZONE, "warm") is not None
    before = await _calls(redis)
    rulings = await asyncio.gather(*(one.take(ZONE, "alice") for _ in range(150) for one in (limit, other)))
    assert sum(decision is not None and decision.allowed for decision in rulings) == 100
    assert None not in rulings
    assert await _calls(redis) - before < 10


async def test_each_gets_the_ruling_of_its_own_zone_holder_and_mark(redis: Redis) -> None:
    limit = RateLimit(redis)
    await limit.mark("key:revoked")
    small = Zone("small", quota=3, window=60)
    asked = [
        (small, "alice", ""),
        (small, "bob", "key:revoked"),
        (ZONE, "alice", "key:good"),
        (small, "alice", ""),
    ]
    rulings = await asyncio.gather(*(limit.take(zone, holder, mark=mark) for zone, holder, mark in asked))
    seen = [(one.remaining, one.marked, one.allowed) for one in rulings if one is not None]
    assert seen == [(2, False, True), (2, True, True), (99, False, True), (1, False, True)]
    spent = await limit.take(small, "alice", units=2)
    assert spent is not None
    assert (spent.allowed, spent.remaining) == (False, 1)
    assert 0 < spent.retry_after <= 20
    assert 0 < spent.reset <= 60


async def test_who_goes_away_disturbs_nobody(redis: Redis) -> None:
    limit = RateLimit(redis)
    tasks = [asyncio.create_task(limit.take(ZONE, "alice")) for _ in range(10)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    rulings = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in rulings] == [True, False] * 5
    assert await limit.take(ZONE, "alice") is not None


async def test_while_redis_is_gone_nobody_waits_for_an_answer(redis_server: RedisServer) -> None:
    async with connect(redis_server.url) as client:
        limit = RateLimit(client)
        assert await limit.take(ZONE, "alice") is not None
        redis_server.kill()
        assert await asyncio.gather(*(limit.take(ZONE, "alice") for _ in range(50))) == [None] * 50
