"""Debian's name servers and unbound: what our client makes of them is what it makes of the sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

import pytest

from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.dns.domains import DnsConfig, DomainFacts
from mailsift.pipeline.facts import DomainFact, DomainState, MxHost
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.providers import Providers
from mailsift.sandbox.behaviours import DnsBehaviour
from mailsift.sandbox.server import Sandbox
from mailsift.sandbox.world import SandboxConfig, SandboxWorld, WorldMix
from tests.external.chroot import Chroot
from tests.external.dns.name_servers import SERVERS, start_name_server, start_resolver, zone_files
from tests.support.required_programs import MAIL_SERVERS
from tests.unit.pipeline.dns_stub import MemoryCache

pytestmark = pytest.mark.needs("name-servers")

CANARIES = ("gmail.com", "outlook.com", "yahoo.com", "gmx.net", "web.de")
_BY_MANNER = frozenset({DnsBehaviour.SERVFAIL, DnsBehaviour.REFUSED, DnsBehaviour.SILENT})
ROUTED, NO_NAME = DomainState.ROUTED, DomainState.NOT_FOUND
TRUTH = {
    "anything.wild.test": ROUTED,
    "alias-of-nothing.test": NO_NAME,
    "below-nothing.test": DomainState.NO_MAIL_SERVER,  # an empty name that others are below
    "nobody-has-this.test": NO_NAME,
    "below.ordinary.sandbox.test": NO_NAME,
    "nobody-has-this.com": NO_NAME,
    "mx.renamed.test": ROUTED,  # by its address, as mx.ordinary-host.test is
    "nobody-has-this.con": NO_NAME,
}
"""What the sandbox does not have, and all servers and resolvers agree on."""

UNKNOWN = DomainState.UNAVAILABLE
DIRECTLY = {"bogus.test": ROUTED, "delegated.test": UNKNOWN}
"""A server refers to others, which is no denial; signatures are a resolver's business."""
THROUGH_RESOLVER = {"bogus.test": UNKNOWN}


@dataclass(frozen=True, slots=True)
class Installed:
    """A name server and the resolver in front of it, as "host:port"."""

    server: str
    resolver: str


@pytest.fixture(scope="module")
def world() -> SandboxWorld:
    return SandboxWorld(seed=3, domains=1, mix=WorldMix.CALM)


@pytest.fixture(scope="module")
def chroot() -> Iterator[Chroot]:
    with Chroot(MAIL_SERVERS) as running:
        yield running


@pytest.fixture(scope="module", params=SERVERS)
def installed(request: pytest.FixtureRequest, chroot: Chroot, world: SandboxWorld) -> Installed:
    zones = zone_files(world)
    server = start_name_server(chroot, request.param, zones)
    return Installed(server, start_resolver(chroot, server, zones))


@pytest.fixture(scope="module")
def known(world: SandboxWorld) -> dict[str, DomainFact]:
    """What is known of the sandbox's own domains, by its own DNS."""

    async def learn() -> dict[str, DomainFact]:
        async with Sandbox(SandboxConfig(seed=world.seed, domains=1, mix=world.mix)) as sandbox:
            return await look_up(f"127.0.0.1:{sandbox.dns_port}", told_by_records(world))

    return asyncio.run(learn())


def told_by_records(world: SandboxWorld) -> list[str]:
    """The domains of the world whose state is in their records, and not in how a server behaves."""
    return [name for name, domain in world.domains.items() if domain.behaviour.dns not in _BY_MANNER]


async def look_up(server: str, domains: Sequence[str]) -> dict[str, DomainFact]:
    facts = DomainFacts(
        config=DnsConfig(servers=(server,), canaries=CANARIES),
        cache=MemoryCache(),
        providers=Providers.load(),
        guard=AddressGuard(allow_non_public=True),
        clock=system_clock,
    )
    try:
        return await facts.lookup(domains)
    finally:
        await facts.aclose()


def routes(facts: dict[str, DomainFact]) -> dict[str, tuple[DomainState, list[MxHost], bool, str]]:
    """What counts of the facts; exchangers of one preference come in any order."""
    return {
        name: (
            fact.state,
            sorted(fact.hosts, key=attrgetter("preference", "name")),
            fact.implicit,
            fact.provider,
        )
        for name, fact in facts.items()
    }


@pytest.mark.parametrize("through", ["server", "resolver"])
async def test_what_debians_servers_say_is_what_the_sandbox_says(
    installed: Installed, world: SandboxWorld, known: dict[str, DomainFact], through: str
) -> None:
    found = await look_up(getattr(installed, through), told_by_records(world))
    assert routes(found) == routes(known)


@pytest.mark.parametrize("through", ["server", "resolver"])
async def test_what_only_real_servers_show_is_judged_by_its_meaning(
    installed: Installed, through: str
) -> None:
    truth = TRUTH | (DIRECTLY if through == "server" else THROUGH_RESOLVER)
    found = await look_up(getattr(installed, through), list(truth))
    assert {name: fact.state for name, fact in found.items()} == truth, found
