"""Domain facts per second against the sandbox, beside plain aiodns asking the same questions.

    python benchmarks/dns.py [DOMAINS]

Both resolve MX and then the addresses of the MX hosts, 200 questions in flight; only Mailsift judges the
answers, has denials confirmed, looks at canaries and packs facts. Domains whose DNS is slow, silent or broken
on purpose are left out: they measure patience.
What is printed is the median of three rounds that take turns, after one that warms the sandbox up;
"client" is the DNS client alone, asking for the MX of every domain.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import aiodns
import uvloop
from typing_extensions import override

from mailsift.pipeline.clock import system_clock
from mailsift.pipeline.dns.client import DnsClient
from mailsift.pipeline.dns.domains import DnsConfig, DomainFacts
from mailsift.pipeline.dns.rules import DnsAnswer, DnsOutcome, RecordType
from mailsift.pipeline.facts import CacheEntry, FactCache, FactKind
from mailsift.pipeline.guard import AddressGuard
from mailsift.pipeline.providers import Providers
from mailsift.sandbox.behaviours import DnsBehaviour
from mailsift.sandbox.client import SandboxProcess
from mailsift.sandbox.world import SandboxWorld
from mailsift.settings import Settings

CHUNK = 5_000
IN_FLIGHT = 200
CANARIES: tuple[str, ...] = Settings.model_fields["dns_canaries"].default
ROUNDS = 3
PATIENCE = {
    DnsBehaviour.SLOW,
    DnsBehaviour.SILENT,
    DnsBehaviour.FLAKY,
    DnsBehaviour.SERVFAIL,
    DnsBehaviour.REFUSED,
}


class NoCache(FactCache):
    """Forgets everything, so that every domain is asked for."""

    @override
    async def get(self, kind: FactKind, keys: Sequence[str]) -> Mapping[str, bytes]:
        return {}

    @override
    async def put(self, kind: FactKind, entries: Sequence[CacheEntry]) -> None:
        return


async def with_mailsift(server: str, providers: Providers, domains: Sequence[str]) -> int:
    """Look the domains up, chunk by chunk; return how many have a route."""
    facts = DomainFacts(
        config=DnsConfig(servers=(server,), canaries=CANARIES, concurrency=IN_FLIGHT),
        cache=NoCache(),
        providers=providers,
        guard=AddressGuard(allow_non_public=True),
        clock=system_clock,
    )
    routed = 0
    for start in range(0, len(domains), CHUNK):
        found = await facts.lookup(domains[start : start + CHUNK])
        routed += sum(bool(fact.hosts) for fact in found.values())
    await facts.aclose()
    return routed


async def with_aiodns(server: str, domains: Sequence[str]) -> int:
    """Do what a user would write: a worker per question in flight, addresses of hosts remembered."""
    resolver = aiodns.DNSResolver(nameservers=[server], timeout=1, tries=5)
    hosts: dict[str, asyncio.Task[list[str]]] = {}

    async def addresses(host: str) -> list[str]:
        try:
            answer = (await resolver.query_dns(host, "A")).answer
        except aiodns.error.DNSError:
            return []
        return [record.data.addr for record in answer if hasattr(record.data, "addr")]

    async def routed(domain: str) -> bool:
        try:
            answer = (await resolver.query_dns(domain, "MX")).answer
            names = [record.data.exchange for record in answer if hasattr(record.data, "exchange")]
        except aiodns.error.DNSError:
            names = [domain]
        for name in names:
            if name not in hosts:
                hosts[name] = asyncio.get_running_loop().create_task(addresses(name))
        return any([await hosts[name] for name in names])

    async def work(queue: Iterator[str]) -> int:
        return sum([await routed(domain) for domain in queue])

    queue = iter(domains)
    counts = await asyncio.gather(*(work(queue) for _ in range(IN_FLIGHT)))
    await resolver.close()
    return sum(counts)


async def with_client(server: str, domains: Sequence[str]) -> int:
    """Ask for the MX of every domain with nothing but the client."""
    client = DnsClient(servers=(server,), concurrency=IN_FLIGHT)
    outcomes: Counter[DnsOutcome] = Counter()
    done = asyncio.get_running_loop().create_future()

    def count(answer: DnsAnswer) -> None:
        outcomes[answer.outcome] += 1
        if outcomes.total() == len(domains):
            done.set_result(None)

    for domain in domains:
        client.ask(domain, RecordType.MX, count)
    await done
    await client.aclose()
    return outcomes[DnsOutcome.FOUND]


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took, in seconds, and how many domains had a route."""

    wall: float
    cpu: float
    routed: int


def measure(run: Callable[[], Awaitable[int]]) -> Run:
    """Measure wall and own CPU time of one run."""

    async def awaited() -> int:
        return await run()

    wall, cpu = time.perf_counter(), time.process_time()
    routed = uvloop.run(awaited())
    return Run(time.perf_counter() - wall, time.process_time() - cpu, routed)


def show(name: str, runs: Sequence[Run], domains: int) -> None:
    """Print the medians of some runs."""
    wall, cpu = statistics.median(run.wall for run in runs), statistics.median(run.cpu for run in runs)
    print(f"{name:9} {wall:6.2f} s  {domains / wall:8,.0f}/s  {cpu / domains * 1e6:6.1f} us CPU each", end="")
    print(f"  {runs[0].routed} routed")


def main() -> None:
    """Run all in turns: the sandbox builds its answers in the first round."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    world = SandboxWorld(domains=count)
    names = [domain.name for domain in world.ranked if domain.behaviour.dns not in PATIENCE]
    providers = Providers.load()
    gc.freeze()  # the world in this process is no part of the measurement
    gc.set_threshold(20_000, 50, 100)  # as in a worker
    with SandboxProcess(domains=count) as sandbox:
        server = sandbox.env["MAILSIFT_DNS_SERVERS"]
        ways: dict[str, Callable[[], Awaitable[int]]] = {
            "client": lambda: with_client(server, names),
            "mailsift": lambda: with_mailsift(server, providers, names),
            "aiodns": lambda: with_aiodns(server, names),
        }
        rounds = [{name: measure(run) for name, run in ways.items()} for _ in range(1 + ROUNDS)][1:]
        for name in ways:
            show(name, [one[name] for one in rounds], len(names))
        plain = statistics.median(one["aiodns"].cpu / one["mailsift"].cpu for one in rounds)
        print(f"mailsift takes 1/{plain:.2f} of aiodns's CPU time; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
