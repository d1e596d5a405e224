"""Processes that miss the same domains at the same time ask DNS once; who was first may even die."""

from __future__ import annotations

import asyncio
import time

from redis.asyncio import Redis

from mailsift.pipeline.dns.domains import DnsConfig
from mailsift.pipeline.facts import DomainState, FactKind
from mailsift.storage.redis.connection import connect
from mailsift.storage.redis.facts import RedisFactCache
from tests.support.servers import RedisServer
from tests.unit.pipeline.dns_stub import DnsStub, Says, Zone, domain_facts, serving

NAMES = [f"d{n}.test" for n in range(300)]
ZONE: Zone = {
    **{name: {"MX": Says(["10 mx.host.test."], delay=0.05)} for name in NAMES},
    "mx.host.test": {"A": Says(["127.0.0.9"])},
}
FEW = DnsConfig(concurrency=50)
"""What the stub's socket buffer surely holds while nobody reads it: lost questions are asked again."""


def _times_asked(stub: DnsStub) -> set[int]:
    """How often a domain was asked for; each process asks for the host they share."""
    return {times for (_, kind), times in stub.asked.items() if kind == "MX"}


async def test_two_processes_ask_for_every_domain_once(redis: Redis) -> None:
    async with (
        serving(ZONE) as stub,
        domain_facts(stub, cache=RedisFactCache(redis), config=FEW) as one,
        domain_facts(stub, cache=RedisFactCache(redis), config=FEW) as two,
    ):
        first, second = await asyncio.gather(one.lookup(NAMES[:200]), two.lookup(NAMES[100:]))
    assert list(first) == NAMES[:200]
    assert list(second) == NAMES[100:]
    assert {fact.state for fact in (first | second).values()} == {DomainState.ROUTED}
    assert _times_asked(stub) == {1}
    assert len(stub.asked) == 300 + 1


async def test_who_is_heard_of_is_waited_for_however_long_the_list_takes(redis: Redis) -> None:
    slow: Zone = {**ZONE, **{name: {"MX": Says(["10 mx.host.test."], delay=0.45)} for name in NAMES}}
    async with (
        serving(slow) as stub,
        domain_facts(stub, cache=RedisFactCache(redis), config=FEW) as one,
        domain_facts(stub, cache=RedisFactCache(redis), config=FEW) as two,
    ):
        await asyncio.gather(one.lookup(NAMES), two.lookup(NAMES))
    assert _times_asked(stub) == {1}


async def test_nobody_waits_for_the_slowest_of_another_process(redis: Redis) -> None:
    zone = {
        "slow.test": {"MX": Says(["10 mx.host.test."], delay=600.0)},
        "quick.test": {"MX": Says(["10 mx.host.test."], delay=0.02)},
        "mx.host.test": {"A": Says(["127.0.0.9"])},
    }
    async with (
        serving(zone) as stub,
        domain_facts(stub, cache=RedisFactCache(redis)) as one,
        domain_facts(stub, cache=RedisFactCache(redis)) as two,
    ):
        patient = asyncio.create_task(one.lookup(["slow.test", "quick.test"]))
        await stub.until_asked(2)
        assert set(await two.lookup(["quick.test"])) == {"quick.test"}
        assert stub.asked["quick.test", "MX"] == 1
        patient.cancel()


async def test_a_domain_whose_claimant_died_is_looked_up_after_two_seconds(redis: Redis) -> None:
    await RedisFactCache(redis).get_or_claim(FactKind.DOMAIN, ["d1.test"])
    async with serving(ZONE) as stub, domain_facts(stub, cache=RedisFactCache(redis)) as facts:
        began = time.monotonic()
        found = await facts.lookup(["d1.test", "d2.test"])
        took = time.monotonic() - began
    assert {fact.state for fact in found.values()} == {DomainState.ROUTED}
    assert took > 1.5
    assert _times_asked(stub) == {1}


async def test_without_redis_every_process_asks_for_itself(redis_server: RedisServer) -> None:
    async with connect(redis_server.url) as redis, serving(ZONE) as stub:
        redis_server.kill()
        for _ in range(2):
            async with domain_facts(stub, cache=RedisFactCache(redis)) as facts:
                assert len(await facts.lookup(NAMES[:10])) == 10
        assert _times_asked(stub) == {2}
