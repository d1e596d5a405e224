"""Decides what RCPT is answered with, and remembers what greylisting must remember."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from sandbox import wordings
from sandbox.habits import Host, Policy
from sandbox.people import Mailbox
from sandbox.wordings import WORDINGS
from sandbox.world import Domain, World

_REMEMBERED = 200_000  # greylisted triplets kept; the oldest go first

# Policies that answer every recipient alike.
_ALIKE = {
    Policy.BLANKET: wordings.BLANKET,
    Policy.STAMPED: wordings.STAMPED,
    Policy.BLOCK: wordings.BLOCKED_RCPT,
    Policy.POLICY: wordings.NO_REVERSE_NAME,
    Policy.TEMPORARY: wordings.TEMPORARY,
    Policy.UNCLEAR: wordings.UNCLEAR,
}
_GREYLISTS = {
    Policy.GREYLIST: wordings.GREYLIST,
    Policy.GREYLIST_NAMED: wordings.GREYLIST_NAMED,
    Policy.GREYLIST_VAGUE: wordings.GREYLIST_VAGUE,
}


@dataclass(frozen=True, slots=True)
class Recipient:
    """One RCPT command.

    Attributes:
        host: the server that was asked.
        client: the asker's IP.
        sender: the address in MAIL FROM, "" for the null sender.
        local, domain: the address in lower case.
    """

    host: Host
    client: str
    sender: str
    local: str
    domain: str

    @property
    def address(self) -> str:
        """The address as one text."""
        return f"{self.local}@{self.domain}"


class Mailroom:
    """Answers RCPT for all servers of a world.

    Args:
        greylist: seconds that a first contact is put off.
        now: monotonic seconds.
    """

    def __init__(self, world: World, *, greylist: float, now: Callable[[], float]) -> None:
        self._world, self._greylist, self._now = world, greylist, now
        self._seen: dict[tuple[str, str, str], float] = {}
        self._tokens = random.Random(world.seed)

    def rcpt(self, recipient: Recipient) -> str:
        """Return the reply to RCPT: lines with their codes, without line ends."""
        domain = self._world.find(recipient.domain)
        if domain is None or domain.label != recipient.host.label:
            return self.fill(wordings.RELAY, recipient.host, recipient.client, recipient.address)
        text = _ALIKE.get(domain.policy) or self._by_mailbox(domain, recipient)
        return self.fill(text, recipient.host, recipient.client, recipient.address)

    def fill(self, text: str, host: Host, client: str, address: str = "") -> str:
        """Fill in the placeholders of a wording."""
        if "{" not in text:
            return text
        return text.format(
            host=host.name,
            client=client,
            address=address,
            token=f"{self._tokens.getrandbits(56):014X}",
            seconds=math.ceil(self._greylist),
            stamp=f"2026-11-21T09:12:{self._now() % 60:06.3f}Z",
        )

    def _by_mailbox(self, domain: Domain, recipient: Recipient) -> str:
        wording = WORDINGS[recipient.host.habits.mta]
        if domain.policy is Policy.ACCEPT:
            return wording.rcpt
        if domain.policy in _GREYLISTS and self._is_early(recipient):
            return _GREYLISTS[domain.policy]
        fate = self._world.mailbox(recipient.local, recipient.domain)
        return wording.rcpt if fate is Mailbox.EXISTS else wording.of(fate)

    def _is_early(self, recipient: Recipient) -> bool:
        """Say whether client, sender and recipient met too short a time ago, as postgrey does."""
        key = (recipient.client, recipient.sender, recipient.address)
        if key not in self._seen and len(self._seen) >= _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        now = self._now()
        return now - self._seen.setdefault(key, now) < self._greylist
