"""Two probers share one throttle in Redis: few calls, and never more sessions than the provider's limit."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence

from typing_extensions import override

from mailsift.pipeline.facts import Answer
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.probe.config import ProbeConfig
from mailsift.pipeline.probe.prober import Prober, ProbeRequest, ProbeResult
from mailsift.pipeline.probe.queue import ProbeTarget
from mailsift.pipeline.providers import Provider, Providers
from mailsift.pipeline.throttle import Ask, Grant, Report, Throttle
from mailsift.storage.redis.connection import connect
from mailsift.storage.redis.local_throttle import ThrottleConfig
from mailsift.storage.redis.throttle import RedisThrottle
from tests.unit.pipeline.smtp_stub import DictCache, Mailer, knows, mailing, routed, targets

SESSIONS = 3
USERS = [f"user{n}" for n in range(500)]


class Counted(Throttle):
    """Counts the calls to the real one."""

    def __init__(self, real: Throttle) -> None:
        self._real = real
        self.calls = 0

    @override
    def is_held(self, provider: str, source: str) -> bool:
        return self._real.is_held(provider, source)

    @override
    async def grant(self, asks: Sequence[Ask]) -> Sequence[Grant]:
        self.calls += 1
        return await self._real.grant(asks)

    @override
    async def report(self, reports: Sequence[Report]) -> None:
        self.calls += 1
        await self._real.report(reports)


async def test_two_processes_worth_of_probers_keep_one_providers_limit_with_few_calls(redis_url: str) -> None:
    row = Provider("default", sessions=SESSIONS, rate=5_000.0, burst=500, recipients=20)
    providers = Providers([], row)
    redis = connect(redis_url)
    config = ThrottleConfig(
        busy_seconds=0.05, address_sessions=SESSIONS, address_rate=5_000.0, address_burst=500
    )
    throttle = Counted(RedisThrottle(redis, row=providers.row, config=config))
    mailer, numbers = Mailer(rcpt=knows(*USERS[::2]), latency=0.01), itertools.count()
    halves = [targets(routed(f"{name}.test"), *USERS) for name in ("a", "b")]

    async def probe(port: int, asked: list[ProbeTarget]) -> ProbeResult:
        prober = Prober(
            config=ProbeConfig(helo_name="probe.test", port=port),
            throttle=throttle,
            providers=providers,
            guard=AddressGuard(allow_non_public=True),
            cache=DictCache(),
            clock=time.monotonic,
            token=lambda: str(next(numbers)),
        )
        return await prober.probe(asked, ProbeRequest(budget_s=30, session_s=30))

    async with mailing(mailer) as port:
        both = await asyncio.gather(*(probe(port, half) for half in halves))
    await redis.aclose()
    for probed in both:
        assert not probed.waits
        assert [fact.answer for fact in probed.mailboxes.values()].count(Answer.ACCEPTED) == 250
        assert len(probed.mailboxes) == 500
    assert mailer.peak == SESSIONS
    assert throttle.calls <= 0.25 * 1000
