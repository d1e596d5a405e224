"""Domain facts per second against the sandbox, beside plain aiodns asking the same questions.

    python benchmarks/dns.py [DOMAINS]

Both resolve MX and then the addresses of the MX hosts, 200 questions in flight; only Mailsift judges the
answers and packs facts. Domains whose DNS is slow, silent or broken on purpose are left out: they measure
patience.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import IO

import aiodns
import uvloop
from typing_extensions import override

from pipeline.clock import system_clock
from pipeline.dns.domains import DnsConfig, DomainFacts
from pipeline.guard import AddressGuard
from pipeline.ports import CacheEntry, FactCache, FactKind
from pipeline.providers import Providers
from sandbox.truth import Dns
from sandbox.world import World

CHUNK = 5_000
IN_FLIGHT = 200
PATIENCE = {Dns.SLOW, Dns.SILENT, Dns.FLAKY, Dns.SERVFAIL, Dns.REFUSED}


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
        config=DnsConfig(servers=(server,), concurrency=IN_FLIGHT),
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


def measure(name: str, run: Callable[[], Awaitable[int]], domains: int) -> float:
    """Print wall and own CPU time of one run; return the wall time in seconds."""

    async def awaited() -> int:
        return await run()

    wall, cpu = time.perf_counter(), time.process_time()
    routed = uvloop.run(awaited())
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    speed, cost = domains / wall, cpu / domains * 1e6
    print(f"{name:9} {wall:6.2f} s  {speed:8,.0f} facts/s  {cost:6.1f} us CPU/fact  {routed} routed")
    return wall


def serve(domains: int) -> tuple[subprocess.Popen[str], IO[str], str]:
    """Start the sandbox in its own process; return it, the pipe that keeps it alive and its DNS server."""
    command = [
        sys.executable,
        "-m",
        "sandbox",
        "serve",
        "--domains",
        str(domains),
        "--smtp-port",
        "0",
        "--until-eof",
    ]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("no pipes to the sandbox")
    ready = json.loads(process.stdout.readline())
    return process, process.stdin, ready["env"]["MAILSIFT_DNS_SERVERS"]


def main() -> None:
    """Run both twice: the sandbox builds its answers in the first round."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    world = World(domains=count)
    names = [domain.name for domain in world.ranked if domain.behaviour.dns not in PATIENCE]
    providers = Providers.load()
    gc.freeze()  # the world in this process is no part of the measurement
    process, alive, server = serve(count)
    try:
        for _ in range(2):
            ours = measure("mailsift", lambda: with_mailsift(server, providers, names), len(names))
            plain = measure("aiodns", lambda: with_aiodns(server, names), len(names))
            print(f"mailsift is {plain / ours:.2f} times as fast")
    finally:
        alive.close()
        process.wait(30)


if __name__ == "__main__":
    main()
