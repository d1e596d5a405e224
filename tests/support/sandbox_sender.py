"""Sends a message to every address of a list, over SMTP, and keeps what a mail sender would tell of it."""

from __future__ import annotations

import asyncio
import json
import smtplib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
_MESSAGE: Final = "From: {sender}\r\nTo: {to}\r\nSubject: News\r\n\r\nNews.\r\n"
_NO_DOMAIN: Final = "Host or domain name not found"
_NO_ANSWER: Final = "451 4.4.1 connection timed out"
_NO_UTF8: Final = "553 5.6.7 SMTPUTF8 is required, and not offered"


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
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            sent = pool.map(self._deliver, by_domain, by_domain.values())
            found = await asyncio.to_thread(list, sent)
        replies = {address: reply for some in found for address, reply in some.items()}
        return [
            address
            for address in addresses
            if self._note(campaign, address, replies.get(address, _NO_ANSWER), last=last)
        ]

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

    def _deliver(self, name: str, addresses: Sequence[str]) -> dict[str, str]:
        """Return the last reply to each message; those without one got none."""
        domain = self._world.find(name)
        if domain is None or not domain.exchangers:
            return dict.fromkeys(addresses, _NO_DOMAIN)
        replies: dict[str, str] = {}
        for _, host in domain.exchangers:
            left = [address for address in addresses if address not in replies]
            server = self._world.hosts.get(self._world.aliases.get(host, host))
            if left and server is not None:
                with suppress(OSError):  # smtplib.SMTPException is one
                    self._talk(server.address, left, replies)
        return replies

    def _talk(self, server: str, addresses: Sequence[str], replies: dict[str, str]) -> None:
        with smtplib.SMTP(local_hostname="sender.test", timeout=_PATIENCE) as smtp:
            greeting = smtp.connect(server, self._port)
            if greeting[0] != 220:
                replies.update(dict.fromkeys(addresses, _in_one_line(*greeting)))
                return
            smtp.ehlo_or_helo_if_needed()
            for address in addresses:
                replies[address] = _send_one(smtp, address)


def _send_one(smtp: smtplib.SMTP, address: str) -> str:
    """Return the reply that decided about one message."""
    reply: tuple[int, bytes | str]
    try:
        reply = smtp.mail(SENDER, () if address.isascii() else ("SMTPUTF8",))
        if reply[0] == 250:
            reply = smtp.rcpt(address)
        if reply[0] == 250:
            reply = smtp.data(_MESSAGE.format(sender=SENDER, to=address).encode())
    except smtplib.SMTPNotSupportedError:
        return _NO_UTF8
    except smtplib.SMTPDataError as error:  # DATA itself was refused
        reply = error.smtp_code, error.smtp_error
    if reply[0] != 250:
        smtp.rset()
    return _in_one_line(*reply)


def _in_one_line(code: int, text: bytes | str) -> str:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return f"{code} {' '.join(words.split())}"
