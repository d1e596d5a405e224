"""The sandbox in a process: a world, its DNS server and its mail servers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Self

from mailsift.sandbox.counters import Counters
from mailsift.sandbox.delivery import Deliveries
from mailsift.sandbox.dns_server import DnsServer
from mailsift.sandbox.smtp_commands import SmtpContext
from mailsift.sandbox.smtp_replies import RecipientReplies
from mailsift.sandbox.smtp_server import SmtpServer, server_context
from mailsift.sandbox.world import SandboxWorld, WorldMix
from mailsift.sandbox.zone import SandboxZone


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """What a sandbox is like.

    Attributes:
        seed, domains, mix: make the world; `domains` counts the business domains.
        dns_port, smtp_port: 0 picks a free one.
        latency: seconds between an SMTP command and its reply, a round trip.
        greylist: seconds that greylisting servers put a first contact off.
        harvest: seconds that a defence against harvesting knows nobody.
        minute: seconds that a limit a minute counts over, and that a directory is away.
        tarpit: seconds that each reply of a tarpit takes.
        drip: seconds that each byte of a dripping server takes.
        slow_dns: seconds that slow DNS answers take.
    """

    seed: int = 1
    domains: int = 1_000
    mix: WorldMix = WorldMix.PLAIN
    dns_port: int = 0
    smtp_port: int = 0
    latency: float = 0.0
    greylist: float = 2.0
    harvest: float = 2.0
    minute: float = 2.0
    tarpit: float = 2.0
    drip: float = 1.0
    slow_dns: float = 1.0


class Sandbox:
    """A mail internet in a box; an async context manager.

    Attributes:
        world: knows the truth about every address.
        deliveries: takes messages, and has the reports that go back.
    """

    def __init__(self, config: SandboxConfig | None = None) -> None:
        self.config = config = config or SandboxConfig()
        self.world = SandboxWorld(seed=config.seed, domains=config.domains, mix=config.mix)
        self.counters = Counters(time.monotonic)
        self.deliveries = Deliveries(self.world, time.time)  # noqa: TID251 - a world has its own clock
        self._dns = DnsServer(SandboxZone(self.world, slow=config.slow_dns), self.counters)
        recipient_replies = RecipientReplies(
            self.world,
            greylist=config.greylist,
            harvest=config.harvest,
            minute=config.minute,
            now=time.monotonic,
            counters=self.counters,
        )
        context = SmtpContext(
            recipient_replies=recipient_replies,
            counters=self.counters,
            hosts=self.world.by_address,
            latency=config.latency,
            tarpit=config.tarpit,
            drip=config.drip,
            tls=server_context(),
            dropped=set(),
            deliveries=self.deliveries,
        )
        self._smtp = SmtpServer(context)

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

    async def hide(self) -> None:
        """Let all mail servers vanish, as when a network fails; DNS goes on."""
        await self._smtp.stop()

    async def show(self) -> None:
        """Let them come back, at the same port.

        Raises:
            OSError: the port has been taken.
        """
        await self._smtp.stop()
        await self._smtp.start(self._smtp.port)

    async def stop(self) -> None:
        """Stop listening and cut all connections."""
        await self._smtp.stop()
        await self._dns.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
