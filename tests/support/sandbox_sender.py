"""Sends a message to every address of a list, over SMTP, and keeps what a mail sender would tell of it."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from mailsift.sandbox.world import SandboxWorld

SENDER: Final = "news@sender.test"
_AT_ONCE: Final = 40  # domains
_PATIENCE: Final = 5.0  # seconds for a reply
_TRIES: Final = 3
_MESSAGE: Final = "From: {sender}\r\nTo: {to}\r\nSubject: News\r\n\r\nNews.\r\n."
_NO_DOMAIN: Final = "Host or domain name not found"
_NO_ANSWER: Final = "451 4.4.1 connection timed out"


class _HungUpError(Exception):
    """The server ended the session."""


@dataclass(slots=True)
class Campaign:
    """What became of the messages.

    Attributes:
        events: one row each, as senders' webhooks and exports have them: email, event, timestamp, response.
        delivered, bounced: the addresses whose message a server took, or refused for good.
    """

    events: list[dict[str, str]] = field(default_factory=list)
    delivered: set[str] = field(default_factory=set)
    bounced: set[str] = field(default_factory=set)

    def write(self, path: Path) -> None:
        """Write the events as JSON lines."""
        path.write_text("".join(json.dumps(event) + "\n" for event in self.events), encoding="utf-8")


class SandboxSender:
    """A mail sender in the sandbox's world.

    Args:
        world: the world the servers serve, to find their addresses.
        smtp_port: where they listen.
        now: seconds since the epoch.
        retry_s: seconds before what was put off is tried again.
    """

    def __init__(
        self, world: SandboxWorld, *, smtp_port: int, now: Callable[[], float], retry_s: float = 2.5
    ) -> None:
        self._world, self._port, self._now, self._retry_s = world, smtp_port, now, retry_s

    async def send(self, addresses: Iterable[str]) -> Campaign:
        """Send to each address (canonical: lower case, ASCII domain); what is put off is tried again."""
        campaign, left = Campaign(), sorted(set(addresses))
        for tries in range(_TRIES):
            if tries and left:
                await asyncio.sleep(self._retry_s)
            left = await self._try(left, campaign, last=tries == _TRIES - 1)
        return campaign

    async def _try(self, addresses: Sequence[str], campaign: Campaign, *, last: bool) -> list[str]:
        """Send once; returns what was put off."""
        by_domain: defaultdict[str, list[str]] = defaultdict(list)
        for address in addresses:
            by_domain[address.rpartition("@")[2]].append(address)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(domain: str, some: Sequence[str]) -> list[str]:
            async with slots:
                replies = await self._deliver(domain, some)
            return [
                address
                for address in some
                if self._note(campaign, address, replies.get(address, _NO_ANSWER), last=last)
            ]

        found = await asyncio.gather(*(one(domain, some) for domain, some in by_domain.items()))
        return [address for some in found for address in some]

    def _note(self, campaign: Campaign, address: str, reply: str, *, last: bool) -> bool:
        """Write down what became of a message; says whether it is to be tried again."""
        again = reply.startswith("4") and not last
        event = "delivered" if reply.startswith("2") else "deferred" if again else "bounced"
        at = datetime.fromtimestamp(self._now(), UTC).isoformat()
        campaign.events.append({"email": address, "event": event, "timestamp": at, "response": reply})
        if event == "delivered":
            campaign.delivered.add(address)
        if event == "bounced":
            campaign.bounced.add(address)
        return again

    async def _deliver(self, name: str, addresses: Sequence[str]) -> dict[str, str]:
        """Return the last reply to each message; those without one got none."""
        domain = self._world.find(name)
        if domain is None or not domain.exchangers:
            return dict.fromkeys(addresses, _NO_DOMAIN)
        replies: dict[str, str] = {}
        for _, host in domain.exchangers:
            left = [address for address in addresses if address not in replies]
            server = self._world.hosts.get(self._world.aliases.get(host, host))
            if left and server is not None:
                with suppress(OSError, TimeoutError, _HungUpError):
                    await self._talk(server.address, left, replies)
        return replies

    async def _talk(self, server: str, addresses: Sequence[str], replies: dict[str, str]) -> None:
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_connection(server, self._port)
        try:
            greeting = await _reply(reader)
            if not greeting.startswith("2"):
                replies.update(dict.fromkeys(addresses, greeting))
                return
            if not (await _ask(reader, writer, "EHLO sender.test")).startswith("2"):
                await _ask(reader, writer, "HELO sender.test")
            for address in addresses:
                replies[address] = await _send_one(reader, writer, address)
            await _ask(reader, writer, "QUIT")
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def _send_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> str:
    """Return the reply that decided about one message."""
    option = "" if address.isascii() else " SMTPUTF8"
    commands = (f"MAIL FROM:<{SENDER}>{option}", f"RCPT TO:<{address}>", "DATA")
    for command in commands:
        reply = await _ask(reader, writer, command)
        if reply[0] not in "23":
            await _ask(reader, writer, "RSET")
            return reply
    return await _ask(reader, writer, _MESSAGE.format(sender=SENDER, to=address))


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, command: str) -> str:
    writer.write(command.encode() + b"\r\n")
    return await _reply(reader)


async def _reply(reader: asyncio.StreamReader) -> str:
    """Return a reply, its lines joined.

    Raises:
        _HungUpError: there is none.
        TimeoutError: it did not come in time.
    """
    lines: list[str] = []
    async with asyncio.timeout(_PATIENCE):
        while True:
            line = (await reader.readline()).decode("utf-8", "replace").rstrip()
            if len(line) < 3:
                raise _HungUpError
            lines.append(line if not lines else line[4:])
            if line[3:4] != "-":
                return " ".join(lines)
