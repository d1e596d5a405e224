"""While Redis is gone: each process keeps to its share, nothing is raised, and Redis is used again."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from unittest import TestCase

import pytest
from redis.asyncio import Redis

from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import Ask, Grant, Report, SessionOutcome
from mailsift.storage.redis.connection import RedisCircuitBreaker, connect
from mailsift.storage.redis.local_throttle import ThrottleConfig
from mailsift.storage.redis.throttle import RedisThrottle
from tests.support.servers import RedisServer
from tests.support.throttling import Time

LIMIT = Provider("p", sessions=8, rate=40.0, burst=40, recipients=50)
CONFIG = ThrottleConfig(processes=4)
ASK = Ask("p", "", "192.0.2.1", 50)
HANG = 0.5  # seconds a command may take where the server is known to hang


@pytest.fixture
def moved() -> Time:
    return Time()


@pytest.fixture
async def redis(redis_server: RedisServer, request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    client = connect(redis_server.url, timeout=getattr(request, "param", 20.0))
    yield client
    await client.aclose()


@pytest.fixture
def throttle(redis: Redis, moved: Time) -> RedisThrottle:
    return RedisThrottle(
        redis,
        row=lambda _: LIMIT,
        config=CONFIG,
        breaker=RedisCircuitBreaker("The throttle", monotonic=moved),
    )


async def one(throttle: RedisThrottle, ask: Ask = ASK) -> Grant:
    (grant,) = await throttle.grant([ask])
    return grant


async def turns(count: int) -> None:
    """Give the loop so many turns, and no time."""
    for _ in range(count):
        await asyncio.sleep(0)


def is_local(grant: Grant) -> bool:
    return grant.lease.startswith("local.")


async def test_a_process_keeps_to_its_share_of_rate_and_sessions(
    redis_server: RedisServer, throttle: RedisThrottle
) -> None:
    redis_server.kill()
    first, second, third = await throttle.grant([Ask("p", "", "192.0.2.1", 6)] * 3)
    assert is_local(first)
    assert (first.recipients, second.recipients) == (6, 4)  # a quarter of the burst
    assert third.recipients == 0  # a quarter of the sessions
    await throttle.report([Report(ASK, grant.lease, SessionOutcome.CLEAN) for grant in (first, second)])
    denied = await one(throttle)
    assert denied.recipients == 0
    assert 0 < denied.retry_after <= 1.0  # 10 permits at a quarter of the rate


async def test_the_share_is_never_nothing(redis_server: RedisServer, redis: Redis) -> None:
    redis_server.kill()
    throttle = RedisThrottle(redis, row=lambda _: LIMIT, config=ThrottleConfig(processes=1000))
    assert (await one(throttle)).recipients == 1


async def test_a_rate_reply_is_heeded_without_redis_too(
    redis_server: RedisServer, throttle: RedisThrottle
) -> None:
    held = await one(throttle, Ask("p", "", "192.0.2.1", 1))
    redis_server.kill()
    grant = await one(throttle, Ask("p", "", "192.0.2.1", 1))
    await throttle.report(
        [Report(ASK, held.lease, SessionOutcome.CLEAN), Report(ASK, grant.lease, SessionOutcome.RATE)]
    )
    assert (await one(throttle)).retry_after >= 29


async def test_redis_is_used_again_when_it_answers_again(
    redis_server: RedisServer, throttle: RedisThrottle, moved: Time
) -> None:
    with TestCase().assertLogs(level=logging.WARNING) as logs:
        assert not is_local(await one(throttle))
        redis_server.kill()
        local = await one(throttle)
        assert is_local(local)

        redis_server.start(emptied=True)
        moved.now += 10
        back = await one(throttle)
        assert not is_local(back)
        assert back.recipients == 40
        await throttle.report(
            [Report(ASK, local.lease, SessionOutcome.CLEAN), Report(ASK, back.lease, SessionOutcome.CLEAN)]
        )
    assert [record.getMessage() for record in logs.records] == [
        "The throttle works without Redis: ConnectionError",
        "The throttle has Redis again",
    ]


async def test_a_restart_between_two_calls_is_not_noticed(
    redis_server: RedisServer, throttle: RedisThrottle
) -> None:
    assert not is_local(await one(throttle))
    redis_server.kill()
    redis_server.start()
    assert not is_local(await one(throttle, Ask("p", "", "192.0.2.1", 1)))


@pytest.mark.parametrize("redis", [HANG], indirect=True)
async def test_a_redis_that_hangs_costs_one_timeout_and_then_nothing(
    redis_server: RedisServer, throttle: RedisThrottle, moved: Time
) -> None:
    await one(throttle)
    os.kill(redis_server.pid, signal.SIGSTOP)
    try:
        assert is_local(await one(throttle))
        hundred = asyncio.gather(*(one(throttle) for _ in range(100)))
        await turns(20)
        assert hundred.done()
        moved.now += 10
        fifty = [asyncio.ensure_future(one(throttle)) for _ in range(50)]
        await turns(20)
        assert sum(grant.done() for grant in fifty) == 49  # one of them looks, the others do not wait
        await asyncio.gather(*fifty)
    finally:
        os.kill(redis_server.pid, signal.SIGCONT)


async def test_a_redis_that_refuses_to_write_is_a_redis_that_is_gone(
    redis: Redis, throttle: RedisThrottle
) -> None:
    await redis.replicaof("127.0.0.1", 1)  # as after a failover the client has missed
    assert is_local(await one(throttle))


@pytest.fixture
def timed(redis: Redis, moved: Time) -> RedisThrottle:
    """The only process, by whose clock the server goes, too."""
    return RedisThrottle(
        redis,
        row=lambda _: LIMIT,
        config=ThrottleConfig(processes=1),
        clock=moved,
        breaker=RedisCircuitBreaker("The throttle", monotonic=moved),
    )


FEW = Ask("p", "", "192.0.2.1", 1)


async def granted(throttle: RedisThrottle, times: int) -> list[Grant]:
    """Return the sessions that are granted of so many."""
    return [grant for grant in await throttle.grant([FEW] * times) if grant.recipients]


async def ended(throttle: RedisThrottle, grants: list[Grant]) -> None:
    await throttle.report([Report(FEW, grant.lease, SessionOutcome.CLEAN) for grant in grants])


async def test_sessions_from_before_count_in_the_share(
    redis_server: RedisServer, timed: RedisThrottle
) -> None:
    before = await granted(timed, LIMIT.sessions)
    redis_server.kill()
    assert not await granted(timed, 1)
    await ended(timed, before[:3])
    assert len(await granted(timed, LIMIT.sessions)) == 3


async def test_a_redis_that_comes_back_empty_hears_what_is_open(
    redis_server: RedisServer, timed: RedisThrottle, moved: Time
) -> None:
    before = await granted(timed, 3)
    redis_server.kill()
    meanwhile = await granted(timed, 2)
    assert all(map(is_local, meanwhile))
    redis_server.start(emptied=True)
    moved.now += 10
    assert len(await granted(timed, LIMIT.sessions)) == LIMIT.sessions - 5
    await ended(timed, [before[0], meanwhile[0]])
    assert len(await granted(timed, LIMIT.sessions)) == 2


async def test_a_redis_that_was_emptied_hears_it_with_the_next_renewal(
    redis: Redis, timed: RedisThrottle, moved: Time
) -> None:
    before = await granted(timed, 5)
    moved.now += 1
    await redis.flushall()
    await timed.renew()
    assert len(await granted(timed, LIMIT.sessions)) == LIMIT.sessions - 5
    await ended(timed, before)
    await timed.renew()
    assert len(await granted(timed, LIMIT.sessions)) == 5


@pytest.mark.parametrize("redis", [HANG], indirect=True)
async def test_sessions_that_end_while_redis_hangs_keep_no_place_after_it(
    redis_server: RedisServer, timed: RedisThrottle, moved: Time
) -> None:
    before = await granted(timed, LIMIT.sessions - 1)
    os.kill(redis_server.pid, signal.SIGSTOP)
    try:
        meanwhile = await granted(timed, 1)  # Redis does this, too, once it goes on
        assert all(map(is_local, meanwhile))
        await ended(timed, [*before, *meanwhile])
    finally:
        os.kill(redis_server.pid, signal.SIGCONT)
    moved.now += 10
    assert len(await granted(timed, LIMIT.sessions)) == LIMIT.sessions
