"""A sandbox in the test's own loop, quick where real time is at stake, and a raw SMTP client for it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from mailsift.sandbox.server import Sandbox
from mailsift.sandbox.world import SandboxConfig, WorldMix

PATIENCE = 10.0


@dataclass
class Talk:
    """One raw SMTP connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def reply(self) -> tuple[int, str]:
        """Read one reply: code and text; (0, "") when the connection has ended."""
        lines = []
        while True:
            line = await asyncio.wait_for(self.reader.readline(), PATIENCE)
            if not line.endswith(b"\n"):
                return 0, ""
            lines.append(line.decode().rstrip("\r\n"))
            if lines[-1][3:4] != "-":
                return int(lines[-1][:3]), "\n".join(lines)

    def send(self, *commands: str) -> None:
        """Send commands in one go."""
        self.writer.write("".join(f"{command}\r\n" for command in commands).encode())

    async def say(self, command: str) -> tuple[int, str]:
        """Send one command and read its reply."""
        self.send(command)
        return await self.reply()

    async def open_mail(self, *, parameters: str = "") -> None:
        """Read the banner and go up to an accepted MAIL FROM."""
        assert (await self.reply())[0] == 220
        assert (await self.say("EHLO probe.sandbox.test"))[0] == 250
        assert (await self.say(f"MAIL FROM:<>{parameters}"))[0] == 250

    async def rcpt(self, address: str) -> tuple[int, str]:
        """Ask about one recipient."""
        return await self.say(f"RCPT TO:<{address}>")

    async def start_tls(self) -> None:
        """Shake hands; the certificate is the sandbox's own."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        await self.writer.start_tls(context)

    async def close(self) -> None:
        """End the connection, whatever state it is in."""
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            return


Dial = Callable[[str], Awaitable[Talk]]


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    config = SandboxConfig(
        domains=200, mix=WorldMix.HOSTILE, greylist=0.4, tarpit=0.15, drip=0.02, slow_dns=0.3
    )
    async with Sandbox(config) as running:
        yield running


@pytest.fixture
async def dial(sandbox: Sandbox) -> AsyncIterator[Dial]:
    """Connects to the mail server of a scenario, or of a host name with a dot in it."""
    talks: list[Talk] = []

    async def connect(scenario: str) -> Talk:
        name = scenario if "." in scenario else f"mx.{scenario}-host.test"
        address = sandbox.world.hosts[name].address
        reader, writer = await asyncio.open_connection(address, sandbox.smtp_port)
        talks.append(Talk(reader, writer))
        return talks[-1]

    yield connect
    for talk in talks:
        await talk.close()
