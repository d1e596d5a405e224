"""Domain facts agree with the sandbox's truth about every domain of a hostile world."""

from __future__ import annotations

import time

from pipeline.dns.domains import DnsConfig, DomainFacts
from pipeline.facts import DomainState
from pipeline.guard import AddressGuard
from pipeline.providers import Providers
from sandbox.server import Sandbox, SandboxConfig
from sandbox.truth import Dns
from sandbox.world import Mix
from tests.unit.pipeline.dns_stub import MemoryCache

STATES = {
    Dns.NXDOMAIN: DomainState.NOT_FOUND,
    Dns.NODATA: DomainState.NO_MAIL_SERVER,
    Dns.DANGLING: DomainState.NO_MAIL_SERVER,
    Dns.NULL_MX: DomainState.NULL_MX,
    Dns.PRIVATE: DomainState.UNROUTABLE,
    Dns.SPECIAL: DomainState.UNROUTABLE,
    Dns.LITERAL: DomainState.UNROUTABLE,
    Dns.SERVFAIL: DomainState.UNAVAILABLE,
    Dns.REFUSED: DomainState.UNAVAILABLE,
    Dns.SILENT: DomainState.UNAVAILABLE,
}


async def test_every_domain_of_a_hostile_world_gets_its_true_state() -> None:
    config = SandboxConfig(domains=500, mix=Mix.HOSTILE, slow_dns=0.5)
    async with Sandbox(config) as sandbox:
        facts = DomainFacts(
            config=DnsConfig(servers=(f"127.0.0.1:{sandbox.dns_port}",), timeout=0.5, tries=4),
            cache=MemoryCache(),
            providers=Providers.load(),
            guard=AddressGuard(allow_non_public=True),
            clock=time.monotonic,
        )
        domains = sandbox.world.domains
        found = await facts.lookup([*domains, "no.such.name.test"])
        await facts.aclose()
    wrong = {
        name: (domain.behaviour.name, found[name])
        for name, domain in domains.items()
        if found[name].state is not STATES.get(domain.behaviour.dns, DomainState.ROUTED)
    }
    assert wrong == {}
    assert found["no.such.name.test"].state is DomainState.NOT_FOUND
    assert {domain.behaviour.dns for domain in domains.values()} == set(Dns)
