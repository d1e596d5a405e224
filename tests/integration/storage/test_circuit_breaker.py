"""A server that cannot do its work is an outage; a script that is wrong is an error, and is seen."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis
from redis.exceptions import ClusterCrossSlotError, MovedError, ResponseError, TryAgainError

from mailsift.storage.redis.connection import ClientError, RedisCircuitBreaker, connect, words_of
from tests.support.servers import RedisServer


@pytest.fixture
async def redis(redis_server: RedisServer) -> AsyncIterator[Redis]:
    client = connect(redis_server.url, timeout=20.0)
    yield client
    await client.aclose()


@pytest.mark.parametrize(
    "script", ["error('x')", "this is no Lua", "return redis.call('LPUSH', KEYS[1], 'x')", "return nil + 1"]
)
async def test_a_script_that_is_wrong_is_no_outage(redis: Redis, script: str) -> None:
    breaker = RedisCircuitBreaker("A test")
    await redis.set("ms:test", "no list")
    with pytest.raises(ClientError):
        await breaker.call(lambda: redis.register_script(script)(keys=["ms:test"]))
    assert await breaker.call(redis.ping)


@pytest.mark.parametrize("setting", [("maxmemory", "1"), ("min-replicas-to-write", "1")])
async def test_a_server_that_cannot_write_is_an_outage_for_scripts_too(
    redis: Redis, setting: tuple[str, str]
) -> None:
    await redis.config_set(*setting)
    script = redis.register_script("return redis.call('SET', KEYS[1], 'x')")
    assert await RedisCircuitBreaker("A test").call(lambda: script(keys=["ms:test"])) is None


@pytest.mark.parametrize("transaction", [True, False])
@pytest.mark.parametrize("setting", [("maxmemory", "1"), ("min-replicas-to-write", "1")])
async def test_a_server_that_cannot_write_is_an_outage_for_several_commands_at_once(
    redis: Redis, setting: tuple[str, str], *, transaction: bool
) -> None:
    await redis.config_set(*setting)

    async def both() -> object:
        async with redis.pipeline(transaction=transaction) as commands:
            for key in ("ms:one", "ms:two"):
                _ = commands.set(key, "x")
            return await commands.execute()

    assert await RedisCircuitBreaker("A test").call(both) is None


async def test_a_server_that_is_gone_is_an_outage(redis: Redis, redis_server: RedisServer) -> None:
    redis_server.kill()
    assert await RedisCircuitBreaker("A test").call(redis.ping) is None


@pytest.mark.parametrize(
    "text", ["MISCONF Errors writing to disk", "BUSY a script is running", "DB index is out of range"]
)
async def test_a_refusal_without_a_class_of_its_own_is_an_outage(text: str) -> None:
    async def refused() -> bool:
        raise ResponseError(text)

    assert await RedisCircuitBreaker("A test").call(refused) is None


@pytest.mark.parametrize(
    "error", [MovedError("3999 192.0.2.1:6379"), ClusterCrossSlotError("no"), TryAgainError("no")]
)
async def test_a_cluster_that_has_our_keys_elsewhere_is_an_outage_that_is_told(error: ResponseError) -> None:
    async def refused() -> bool:
        raise error

    assert await RedisCircuitBreaker("A test").call(refused) is None
    assert "cluster" in words_of(error)
