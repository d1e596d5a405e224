"""What the throttle grants and what it learns, on a real Valkey and alone, with time moved by hand."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from redis.asyncio import Redis

from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import Grant, Report, SessionOutcome, Throttle
from mailsift.storage.redis.local_throttle import LocalThrottle
from mailsift.storage.redis.throttle import RedisThrottle
from tests.support.throttling import CONFIG, Time, ask, end, one, row, session


@pytest.fixture(params=["redis", "alone"])
def throttle(request: pytest.FixtureRequest, time: Time) -> Throttle:
    """Both must say the same."""
    if request.param == "alone":
        return LocalThrottle(row, CONFIG, clock=time, random=Random(1))
    found: RedisThrottle = request.getfixturevalue("shared")
    return found


async def test_a_grant_is_what_is_wanted_up_to_a_session_and_then_what_is_left(throttle: Throttle) -> None:
    assert (await one(throttle, ask(wanted=50))).recipients == 8  # the row's recipients
    assert (await one(throttle, ask(wanted=50))).recipients == 2  # the burst's rest


async def test_who_rather_waits_for_a_full_session_is_granted_one_or_told_when(
    throttle: Throttle, time: Time
) -> None:
    patient = replace(ask(wanted=8), patience=6.5)
    assert (await session(throttle, patient)).recipients == 8
    denied = await one(throttle, patient)  # two are left of the burst
    assert denied.recipients == 0
    assert denied.retry_after == pytest.approx(6.0, abs=0.002)
    assert (await session(throttle, replace(patient, patience=5.5))).recipients == 2  # too long to wait
    time.now += 7
    assert (await session(throttle, ask(wanted=8))).recipients == 7  # who has waited takes what there is
    time.now += 3600
    assert (await session(throttle, replace(ask(wanted=50), patience=6.5))).recipients == 8  # all that fit


async def test_nothing_left_names_the_time_when_asking_makes_sense(throttle: Throttle, time: Time) -> None:
    for _ in range(2):
        await session(throttle, ask(wanted=8))
    denied = await one(throttle, ask(wanted=3))
    assert (denied.recipients, denied.lease) == (0, "")
    assert denied.retry_after == pytest.approx(3.0, abs=0.002)
    time.now += denied.retry_after
    assert (await one(throttle, ask(wanted=3))).recipients == 3


async def test_who_is_asked_beside_the_granted_ones_is_paid_for_too(throttle: Throttle, time: Time) -> None:
    granted = await one(throttle, ask(wanted=8))
    await throttle.report([Report(ask(wanted=8), granted.lease, SessionOutcome.CLEAN, beyond=1)])
    assert (await session(throttle, ask(wanted=8))).recipients == 1  # of a burst of 10
    time.now += 8
    late = await one(throttle, ask(wanted=8))
    time.now += 3600  # all has been paid, and may have been forgotten
    await throttle.report([Report(ask(wanted=8), late.lease, SessionOutcome.CLEAN, beyond=3)])
    assert [(await session(throttle, ask(wanted=8))).recipients for _ in range(2)] == [7, 0]


async def test_permits_come_back_at_the_rate_and_not_beyond_the_burst(throttle: Throttle, time: Time) -> None:
    for _ in range(2):
        await session(throttle, ask(wanted=8))
    time.now += 2.5
    assert (await session(throttle, ask(wanted=8))).recipients == 2
    time.now += 3600
    assert [(await session(throttle, ask(wanted=8))).recipients for _ in range(3)] == [8, 2, 0]


async def test_no_more_sessions_than_the_row_says_until_one_ends(throttle: Throttle) -> None:
    first, second = await one(throttle, ask()), await one(throttle, ask())
    assert first.lease != second.lease
    assert await one(throttle, ask()) == Grant(0, "", CONFIG.busy_seconds, busy=True)
    await end(throttle, ask(), first)
    assert (await one(throttle, ask())).recipients == 1


async def test_a_session_that_is_never_reported_ends_by_itself(throttle: Throttle, time: Time) -> None:
    for _ in range(2):
        await one(throttle, ask())
    for _ in range(7):  # renewed as often as it may be
        time.now += CONFIG.session_seconds / 8
        await _renew(throttle)
    assert (await one(throttle, ask())).recipients == 0
    time.now += CONFIG.session_seconds / 8
    await _renew(throttle)
    time.now += CONFIG.lease_seconds
    assert (await one(throttle, ask())).recipients == 1


async def _renew(throttle: Throttle) -> None:
    if isinstance(throttle, RedisThrottle):
        await throttle.renew()


async def test_the_sessions_of_a_process_that_fell_silent_are_free_long_before(
    redis: Redis, shared: RedisThrottle, time: Time
) -> None:
    dead = RedisThrottle(redis, row=row, config=CONFIG, clock=time, random=Random(1))
    await one(dead, ask())
    alive = await one(shared, ask())
    time.now += CONFIG.lease_seconds - 1
    await shared.renew()
    assert (await one(shared, ask())).recipients == 0
    time.now += 1.001
    assert (await one(shared, ask())).recipients == 1, "of the dead"
    assert (await one(shared, ask())).recipients == 0, "the other one was renewed"
    await end(shared, ask(), alive)
    await shared.renew()
    assert (await one(shared, ask())).recipients == 1, "what is reported is not renewed"


async def test_a_lease_that_ran_out_is_not_taken_back(
    redis: Redis, shared: RedisThrottle, time: Time
) -> None:
    late = RedisThrottle(redis, row=row, config=CONFIG, clock=time, random=Random(1))
    for _ in range(2):
        await one(late, ask())
    time.now += CONFIG.lease_seconds + 1
    assert [(await one(shared, ask())).recipients for _ in range(2)] == [1, 1]
    await late.renew()
    for key in await redis.keys("ms:throttle:sessions:*"):
        assert await redis.zcard(key) == 2


async def test_sources_and_providers_do_not_share_a_limit(throttle: Throttle) -> None:
    for source in ("192.0.2.9", "2001:db8::9"):
        assert (await one(throttle, ask(wanted=8, source=source))).recipients == 8
    assert (await one(throttle, ask("else", wanted=8))).recipients == 8


async def test_a_destination_has_its_own_limit_of_sessions_whoever_asks(throttle: Throttle) -> None:
    grants = [await one(throttle, ask(f"victim{n}.example")) for n in range(5)]
    assert [grant.recipients for grant in grants] == [1, 1, 1, 1, 0]
    assert grants[-1].retry_after == CONFIG.busy_seconds
    assert (await one(throttle, ask("victim9.example", address="192.0.2.2"))).recipients == 1


async def test_a_report_frees_the_session_at_its_destination_for_others(throttle: Throttle) -> None:
    asks = [ask(f"victim{n}.example") for n in range(5)]
    held = [await one(throttle, asked) for asked in asks]
    assert held[4].busy
    await end(throttle, asks[0], held[0])
    assert (await one(throttle, asks[4])).recipients == 1


async def test_a_destination_has_its_own_rate_whoever_asks(throttle: Throttle) -> None:
    asked = [await session(throttle, ask(f"victim{n}.example", wanted=40)) for n in range(3)]
    assert [grant.recipients for grant in asked] == [40, 20, 0]
    assert asked[-1].retry_after == pytest.approx(40 / 50, abs=0.002)


async def test_a_provider_with_higher_limits_is_not_held_at_its_address(throttle: Throttle) -> None:
    grants = [await one(throttle, ask("wide", wanted=50)) for _ in range(6)]
    assert [grant.recipients for grant in grants] == [50] * 6


async def test_the_asks_of_one_call_see_each_other_and_are_answered_in_order(throttle: Throttle) -> None:
    wishes = [ask(wanted=8), ask("else", wanted=5), ask(wanted=8), ask(wanted=8)]
    grants = await throttle.grant(wishes)
    assert [grant.recipients for grant in grants] == [8, 5, 2, 0]
    assert len({grant.lease for grant in grants}) == 4


async def test_a_rate_reply_closes_the_provider_for_half_a_minute_then_for_longer(
    throttle: Throttle, time: Time
) -> None:
    waits = []
    for _ in range(7):
        await session(throttle, ask(), SessionOutcome.RATE)
        denied = await one(throttle, ask())
        assert denied.recipients == 0
        waits.append(denied.retry_after)
        time.now += denied.retry_after + 600
    expected = [30, 60, 120, 240, 480, 900, 900]
    for wait, base in zip(waits, expected, strict=True):
        assert base <= wait <= min(base * 1.1, 900) + 0.002


async def test_sessions_of_the_same_time_count_as_one_rate_reply(throttle: Throttle) -> None:
    grants = [await one(throttle, ask()) for _ in range(2)]
    await throttle.report([Report(ask(), grant.lease, SessionOutcome.RATE) for grant in grants])
    assert (await one(throttle, ask())).retry_after <= 33.002


async def test_after_a_penalty_one_session_at_a_time_until_one_is_clean(
    throttle: Throttle, time: Time
) -> None:
    await session(throttle, ask(), SessionOutcome.RATE)
    time.now += 600
    first = await one(throttle, ask())
    assert first.recipients == 1
    assert (await one(throttle, ask())).recipients == 0
    await end(throttle, ask(), first, SessionOutcome.FAILED)
    second = await one(throttle, ask())
    assert (await one(throttle, ask())).recipients == 0
    await end(throttle, ask(), second)
    assert [(await one(throttle, ask())).recipients for _ in range(3)] == [1, 1, 0]


@pytest.mark.parametrize("outcome", [SessionOutcome.BLOCKED, SessionOutcome.FAILED])
async def test_other_failures_free_the_session_and_do_not_slow_down(
    throttle: Throttle, outcome: SessionOutcome
) -> None:
    for _ in range(4):
        assert (await session(throttle, ask("else", wanted=5), outcome)).recipients == 5


async def test_a_report_about_an_unknown_lease_is_harmless(throttle: Throttle) -> None:
    await throttle.report([Report(ask(), "nobody's", SessionOutcome.CLEAN)])
    await throttle.report([])
    assert await throttle.grant([]) == []


async def halve(throttle: Throttle, time: Time) -> None:
    await session(throttle, ask("else"), SessionOutcome.RATE)
    time.now += 1000
    await session(throttle, ask("else"), SessionOutcome.BLOCKED)


async def test_a_rate_reply_halves_the_pace(shared: RedisThrottle, time: Time) -> None:
    await halve(shared, time)
    assert await share(shared, time) == 0.5


async def share(throttle: RedisThrottle, time: Time, burst: int = 50) -> float:
    """The learned share, told by the burst that is left after a long pause."""
    time.now += 100
    got = await burst_of(throttle)
    return got / burst


async def burst_of(throttle: RedisThrottle) -> int:
    got = 0
    while count := (await session(throttle, ask("else", wanted=50), SessionOutcome.FAILED)).recipients:
        got += count
    return got


async def test_the_pace_never_falls_below_one_recipient_a_minute(shared: RedisThrottle, time: Time) -> None:
    for _ in range(20):
        await session(shared, ask("else"), SessionOutcome.RATE)
        time.now += 1000
    assert (await session(shared, ask("else"), SessionOutcome.FAILED)).recipients == 1
    assert (await one(shared, ask("else"))).retry_after == pytest.approx(60, abs=0.01)


async def test_clean_minutes_give_the_pace_back_five_percent_at_a_time(
    shared: RedisThrottle, time: Time
) -> None:
    await halve(shared, time)
    for _ in range(2):
        time.now += 60
        await session(shared, ask("else"))
    assert await share(shared, time) == pytest.approx(0.6, abs=0.01)
    time.now += 86_400 / 2  # a quiet half day is one clean minute, not many
    await session(shared, ask("else"))
    assert await share(shared, time) == pytest.approx(0.65, abs=0.011)
    for _ in range(10):
        time.now += 60
        await session(shared, ask("else"))
    assert await share(shared, time) == 1.0


async def test_a_clean_session_vouches_for_the_time_since_the_one_before_and_no_more(
    shared: RedisThrottle, time: Time
) -> None:
    await halve(shared, time)
    await session(shared, ask("else"))  # after a thousand seconds: for one minute
    for _ in range(30):
        time.now += 1
        await session(shared, ask("else"))
    for _ in range(30):
        await session(shared, ask("else"))  # of the same moment
    assert await share(shared, time) == pytest.approx(0.575, abs=0.021)


async def test_what_was_sold_is_owed_in_recipients_whatever_the_rate_is_then(
    redis: Redis, time: Time
) -> None:
    """Workers that know of different rates neither forgive nor raise it, and pay it off at theirs."""

    def worker(rate: float) -> RedisThrottle:
        known = Provider("slow", sessions=9, rate=rate, burst=10, recipients=10)
        return RedisThrottle(redis, row=lambda _: known, config=CONFIG, clock=time, random=Random(1))

    slow, quick = worker(1.0), worker(0.5)
    assert (await session(slow, ask(wanted=10))).recipients == 10
    denied = await one(quick, ask(wanted=10))
    assert denied.retry_after == pytest.approx(20, abs=0.01)  # ten at half the rate
    time.now += 10
    assert (await one(slow, ask(wanted=10))).recipients == 5  # paid off at the rate that was written down


async def test_a_session_from_before_the_penalty_does_not_lift_it(throttle: Throttle, time: Time) -> None:
    first, second = await one(throttle, ask()), await one(throttle, ask())
    await end(throttle, ask(), first, SessionOutcome.RATE)
    await end(throttle, ask(), second)
    denied = await one(throttle, ask())
    assert denied.retry_after >= 30
    time.now += denied.retry_after
    assert [(await one(throttle, ask())).recipients for _ in range(2)] == [1, 0]


async def test_addresses_of_one_ipv6_network_are_one_destination(throttle: Throttle) -> None:
    grants = await throttle.grant([ask(f"v{n}.example", address=f"2001:db8::{n}") for n in range(1, 6)])
    assert [grant.recipients for grant in grants] == [1, 1, 1, 1, 0]
