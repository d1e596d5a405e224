"""A correct prober as one would write it: one connection for each address, at most N at a time and M a host.

It does what correctness needs (MX by preference, catch-all probe, greylisting apart) and nothing to be fast.
"""

from __future__ import annotations

import asyncio
import csv
import secrets
import sys
from collections import defaultdict
from pathlib import Path

import dns.asyncresolver
import dns.exception
import uvloop

SECONDS = 30.0


class Prober:
    """Asks one address a connection."""

    def __init__(self, server: str, port: int, concurrency: int, per_host: int) -> None:
        host, _, dns_port = server.rpartition(":")
        self._resolver = dns.asyncresolver.Resolver(configure=False)
        self._resolver.nameservers, self._resolver.port = [host], int(dns_port)
        self._port = port
        self._room = asyncio.Semaphore(concurrency)
        self._host_room: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(per_host))
        self._routes: dict[str, asyncio.Task[list[str]]] = {}

    async def check(self, address: str) -> str:
        """Return valid, invalid or risky."""
        domain = address.rpartition("@")[2]
        if domain not in self._routes:
            self._routes[domain] = asyncio.create_task(self._route(domain))
        route = await self._routes[domain]
        for target in route[:3]:
            async with self._host_room[target], self._room:
                try:
                    async with asyncio.timeout(SECONDS):
                        return await self._ask(target, address)
                except (OSError, TimeoutError, ValueError):
                    continue
        return "risky" if route else "invalid"

    async def _route(self, domain: str) -> list[str]:
        try:
            answer = await self._resolver.resolve(domain, "MX")
            addresses = []
            for record in sorted(answer, key=lambda one: one.preference):
                hosts = await self._resolver.resolve(record.exchange, "A")
                addresses += [host.address for host in hosts]
        except dns.exception.DNSException:
            return []
        return addresses

    async def _ask(self, target: str, address: str) -> str:
        reader, writer = await asyncio.open_connection(target, self._port)
        try:
            await _reply(reader)
            await _say(reader, writer, "EHLO bench.test")
            await _say(reader, writer, "MAIL FROM:<>")
            domain = address.rpartition("@")[2]
            random_code = await _say(reader, writer, f"RCPT TO:<x{secrets.token_hex(8)}@{domain}>")
            if random_code < 300:
                return "risky"
            code = await _say(reader, writer, f"RCPT TO:<{address}>")
            writer.write(b"QUIT\r\n")
        finally:
            writer.close()
        return "valid" if code < 300 else "invalid" if code in {550, 551, 553} else "risky"


async def _say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, line: str) -> int:
    writer.write(line.encode() + b"\r\n")
    return await _reply(reader)


async def _reply(reader: asyncio.StreamReader) -> int:
    while True:
        line = await reader.readline()
        if line[3:4] != b"-":
            return int(line[:3])


async def run(source: Path, out: Path, prober: Prober) -> None:
    """Probe every address of the list."""
    with source.open(newline="", encoding="utf-8") as given:
        rows = list(csv.DictReader(given))
    distinct = sorted({row["email"].strip().lower() for row in rows if "@" in row["email"]})
    statuses = dict(
        zip(distinct, await asyncio.gather(*(prober.check(address) for address in distinct)), strict=True)
    )
    with out.open("w", newline="", encoding="utf-8") as made:
        writer = csv.writer(made)
        for row in rows:
            writer.writerow([row["email"], statuses.get(row["email"].strip().lower(), "invalid")])


def main() -> None:
    """naive_deep.py IN OUT DNS_HOST:PORT SMTP_PORT CONCURRENCY PER_HOST."""
    source, out, server = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    port, concurrency, per_host = (int(value) for value in sys.argv[4:7])
    uvloop.run(run(source, out, Prober(server, port, concurrency, per_host)))


if __name__ == "__main__":
    main()
