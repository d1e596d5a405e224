"""Resolvers that lie, as real servers: nothing becomes invalid or valid by what they say."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator

import pytest
from structlog.testing import capture_logs

from mailsift.pipeline.dns import canaries
from mailsift.pipeline.dns.domains import DnsConfig
from mailsift.pipeline.facts import DomainState
from tests.unit.pipeline.dns_stub import NXDOMAIN, SERVFAIL, SILENCE, MemoryCache, Says, domain_facts, serving

CANARIES = ("gmail.com", "outlook.com", "yahoo.com", "gmx.net", "web.de")
CONFIG = DnsConfig(canaries=CANARIES, timeout=0.5, tries=3)

REAL = ("shop.com", "web.com", "six.com", "post.net", "mail.office.de")
DEAD = ("gone.com", "empty.com", "null.com", "inside.com", "lost.net")
TRUTH: dict[str, dict[str, Says]] = {
    **{name: {"MX": Says([f"10 mx.{name}."])} for name in CANARIES},
    **{f"mx.{name}": {"A": Says([f"127.0.1.{n}"])} for n, name in enumerate(CANARIES)},
    "mx.gmail.com": {"A": Says(["127.0.1.9"]), "AAAA": Says(["::1"])},
    "shop.com": {"MX": Says(["10 mx.shop.com."])},
    "mx.shop.com": {"A": Says(["127.0.2.1"])},
    "web.com": {"A": Says(["127.0.2.2"])},
    "six.com": {"MX": Says(["10 mx.six.com."])},
    "mx.six.com": {"AAAA": Says(["::1"])},
    "post.net": {"MX": Says(["10 mx.shop.com.", "20 mx.six.com."])},
    "mail.office.de": {"MX": Says(["10 mx.shop.com."])},
    "empty.com": {"TXT": Says()},
    "null.com": {"MX": Says(["0 ."])},
    "inside.com": {"MX": Says(["10 mx.inside.com."])},
    "mx.inside.com": {"A": Says(["10.1.2.3"])},
}

NEGATIVE = {
    DomainState.NOT_FOUND,
    DomainState.NO_MAIL_SERVER,
    DomainState.NULL_MX,
    DomainState.UNROUTABLE,
}

Lie = Callable[[str, str, Says, int], Says]
"""Name, type, the honest answer and how many questions came before; returns what is said."""

NODATA = Says()
PUBLIC, PRIVATE, ZERO = "198.41.0.4", "10.0.0.1", "0.0.0.0"


def honest(name: str, kind: str) -> Says:
    types = TRUTH.get(name)
    return NXDOMAIN if types is None else types.get(kind, NODATA)


def addresses(address: str) -> Lie:
    """One address for every name; no mail server for any."""
    return lambda _name, kind, _truth, _n: Says([address]) if kind == "A" else NODATA


def one_type_denied(denied: str, denial: Says) -> Lie:
    return lambda _name, kind, truth, _n: denial if kind == denied else truth


def one_in_five(lie: Lie) -> Lie:
    dice = random.Random(1)
    return lambda name, kind, truth, n: lie(name, kind, truth, n) if dice.random() < 0.2 else truth


def after(questions: int, lie: Lie) -> Lie:
    return lambda name, kind, truth, n: truth if n < questions else lie(name, kind, truth, n)


def always(says: Says) -> Lie:
    return lambda _name, _kind, _truth, _n: says


def wrong_addresses(address: str) -> Lie:
    return lambda _name, kind, truth, _n: Says([address]) if kind == "A" and truth.records else truth


LIES: dict[str, Lie] = {
    "NXDOMAIN for all without SOA": always(Says(rcode="NXDOMAIN", zone=None)),
    "NXDOMAIN for all with the root's SOA": always(Says(rcode="NXDOMAIN", zone=".")),
    "NXDOMAIN for all with the right SOA": always(NXDOMAIN),
    "empty without SOA": always(Says(zone=None)),
    "empty with SOA": always(NODATA),
    "one public address": addresses(PUBLIC),
    "one private address": addresses(PRIVATE),
    "the zero address": addresses(ZERO),
    "right MX, private addresses": wrong_addresses(PRIVATE),
    "right MX, one public address": wrong_addresses(PUBLIC),
    "MX denied": one_type_denied("MX", NODATA),
    "MX does not exist": one_type_denied("MX", NXDOMAIN),
    "null MX for all": lambda _n, kind, truth, _i: Says(["0 ."]) if kind == "MX" else truth,
    "one in five denied": one_in_five(always(NXDOMAIN)),
    "NXDOMAIN after a while": after(60, always(NXDOMAIN)),
}
"""What the rules were built with."""

HELD_BACK: dict[str, Lie] = {
    "A denied": one_type_denied("A", NXDOMAIN),
    "AAAA denied": one_type_denied("AAAA", NODATA),
    "slow lies": always(Says(rcode="NXDOMAIN", delay=0.3)),
    "a search domain appended": lambda _n, kind, truth, _i: (
        Says([PUBLIC]) if truth.rcode == "NXDOMAIN" and kind == "A" else truth
    ),
    "a captive portal": lambda _n, kind, _t, _i: Says([PUBLIC]) if kind == "A" else Says(rcode="REFUSED"),
    "forged authority": lambda _n, kind, _t, _i: Says(
        ["10 mx.portal.com."] if kind == "MX" else [PUBLIC] if kind == "A" else [], authoritative=True
    ),
    "SERVFAIL and NXDOMAIN by turns": lambda _n, _k, _t, n: SERVFAIL if n % 2 else NXDOMAIN,
    "records of others": lambda _n, kind, _t, _i: Says(
        ["other.com. 60 IN MX 10 mx.shop.com." if kind == "MX" else "other.com. 60 IN A 127.0.0.1"]
    ),
    "truncated lies": always(Says(rcode="NXDOMAIN", truncated=True)),
    "its own address after a while": after(75, addresses("127.0.0.1")),
    "one in five at a private address": one_in_five(wrong_addresses(PRIVATE)),
    "one in five empty": one_in_five(always(NODATA)),
    "MX at the portal for all": lambda _n, kind, truth, _i: (
        Says(["10 mx.portal.com."]) if kind == "MX" else Says(["127.0.0.1"]) if kind == "A" else truth
    ),
    "denied with a stranger's SOA": always(Says(rcode="NXDOMAIN", zone="captive.portal.")),
    "everything refused after a while": after(70, always(Says(rcode="REFUSED"))),
}
"""What nobody looked at while the rules were built."""


def saying(lie: Lie) -> Callable[[str, str], Says]:
    numbers: Iterator[int] = iter(range(10**9))
    return lambda name, kind: lie(name, kind, honest(name, kind), next(numbers))


async def believed(lie: Lie, times: int = 4) -> dict[str, set[DomainState]]:
    """Look everything up several times, each time with a cache that knows nothing."""
    states: dict[str, set[DomainState]] = {name: set() for name in (*REAL, *DEAD)}
    async with serving({}, saying(lie)) as stub:
        for turn in range(times):
            async with domain_facts(stub, config=CONFIG) as facts:
                names = [*REAL, *DEAD] if turn % 2 else [*DEAD, *REAL]
                for some in (names[:3], names[3:]):
                    for name, fact in (await facts.lookup(some)).items():
                        states[name].add(fact.state)
    return states


def false_verdicts(states: dict[str, set[DomainState]]) -> dict[str, set[DomainState]]:
    invalid = {name: states[name] & NEGATIVE for name in REAL if states[name] & NEGATIVE}
    valid = {name: states[name] for name in DEAD if DomainState.ROUTED in states[name]}
    return invalid | valid


async def test_an_honest_resolver_is_believed() -> None:
    states = await believed(lambda _name, _kind, truth, _n: truth)
    assert {name: states[name] for name in REAL} == {name: {DomainState.ROUTED} for name in REAL}
    assert states["gone.com"] == states["lost.net"] == {DomainState.NOT_FOUND}
    assert states["empty.com"] == {DomainState.NO_MAIL_SERVER}
    assert states["null.com"] == {DomainState.NULL_MX}
    assert states["inside.com"] == {DomainState.UNROUTABLE}


@pytest.mark.parametrize("kind", LIES)
async def test_no_lie_makes_anything_invalid_or_valid(kind: str) -> None:
    assert false_verdicts(await believed(LIES[kind])) == {}


@pytest.mark.parametrize("kind", HELD_BACK)
async def test_no_lie_that_was_held_back_does_either(kind: str) -> None:
    assert false_verdicts(await believed(HELD_BACK[kind])) == {}


async def test_what_a_liar_said_is_remembered_nowhere_and_is_left_out_of_what_may_come_back() -> None:
    cache = MemoryCache()
    async with (
        serving({}, saying(always(NXDOMAIN))) as stub,
        domain_facts(stub, config=CONFIG, cache=cache) as facts,
    ):
        assert await facts.lookup(REAL, patience_s=1.0, final=False) == {}
        assert not facts.has_trusted_resolver
        assert {fact.state for fact in (await facts.lookup(REAL)).values()} == {DomainState.UNAVAILABLE}
    assert cache.entries == {}


async def test_a_resolver_that_begins_to_lie_takes_back_what_it_said_since_its_canaries_were_seen() -> None:
    lying = [False]
    cache = MemoryCache()

    def lie(_name: str, _kind: str, truth: Says, _n: int) -> Says:
        return NXDOMAIN if lying[0] else truth

    async with (
        serving({}, saying(lie)) as stub,
        domain_facts(stub, config=CONFIG, cache=cache) as facts,
    ):
        assert (await facts.lookup(["shop.com"]))["shop.com"].state is DomainState.ROUTED
        lying[0] = True
        found = await facts.lookup(["post.net", "gone.com"])
        assert {fact.state for fact in found.values()} == {DomainState.UNAVAILABLE}
    assert [key for _, key in cache.entries] == ["shop.com"]


async def test_a_resolver_that_is_right_again_is_believed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canaries, "LOOK_AGAIN_S", 0.02)  # twelve looks would fit into a minute
    lying = [True]

    def lie(_name: str, _kind: str, truth: Says, _n: int) -> Says:
        return NXDOMAIN if lying[0] else truth

    with capture_logs() as logs:
        async with serving({}, saying(lie)) as stub, domain_facts(stub, config=CONFIG) as facts:
            assert await facts.lookup(REAL, final=False) == {}
            lying[0] = False
            async with asyncio.timeout(10):
                while not facts.has_trusted_resolver:  # noqa: ASYNC110 - nobody is told
                    await asyncio.sleep(0.02)
            found = await facts.lookup([*REAL, *DEAD])
    assert {found[name].state for name in REAL} == {DomainState.ROUTED}
    assert found["gone.com"].state is DomainState.NOT_FOUND
    assert [log["event"] for log in logs] == ["dns.resolver_distrusted", "dns.resolver_trusted_again"]
    assert "gmail.com should take mail" in logs[0]["why"]


BROKEN = {
    "the domain is gone": ("gmail.com", "MX", NXDOMAIN),
    "it takes no mail": ("web.de", "MX", Says(["0 ."])),
    "its mail server has lost its address": ("mx.gmx.net", "A", NODATA),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_one_canary_that_is_broken_itself_stops_nobody_and_is_not_called_invalid(kind: str) -> None:
    name, rdtype, says = BROKEN[kind]
    zone = TRUTH | {name: {**TRUTH[name], rdtype: says}}
    with capture_logs() as logs:
        async with serving(zone) as stub, domain_facts(stub, config=CONFIG) as facts:
            for _ in range(3):
                found = await facts.lookup([*REAL, *DEAD, *CANARIES])
                assert {found[name].state for name in REAL} == {DomainState.ROUTED}
                assert found["gone.com"].state is DomainState.NOT_FOUND
                assert {found[name].state for name in CANARIES} == {
                    DomainState.ROUTED,
                    DomainState.UNAVAILABLE,
                }
    assert [log["event"] for log in logs] == ["dns.canary_broken"]  # and that is said once


async def test_a_resolver_that_denies_many_canaries_is_not_believed() -> None:
    zone = TRUTH | {name: {"MX": NXDOMAIN} for name in CANARIES[:2]}
    async with serving(zone) as stub, domain_facts(stub, config=CONFIG) as facts:
        assert await facts.lookup([*REAL, *DEAD], final=False) == {}


async def test_a_silent_resolver_is_no_witness_either() -> None:
    async with serving({}, saying(always(SILENCE))) as stub:
        config = DnsConfig(canaries=CANARIES, timeout=0.05, tries=2)
        async with domain_facts(stub, config=config) as facts:
            assert await facts.lookup(REAL, final=False) == {}


@pytest.mark.parametrize("kind", [*LIES, *HELD_BACK])
async def test_beside_an_honest_resolver_a_liar_changes_nothing(kind: str) -> None:
    """Whoever comes first: nothing false, and at most the moment of its unmasking is lost."""
    lie = (LIES | HELD_BACK)[kind]
    async with serving({}, saying(lie)) as liar, serving({}, honest) as good:
        for first, second in ((liar, good), (good, liar)):
            async with domain_facts(first, beside=[second], config=CONFIG) as facts:
                for _ in range(2):
                    found = await facts.lookup([*REAL, *DEAD])
                    states = {name: {fact.state} for name, fact in found.items()}
                    assert false_verdicts(states) == {}


async def test_a_liar_that_knows_the_canaries_is_contradicted_by_another_resolver() -> None:
    def lie(name: str, _kind: str, truth: Says, _n: int) -> Says:
        return NXDOMAIN if name in REAL else truth

    async with (
        serving({}, saying(lie)) as liar,
        serving({}, honest) as good,
        domain_facts(liar, beside=[good], config=CONFIG) as facts,
    ):
        found = await facts.lookup(REAL)
    assert {fact.state for fact in found.values()} <= {DomainState.UNAVAILABLE, DomainState.ROUTED}


async def test_an_address_that_any_name_under_the_suffix_gets_is_no_route() -> None:
    def wildcard(name: str, kind: str) -> Says:
        if name.endswith(".ws"):
            return Says(["127.0.9.9"]) if kind == "A" else NODATA
        return honest(name, kind)

    async with serving({}, wildcard) as stub, domain_facts(stub, config=CONFIG) as facts:
        found = await facts.lookup(["nobody-has-this.ws", "web.com"])
    assert found["nobody-has-this.ws"].state is DomainState.UNAVAILABLE
    assert found["web.com"].state is DomainState.ROUTED
