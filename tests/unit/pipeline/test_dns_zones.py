"""The same is said of a domain in a list, alone, over TCP and beside a second resolver."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from mailsift.pipeline.dns.domains import DnsConfig
from mailsift.pipeline.facts import DomainFact
from tests.unit.pipeline.dns_stub import DnsStub, Says, domain_facts, serving
from tests.unit.pipeline.dns_zones import HOSTS, SET_UPS, placed, unplaced

PATIENT = DnsConfig(timeout=20)
"""No zone is silent: on a machine that is, an answer is waited for."""
PLACED = [placed(number, set_up) for number, set_up in enumerate(SET_UPS)]
WORLD = HOSTS | {name: types for _, zone in PLACED for name, types in zone.items()}
DOMAINS = [domain for domain, _ in PLACED]


CLIENTS = 8


def batched(names: list[str], size: int) -> list[list[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]


def cut(says: Says) -> Says:
    """What makes us ask again over TCP, through aiodns."""
    return replace(says, truncated=True)


CUT = {name: {kind: cut(says) for kind, says in types.items()} for name, types in WORLD.items()}


async def looked_up(stub: DnsStub, domains: list[str], *beside: DnsStub) -> dict[str, DomainFact]:
    async with domain_facts(stub, config=PATIENT, beside=beside) as facts:
        return await facts.lookup(domains)


async def in_a_list() -> dict[str, DomainFact]:
    async with serving(WORLD, unplaced) as stub:
        return await looked_up(stub, DOMAINS)


async def alone() -> dict[str, DomainFact]:
    found: dict[str, DomainFact] = {}
    async with serving(WORLD, unplaced) as stub:
        for some in batched(DOMAINS, CLIENTS):  # each has sockets of its own, and the stub one for all
            for one in await asyncio.gather(*(looked_up(stub, [domain]) for domain in some)):
                found |= one
    return found


async def over_tcp() -> dict[str, DomainFact]:
    async with serving(CUT, lambda name, kind: cut(unplaced(name, kind))) as stub:
        return await looked_up(stub, DOMAINS)


async def beside_another() -> dict[str, DomainFact]:
    async with serving(WORLD, unplaced) as stub, serving(WORLD, unplaced) as other:
        return await looked_up(stub, DOMAINS, other)


async def test_every_set_up_is_judged_truly_or_not_at_all_and_alike_on_every_way() -> None:
    assert len(set(DOMAINS)) == len(SET_UPS) > 100
    ways = [await way() for way in (in_a_list, alone, over_tcp, beside_another)]
    wrong = {}
    for set_up, domain in zip(SET_UPS, DOMAINS, strict=True):
        facts = [found[domain] for found in ways]
        if len(set(facts)) > 1 or facts[0].state not in set_up.may_be:
            wrong[set_up.kind] = facts
    assert not wrong
