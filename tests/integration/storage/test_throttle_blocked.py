"""A provider that refuses us again and again is left alone, on a real Valkey and alone."""

from __future__ import annotations

from random import Random

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from mailsift.pipeline.throttle import SessionOutcome, Throttle
from mailsift.storage.redis.local_throttle import LocalThrottle
from mailsift.storage.redis.throttle import RedisThrottle
from tests.support.throttling import CONFIG, Time, ask, end, one, row, session

QUARTER = 900.0


def shared(redis: Redis, time: Time) -> RedisThrottle:
    return RedisThrottle(redis, row=row, config=CONFIG, clock=time, random=Random(1))


@pytest.fixture(params=["redis", "alone"])
def throttle(request: pytest.FixtureRequest, redis: Redis, time: Time) -> Throttle:
    """Both must say the same."""
    if request.param == "alone":
        return LocalThrottle(row, CONFIG, clock=time, random=Random(1))
    return shared(redis, time)


async def refuse(throttle: Throttle, times: int) -> None:
    for _ in range(times):
        await session(throttle, ask("else"), SessionOutcome.BLOCKED)


async def test_five_refused_sessions_in_a_row_hold_the_provider_for_a_quarter_of_an_hour(
    throttle: Throttle, time: Time
) -> None:
    await refuse(throttle, 4)
    assert (await one(throttle, ask("else"))).recipients == 1
    await refuse(throttle, 1)
    denied = await one(throttle, ask("else"))
    assert (denied.recipients, denied.blocked) == (0, True)
    assert denied.retry_after == pytest.approx(QUARTER, abs=0.002)
    assert (await one(throttle, ask("wide"))).recipients == 1  # nobody else is
    time.now += QUARTER - 1
    assert (await one(throttle, ask("else"))).blocked


async def test_a_clean_session_begins_the_count_anew(throttle: Throttle) -> None:
    for _ in range(3):
        await refuse(throttle, 4)
        await session(throttle, ask("else"))
    assert (await one(throttle, ask("else"))).recipients == 1


async def test_other_sources_are_not_held(throttle: Throttle) -> None:
    await refuse(throttle, 5)
    assert (await one(throttle, ask("else", source="192.0.2.9"))).recipients == 1


async def test_after_the_hold_one_session_at_a_time_until_one_is_clean(
    throttle: Throttle, time: Time
) -> None:
    await refuse(throttle, 5)
    time.now += QUARTER + 0.01
    first = await one(throttle, ask("else"))
    assert first.recipients == 1
    busy = await one(throttle, ask("else"))
    assert (busy.recipients, busy.blocked, busy.retry_after) == (0, False, CONFIG.busy_seconds)
    await end(throttle, ask("else"), first)
    assert [(await one(throttle, ask("else"))).recipients for _ in range(4)] == [1, 1, 1, 0]


async def test_the_first_refusal_after_a_hold_holds_again(throttle: Throttle, time: Time) -> None:
    await refuse(throttle, 5)
    time.now += QUARTER + 0.01
    await refuse(throttle, 1)
    denied = await one(throttle, ask("else"))
    assert denied.blocked
    assert denied.retry_after == pytest.approx(QUARTER, abs=0.002)


async def test_sessions_from_before_a_hold_change_nothing(throttle: Throttle, time: Time) -> None:
    clean, refused = await one(throttle, ask("else")), await one(throttle, ask("else"))
    await refuse(throttle, 5)
    time.now += 60
    await end(throttle, ask("else"), clean)
    await end(throttle, ask("else"), refused, SessionOutcome.BLOCKED)
    assert (await one(throttle, ask("else"))).retry_after == pytest.approx(QUARTER - 60, abs=0.002)


async def test_a_rate_reply_is_no_refusal(throttle: Throttle) -> None:
    await refuse(throttle, 4)
    await session(throttle, ask("else"), SessionOutcome.RATE)
    denied = await one(throttle, ask("else"))
    assert not denied.blocked
    assert denied.retry_after < 60


async def test_the_operator_is_told_of_a_hold_and_once(throttle: Throttle) -> None:
    with capture_logs() as logs:
        await refuse(throttle, 8)
    assert [(log["event"], log["provider"], log["held_s"]) for log in logs] == [
        ("provider.refuses_us", "else", QUARTER)
    ]


async def test_the_count_is_shared_by_all_processes_and_outlives_a_pause(redis: Redis, time: Time) -> None:
    for _ in range(5):
        await refuse(shared(redis, time), 1)
        time.now += 3_000
        await one(shared(redis, time), ask("else"))
    assert await redis.pttl("ms:throttle:state:else:") > 86_000_000
    time.now -= 2_999
    assert (await one(shared(redis, time), ask("else"))).blocked
