"""Domain facts agree with the sandbox's truth about every domain of a hostile world."""

from __future__ import annotations

import time

from mailsift.pipeline.dns.domains import DnsConfig, DomainFacts
from mailsift.pipeline.facts import DomainState
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.providers import Providers
from mailsift.sandbox.behaviours import DnsBehaviour
from mailsift.sandbox.server import Sandbox
from mailsift.sandbox.world import SandboxConfig, WorldMix
from tests.unit.pipeline.dns_stub import MemoryCache

STATES = {
    DnsBehaviour.NXDOMAIN: DomainState.NOT_FOUND,
    DnsBehaviour.NODATA: DomainState.NO_MAIL_SERVER,
    DnsBehaviour.DANGLING: DomainState.NO_MAIL_SERVER,
    DnsBehaviour.NULL_MX: DomainState.NULL_MX,
    DnsBehaviour.PRIVATE: DomainState.UNROUTABLE,
    DnsBehaviour.SPECIAL: DomainState.UNROUTABLE,
    DnsBehaviour.LITERAL: DomainState.UNROUTABLE,
    DnsBehaviour.SERVFAIL: DomainState.UNAVAILABLE,
    DnsBehaviour.REFUSED: DomainState.UNAVAILABLE,
    DnsBehaviour.SILENT: DomainState.UNAVAILABLE,
}


async def test_every_domain_of_a_hostile_world_gets_its_true_state() -> None:
    config = SandboxConfig(domains=500, mix=WorldMix.HOSTILE, slow_dns=0.5)
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
    assert {domain.behaviour.dns for domain in domains.values()} == set(DnsBehaviour)
