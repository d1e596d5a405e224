"""What a mail server of the sandbox can do: its habits towards clients and its policy towards recipients."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Door(StrEnum):
    """What happens to a connection."""

    OPEN = "open"
    RESET = "reset"  # the connection is reset before a banner
    REFUSED = "refused"  # the only address is ::1, where nobody listens
    BLACKHOLE = "blackhole"  # the connection is never established
    MUTE = "mute"  # established, but no banner ever comes
    BUSY = "busy"  # 421 instead of a banner
    BLOCKED = "blocked"  # 554 instead of a banner


class Pace(StrEnum):
    """How fast replies come."""

    PROMPT = "prompt"
    TARPIT = "tarpit"  # each reply takes seconds, one after the other
    DRIP = "drip"  # one byte a second


class Tls(StrEnum):
    """What STARTTLS does (RFC 3207)."""

    NONE = "none"
    OFFERED = "offered"
    REQUIRED = "required"  # MAIL is refused without
    BROKEN = "broken"  # offered, but refused with 454 when asked for


class Trick(StrEnum):
    """Hostile replies."""

    NONE = "none"
    ENDLESS = "endless"  # the reply to EHLO has no last line
    GIANT = "giant"  # the banner is a line without an end
    CONTROL = "control"  # control bytes and a forged line in the banner


class Policy(StrEnum):
    """What RCPT is answered with."""

    MAILBOXES = "mailboxes"  # known mailboxes only
    ACCEPT = "accept"  # every recipient
    BLANKET = "blanket"  # the same refusal to every recipient
    STAMPED = "stamped"  # the same, with a time stamp and a token in it
    GREYLIST = "greylist"  # the first contact is deferred
    GREYLIST_NAMED = "greylist_named"  # deferred, saying for how long
    GREYLIST_VAGUE = "greylist_vague"  # deferred in words that do not speak of greylisting
    BLOCK = "block"  # refused because of the client's address
    POLICY = "policy"  # refused because of the client's reverse name
    TEMPORARY = "temporary"  # 451 for ever
    UNCLEAR = "unclear"  # a permanent refusal that says nothing


@dataclass(frozen=True, slots=True)
class Habits:
    """How a mail server treats its clients.

    Attributes:
        mta: the family whose wordings it uses (sandbox.wordings).
        refuses: the command (ehlo, mail) that is refused permanently; HELO goes with EHLO.
        recipients: RCPT commands taken in one transaction, 0 = any number.
        goodbye: what comes after them is 421 and the end of the session, else 452 4.5.3.
        connections: sessions at a time, 0 = any number; one more is sent away with 421.
        rate: RCPT commands a second, 0 = any number; more are answered with 450.
        drops: the command (mail, rcpt) at which the connection is dropped.
        drops_once: only the first session is.
    """

    mta: str = "postfix"
    door: Door = Door.OPEN
    pace: Pace = Pace.PROMPT
    refuses: str = ""
    recipients: int = 0
    goodbye: bool = False
    connections: int = 0
    rate: int = 0
    drops: str = ""
    drops_once: bool = False
    pipelining: bool = True
    esmtp: bool = True
    smtputf8: bool = True
    tls: Tls = Tls.NONE
    trick: Trick = Trick.NONE


@dataclass(frozen=True, slots=True)
class Host:
    """One mail server: a name, its loopback address and what it is like.

    Attributes:
        name: ASCII host name; other names may share the address.
        address: IPv4 address in 127.0.0.0/8; ::1 for Door.REFUSED.
        label: the world's name for who runs it; the registrable domain of the name, or a provider's key.
    """

    name: str
    address: str
    label: str
    habits: Habits
