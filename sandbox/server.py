"""The sandbox in a process: a world, its DNS server and its mail servers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Self

from sandbox.counters import Counters
from sandbox.dns_server import DnsServer
from sandbox.mailroom import Mailroom
from sandbox.smtp_commands import Office
from sandbox.smtp_server import SmtpServer
from sandbox.tls import server_context
from sandbox.world import Mix, World
from sandbox.zone import Zone


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """What a sandbox is like.

    Attributes:
        seed, domains, mix: make the world; `domains` counts the business domains.
        dns_port, smtp_port: 0 picks a free one.
        latency: seconds between an SMTP command and its reply, a round trip.
        greylist: seconds that greylisting servers put a first contact off.
        tarpit: seconds that each reply of a tarpit takes.
        drip: seconds that each byte of a dripping server takes.
        slow_dns: seconds that slow DNS answers take.
    """

    seed: int = 1
    domains: int = 1_000
    mix: Mix = Mix.PLAIN
    dns_port: int = 0
    smtp_port: int = 0
    latency: float = 0.0
    greylist: float = 2.0
    tarpit: float = 2.0
    drip: float = 1.0
    slow_dns: float = 1.0


class Sandbox:
    """A mail internet in a box; an async context manager.

    Attributes:
        world: knows the truth about every address.
        counters: what the servers saw.
    """

    def __init__(self, config: SandboxConfig | None = None) -> None:
        self.config = config = config or SandboxConfig()
        self.world = World(seed=config.seed, domains=config.domains, mix=config.mix)
        self.counters = Counters(time.monotonic)
        self._dns = DnsServer(Zone(self.world, slow=config.slow_dns), self.counters)
        mailroom = Mailroom(self.world, greylist=config.greylist, now=time.monotonic)
        office = Office(
            mailroom=mailroom,
            counters=self.counters,
            hosts=self.world.by_address,
            latency=config.latency,
            tarpit=config.tarpit,
            drip=config.drip,
            tls=server_context(),
            dropped=set(),
        )
        self._smtp = SmtpServer(office)

    @property
    def dns_port(self) -> int:
        """The DNS port on 127.0.0.1, UDP and TCP."""
        return self._dns.port

    @property
    def smtp_port(self) -> int:
        """The SMTP port of every mail server."""
        return self._smtp.port

    @property
    def env(self) -> dict[str, str]:
        """The environment that points Mailsift here."""
        return {
            "MAILSIFT_DNS_SERVERS": f"127.0.0.1:{self.dns_port}",
            "MAILSIFT_SMTP_PORT": str(self.smtp_port),
            "MAILSIFT_ALLOW_NON_PUBLIC": "true",
        }

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: a port is taken.
        """
        await self._dns.start(self.config.dns_port)
        try:
            await self._smtp.start(self.config.smtp_port)
        except OSError:
            await self._dns.stop()
            raise

    async def stop(self) -> None:
        """Stop listening and cut all connections."""
        await self._smtp.stop()
        await self._dns.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
