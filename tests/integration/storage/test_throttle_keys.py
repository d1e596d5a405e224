"""What the throttle leaves in Redis and how often it calls."""

from __future__ import annotations

from random import Random

import pytest
from redis.asyncio import Redis

from mailsift.pipeline.throttle import Report, SessionOutcome
from mailsift.storage.redis.throttle import RedisThrottle
from tests.support.throttling import CONFIG, Time, ask, end, one, row, session


async def ttls(redis: Redis) -> dict[str, int]:
    return {key.decode(): await redis.pttl(key) async for key in redis.scan_iter("*")}


async def test_every_key_expires_and_a_lesson_is_kept_for_a_day(redis: Redis, shared: RedisThrottle) -> None:
    await shared.grant([ask(wanted=8), ask("else", address="2001:db8::1")])
    found = await ttls(redis)
    assert set(found) == {
        "ms:throttle:state:slow:",
        "ms:throttle:sessions:slow:",
        "ms:throttle:address:192.0.2.1",
        "ms:throttle:pace:192.0.2.1:",
        "ms:throttle:state:else:",
        "ms:throttle:sessions:else:",
        "ms:throttle:address:2001:db8::/64",
        "ms:throttle:pace:2001:db8::/64:",
        "ms:throttle:since",
    }
    assert 86_000_000 < found.pop("ms:throttle:since") <= 86_400_000
    assert all(0 < left <= CONFIG.lease_seconds * 1000 for left in found.values())

    await session(shared, ask("else"), SessionOutcome.RATE)
    assert 86_000_000 < (await ttls(redis))["ms:throttle:state:else:"] <= 86_400_000


async def test_a_batch_is_one_call_to_the_server(redis: Redis, shared: RedisThrottle) -> None:
    async def calls() -> int:
        stats = await redis.info("commandstats")
        return int(stats["cmdstat_evalsha"]["calls"])

    await session(shared, ask())
    before = await calls()
    grants = await shared.grant([ask(f"p{n}", address=f"192.0.2.{n}") for n in range(200)])
    await shared.report(
        [Report(ask(f"p{n}"), grant.lease, SessionOutcome.CLEAN) for n, grant in enumerate(grants)]
    )
    assert await calls() - before == 2


async def test_scripts_the_server_has_forgotten_are_sent_again(redis: Redis, shared: RedisThrottle) -> None:
    await session(shared, ask())
    await redis.script_flush()
    grant = await one(shared, ask())
    assert grant.recipients == 1
    assert not grant.lease.startswith("local.")
    await redis.script_flush()
    await end(shared, ask(), grant)
    assert await redis.zcard("ms:throttle:sessions:slow:") == 0


async def test_the_servers_clock_counts_when_no_other_is_given(redis: Redis) -> None:
    throttle = RedisThrottle(redis, row=row, config=CONFIG)
    await one(throttle, ask())
    seconds, _ = await redis.time()
    assert await redis.zcount("ms:throttle:sessions:slow:", seconds + 50, seconds + 61) == 1


async def test_what_is_reported_expires_too_and_what_is_renewed_lives_on(
    redis: Redis, shared: RedisThrottle
) -> None:
    for outcome in SessionOutcome:
        await session(shared, ask(outcome.value), outcome)
    found = await ttls(redis)
    assert {"ms:throttle:seen", "ms:throttle:mix"} <= set(found)
    assert [key for key, left in found.items() if left <= 0] == []

    time = Time()
    later = RedisThrottle(redis, row=row, config=CONFIG, clock=time, random=Random(1))
    await later.grant([ask("else", address="192.0.2.9")])
    mine = ("ms:throttle:sessions:else:", "ms:throttle:address:192.0.2.9")
    for key in mine:
        await redis.pexpire(key, 20_000)
    time.now += 20
    await later.renew()
    assert [await redis.pttl(key) > 30_000 for key in mine] == [True, True]


async def test_a_lease_that_is_gone_is_not_renewed(redis: Redis, shared: RedisThrottle) -> None:
    await shared.grant([ask("else", address="192.0.2.9")])
    await redis.zrem("ms:throttle:sessions:else:", *await redis.zrange("ms:throttle:sessions:else:", 0, -1))
    await shared.renew()
    assert await redis.exists("ms:throttle:sessions:else:") == 0
    assert await redis.zcard("ms:throttle:address:192.0.2.9") == 1


@pytest.mark.parametrize(
    "key",
    [
        "state:slow:",
        "sessions:slow:",
        "address:192.0.2.1",
        "pace:192.0.2.1:",
        "since",
        "seen",
        "mix",
    ],
)
async def test_a_key_that_somebody_overwrote_stops_nobody(
    redis: Redis, shared: RedisThrottle, key: str
) -> None:
    await redis.sadd(f"ms:throttle:{key}", "x")
    assert (await session(shared, ask())).recipients == 1
    assert (await session(shared, ask())).recipients == 1
