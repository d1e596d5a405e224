"""What the throttle tells people: whom we ask most, how that goes, and nothing without bound."""

from __future__ import annotations

from random import Random

import pytest
from redis.asyncio import Redis

from mailsift.pipeline.throttle import Ask, Report, SessionOutcome
from mailsift.storage.redis.throttle import KEPT_MIXES, MIX_KEY, SEEN_KEY, RedisThrottle, ThrottleInspector
from tests.support.throttling import CONFIG, ask, one, row


@pytest.fixture
def throttle(redis: Redis) -> RedisThrottle:
    return RedisThrottle(redis, row=row, config=CONFIG, random=Random(1))


async def tell(throttle: RedisThrottle, provider: str, *outcomes: SessionOutcome, source: str = "") -> None:
    wish = Ask(provider, source, "192.0.2.1", 1)
    await throttle.report([Report(wish, "", outcome) for outcome in outcomes])


async def test_sessions_are_counted_by_how_they_went(redis: Redis, throttle: RedisThrottle) -> None:
    await tell(throttle, "slow", SessionOutcome.CLEAN, SessionOutcome.CLEAN, SessionOutcome.FAILED)
    await tell(throttle, "wide", SessionOutcome.CLEAN, source="2001:db8::1")
    slow, wide = await ThrottleInspector(redis).read()
    assert (slow.provider, slow.source, slow.mix) == (
        "slow",
        "",
        {SessionOutcome.CLEAN: 2, SessionOutcome.FAILED: 1},
    )
    assert (wide.provider, wide.source, wide.mix) == ("wide", "2001:db8::1", {SessionOutcome.CLEAN: 1})
    assert slow.sessions == 3


async def test_pace_sessions_and_penalties_are_shown(redis: Redis, throttle: RedisThrottle) -> None:
    grant = await one(throttle, ask("slow"))
    await tell(throttle, "wide", SessionOutcome.RATE)
    found = {seen.provider: seen for seen in await ThrottleInspector(redis).read([("slow", "")])}
    assert (found["slow"].in_use, found["slow"].share, found["slow"].closed_s) == (1, 1.0, 0.0)
    assert (found["wide"].share, found["wide"].strikes, found["wide"].refuses) == (0.5, 1, False)
    assert 25 < found["wide"].closed_s < 35
    await throttle.report([Report(ask("slow"), grant.lease, SessionOutcome.CLEAN)])
    (slow,) = [seen for seen in await ThrottleInspector(redis).read() if seen.provider == "slow"]
    assert slow.in_use == 0


async def test_only_so_many_are_counted_and_those_we_ask_most_stay(
    redis: Redis, throttle: RedisThrottle
) -> None:
    for name in ("google", "yahoo"):
        await tell(throttle, name, *[SessionOutcome.CLEAN] * 40)
    wishes = [Ask(f"host{n}.example", "", "192.0.2.1", 1) for n in range(KEPT_MIXES * 3)]
    await throttle.report([Report(wish, "", SessionOutcome.CLEAN) for wish in wishes])
    assert await redis.zcard(SEEN_KEY) == KEPT_MIXES
    assert await redis.hlen(MIX_KEY) == KEPT_MIXES + 1  # and since when
    found = await ThrottleInspector(redis).read()
    assert [seen.provider for seen in found[:2]] == ["yahoo", "google"]
    assert {seen.mix[SessionOutcome.CLEAN] for seen in found[:2]} == {40}


async def test_counting_starts_again_after_a_day(redis: Redis, throttle: RedisThrottle) -> None:
    await tell(throttle, "slow", SessionOutcome.CLEAN)
    assert 86_000 < await redis.ttl(MIX_KEY) <= 86_400
    await redis.delete(MIX_KEY)  # as if the day were over
    await tell(throttle, "wide", SessionOutcome.CLEAN)
    assert [seen.provider for seen in await ThrottleInspector(redis).read()] == ["wide"]


async def test_a_reset_forgets_what_was_learned_and_keeps_who_is_in_there(
    redis: Redis, throttle: RedisThrottle
) -> None:
    inspector = ThrottleInspector(redis)
    for _ in range(2):
        await one(throttle, ask("slow", wanted=1))
    assert (await one(throttle, ask("slow"))).recipients == 0  # both sessions are taken
    await tell(throttle, "slow", SessionOutcome.RATE)
    assert (await one(throttle, ask("slow"))).retry_after > 20
    assert await inspector.reset("slow", "")
    (seen,) = await inspector.read()
    assert (seen.share, seen.strikes, seen.closed_s, seen.in_use) == (1.0, 0, 0.0, 2)
    assert (await one(throttle, ask("slow"))).retry_after == CONFIG.busy_seconds
    assert not await inspector.reset("slow", "")
