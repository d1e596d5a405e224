"""Resolvers that lie, as real servers: nothing becomes invalid or valid by what they say."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache

import polars as pl
import pytest
from structlog.testing import capture_logs

from mailsift.pipeline.dns import trust
from mailsift.pipeline.dns.domains import DnsConfig, DomainFacts
from mailsift.pipeline.facts import DomainFact, DomainState, Known, Mode
from mailsift.pipeline.lists import Lists
from mailsift.pipeline.probe.port25 import Port25Status
from mailsift.pipeline.providers import Providers
from mailsift.pipeline.syntax.column import parse_column
from mailsift.pipeline.validator import ValidationRequest, Validator
from mailsift.pipeline.verdict import VerdictPolicy
from tests.unit.pipeline.dns_lies import (
    CANARIES,
    DEAD,
    HELD_BACK,
    LIES,
    NODATA,
    PORTAL,
    REAL,
    SERVER,
    TRUTH,
    Lie,
    addresses,
    always,
    honest,
    saying,
)
from tests.unit.pipeline.dns_stub import (
    NXDOMAIN,
    SERVFAIL,
    SILENCE,
    DnsStub,
    MemoryCache,
    Says,
    Zone,
    domain_facts,
    serving,
)
from tests.unit.pipeline.smtp_stub import Bench, Mailer, knows, mailing

CONFIG = DnsConfig(canaries=CANARIES, timeout=0.5, tries=3)
ALL = LIES | HELD_BACK

NEGATIVE = {
    DomainState.NOT_FOUND,
    DomainState.NO_MAIL_SERVER,
    DomainState.NULL_MX,
    DomainState.UNROUTABLE,
}
PEOPLE = [f"{local}@{domain}" for domain in (*REAL, *DEAD) for local in ("known", "nobody")]
TAKES_ALL, KNOWS_NOBODY = "250 2.1.5 Ok", "550 5.1.1 User unknown"


def truths(mode: Mode) -> dict[str, str]:
    """The right status of everybody; the only address of six.com is one where nobody listens."""
    real = {Mode.MEDIUM: ("valid", "valid"), Mode.DEEP: ("valid", "invalid")}[mode]
    found = {f"{who}@{name}": real[who == "nobody"] for name in REAL for who in ("known", "nobody")}
    found |= {f"{who}@{name}": "invalid" for name in DEAD for who in ("known", "nobody")}
    return found | ({"known@six.com": "risky", "nobody@six.com": "risky"} if mode is Mode.DEEP else {})


@asynccontextmanager
async def asking(*resolvers: DnsStub, portal: str = TAKES_ALL) -> AsyncIterator[Validator]:
    """The whole pipeline in front of resolvers; the portal answers at port 25 what it is told to."""
    async with (
        mailing(Mailer(rcpt=knows("known")), host=SERVER) as port,
        mailing(Mailer(rcpt=lambda _address: portal), host=PORTAL, port=port),
        domain_facts(resolvers[0], beside=resolvers[1:], config=CONFIG) as facts,
    ):
        yield validator(facts, port)


@cache
def lists() -> Lists:
    return Lists.load()


def validator(facts: DomainFacts, port: int) -> Validator:
    async def is_open() -> Known:
        return Known.YES

    return Validator(
        lists=lists(),
        providers=Providers.load(),
        domains=facts,
        prober=Bench(port).prober,
        port25=Port25Status(is_open, monotonic=lambda: 0.0),
        policy=VerdictPolicy(),
    )


async def statuses(pipeline: Validator, mode: Mode) -> dict[str, str]:
    """Ask for everybody."""
    frame = parse_column(pl.Series("raw", PEOPLE, pl.String)).with_row_index("n")
    numbered = frame.with_columns(pl.lit(1, pl.UInt32).alias("rows"))
    result = await pipeline.validate(numbered, ValidationRequest(mode))
    return {PEOPLE[n]: status for n, status in result.finished.select("n", "status").iter_rows()}


def false_verdicts(found: dict[str, str], mode: Mode) -> dict[str, str]:
    """Whoever is valid or invalid and should not be."""
    truth = truths(mode)
    return {who: status for who, status in found.items() if status not in {"risky", truth[who]}}


def false_states(found: Mapping[str, DomainFact]) -> dict[str, DomainState]:
    """Which domains are called what they are not."""
    wrong = {DomainState.ROUTED: DEAD, **dict.fromkeys(NEGATIVE, REAL)}
    return {name: fact.state for name, fact in found.items() if name in wrong.get(fact.state, ())}


async def wrong_under(lie: Lie) -> dict[str, str]:
    """What a liar makes false: in mode medium, and deep with a portal that takes all or refuses all."""
    wrong: dict[str, str] = {}
    async with serving({}, saying(lie)) as stub:
        for portal, modes in ((TAKES_ALL, (Mode.MEDIUM, Mode.DEEP)), (KNOWS_NOBODY, (Mode.DEEP,))):
            async with asking(stub, portal=portal) as pipeline:
                for mode in modes:
                    found = false_verdicts(await statuses(pipeline, mode), mode)
                    wrong |= {f"{mode} {portal} {who}": status for who, status in found.items()}
    return wrong


async def test_an_honest_resolver_is_believed() -> None:
    async with serving({}, honest) as stub, asking(stub) as pipeline:
        assert await statuses(pipeline, Mode.MEDIUM) == truths(Mode.MEDIUM)
        assert await statuses(pipeline, Mode.DEEP) == truths(Mode.DEEP)


@pytest.mark.parametrize("kind", LIES)
async def test_no_lie_makes_anything_invalid_or_valid(kind: str) -> None:
    assert await wrong_under(LIES[kind]) == {}


@pytest.mark.parametrize("kind", HELD_BACK)
async def test_no_lie_that_was_held_back_does_either(kind: str) -> None:
    assert await wrong_under(HELD_BACK[kind]) == {}


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


async def test_what_a_resolver_says_while_its_canaries_are_on_their_way_is_looked_at_again() -> None:
    """It answers for its canaries, lies before those answers are here, and then about the canaries, too."""
    begun, lying = [False], [False]

    def lie(name: str, kind: str, truth: Says, _n: int) -> Says:
        lying[0] = lying[0] or (name == "post.net" and kind == "A")  # asked to confirm that it is gone
        if lying[0] or name == "post.net":
            return replace(NXDOMAIN, delay=0.1)
        return replace(truth, delay=0.2) if begun[0] and name == "mx.gmail.com" else truth

    config = replace(CONFIG, timeout=9)
    async with serving({}, saying(lie)) as stub, domain_facts(stub, config=config) as facts:
        assert (await facts.lookup(["web.com"]))["web.com"].state is DomainState.ROUTED
        begun[0] = True
        found = await facts.lookup(["shop.com", "post.net"])
        assert lying[0]
        assert found["post.net"].state is DomainState.UNAVAILABLE


async def test_a_resolver_that_is_right_again_is_believed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "RECHECK_S", 0.02)  # twelve looks would fit into a minute
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


async def test_what_a_resolver_denies_is_told_before_how_and_nothing_that_it_never_said() -> None:
    with capture_logs() as logs:
        lie = always(replace(NXDOMAIN, zone=None))  # as firewalls say it
        async with serving({}, saying(lie)) as stub, domain_facts(stub, config=CONFIG) as facts:
            assert await facts.lookup(REAL, final=False) == {}
    assert logs[0]["why"].startswith("gmail.com should take mail; ")
    assert "should not exist" not in logs[0]["why"]


async def test_a_resolver_that_denies_names_for_ipv6_in_its_own_way_is_believed() -> None:
    def lie(_name: str, kind: str, truth: Says, _n: int) -> Says:
        return replace(truth, zone=None) if kind == "AAAA" and truth == NXDOMAIN else truth

    async with serving({}, saying(lie)) as stub, domain_facts(stub, config=CONFIG) as facts:
        found = await facts.lookup(REAL, final=False)
    assert {name: fact.state for name, fact in found.items()} == dict.fromkeys(REAL, DomainState.ROUTED)


BROKEN = {
    "the domain is gone": ("gmail.com", "MX", NXDOMAIN),
    "it takes no mail": ("web.de", "MX", Says(["0 ."])),
    "its mail server has lost its address": ("mx.gmx.net", "A", NODATA),
}
RESERVES = (
    "hotmail.com",
    "aol.com",
    "gmx.de",
    "live.com",
    "msn.com",
    "me.com",
    "ymail.com",
    "googlemail.com",
)


@pytest.mark.parametrize("kind", BROKEN)
async def test_one_canary_that_is_broken_itself_stops_nobody_and_is_not_called_invalid(kind: str) -> None:
    """Where the others that everybody knows are known; where they are not, nothing is denied by it."""
    name, rdtype, says = BROKEN[kind]
    alone = TRUTH | {name: {**TRUTH[name], rdtype: says}}
    zone = alone | {reserve: {"MX": Says(["10 mx.shop.com."])} for reserve in RESERVES}
    for known, denied in ((zone, DomainState.NOT_FOUND), (alone, DomainState.UNAVAILABLE)):
        with capture_logs() as logs:
            async with serving(known) as stub, domain_facts(stub, config=CONFIG) as facts:
                for _ in range(2):
                    found = await facts.lookup([*REAL, *DEAD, *CANARIES])
                    assert {found[name].state for name in REAL} == {DomainState.ROUTED}
                    assert found["gone.com"].state is denied
                    assert {found[name].state for name in CANARIES} == {
                        DomainState.ROUTED,
                        DomainState.UNAVAILABLE,
                    }
        assert [log["event"] for log in logs] == ["dns.canary_broken"]  # and that is said once


async def test_a_resolver_that_spares_the_canaries_is_found_out_by_what_it_knew() -> None:
    lying = [False]

    def lie(name: str, _kind: str, truth: Says, _n: int) -> Says:
        return NXDOMAIN if lying[0] and name in REAL else truth

    async with serving({}, saying(lie)) as stub, domain_facts(stub, config=CONFIG) as facts:
        await facts.lookup(REAL[:4])
        lying[0] = True
        found = await facts.lookup([*REAL[4:], "gone.com"])
    assert {fact.state for fact in found.values()} == {DomainState.UNAVAILABLE}


async def test_a_resolver_that_denies_many_canaries_is_not_believed() -> None:
    zone = TRUTH | {name: {"MX": NXDOMAIN} for name in CANARIES[:2]}
    async with serving(zone) as stub, domain_facts(stub, config=CONFIG) as facts:
        assert await facts.lookup([*REAL, *DEAD], final=False) == {}


async def test_the_first_lookup_waits_for_a_slower_resolver_that_may_contradict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trust, "SECONDS_FOR_OTHERS", 60)  # on a busy machine, too

    def lie(name: str, _kind: str, truth: Says, _n: int) -> Says:
        return NXDOMAIN if name == "shop.com" else truth

    async with (
        serving({}, saying(lie)) as quick,
        serving({}, saying(lambda _n, _k, truth, _i: replace(truth, delay=0.1))) as stub,
        domain_facts(quick, beside=[stub], config=replace(CONFIG, timeout=9)) as facts,
    ):
        found = await facts.lookup(["shop.com", "gone.com"])
    assert found["shop.com"].state is DomainState.UNAVAILABLE
    assert found["gone.com"].state is DomainState.NOT_FOUND


async def test_closing_ends_while_a_slower_resolver_is_looked_at_for_the_second_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trust, "SECONDS_FOR_OTHERS", 0)
    looks, second_look = Counter[str](), asyncio.Event()

    def slow(name: str, kind: str, truth: Says, _n: int) -> Says:
        looks[f"{name} {kind}"] += 1
        if looks["gmail.com MX"] < 2:
            return truth
        second_look.set()
        return replace(truth, delay=0.2)

    async with (
        asyncio.timeout(20),
        serving(TRUTH) as quick,
        serving({}, saying(slow)) as stub,
        domain_facts(quick, beside=[stub], config=CONFIG) as facts,
    ):
        await facts.lookup(["shop.com"])
        await second_look.wait()


async def test_a_silent_resolver_is_no_witness_either() -> None:
    async with serving({}, saying(always(SILENCE))) as stub:
        config = DnsConfig(canaries=CANARIES, timeout=0.05, tries=2)
        async with domain_facts(stub, config=config) as facts:
            assert await facts.lookup(REAL, final=False) == {}


@pytest.mark.parametrize("kind", list(ALL)[::2])
async def test_beside_an_honest_resolver_a_liar_changes_nothing(kind: str) -> None:
    """Whoever comes first: nothing false, and at most the moment of its unmasking is lost."""
    async with serving({}, saying(ALL[kind])) as liar, serving({}, honest) as good:
        for resolvers in ((liar, good), (good, liar)):
            async with domain_facts(resolvers[0], beside=resolvers[1:], config=CONFIG) as facts:
                for _ in range(2):
                    assert false_states(await facts.lookup([*REAL, *DEAD])) == {}


@pytest.mark.parametrize(
    "lies",
    [
        {"MX": NXDOMAIN, "A": NXDOMAIN, "AAAA": NXDOMAIN},
        {"MX": Says(["0 ."])},
        {"MX": Says(["10 127.0.0.1."])},
        {"A": Says(["10.0.0.1"]), "AAAA": Says(["fd00::1"])},
    ],
    ids=["NXDOMAIN", "null MX", "MX is an address", "inside"],
)
async def test_a_liar_that_knows_the_canaries_is_contradicted_by_another_resolver(
    lies: Mapping[str, Says],
) -> None:
    spared = {*CANARIES, *(f"mx.{name}" for name in CANARIES)}

    def lie(name: str, kind: str, truth: Says, _n: int) -> Says:
        return truth if name in spared or truth.rcode == "NXDOMAIN" else lies.get(kind, truth)

    async with (
        serving({}, saying(lie)) as liar,
        serving({}, honest) as good,
        domain_facts(liar, beside=[good], config=CONFIG) as facts,
    ):
        found = await facts.lookup(REAL)
    assert {fact.state for fact in found.values()} <= {DomainState.UNAVAILABLE, DomainState.ROUTED}


async def test_whom_only_a_liar_contradicts_goes_on_being_believed() -> None:
    """The second of two resolvers becomes a portal: what the first denies, it knows."""
    portal, lies = addresses(PORTAL), [False]

    def say(name: str, kind: str, truth: Says, n: int) -> Says:
        return portal(name, kind, truth, n) if lies[0] else truth

    async with (
        serving({}, honest) as good,
        serving({}, saying(say)) as liar,
        domain_facts(good, beside=[liar], config=CONFIG) as facts,
    ):
        await facts.lookup(["web.com"])
        lies[0] = True
        found = await facts.lookup(DEAD)
        assert facts.trust.has_trusted_resolver
    assert {name: fact.state for name, fact in found.items()} == {
        "gone.com": DomainState.NOT_FOUND,
        "empty.com": DomainState.NO_MAIL_SERVER,
        "null.com": DomainState.NULL_MX,
        "inside.com": DomainState.UNROUTABLE,
        "lost.net": DomainState.NOT_FOUND,
        "fini.fr": DomainState.NOT_FOUND,
        "vide.fr": DomainState.NO_MAIL_SERVER,
    }


async def test_whom_a_liar_contradicts_while_it_is_looked_at_goes_on_being_believed() -> None:
    """It answers for its canaries, and lies before those answers are here."""
    gone, lying, portal = ("gone.com", "lost.net", "fini.fr"), [False], addresses(PORTAL)

    def later(name: str, _kind: str, truth: Says, _n: int) -> Says:
        return replace(truth, delay=0.1) if name in gone else truth

    def lie(name: str, kind: str, truth: Says, n: int) -> Says:
        lying[0] = lying[0] or name in gone  # asked to confirm it
        if name == "mx.gmail.com":
            return replace(truth, delay=0.6)
        return portal(name, kind, truth, n) if lying[0] else truth

    async with (
        serving({}, saying(later)) as good,
        serving({}, saying(lie)) as liar,
        domain_facts(good, beside=[liar], config=replace(CONFIG, timeout=9)) as facts,
    ):
        await facts.lookup(["web.com"])
        found = await facts.lookup(["empty.com", *gone])
        assert lying[0]
    assert {found[name].state for name in gone} == {DomainState.NOT_FOUND}
    assert found["empty.com"].state is DomainState.NO_MAIL_SERVER


async def test_an_address_that_any_name_under_the_suffix_gets_is_no_route() -> None:
    def wildcard(name: str, kind: str) -> Says:
        if name.endswith(".ws"):
            return Says(["127.0.9.9"]) if kind == "A" else NODATA
        return honest(name, kind)

    async with serving({}, wildcard) as stub, domain_facts(stub, config=CONFIG) as facts:
        found = await facts.lookup(["nobody-has-this.ws", "web.com"])
    assert found["nobody-has-this.ws"].state is DomainState.UNAVAILABLE
    assert found["web.com"].state is DomainState.ROUTED


async def test_a_suffix_that_could_not_be_asked_about_is_asked_about_again_soon() -> None:
    fails, now = [True], [1000.0]

    def wildcard(name: str, kind: str) -> Says:
        if not name.endswith(".ws"):
            return honest(name, kind)
        if fails[0] and not name.startswith("nobody"):
            return SERVFAIL
        return Says(["127.0.9.9"]) if kind == "A" else NODATA

    async with (
        serving({}, wildcard) as stub,
        domain_facts(stub, config=CONFIG, clock=lambda: now[0]) as facts,
    ):
        await facts.lookup(["nobody-knows.ws"])
        fails[0] = False
        now[0] += 60
        found = await facts.lookup(["nobody-has-this.ws"])
    assert found["nobody-has-this.ws"].state is DomainState.UNAVAILABLE


OWN_ZONE: dict[str, Zone] = {
    "a directory of its own, without mail": {
        "office.com": {"A": Says(["10.0.0.10"])},
    },
    "names of which it does not know all": {"office.com": {"A": NXDOMAIN, "MX": NXDOMAIN, "AAAA": NXDOMAIN}},
    "a mail server's address inside": {
        "office.com": {"MX": Says(["10 mx.office.com."])},
        "mx.office.com": {"A": Says(["10.0.0.25"])},
    },
    "no mail at all": {"office.com": {"MX": Says(["0 ."])}},
    "nothing at the name": {"office.com": {}},
}


def split_horizon(zone: Zone) -> Lie:
    """A resolver that is the authority for a zone of its own, and asks the world about everything else."""

    def say(name: str, kind: str, truth: Says, _n: int) -> Says:
        return replace(zone[name].get(kind, NODATA), authoritative=True) if name in zone else truth

    return say


@pytest.mark.parametrize("kind", OWN_ZONE)
async def test_what_a_resolver_says_of_a_zone_of_its_own_denies_nothing_to_the_world(kind: str) -> None:
    """The resolver of an office knows the office's domain as it is inside; outside, it takes mail."""
    async with (
        serving({}, saying(split_horizon(OWN_ZONE[kind]))) as stub,
        domain_facts(stub, config=CONFIG) as facts,
    ):
        found = await facts.lookup(["office.com", "shop.com", "gone.com", "inside.com"])
    assert found["office.com"].state is DomainState.UNAVAILABLE
    assert found["shop.com"].state is DomainState.ROUTED
    assert found["gone.com"].state is DomainState.NOT_FOUND
    assert found["inside.com"].state is DomainState.UNROUTABLE


