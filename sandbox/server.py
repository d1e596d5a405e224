"""The sandbox in a process: a world, its DNS server and its mail servers."""

from __future__ import annotations

import time
from typing import Self

from mailsift.sandbox.counters import Counters
from mailsift.sandbox.delivery import Deliveries
from mailsift.sandbox.dns_server import DnsServer
from mailsift.sandbox.smtp_commands import SmtpContext
from mailsift.sandbox.smtp_replies import RecipientReplies
from mailsift.sandbox.smtp_server import SmtpServer, server_context
from mailsift.sandbox.world import SandboxConfig, SandboxWorld
from mailsift.sandbox.zone import SandboxZone


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
        context = SmtpContext(
            config=config,
            recipient_replies=RecipientReplies(self.world, config, time.monotonic, self.counters),
            counters=self.counters,
            hosts=self.world.by_address,
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
