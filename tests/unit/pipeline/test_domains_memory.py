"""How long domain facts are believed, and what the fact cache sees of it."""

from __future__ import annotations

import pytest

from mailsift.pipeline.dns.domains import DnsConfig
from mailsift.pipeline.dns.rules import DnsOutcome
from mailsift.pipeline.facts import CacheEntry, DomainFact, DomainState, FactKind, encode_domain
from tests.unit.pipeline.dns_stub import SERVFAIL, MemoryCache, Says, Zone, domain_facts, serving

HOUR, DAY = 3600.0, 86_400.0

WORLD: Zone = {
    "long.test": {"MX": Says(["10 long.mx.test."], ttl=10**6)},
    "long.mx.test": {"A": Says(["127.0.0.1"], ttl=10**6)},
    "hour.test": {"MX": Says(["10 mx.test."], ttl=7200)},
    "short.test": {"MX": Says(["10 mx.test."], ttl=5)},
    "null.test": {"MX": Says(["0 ."], ttl=10**6)},
    "mx.test": {"A": Says(["127.0.0.1"], ttl=3600)},
    "nothing.test": {"TXT": Says()},
    "broken.test": {"MX": SERVFAIL},
    "holed.test": {"MX": Says(["10 mx.test.", "20 broken.mx.test."], ttl=7200)},
    "broken.mx.test": {"A": SERVFAIL},
}


@pytest.mark.parametrize(
    ("domain", "seconds"),
    [
        ("hour.test", HOUR),  # the host's TTL is the shorter one
        ("short.test", 300.0),  # not below five minutes
        ("long.test", DAY),  # not above a day
        ("null.test", 900.0),  # a denial, whatever its TTL
        ("nothing.test", 900.0),
        ("nxdomain.test", 900.0),
        ("broken.test", 5.0),
        ("holed.test", 300.0),
    ],
)
async def test_facts_are_believed_as_long_as_dns_says_within_bounds(domain: str, seconds: float) -> None:
    cache = MemoryCache()
    async with serving(WORLD) as stub, domain_facts(stub, cache=cache, clock=lambda: 5000.0) as facts:
        fact = (await facts.lookup([domain]))[domain]
    assert (fact.learned_at, fact.expires_at) == (5000.0, 5000.0 + seconds)
    assert cache.puts == [[CacheEntry(domain, encode_domain(fact), seconds)]]


async def test_a_lookup_costs_one_round_trip_each_way_and_a_known_domain_no_question() -> None:
    cache = MemoryCache()
    names = ["hour.test", "null.test", "hour.test"]
    async with serving(WORLD) as stub:
        async with domain_facts(stub, cache=cache) as facts:
            first = await facts.lookup(names)
        asked = stub.asked.total()
        async with domain_facts(stub, cache=cache) as facts:  # another process
            second = await facts.lookup(names)
    assert first == second
    assert stub.asked.total() == asked
    assert [list(keys) for keys in cache.gets] == [["hour.test", "null.test"]] * 2
    assert [{entry.key for entry in entries} for entries in cache.puts] == [{"hour.test", "null.test"}]


@pytest.mark.parametrize(
    "value",
    [b"rubbish", encode_domain(DomainFact("null.test", DomainState.NOT_FOUND, learned_at=1, expires_at=999))],
)
async def test_what_is_unreadable_or_stale_in_the_cache_is_asked_again(value: bytes) -> None:
    cache = MemoryCache()
    await cache.put(FactKind.DOMAIN, [CacheEntry("null.test", value, 60)])
    async with serving(WORLD) as stub, domain_facts(stub, cache=cache, clock=lambda: 1000.0) as facts:
        assert (await facts.lookup(["null.test"]))["null.test"].state is DomainState.NULL_MX
    assert stub.asked["null.test", "MX"] == 2  # and confirmed


async def test_an_empty_lookup_is_empty() -> None:
    cache = MemoryCache()
    async with serving(WORLD) as stub, domain_facts(stub, cache=cache) as facts:
        assert await facts.lookup([]) == {}
    assert cache.puts == []


async def test_a_hosts_addresses_are_asked_again_when_they_are_stale() -> None:
    now = [1000.0]
    zone = {
        "one.test": {"MX": Says(["10 mx.test."])},
        "two.test": {"MX": Says(["10 mx.test."])},
        "three.test": {"MX": Says(["10 mx.test."])},
        "mx.test": {"A": Says(["127.0.0.1"], ttl=0)},  # so that only our own book remembers it
    }
    async with serving(zone) as stub, domain_facts(stub, clock=lambda: now[0]) as facts:
        await facts.lookup(["one.test"])
        now[0] += 299
        await facts.lookup(["two.test"])
        assert stub.asked["mx.test", "A"] == 1
        now[0] += 2
        await facts.lookup(["three.test"])
        assert stub.asked["mx.test", "A"] == 2


async def test_the_host_that_was_used_longest_ago_is_forgotten() -> None:
    zone = {
        **{f"{n}{host}.test": {"MX": Says([f"10 {host}.mx.test."])} for host in "ab" for n in range(3)},
        **{f"{host}.mx.test": {"A": Says(["127.0.0.1"])} for host in "ab"},
    }
    async with serving(zone) as stub, domain_facts(stub, config=DnsConfig(hosts=1)) as facts:
        await facts.lookup(["0a.test"])
        await facts.lookup(["1a.test"])
        assert stub.asked["a.mx.test", "A"] == 1
        await facts.lookup(["0b.test"])
        await facts.lookup(["2a.test"])
        assert stub.asked["a.mx.test", "A"] == 2


def test_the_bounds_can_be_set() -> None:
    config = DnsConfig(min_ttl=1, max_ttl=2, negative_ttl=3, failure_ttl=4)
    lifetimes = [config.lifetime(DnsOutcome.FOUND, ttl) for ttl in (0, 1.5, 9)]
    assert lifetimes == [1, 1.5, 2]
    assert config.lifetime(DnsOutcome.NO_NAME, 0) == config.lifetime(DnsOutcome.NO_DATA, 0) == 3
    assert config.lifetime(DnsOutcome.FAILED, 0) == 4