NOTHING_INSIDE = Says(zone="office.com")
PASSED_ON: dict[str, Zone] = {
    "a directory of its own, without mail": {
        "office.com": {"A": Says(["10.0.0.10"]), "MX": NOTHING_INSIDE, "AAAA": NOTHING_INSIDE},
    },
    "a mail server's address inside": {
        "office.com": {"MX": Says(["10 mx.office.com."])},
        "mx.office.com": {"A": Says(["10.0.0.25"]), "AAAA": NOTHING_INSIDE},
    },
    "a mail server nobody has inside": {
        "office.com": {"MX": Says(["10 mx.office.com."])},
        "mx.office.com": {kind: Says(rcode="NXDOMAIN", zone="office.com") for kind in ("A", "AAAA", "MX")},
    },
    "no mail at all": {"office.com": {"MX": Says(["0 ."])}},
    "nothing at the name": {
        "office.com": {"MX": NOTHING_INSIDE, "A": NOTHING_INSIDE, "AAAA": NOTHING_INSIDE},
    },
}


def passing_on(zone: Zone, name_server: str) -> Lie:
    """A forwarder that asks the office's own servers about the office, and says nothing of that."""
    servers: Zone = {
        "office.com": {"NS": Says(["dc1.office.com."])},
        "dc1.office.com": {"A": Says([name_server])},
    }

    def say(name: str, kind: str, truth: Says, _n: int) -> Says:
        records = {**servers.get(name, {}), **zone.get(name, {})}
        return records.get(kind, truth)

    return say


