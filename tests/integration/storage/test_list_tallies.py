"""However many workers ask for a list: it stops within a session, and goes on from what is stored."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from random import Random

import pytest

from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import (
    Ask,
    AskedBefore,
    AskedCounts,
    Grant,
    ListStop,
    Report,
    SessionOutcome,
    StopRule,
    Throttle,
    ThrottleKey,
)
from mailsift.storage.redis.connection import connect
from mailsift.storage.redis.local_throttle import TALLY_SECONDS as KEPT_SECONDS
from mailsift.storage.redis.local_throttle import LocalThrottle, ThrottleConfig
from mailsift.storage.redis.throttle import RedisThrottle
from tests.support.throttling import Time, one

WORKERS = 6
SESSION = 50
HERE = ThrottleKey("google", "198.51.100.7")
RULE = StopRule()
CONFIG = ThrottleConfig(address_sessions=100, address_rate=1e6, address_burst=10**6)


def row(key: str) -> Provider:
    return Provider(key, sessions=100, rate=1e6, burst=10**6, recipients=SESSION)


def ask(asked: int = 0, missing: int = 0, *, stops: int = 0, job: str = "job") -> Ask:
    before = AskedBefore(AskedCounts(asked, missing), stops)
    tally = ListStop(job, RULE, {HERE: before}).tally(HERE)
    return Ask(HERE.provider, HERE.source, "192.0.2.9", SESSION, 1, tally)


async def end(throttle: Throttle, asked: Ask, grant: Grant, missing: int) -> None:
    counts = AskedCounts(grant.recipients, missing)
    await throttle.report([Report(asked, grant.lease, SessionOutcome.CLEAN, asked=counts)])


@pytest.mark.parametrize("kind", ["fleet", "alone"])
@pytest.mark.parametrize("bad", [0.1, 0.25, 0.4, 1.0])
async def test_a_list_stops_within_a_session_of_its_threshold(redis_url: str, kind: str, bad: float) -> None:
    """Whoever asks and however long answers take, none begins once those before it are reason to stop."""
    time, random = Time(), Random(3)
    async with AsyncExitStack() as closing:
        clients = [await closing.enter_async_context(connect(redis_url)) for _ in range(WORKERS)]
        fleet: list[Throttle] = [RedisThrottle(one, row=row, config=CONFIG, clock=time) for one in clients]
        if kind == "alone":
            fleet = [LocalThrottle(row, CONFIG, clock=time, random=random)]
        running: list[tuple[Throttle, Grant, int]] = []
        asked, missing, grant = 0, 0, Grant(0)
        for _ in range(150):
            time.now += random.random()
            worker = random.choice(fleet)
            grant = await one(worker, ask())
            if grant.stopped:
                break
            if grant.recipients:
                assert not RULE.stops(AskedCounts(asked, missing))
                unknown = sum(random.random() < bad for _ in range(grant.recipients))
                asked, missing = asked + grant.recipients, missing + unknown
                running.append((worker, grant, unknown))
            while running and (not grant.recipients or random.random() < 0.3):
                who, over, unknown = running.pop(random.randrange(len(running)))
                await end(who, ask(), over, unknown)
                grant = over
    assert grant.stopped is (bad >= RULE.share)
    assert RULE.least <= asked < RULE.least + SESSION if grant.stopped else asked > 1_000


async def test_a_stop_is_for_its_list_and_its_stretch_and_is_forgotten_when_nobody_asks(
    redis_url: str,
) -> None:
    time = Time()
    async with connect(redis_url) as redis:
        mine, other = (RedisThrottle(redis, row=row, config=CONFIG, clock=time) for _ in range(2))
        for _ in range(4):
            await end(mine, ask(), await one(mine, ask()), missing=20)
        denied = await one(other, ask())
        assert (denied.stopped, denied.recipients, denied.retry_after) == (True, 0, RULE.again)
        assert (await one(other, ask(job="another"))).recipients == SESSION
        assert (await one(other, ask(stops=1))).recipients == SESSION  # the database has told of the stop
        key = f"ms:throttle:list:job:0:{HERE.provider}:{HERE.source}"
        assert 0 < await redis.pttl(key) <= KEPT_SECONDS * 1000
        await redis.delete(key)  # nobody has asked, and the database has heard of no stop
        assert (await one(other, ask(150, 20))).recipients == SESSION


async def test_a_session_of_a_dead_process_holds_its_list_up_no_longer_than_it_could_have_asked(
    redis_url: str,
) -> None:
    time, short = Time(), replace(ask(180, 40), seconds=8.0)
    async with connect(redis_url) as redis:
        dead, other = (RedisThrottle(redis, row=row, config=CONFIG, clock=time) for _ in range(2))
        assert (await one(dead, short)).recipients == SESSION
        time.now += CONFIG.booked_seconds(short) - 0.1
        assert (await one(other, short)).busy  # it may be asking still
        time.now += 0.2
        assert (await one(other, short)).recipients == SESSION


@pytest.mark.parametrize("kind", ["fleet", "alone"])
async def test_what_the_database_knows_counts_where_nobody_knows_more(redis_url: str, kind: str) -> None:
    time = Time()
    async with connect(redis_url) as redis:
        throttle: Throttle = RedisThrottle(redis, row=row, config=CONFIG, clock=time)
        if kind == "alone":
            throttle = LocalThrottle(row, CONFIG, clock=time, random=Random(1))
        assert (await one(throttle, ask(240, 72, job="another"))).stopped
        first = await one(throttle, ask(180, 40))
        assert first.recipients == SESSION
        assert (await one(throttle, ask(180, 40))).busy  # all fifty may be unknown
        await redis.flushdb()
        await end(throttle, ask(180, 40), first, missing=30)  # 230 and 70: told to an emptied server as well
        assert (await one(throttle, ask(180, 40))).stopped
