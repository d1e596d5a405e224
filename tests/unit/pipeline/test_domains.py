"""Domain facts against a real DNS server over sockets: states, limits, hostile answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from mailsift.pipeline.dns.domains import DnsConfig
from mailsift.pipeline.facts import DomainFact, DomainState, MxHost
from tests.unit.pipeline.dns_stub import (
    NXDOMAIN,
    REFUSED,
    SERVFAIL,
    SILENCE,
    DnsStub,
    MemoryCache,
    Says,
    Zone,
    domain_facts,
    serving,
)

WORLD: Zone = {
    "mx.host.test": {"A": Says(["127.0.0.9"])},
    "second.host.test": {"A": Says(["127.0.0.8", "127.0.0.7", "127.0.0.6", "127.0.0.5"])},
    "six.host.test": {"AAAA": Says(["::1"])},
    "mapped.host.test": {"AAAA": Says(["::ffff:10.0.0.1"])},
    "private.host.test": {"A": Says(["10.1.2.3"]), "AAAA": Says(["fd00::1"])},
    "dual.host.test": {"A": Says(["192.168.0.1"]), "AAAA": Says(["::1"])},
    "broken.host.test": {"A": SERVFAIL, "AAAA": SERVFAIL},
    "alias.host.test": {
        "A": Says(["alias.host.test. 60 IN CNAME mx.host.test.", "mx.host.test. 60 IN A 127.0.0.9"])
    },
    "good.test": {"MX": Says(["20 second.host.test.", "10 MX.host.test."])},
    "six.test": {"MX": Says(["10 six.host.test."])},
    "dual.test": {"MX": Says(["10 dual.host.test."])},
    "aliased.test": {
        "MX": Says(["aliased.test. 60 IN CNAME good.test.", "good.test. 60 IN MX 10 mx.host.test."])
    },
    "aliasmx.test": {"MX": Says(["10 alias.host.test."])},
    "implicit.test": {"A": Says(["127.0.0.4"])},
    "implicit6.test": {"AAAA": Says(["::1"])},
    "implicitprivate.test": {"A": Says(["172.16.0.1"])},
    "implicitbroken.test": {"A": SERVFAIL},
    "null.test": {"MX": Says(["0 ."])},
    "nothing.test": {"TXT": Says()},
    "private.test": {"MX": Says(["10 private.host.test.", "20 mapped.host.test."])},
    "literal.test": {"MX": Says(["10 127.0.0.1."])},
    "control.test": {"MX": Says(["10 m\\013\\010x.host.test."])},
    "halfbroken.test": {"MX": Says(["10 broken.host.test.", "20 mx.host.test."])},
    "brokenmx.test": {"MX": Says(["10 broken.host.test."])},
    "privateorbroken.test": {"MX": Says(["10 private.host.test.", "20 broken.host.test."])},
    "deadmx.test": {"MX": Says(["10 gone.host.test.", "20 gone2.host.test."])},
    "servfail.test": {"MX": SERVFAIL},
    "refused.test": {"MX": REFUSED},
    "silent.test": {"MX": SILENCE},
    "loop.test": {"MX": Says(["loop.test. 60 IN CNAME pool.test.", "pool.test. 60 IN CNAME loop.test."])},
    "garbage.test": {"MX": Says(garbage=b"\x81\x80\xff")},
}

STATES = {
    "good.test": DomainState.ROUTED,
    "six.test": DomainState.ROUTED,
    "dual.test": DomainState.ROUTED,
    "aliased.test": DomainState.ROUTED,
    "aliasmx.test": DomainState.ROUTED,
    "implicit.test": DomainState.ROUTED,
    "implicit6.test": DomainState.ROUTED,
    "halfbroken.test": DomainState.ROUTED,
    "implicitprivate.test": DomainState.UNROUTABLE,
    "private.test": DomainState.UNROUTABLE,
    "literal.test": DomainState.UNROUTABLE,
    "control.test": DomainState.UNROUTABLE,
    "null.test": DomainState.NULL_MX,
    "nothing.test": DomainState.NO_MAIL_SERVER,
    "deadmx.test": DomainState.NO_MAIL_SERVER,
    "nxdomain.test": DomainState.NOT_FOUND,
    "implicitbroken.test": DomainState.UNAVAILABLE,
    "brokenmx.test": DomainState.UNAVAILABLE,
    "privateorbroken.test": DomainState.UNAVAILABLE,
    "servfail.test": DomainState.UNAVAILABLE,
    "refused.test": DomainState.UNAVAILABLE,
    "silent.test": DomainState.UNAVAILABLE,
    "loop.test": DomainState.UNAVAILABLE,
    "garbage.test": DomainState.UNAVAILABLE,
    "gmail.com\x00.test": DomainState.UNAVAILABLE,
    "a" * 64 + ".test": DomainState.NOT_FOUND,
}


HASTY = DnsConfig(timeout=0.5, tries=2)


async def facts_of(domains: list[str]) -> tuple[dict[str, DomainFact], DnsStub]:
    async with serving(WORLD) as stub, domain_facts(stub, config=HASTY) as facts:
        return await facts.lookup(domains), stub


async def test_every_kind_of_domain_gets_its_state_and_a_reason() -> None:
    facts, _ = await facts_of(list(STATES))
    assert {domain: fact.state for domain, fact in facts.items()} == STATES
    for domain, fact in facts.items():
        assert fact.domain == domain
        assert bool(fact.hosts) == bool(fact.provider) == (fact.state is DomainState.ROUTED)
        assert bool(fact.detail) == (fact.state is not DomainState.ROUTED)


async def test_a_route_lists_hosts_by_preference_with_at_most_three_addresses() -> None:
    facts, _ = await facts_of(["good.test"])
    assert facts["good.test"].hosts == (
        MxHost("mx.host.test", 10, ("127.0.0.9",)),
        MxHost("second.host.test", 20, ("127.0.0.8", "127.0.0.7", "127.0.0.6")),
    )
    assert facts["good.test"].provider == "host.test"
    assert not facts["good.test"].implicit


async def test_the_implicit_mx_is_the_domain_itself() -> None:
    facts, _ = await facts_of(["implicit.test"])
    assert facts["implicit.test"].implicit
    assert facts["implicit.test"].hosts == (MxHost("implicit.test", 0, ("127.0.0.4",)),)
    assert facts["implicit.test"].provider == "implicit.test"


async def test_aaaa_is_asked_only_when_a_gives_no_usable_address() -> None:
    facts, stub = await facts_of(["good.test", "six.test", "dual.test"])
    assert stub.asked["mx.host.test", "AAAA"] == 0
    assert stub.asked["six.host.test", "AAAA"] == 1
    assert facts["six.test"].hosts[0].addresses == facts["dual.test"].hosts[0].addresses == ("::1",)


async def test_a_domain_and_a_shared_host_are_asked_for_once() -> None:
    zone: dict[str, dict[str, Says]] = {f"d{i}.test": {"MX": Says(["10 mx.host.test."])} for i in range(50)}
    zone["mx.host.test"] = {"A": Says(["127.0.0.9"])}
    async with serving(zone) as stub, domain_facts(stub) as facts:
        once, twice = await asyncio.gather(facts.lookup([*zone] * 2), facts.lookup([*zone]))
        later = await facts.lookup(["d1.test"])
    assert once == twice
    assert list(once) == list(zone)
    assert later["d1.test"].state is DomainState.ROUTED
    once_each = {question: times for question, times in stub.asked.items() if question[0] != "mx.host.test"}
    assert set(once_each.values()) == {1}
    assert stub.asked["mx.host.test", "A"] == 1


async def test_a_lookup_that_is_cancelled_leaves_those_who_share_its_questions_alone() -> None:
    zone = {"a.test": {"MX": Says(["0 ."], delay=0.05)}}
    async with serving(zone) as stub, domain_facts(stub) as facts:
        first = asyncio.create_task(facts.lookup(["a.test"]))
        second = asyncio.create_task(facts.lookup(["a.test"]))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second)["a.test"].state is DomainState.NULL_MX
        with pytest.raises(asyncio.CancelledError):
            await first
    assert stub.asked["a.test", "MX"] == 2  # and confirmed


async def test_closing_ends_open_lookups_with_unavailable() -> None:
    cache = MemoryCache()
    names = [f"n{i}.big.test" for i in range(50)] + ["a.test"]
    async with serving({}, lambda _n, _k: SILENCE) as stub, domain_facts(stub, cache=cache) as facts:
        looking = asyncio.create_task(facts.lookup(names))
        await stub.until_asked(1)
        await facts.aclose()
        assert {fact.state for fact in (await looking).values()} == {DomainState.UNAVAILABLE}


async def test_ten_of_a_thousand_exchangers_are_looked_up() -> None:
    many = Says([f"{i} mx{i}.host.test." for i in range(1000)], truncated=True)
    host = Says(["127.0.0.9"])
    zone = {"many.test": {"MX": many}}
    async with serving(zone, lambda _n, _k: host) as stub, domain_facts(stub) as facts:
        fact = (await facts.lookup(["many.test"]))["many.test"]
    assert [host.preference for host in fact.hosts] == list(range(10))
    assert len(stub.asked) == 11


async def test_no_more_than_the_limit_of_names_below_one_domain_is_in_flight() -> None:
    def slowly(name: str, _kind: str) -> Says:
        return Says(rcode="NOERROR" if name == "victim.test" else "NXDOMAIN", delay=0.01)

    flood = [f"{i:x}.victim.test" for i in range(80)]
    async with serving({}, slowly) as stub, domain_facts(stub, config=DnsConfig(names_a_zone=5)) as facts:
        found = await facts.lookup(flood)
        assert facts.in_flight == 0  # nothing is kept about a flood that is over
    assert {fact.state for fact in found.values()} == {DomainState.NOT_FOUND}
    assert stub.peak <= 5 + 1  # and the domain itself
    assert len(stub.asked) == 2 * 80 + 1  # for each name MX, and A to confirm


async def test_nothing_exists_below_a_registrable_domain_that_does_not() -> None:
    flood = [f"{i:x}.sub.gone.co.uk" for i in range(5000)]
    async with serving({}) as stub, domain_facts(stub, config=DnsConfig(names_a_zone=20)) as facts:
        found = await facts.lookup([*flood, "gone.co.uk", "other.co.uk"])
    assert {fact.state for fact in found.values()} == {DomainState.NOT_FOUND}
    assert len(found) == 5002
    assert len(stub.asked) < 100


async def test_domains_below_a_public_suffix_do_not_share_a_zone() -> None:
    def slowly(_name: str, _kind: str) -> Says:
        return Says(["0 ."], delay=0.02)

    async with serving({}, slowly) as stub, domain_facts(stub, config=DnsConfig(names_a_zone=1)) as facts:
        await facts.lookup([f"d{i}.co.uk" for i in range(30)])
    assert stub.peak > 10


async def test_a_dead_resolver_is_asked_a_bounded_number_of_times() -> None:
    names = [f"d{i}.test" for i in range(40)]
    config = DnsConfig(timeout=0.25, tries=2, concurrency=20)
    async with serving({}, lambda _n, _k: SILENCE) as stub, domain_facts(stub, config=config) as facts:
        found = await facts.lookup(names)
    assert {fact.detail for fact in found.values()} == {"timeout"}
    assert set(stub.asked.values()) == {2}


async def test_a_parent_that_denies_itself_loses_to_children_that_answer() -> None:
    """60 names below a parent that answers NXDOMAIN, although 40 of them take mail."""

    def answer(name: str, kind: str) -> Says:
        label = name.partition(".")[0]
        if name == "mx.host.test":
            return Says(["127.0.0.9"]) if kind == "A" else Says()
        if label.isdecimal() and int(label) % 3:
            return Says(["10 mx.host.test."]) if kind == "MX" else Says()
        return NXDOMAIN

    names = [f"{n}.parent.co.uk" for n in range(60)]
    async with serving({}, answer) as stub, domain_facts(stub, config=DnsConfig(names_a_zone=5)) as facts:
        found = await facts.lookup(names)
    routed = [name for name, fact in found.items() if fact.state is DomainState.ROUTED]
    assert len(routed) == 40


async def test_below_an_alias_of_nothing_there_may_be_names() -> None:
    alias = Says(["parent.co.uk. 60 IN CNAME gone.example."], rcode="NXDOMAIN", zone="example")

    def answer(name: str, kind: str) -> Says:
        if name == "parent.co.uk":
            return alias
        if name == "mx.host.test":
            return Says(["127.0.0.9"]) if kind == "A" else Says()
        late = name.startswith("late") and kind == "MX"
        return Says(["10 mx.host.test."]) if late else replace(NXDOMAIN, delay=0.1)

    names = [*(f"{n}.parent.co.uk" for n in range(5)), *(f"late{n}.parent.co.uk" for n in range(5))]
    async with serving({}, answer) as stub, domain_facts(stub, config=DnsConfig(names_a_zone=5)) as facts:
        found = await facts.lookup(names)
    assert {found[name].state for name in names[5:]} == {DomainState.ROUTED}


@pytest.mark.parametrize(
    ("denial", "state"),
    [
        (Says(rcode="NXDOMAIN", zone=None), DomainState.UNAVAILABLE),
        (Says(rcode="NXDOMAIN", zone="."), DomainState.UNAVAILABLE),
        (Says(rcode="NXDOMAIN", zone="stranger.com"), DomainState.UNAVAILABLE),
        (Says(rcode="NXDOMAIN", zone="com"), DomainState.NOT_FOUND),
        (Says(rcode="NXDOMAIN", zone="gone.com"), DomainState.UNAVAILABLE),
        (Says(zone=None), DomainState.UNAVAILABLE),
        (Says(zone="com"), DomainState.NO_MAIL_SERVER),
        (Says(zone="gone.com"), DomainState.NO_MAIL_SERVER),
    ],
)
async def test_a_denial_counts_with_the_soa_of_a_zone_that_can_know(denial: Says, state: DomainState) -> None:
    async with serving({}, lambda _n, _k: denial) as stub, domain_facts(stub) as facts:
        assert (await facts.lookup(["gone.com"]))["gone.com"].state is state


async def test_the_root_may_deny_a_top_level_domain_nobody_knows() -> None:
    denial = Says(rcode="NXDOMAIN", zone=".")
    async with serving({}, lambda _n, _k: denial) as stub, domain_facts(stub) as facts:
        assert (await facts.lookup(["gone.coml"]))["gone.coml"].state is DomainState.NOT_FOUND


async def test_nxdomain_for_one_type_beside_an_answer_for_another_is_no_denial() -> None:
    zone = {"half.com": {"MX": Says(rcode="NXDOMAIN"), "A": Says(["127.0.0.1"])}}
    async with serving(zone) as stub, domain_facts(stub) as facts:
        assert (await facts.lookup(["half.com"]))["half.com"].state is DomainState.UNAVAILABLE


async def test_a_denial_that_tcp_does_not_repeat_is_none() -> None:
    says = iter([Says(["0 ."]), Says(["10 mx.host.test."])])
    async with serving({}, lambda _n, _k: next(says)) as stub, domain_facts(stub) as facts:
        assert (await facts.lookup(["null.com"]))["null.com"].state is DomainState.UNAVAILABLE
    assert stub.over_tcp.total() == 1


async def test_what_has_not_been_asked_yet_is_not_silent() -> None:
    config = DnsConfig(concurrency=1, timeout=0.6, tries=2)
    async with serving(WORLD) as stub, domain_facts(stub, config=config) as facts:
        first = asyncio.create_task(facts.lookup(["silent.test"]))
        await asyncio.sleep(0)
        assert "good.test" in await facts.lookup(["good.test"], patience_s=0.4, final=False)
        assert (await first)["silent.test"].state is DomainState.UNAVAILABLE


async def test_who_waits_behind_others_of_the_zone_is_not_silent_while_those_are_answered() -> None:
    def slowly(_name: str, _kind: str) -> Says:
        return Says(["10 mx.host.test."], delay=0.1)

    async with serving(WORLD, slowly) as stub, domain_facts(stub, config=DnsConfig(names_a_zone=1)) as facts:
        before = asyncio.create_task(facts.lookup([f"{n}.busy.co.uk" for n in range(15)]))
        await asyncio.sleep(0)
        assert list(await facts.lookup(["last.busy.co.uk"], patience_s=1.0)) == ["last.busy.co.uk"]
        assert len(await before) == 15


async def test_who_waits_behind_others_of_the_zone_that_are_silent_is_left_out() -> None:
    config = DnsConfig(names_a_zone=1, timeout=2.0, tries=2)
    async with serving({}, lambda _n, _k: SILENCE) as stub, domain_facts(stub, config=config) as facts:
        before = asyncio.create_task(facts.lookup(["first.dead.co.uk"]))
        await asyncio.sleep(0)
        assert await facts.lookup(["last.dead.co.uk"], patience_s=0.3) == {}
        assert not before.done()
    await before