@pytest.mark.parametrize("kind", PASSED_ON)
async def test_what_a_resolver_passes_on_from_an_inside_denies_nothing_to_the_world(kind: str) -> None:
    """Who asks the office's servers through a forwarder gets their answers without their claim."""
    async with (
        serving({}, saying(passing_on(PASSED_ON[kind], "10.0.0.10"))) as stub,
        domain_facts(stub, config=CONFIG) as facts,
    ):
        found = await facts.lookup(["office.com", "gone.com", "inside.com", "null.com"])
    assert found["office.com"].state is DomainState.UNAVAILABLE
    assert "zone of its own" in found["office.com"].detail
    assert found["gone.com"].state is DomainState.NOT_FOUND
    assert found["inside.com"].state is DomainState.UNROUTABLE
    assert found["null.com"].state is DomainState.NULL_MX


@pytest.mark.parametrize("kind", PASSED_ON)
async def test_what_name_servers_say_that_the_world_can_ask_is_the_worlds(kind: str) -> None:
    async with (
        serving({}, saying(passing_on(PASSED_ON[kind], SERVER))) as stub,
        domain_facts(stub, config=CONFIG) as facts,
    ):
        found = await facts.lookup(["office.com"])
    assert found["office.com"].state in NEGATIVE


async def test_a_name_that_is_missing_inside_may_be_there_outside() -> None:
    missing = Says(rcode="NXDOMAIN", zone="office.com")

    def say(name: str, kind: str, truth: Says, n: int) -> Says:
        inside = passing_on({}, "10.0.0.10")(name, kind, truth, n)
        return missing if name == "news.office.com" else inside

    async with serving({}, saying(say)) as stub, domain_facts(stub, config=CONFIG) as facts:
        found = await facts.lookup(["news.office.com", "nobody-has-this.com"])
    assert found["news.office.com"].state is DomainState.UNAVAILABLE
    assert found["nobody-has-this.com"].state is DomainState.NOT_FOUND


async def test_who_claims_to_be_the_authority_for_everything_he_remembers_is_believed_as_others_are() -> None:
    """Forwarders (CoreDNS) set the bit in every answer that they have kept."""
    kept: set[tuple[str, str]] = set()

    def say(name: str, kind: str, truth: Says, _n: int) -> Says:
        is_kept = (name, kind) in kept
        kept.add((name, kind))
        return replace(truth, authoritative=is_kept)

    async with serving({}, saying(say)) as stub, domain_facts(stub, config=CONFIG) as facts:
        await facts.lookup(REAL)
        found = await facts.lookup(["gone.com", "inside.com"])
        assert found["gone.com"].state is DomainState.NOT_FOUND
        assert found["inside.com"].state is DomainState.UNROUTABLE
        kept.update({("lost.net", "MX"), ("lost.net", "A")})
        assert (await facts.lookup(["lost.net"]))["lost.net"].state is DomainState.NOT_FOUND
