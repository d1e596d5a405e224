"""The fact cache against a real Valkey."""

from __future__ import annotations

import logging
from unittest import TestCase

from redis.asyncio import Redis

from mailsift.pipeline.facts import CacheEntry, FactKind
from mailsift.storage.redis.connection import RedisCircuitBreaker, connect
from mailsift.storage.redis.facts import FactInspector, RedisFactCache
from tests.support.servers import RedisServer


async def commands(redis: Redis, name: str) -> int:
    """How often the server has run a command."""
    stats = await redis.info("commandstats")
    return int(stats.get(f"cmdstat_{name}", {}).get("calls", 0))


async def test_what_was_put_is_got_and_the_unknown_is_left_out(redis: Redis) -> None:
    cache = RedisFactCache(redis)
    await cache.put(
        FactKind.DOMAIN, [CacheEntry("a.example", b"\x00\xff", 60), CacheEntry("b.example", b"", 60)]
    )
    found = await cache.get(FactKind.DOMAIN, ["b.example", "missing.example", "a.example"])
    assert found == {"a.example": b"\x00\xff", "b.example": b""}


async def test_kinds_do_not_mix(redis: Redis) -> None:
    cache = RedisFactCache(redis)
    await cache.put(FactKind.DOMAIN, [CacheEntry("a.example", b"domain", 60)])
    assert await cache.get(FactKind.CATCH_ALL, ["a.example"]) == {}


async def test_a_fact_is_forgotten_when_its_time_is_over(redis: Redis) -> None:
    cache = RedisFactCache(redis)
    await cache.put(FactKind.MAILBOX, [CacheEntry("d1", b"x", 90.5), CacheEntry("stale", b"x", 0)])
    assert 90_000 < await redis.pttl("ms:fact:mailbox:d1") <= 90_500
    assert not await redis.exists("ms:fact:mailbox:stale")


async def test_many_keys_cost_one_mget_for_five_hundred_of_them(redis: Redis) -> None:
    cache = RedisFactCache(redis)
    await cache.put(FactKind.DOMAIN, [CacheEntry(f"{n}.example", b"%d" % n, 60) for n in range(1200)])
    before = await commands(redis, "mget")
    found = await cache.get(FactKind.DOMAIN, [f"{n}.example" for n in range(1201)])
    assert found == {f"{n}.example": b"%d" % n for n in range(1200)}
    assert await commands(redis, "mget") - before == 3


async def test_nothing_to_ask_asks_nothing(redis: Redis) -> None:
    cache = RedisFactCache(redis)
    before = (await redis.info("stats"))["total_commands_processed"]
    assert await cache.get(FactKind.DOMAIN, []) == {}
    await cache.put(FactKind.DOMAIN, [])
    assert (await redis.info("stats"))["total_commands_processed"] == before + 1  # the question itself


async def test_a_key_of_another_type_is_an_unknown_fact(redis: Redis) -> None:
    await redis.hset("ms:fact:domain:a.example", "field", "value")
    assert await RedisFactCache(redis).get(FactKind.DOMAIN, ["a.example"]) == {}
    assert (await FactInspector(redis).read("a.example")).empty


async def test_without_redis_it_is_an_empty_cache_until_redis_is_back(
    redis_server: RedisServer,
) -> None:
    now = 0.0
    async with connect(redis_server.url) as redis:
        cache = RedisFactCache(redis, breaker=RedisCircuitBreaker("The fact cache", monotonic=lambda: now))
        entry = CacheEntry("secret.example", b"x", 60)
        await cache.put(FactKind.DOMAIN, [entry])
        redis_server.kill()
        with TestCase().assertLogs(level=logging.WARNING) as logs:
            for _ in range(3):
                assert await cache.get(FactKind.DOMAIN, ["secret.example"]) == {}
                await cache.put(FactKind.DOMAIN, [entry])
        assert [record.getMessage() for record in logs.records] == [
            "The fact cache works without Redis: ConnectionError"
        ]
        redis_server.start(emptied=True)
        assert await cache.get(FactKind.DOMAIN, ["secret.example"]) == {}
        await cache.put(FactKind.DOMAIN, [entry])  # still spared
        now = 10.0
        await cache.put(FactKind.DOMAIN, [entry])
        assert await cache.get(FactKind.DOMAIN, ["secret.example"]) == {"secret.example": b"x"}


async def test_what_is_unknown_is_shared_out_among_those_who_ask(redis: Redis) -> None:
    mine, theirs = RedisFactCache(redis), RedisFactCache(redis)
    await mine.put(FactKind.DOMAIN, [CacheEntry("known.example", b"x", 60)])
    first = await mine.get_or_claim(FactKind.DOMAIN, ["known.example", "a.example", "b.example"])
    second = await theirs.get_or_claim(FactKind.DOMAIN, ["b.example", "known.example", "c.example"])
    assert (first.found, first.elsewhere) == ({"known.example": b"x"}, frozenset())
    assert (second.found, second.elsewhere) == ({"known.example": b"x"}, frozenset({"b.example"}))


async def test_a_claim_is_no_fact_and_ends_with_one_or_by_itself(redis: Redis) -> None:
    cache = RedisFactCache(redis)
    await cache.get_or_claim(FactKind.DOMAIN, ["a.example"])
    assert await cache.get(FactKind.DOMAIN, ["a.example"]) == {}
    assert 9_000 < await redis.pttl("ms:fact:domain:a.example") <= 10_000
    await cache.put(FactKind.DOMAIN, [CacheEntry("a.example", b"x", 60)])
    assert (await cache.get_or_claim(FactKind.DOMAIN, ["a.example"])).found == {"a.example": b"x"}
    await redis.delete("ms:fact:domain:a.example")
    assert (await cache.get_or_claim(FactKind.DOMAIN, ["a.example"])).elsewhere == frozenset()


async def test_many_keys_are_claimed_in_one_round_trip_once_the_server_knows_the_script(redis: Redis) -> None:
    cache, keys = RedisFactCache(redis), [f"{n}.example" for n in range(1200)]
    await cache.put(FactKind.DOMAIN, [CacheEntry(key, key.encode(), 60) for key in keys[:700]])
    claimed = await cache.get_or_claim(FactKind.DOMAIN, keys)
    assert claimed.found == {key: key.encode() for key in keys[:700]}
    before = await commands(redis, "evalsha")
    again = await cache.get_or_claim(FactKind.DOMAIN, keys)
    assert again.elsewhere == set(keys[700:])
    assert await commands(redis, "evalsha") - before == 3


async def test_without_redis_everybody_looks(redis_server: RedisServer) -> None:
    async with connect(redis_server.url) as redis:
        cache = RedisFactCache(redis)
        redis_server.kill()
        for _ in range(2):
            claimed = await cache.get_or_claim(FactKind.DOMAIN, ["a.example"])
            assert (claimed.found, claimed.elsewhere) == ({}, frozenset())
