"""However many workers ask a gateway that blocks harvesters: it never sees a reason to, and they get on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from mailsift.pipeline.providers import Provider
from mailsift.pipeline.throttle import (
    Allowance,
    Ask,
    Grant,
    LedgerCounts,
    LedgerKind,
    Report,
    SessionOutcome,
    Throttle,
)
from mailsift.storage.redis.connection import connect
from mailsift.storage.redis.local_throttle import UNKNOWN_SECONDS, LocalThrottle, ThrottleConfig
from mailsift.storage.redis.throttle import RedisThrottle
from tests.support.servers import RedisServer
from tests.support.throttling import Time, one

WORKERS = 4
MOST = 5
MINUTE = 60.0
SOURCE = "198.51.100.7"
CONFIG = ThrottleConfig(address_sessions=100, address_rate=1e6, address_burst=10**6)


def row(key: str) -> Provider:
    return Provider(key, sessions=50, rate=100.0, burst=100, recipients=15, harvest=MOST)


def unlisted(key: str) -> Provider:
    return replace(row(key), harvest=0, careful=MOST)


def ask(
    provider: str = "gateway",
    wanted: int = 15,
    *,
    address: str = "192.0.2.9",
    least: int = 1,
    domains: int = 1,
) -> Ask:
    names = tuple(f"{n}.example" for n in range(domains))
    return Ask(provider, SOURCE, address, wanted, least, domains=names)


@dataclass
class OpenSession:
    worker: Throttle
    ask: Ask
    grant: Grant
    ends: float
    replies: list[bool] = field(default_factory=list)

    def may_send(self) -> int:
        """How many recipients the session may send now (mailsift.pipeline.probe.session)."""
        left = self.grant.recipients - len(self.replies)
        if self.grant.allowance is None:
            return left
        unknown = sum(self.replies)
        known = len(self.replies) - unknown
        return min(
            left, max(self.grant.allowance.unknown - unknown, self.grant.allowance.surplus + known - unknown)
        )

    async def report(self) -> None:
        counts = {LedgerKind.PROBES: len(self.replies), LedgerKind.UNKNOWN: sum(self.replies)}
        unused = self.grant.recipients - len(self.replies)
        await self.worker.report(
            [Report(self.ask, self.grant.lease, SessionOutcome.CLEAN, unused, LedgerCounts(counts))]
        )


class HarvestBlocker:
    """Blocks at five unknown recipients of a minute that are half of all."""

    def __init__(self, time: Time, random: Random, bad: float) -> None:
        self._time, self._random, self._bad = time, random, bad
        self.asked: list[tuple[float, bool]] = []

    def rcpt(self) -> bool:
        self.asked.append((self._time(), self._random.random() < self._bad))
        minute = [missing for at, missing in self.asked if self._time() - at < MINUTE]
        assert sum(minute) < MOST or 2 * sum(minute) < len(minute)
        return minute[-1]


async def besiege(
    workers: Sequence[Throttle],
    gateway: HarvestBlocker,
    time: Time,
    random: Random,
    names: Sequence[str],
    *,
    one_server: bool = False,
) -> None:
    """Let workers ask and sessions go on in any order, each for some seconds, some to be cut off."""
    running: list[OpenSession] = []
    for step in range(250):
        time.now += random.random() * 4
        address = "192.0.2.9" if one_server else f"192.0.2.{random.randint(1, 250)}"
        asked = ask(random.choice(names), random.randint(1, 15), address=address)
        worker = random.choice(workers)
        if (grant := await one(worker, asked)).recipients:
            running.append(OpenSession(worker, asked, grant, time.now + random.random() * 20))
        else:
            assert grant.retry_after > 0
        for session in list(running):
            while (sent := session.may_send()) > 0 and random.random() < 0.7:
                session.replies += [gateway.rcpt() for _ in range(sent)]
            if time.now >= session.ends or session.may_send() <= 0:
                running.remove(session)
                await session.report()
        for known in workers:
            if isinstance(known, RedisThrottle) and step % 3 == 0:
                await known.renew()


@pytest.mark.parametrize("bad", [0.1, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("kind", ["fleet", "vanity", "alone"])
async def test_no_gateway_sees_five_unknown_that_are_half_of_a_minute(
    redis_url: str, kind: str, bad: float
) -> None:
    time, random = Time(), Random(7)
    names = [f"mx{n}.test" for n in range(9)] if kind == "vanity" else ["gateway"]
    async with AsyncExitStack() as closing:
        clients = [await closing.enter_async_context(connect(redis_url)) for _ in range(WORKERS)]
        fleet: list[Throttle] = [RedisThrottle(one, row=row, config=CONFIG, clock=time) for one in clients]
        if kind == "alone":
            fleet = [LocalThrottle(row, CONFIG, clock=time, random=random)]
        else:
            assert (await one(fleet[0], ask())).retry_after == UNKNOWN_SECONDS  # it knows nothing yet
        gateway = HarvestBlocker(time, random, bad)
        await besiege(fleet, gateway, time, random, names)
        if kind == "fleet":  # what the server forgets costs a while, and nothing else
            await clients[0].flushdb()
            await besiege(fleet, gateway, time, random, names)
    assert len(gateway.asked) > (100 if bad < 0.5 else 20)


@pytest.mark.parametrize("bad", [0.1, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("kind", ["fleet", "vanity", "alone"])
async def test_who_is_in_no_table_is_asked_with_the_same_care_from_the_first_moment(
    redis_url: str, kind: str, bad: float
) -> None:
    time, random = Time(), Random(11)
    names = [f"mx{n}.test" for n in range(5)] if kind == "vanity" else ["gateway"]
    async with AsyncExitStack() as closing:
        clients = [await closing.enter_async_context(connect(redis_url)) for _ in range(WORKERS)]
        fleet: list[Throttle] = [
            RedisThrottle(one, row=unlisted, config=CONFIG, clock=time) for one in clients
        ]
        if kind == "alone":
            fleet = [LocalThrottle(unlisted, CONFIG, clock=time, random=random)]
        gateway = HarvestBlocker(time, random, bad)
        await besiege(fleet, gateway, time, random, names, one_server=kind == "vanity")
    assert len(gateway.asked) > (100 if bad < 0.5 else 20)


@pytest.mark.parametrize("kind", ["fleet", "alone"])
async def test_a_hoster_is_asked_at_full_speed_and_slows_down_none_of_its_neighbours(
    redis_url: str, kind: str
) -> None:
    time = Time()
    async with connect(redis_url) as redis:
        throttle: Throttle = RedisThrottle(redis, row=unlisted, config=CONFIG, clock=time)
        if kind == "alone":
            throttle = LocalThrottle(unlisted, CONFIG, clock=time, random=Random(1))
        careful = await one(throttle, ask("company.test", domains=2))
        assert (careful.recipients, careful.allowance) == (15, Allowance(MOST - 1, -1))
        assert (await one(throttle, ask("company.test", domains=2))).busy
        few = [await one(throttle, ask("small.test", address="192.0.2.13", domains=0)) for _ in range(2)]
        assert [(grant.recipients, grant.allowance) for grant in few] == [(15, None)] * 2
        neighbour = await one(throttle, ask("other.test", address="192.0.2.10", domains=2))
        assert neighbour.recipients == 15
        at_once = [
            await one(throttle, ask("hoster.test", address="192.0.2.11", domains=10)) for _ in range(3)
        ]
        assert [(grant.recipients, grant.allowance) for grant in at_once] == [(15, None)] * 3
        assert (
            await one(throttle, ask("hoster.test", address="192.0.2.12"))
        ).allowance is None  # it is known
        assert (await one(throttle, ask("customer.test", address="192.0.2.11"))).allowance is None
        refused = ask("hoster.test", address="192.0.2.11")
        await throttle.report([Report(refused, at_once[0].lease, SessionOutcome.BLOCKED)])
        assert (await one(throttle, refused)).allowance == Allowance(MOST - 1, -1)


async def test_what_is_open_or_unanswered_counts_as_unknown_until_it_is_forgotten(redis_url: str) -> None:
    time = Time()
    async with connect(redis_url) as redis:
        mine, other = (RedisThrottle(redis, row=row, config=CONFIG, clock=time) for _ in range(2))
        await one(mine, ask())
        time.now += UNKNOWN_SECONDS
        first = await one(mine, ask(wanted=3))
        cut = await one(other, ask())
        assert (first.recipients, cut.recipients, cut.busy) == (3, 1, True)
        assert (await one(mine, ask())).busy
        for worker, grant in ((mine, first), (other, cut)):  # nobody answered
            await worker.report([Report(ask(), grant.lease, SessionOutcome.FAILED)])
        denied = await one(other, ask())
        assert (denied.recipients, denied.busy) == (0, False)
        assert denied.retry_after == pytest.approx(UNKNOWN_SECONDS, abs=0.01)
        assert (await one(other, Ask("gateway", "198.51.100.8", "192.0.2.9", 15))).recipients == 4
        time.now += UNKNOWN_SECONDS
        assert (await one(other, ask(wanted=3))).recipients == 3
        assert (await one(mine, ask(least=2))).recipients == 0


async def test_known_recipients_make_room_and_a_session_that_asked_nothing_takes_none(redis_url: str) -> None:
    time = Time()
    async with connect(redis_url) as redis:
        throttle = RedisThrottle(redis, row=row, config=CONFIG, clock=time)
        await one(throttle, ask())
        time.now += UNKNOWN_SECONDS
        unused = await one(throttle, ask())
        await throttle.report([Report(ask(), unused.lease, SessionOutcome.CLEAN, unused.recipients)])
        assert await redis.hlen("ms:throttle:asked:gateway:198.51.100.7") == 0
        granted = []
        for _ in range(5):
            grant = await one(throttle, ask())
            granted.append(grant.recipients)
            counts = LedgerCounts({LedgerKind.PROBES: grant.recipients})
            await throttle.report([Report(ask(), grant.lease, SessionOutcome.CLEAN, 0, counts)])
        assert granted == [4, 4, 7, 14, 15]  # one fewer than are known, and what a session may hold
        half = await one(throttle, ask(wanted=2))
        counts = LedgerCounts({LedgerKind.PROBES: 2, LedgerKind.UNKNOWN: 1})
        await throttle.report([Report(ask(), half.lease, SessionOutcome.CLEAN, 0, counts)])
        time.now += UNKNOWN_SECONDS - 1  # the known ones are forgotten before
        assert (await one(throttle, ask())).recipients == MOST - 2
        time.now += 1
        await one(throttle, ask())
        assert await redis.hlen("ms:throttle:asked:gateway:198.51.100.7") == 2  # what is over is not kept


async def test_what_was_asked_is_kept_for_as_long_as_it_counts_and_no_longer(redis_url: str) -> None:
    time, longest_s = Time(), CONFIG.session_seconds + UNKNOWN_SECONDS
    async with connect(redis_url) as redis:
        throttle = RedisThrottle(redis, row=row, config=CONFIG, clock=time)
        await one(throttle, ask())
        await redis.pexpire("ms:throttle:since", 1_000)
        time.now += UNKNOWN_SECONDS
        first = await one(throttle, ask(wanted=2))
        assert await redis.pttl("ms:throttle:since") > 86_000_000  # who is asked all the time forgets nothing
        await one(throttle, ask(wanted=2))  # and nobody ever reports it
        await throttle.report([Report(ask(), first.lease, SessionOutcome.FAILED)])
        kept = [await redis.pttl(key) / 1000 for key in await redis.keys("ms:throttle:asked:*")]
        assert kept == [pytest.approx(longest_s, abs=30)] * 2
        time.now += longest_s - 1
        last = await one(throttle, ask())
        assert last.recipients == 2
        await redis.delete(*await redis.keys("ms:throttle:asked:*"))
        counts = LedgerCounts({LedgerKind.PROBES: 1})
        await throttle.report([Report(ask(), last.lease, SessionOutcome.CLEAN, 1, counts)])
        kept = [await redis.pttl(key) / 1000 for key in await redis.keys("ms:throttle:asked:*")]
        assert kept == [pytest.approx(UNKNOWN_SECONDS, abs=30)] * 2
        time.now += 1
        assert (await one(throttle, ask())).recipients == MOST - 1


@pytest.mark.parametrize("alone", [False, True])
async def test_who_dies_in_a_session_holds_a_gateway_s_room_for_as_long_as_the_session_may_have_taken(
    redis_url: str, *, alone: bool
) -> None:
    time, brief = Time(), replace(ask(), seconds=8.0)
    async with connect(redis_url) as redis:
        if alone:
            throttle: Throttle = LocalThrottle(row, CONFIG, clock=time, random=Random(1))
        else:
            throttle = RedisThrottle(redis, row=row, config=CONFIG, clock=time)
            await one(throttle, brief)
            time.now += UNKNOWN_SECONDS
        dead = await one(throttle, brief)
        assert (dead.recipients, dead.seconds) == (MOST - 1, 8.0 + CONFIG.stall_seconds)
        time.now += dead.seconds + UNKNOWN_SECONDS - 1
        assert (await one(throttle, brief)).recipients == 0
        time.now += 1
        assert (await one(throttle, brief)).recipients == MOST - 1


async def test_a_short_session_shortens_nothing_that_a_longer_one_has_booked(redis_url: str) -> None:
    time = Time()
    async with connect(redis_url) as redis:
        throttle = RedisThrottle(redis, row=row, config=CONFIG, clock=time)
        await one(throttle, ask())
        time.now += UNKNOWN_SECONDS
        assert (await one(throttle, ask(wanted=2))).seconds == CONFIG.session_seconds
        assert (await one(throttle, replace(ask(wanted=2), seconds=1.0))).recipients == 2
        kept = [await redis.pttl(key) / 1000 for key in await redis.keys("ms:throttle:asked:*")]
        assert kept == [pytest.approx(CONFIG.session_seconds + UNKNOWN_SECONDS, abs=30)] * 2


async def test_where_nobody_counts_unknown_recipients_a_session_takes_as_long_as_it_takes(
    redis_url: str,
) -> None:
    async with connect(redis_url) as redis:
        for throttle in (
            RedisThrottle(redis, row=Provider, config=CONFIG),
            LocalThrottle(Provider, CONFIG, clock=Time(), random=Random(1)),
        ):
            grant = await one(throttle, replace(ask("open"), seconds=8.0))
            assert grant.recipients > 0
            assert grant.seconds == float("inf")


async def test_a_server_that_was_emptied_hears_again_what_is_being_asked(redis_url: str) -> None:
    time, gateways = Time(), {"gateway": "192.0.2.9", "other": "198.18.0.1"}
    async with connect(redis_url) as redis:
        mine, other = (RedisThrottle(redis, row=row, config=CONFIG, clock=time) for _ in range(2))
        await one(mine, ask())
        time.now += UNKNOWN_SECONDS
        for name, address in gateways.items():
            assert (await one(mine, ask(name, 3, address=address))).recipients == 3
        await redis.flushdb()
        assert (await one(other, ask())).recipients == 0
        time.now += 1
        await mine.renew()
        assert all([await redis.pttl(key) > 0 for key in await redis.keys()])
        time.now += UNKNOWN_SECONDS - 1
        for name, address in gateways.items():
            cut = await one(other, ask(name, address=address))
            assert (cut.recipients, cut.busy) == (1, True)


async def test_without_redis_nobody_asks_where_unknown_recipients_count(redis_server: RedisServer) -> None:
    time = Time()
    async with connect(redis_server.url) as redis:
        throttle = RedisThrottle(redis, row=row, config=CONFIG, clock=time)
        await one(throttle, ask())
        time.now += UNKNOWN_SECONDS
        assert (await one(throttle, ask())).recipients == MOST - 1
        redis_server.kill()
        denied = await one(throttle, ask(address="198.18.0.1"))
        assert (denied.recipients, denied.busy, denied.retry_after) == (0, False, UNKNOWN_SECONDS)
