"""A server's clock is set back, or one that is behind takes over: nothing is forbidden for long."""

from __future__ import annotations

from random import Random

from redis.asyncio import Redis

from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import Ask, SessionOutcome
from mailsift.storage.redis.local_throttle import HOLD_SECONDS, PENALTY_SECONDS, UNKNOWN_SECONDS
from mailsift.storage.redis.rate_limit import RateLimit, Zone
from mailsift.storage.redis.throttle import RedisThrottle
from tests.support.throttling import CONFIG, Time, ask, end, one, session

AN_HOUR = 3_600.0


async def waited(throttle: RedisThrottle, time: Time, asked: Ask) -> float:
    """Ask when it makes sense until something is granted; return how long that took."""
    began = time.now
    while not (grant := await one(throttle, asked)).recipients:
        time.now += grant.retry_after
        assert time.now < began + AN_HOUR
    await end(throttle, asked, grant)
    return time.now - began


async def test_a_destination_is_asked_again_after_a_burst(shared: RedisThrottle, time: Time) -> None:
    await session(shared, ask("wide", 50))
    time.now -= AN_HOUR
    assert await waited(shared, time, ask("wide", 50)) <= 2.0


async def test_a_penalty_and_a_hold_are_no_longer_than_the_longest(shared: RedisThrottle, time: Time) -> None:
    await session(shared, ask("slow"), SessionOutcome.RATE)
    for _ in range(5):
        await session(shared, ask("wide"), SessionOutcome.BLOCKED)
    time.now -= AN_HOUR
    assert await waited(shared, time, ask("wide")) < HOLD_SECONDS * 1.2
    assert await waited(shared, time, ask("slow")) < HOLD_SECONDS * 1.2
    await session(shared, ask("wide"), SessionOutcome.RATE)
    assert (await one(shared, ask("wide"))).retry_after >= PENALTY_SECONDS  # lessons are learned again


async def test_sessions_that_nobody_ends_are_over_when_their_lease_is(
    shared: RedisThrottle, time: Time
) -> None:
    for _ in range(2):
        await one(shared, ask())
    time.now -= AN_HOUR
    assert await waited(shared, time, ask()) <= CONFIG.lease_seconds + 10


def gateway(key: str) -> Provider:
    return Provider(key, sessions=50, rate=100.0, burst=100, recipients=15, harvest=5)


async def test_what_counts_at_a_gateway_counts_for_some_minutes_more(redis: Redis, time: Time) -> None:
    throttle = RedisThrottle(redis, row=gateway, config=CONFIG, clock=time, random=Random(1))
    asked = Ask("gateway", "198.51.100.7", "192.0.2.9", 15)
    await one(throttle, asked)  # the server was empty
    time.now += UNKNOWN_SECONDS
    granted = await one(throttle, asked)
    assert granted.recipients == 4
    await end(throttle, asked, granted)  # nobody says who was known
    time.now -= AN_HOUR
    # what is known of the server, of the provider and of its network is noticed one after the other
    assert UNKNOWN_SECONDS <= await waited(throttle, time, asked) <= 3 * UNKNOWN_SECONDS + 1


async def test_an_account_waits_for_its_window_and_no_longer(redis: Redis) -> None:
    zone = Zone("requests", quota=10, window=60)
    limit = RateLimit(redis)
    seconds, _ = await redis.time()
    await redis.set("ms:limit:requests:alice", (seconds + AN_HOUR) * 1000, px=int(AN_HOUR * 1000))
    decision = await limit.take(zone, "alice")
    assert decision is not None
    assert decision.retry_after <= zone.window
