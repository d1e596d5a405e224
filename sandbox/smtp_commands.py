"""The SMTP commands a sandbox server understands: state and replies, no input or output (RFC 5321)."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from sandbox import wordings
from sandbox.counters import Counters
from sandbox.habits import Host, Tls, Trick
from sandbox.mailroom import Mailroom, Recipient
from sandbox.wordings import WORDINGS

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_PATH = re.compile(r"\w+ (?:FROM|TO):\s*<([^<>]*)>((?: [^<>]*)?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Office:
    """What all sessions share.

    Attributes:
        hosts: servers by address.
        latency: seconds of a round trip.
        tarpit: seconds a reply of Pace.TARPIT takes.
        drip: seconds a byte of Pace.DRIP takes.
        tls: the certificate's context.
        dropped: addresses of the servers whose first session has been dropped.
    """

    mailroom: Mailroom
    counters: Counters
    hosts: dict[str, Host]
    latency: float
    tarpit: float
    drip: float
    tls: ssl.SSLContext
    dropped: set[str]


class Then(StrEnum):
    """What follows a reply."""

    GO_ON = "go_on"
    CLOSE = "close"
    TLS = "tls"  # the handshake
    FLOOD = "flood"  # a reply without an end


@dataclass(frozen=True, slots=True)
class Turn:
    """A reply: lines with their codes, without line ends ("" = none), and what follows."""

    text: str = ""
    then: Then = Then.GO_ON


_UNKNOWN = Turn("502 5.5.2 Error: command not recognized")
_OK = Turn("250 2.0.0 Ok")


class Conversation:
    """What has been said in one session."""

    def __init__(self, office: Office, host: Host, client: str) -> None:
        self._office, self._host, self._client = office, host, client
        self._habits, self._words = host.habits, WORDINGS[host.habits.mta]
        self._secure = False
        self._greeted = ""
        self._sender: str | None = None
        self._utf8 = False
        self._recipients = 0

    def banner(self) -> str:
        """Return the greeting."""
        return self.fill("220 " + self._words.banner)

    def fill(self, text: str) -> str:
        """Fill in the placeholders of a wording."""
        return self._office.mailroom.fill(text, self._host, self._client)

    def obey(self, line: bytes) -> Turn:
        """Carry out one command line, its line feed cut off."""
        if line[-1:] != b"\r" or _CONTROL.search(line, 0, len(line) - 1):
            self._office.counters.events["control_bytes"] += 1
        text = line.rstrip(b"\r").decode("utf-8", "replace")
        command = self._COMMANDS.get(text.partition(" ")[0].upper())
        return command(self, text) if command else _UNKNOWN

    def secured(self) -> None:
        """Start over after a TLS handshake (RFC 3207 section 4.2)."""
        self._secure, self._greeted = True, ""
        self._rset()

    def _helo(self, _text: str) -> Turn:
        if self._habits.refuses == "ehlo":
            return Turn(wordings.REFUSED_EHLO)
        self._greeted = "HELO"
        self._rset()
        return Turn("250 " + self.fill(self._words.hello))

    def _ehlo(self, text: str) -> Turn:
        if not self._habits.esmtp:
            return _UNKNOWN
        hello = self._helo(text)
        if not self._greeted:
            return hello
        self._greeted = "EHLO"
        if self._habits.trick is Trick.ENDLESS:
            return Turn("250-" + hello.text[4:], Then.FLOOD)
        offers = [hello.text[4:], *self._extensions()]
        return Turn("\n".join([*(f"250-{offer}" for offer in offers), "250 8BITMIME"]))

    def _extensions(self) -> list[str]:
        habits = self._habits
        offered = {
            "SIZE 52428800": True,
            "PIPELINING": habits.pipelining,
            "STARTTLS": self._has_tls(),
            "SMTPUTF8": habits.smtputf8,
            "ENHANCEDSTATUSCODES": True,
        }
        return [name for name, yes in offered.items() if yes]

    def _has_tls(self) -> bool:
        return self._habits.tls is not Tls.NONE and not self._secure

    def _starttls(self, _text: str) -> Turn:
        if not self._has_tls():
            return _UNKNOWN
        if self._habits.tls is Tls.BROKEN:
            return Turn(wordings.TLS_BROKEN)
        return Turn("220 2.0.0 Ready to start TLS", Then.TLS)

    def _mail(self, text: str) -> Turn:
        path = _PATH.fullmatch(text)
        utf8 = path is not None and "SMTPUTF8" in path[2].upper().split()
        refusal = self._mail_refusal(utf8=utf8)
        if refusal or path is None:
            return Turn(refusal or "501 5.5.4 Syntax: MAIL FROM:<address>")
        if self._drops("mail"):
            return Turn(then=Then.CLOSE)
        self._sender, self._utf8, self._recipients = path[1], utf8, 0
        return Turn(self.fill(self._words.mail))

    def _mail_refusal(self, *, utf8: bool) -> str:
        """Return the reply to MAIL when this server does not take it now, else ""."""
        habits = self._habits
        unknown_option = utf8 and not (habits.smtputf8 and self._greeted == "EHLO")
        reasons = (
            (not self._greeted, "503 5.5.1 Error: send HELO/EHLO first"),
            (self._sender is not None, "503 5.5.1 Error: nested MAIL command"),
            (habits.tls is Tls.REQUIRED and self._has_tls(), wordings.TLS_FIRST),
            (habits.refuses == "mail", wordings.REFUSED_MAIL),
            (unknown_option, "555 5.5.4 Unsupported option: SMTPUTF8"),
        )
        return next((text for applies, text in reasons if applies), "")

    def _rcpt(self, text: str) -> Turn:
        rate = self._office.counters.rcpt(self._host.label)
        path = _PATH.fullmatch(text)
        if self._sender is None:
            return Turn("503 5.5.1 Error: need MAIL command")
        if path is None or "@" not in path[1]:
            return Turn("501 5.5.4 Syntax: RCPT TO:<address>")
        if self._drops("rcpt"):
            return Turn(then=Then.CLOSE)
        limited = self._limit(rate)
        if limited:
            return limited
        if not path[1].isascii() and not self._utf8:
            return Turn(wordings.UTF8_NOT_OFFERED)
        local, _, domain = path[1].lower().rpartition("@")
        recipient = Recipient(self._host, self._client, self._sender, local, domain)
        return Turn(self._office.mailroom.rcpt(recipient))

    def _limit(self, rate: int) -> Turn | None:
        """Return the refusal when this server's limits are passed."""
        self._recipients += 1
        if 0 < self._habits.recipients < self._recipients:
            if self._habits.goodbye:
                return Turn(self.fill(wordings.GOODBYE), Then.CLOSE)
            return Turn(wordings.TOO_MANY_RECIPIENTS)
        return Turn(self.fill(wordings.TOO_FAST)) if 0 < self._habits.rate < rate else None

    def _drops(self, command: str) -> bool:
        """Say whether this server drops the connection at this command."""
        first = self._host.address not in self._office.dropped
        if self._habits.drops != command or (self._habits.drops_once and not first):
            return False
        self._office.dropped.add(self._host.address)
        return True

    def _data(self, _text: str) -> Turn:
        self._office.counters.events["data"] += 1
        return Turn("554 5.5.1 Error: no valid recipients")

    def _rset(self, _text: str = "") -> Turn:
        self._sender, self._utf8, self._recipients = None, False, 0
        return _OK

    def _noop(self, _text: str) -> Turn:
        return _OK

    def _vrfy(self, _text: str) -> Turn:
        return Turn("252 2.0.0 Try RCPT to attempt delivery")

    def _quit(self, _text: str) -> Turn:
        return Turn(self.fill(self._words.bye), Then.CLOSE)

    _COMMANDS: ClassVar[dict[str, Callable[[Conversation, str], Turn]]] = {
        "HELO": _helo,
        "EHLO": _ehlo,
        "STARTTLS": _starttls,
        "MAIL": _mail,
        "RCPT": _rcpt,
        "DATA": _data,
        "BDAT": _data,
        "RSET": _rset,
        "NOOP": _noop,
        "VRFY": _vrfy,
        "QUIT": _quit,
    }
