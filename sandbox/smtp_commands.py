"""The SMTP commands a sandbox server understands: state and replies, no input or output (RFC 5321)."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from mailsift.sandbox import smtp_replies
from mailsift.sandbox.behaviours import HostileReply, MailHost, Starttls
from mailsift.sandbox.counters import Counters
from mailsift.sandbox.delivery import Deliveries
from mailsift.sandbox.smtp_replies import WORDINGS, RcptCommand, RecipientReplies
from mailsift.sandbox.world import SandboxConfig

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_PATH = re.compile(r"\w+ (?:FROM|TO):\s*<([^<>]*)>((?: [^<>]*)?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SmtpContext:
    """What all sessions share.

    Attributes:
        hosts: servers by address.
        tls: the certificate's context.
        dropped: addresses of the servers whose first session has been dropped.
        deliveries: takes messages.
    """

    config: SandboxConfig
    recipient_replies: RecipientReplies
    counters: Counters
    hosts: dict[str, MailHost]
    tls: ssl.SSLContext
    dropped: set[str]
    deliveries: Deliveries


class AfterReply(StrEnum):
    """What follows a reply."""

    GO_ON = "go_on"
    CLOSE = "close"
    TLS = "tls"  # the handshake
    FLOOD = "flood"  # a reply without an end


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """A reply: lines with their codes, without line ends ("" = none), and what follows."""

    text: str = ""
    then: AfterReply = AfterReply.GO_ON


_UNKNOWN = ScriptedReply("502 5.5.2 Error: command not recognized")
_OK = ScriptedReply("250 2.0.0 Ok")


class SmtpDialogue:
    """What has been said in one session."""

    def __init__(self, context: SmtpContext, host: MailHost, client: str) -> None:
        self._context, self._host, self._client = context, host, client
        self._policy, self._words = host.policy, WORDINGS[host.policy.mta]
        self._secure = False
        self._greeted = ""
        self._sender: str | None = None
        self._utf8 = False
        self._recipients = 0
        self._accepted: list[RcptCommand] = []
        self._in_message = False

    def banner(self) -> str:
        """Return the greeting."""
        return self.fill("220 " + self._words.banner)

    def fill(self, text: str) -> str:
        """Fill in the placeholders of a wording."""
        return self._context.recipient_replies.fill(text, self._host, self._client)

    def execute(self, line: bytes) -> ScriptedReply:
        """Carry out one command line, or take one of a message, its line feed cut off."""
        if self._in_message:
            return self._end_message() if line == b".\r" else ScriptedReply()
        if line[-1:] != b"\r" or _CONTROL.search(line, 0, len(line) - 1):
            self._context.counters.events["control_bytes"] += 1
        text = line.rstrip(b"\r").decode("utf-8", "replace")
        command = self._COMMANDS.get(text.partition(" ")[0].upper())
        return command(self, text) if command else _UNKNOWN

    def secured(self) -> None:
        """Start over after a TLS handshake (RFC 3207 section 4.2)."""
        self._secure, self._greeted = True, ""
        self._rset()

    def _helo(self, _text: str) -> ScriptedReply:
        if self._policy.refuses == "ehlo":
            return ScriptedReply(smtp_replies.REFUSED_EHLO)
        self._greeted = "HELO"
        self._rset()
        return ScriptedReply("250 " + self.fill(self._words.hello))

    def _ehlo(self, text: str) -> ScriptedReply:
        if not self._policy.esmtp:
            return _UNKNOWN
        hello = self._helo(text)
        if not self._greeted:
            return hello
        self._greeted = "EHLO"
        if self._policy.reply is HostileReply.ENDLESS:
            return ScriptedReply("250-" + hello.text[4:], AfterReply.FLOOD)
        offers = [hello.text[4:], *self._extensions()]
        return ScriptedReply("\n".join([*(f"250-{offer}" for offer in offers), "250 8BITMIME"]))

    def _extensions(self) -> list[str]:
        policy = self._policy
        offered = {
            "SIZE 52428800": True,
            "PIPELINING": policy.pipelining,
            "STARTTLS": self._has_tls(),
            "SMTPUTF8": policy.smtputf8,
            "ENHANCEDSTATUSCODES": True,
        }
        return [name for name, yes in offered.items() if yes]

    def _has_tls(self) -> bool:
        return self._policy.tls is not Starttls.NONE and not self._secure

    def _starttls(self, _text: str) -> ScriptedReply:
        if not self._has_tls():
            return _UNKNOWN
        if self._policy.tls is Starttls.BROKEN:
            return ScriptedReply(smtp_replies.TLS_BROKEN)
        return ScriptedReply("220 2.0.0 Ready to start TLS", AfterReply.TLS)

    def _mail(self, text: str) -> ScriptedReply:
        path = _PATH.fullmatch(text)
        utf8 = path is not None and "SMTPUTF8" in path[2].upper().split()
        refusal = self._mail_refusal(utf8=utf8)
        if refusal or path is None:
            return ScriptedReply(refusal or "501 5.5.4 Syntax: MAIL FROM:<address>")
        if self._drops("mail"):
            return ScriptedReply(then=AfterReply.CLOSE)
        self._sender, self._utf8, self._recipients = path[1], utf8, 0
        return ScriptedReply(self.fill(self._words.mail))

    def _mail_refusal(self, *, utf8: bool) -> str:
        """Return the reply to MAIL when this server does not take it now, else ""."""
        policy = self._policy
        unknown_option = utf8 and not (policy.smtputf8 and self._greeted == "EHLO")
        reasons = (
            (not self._greeted, "503 5.5.1 Error: send HELO/EHLO first"),
            (self._sender is not None, "503 5.5.1 Error: nested MAIL command"),
            (policy.tls is Starttls.REQUIRED and self._has_tls(), smtp_replies.TLS_FIRST),
            (policy.refuses == "mail", smtp_replies.REFUSED_MAIL),
            (unknown_option, "555 5.5.4 Unsupported option: SMTPUTF8"),
        )
        return next((text for applies, text in reasons if applies), "")

    def _rcpt(self, text: str) -> ScriptedReply:
        rate = self._context.counters.rcpt(self._host.label)
        path = _PATH.fullmatch(text)
        if self._sender is None:
            return ScriptedReply("503 5.5.1 Error: need MAIL command")
        if path is None or "@" not in path[1]:
            return ScriptedReply("501 5.5.4 Syntax: RCPT TO:<address>")
        if self._drops("rcpt"):
            return ScriptedReply(then=AfterReply.CLOSE)
        limited = self._limit(rate)
        if limited:
            return limited
        if not path[1].isascii() and not self._utf8:
            return ScriptedReply(smtp_replies.UTF8_NOT_OFFERED)
        local, _, domain = path[1].lower().rpartition("@")
        recipient = RcptCommand(self._host, self._client, self._sender, local, domain)
        reply = self._context.recipient_replies.rcpt(recipient)
        if reply.startswith("250"):
            self._accepted.append(recipient)
        return ScriptedReply(reply)

    def _limit(self, rate: int) -> ScriptedReply | None:
        """Return the refusal when this server's limits are passed."""
        self._recipients += 1
        if 0 < self._policy.recipients < self._recipients:
            if self._policy.goodbye:
                return ScriptedReply(self.fill(smtp_replies.GOODBYE), AfterReply.CLOSE)
            return ScriptedReply(smtp_replies.TOO_MANY_RECIPIENTS)
        replies = self._context.recipient_replies
        if self._policy.per_minute and replies.is_over_the_minute(self._host, self._client):
            return ScriptedReply(smtp_replies.TOO_MANY_A_MINUTE)
        return ScriptedReply(self.fill(smtp_replies.TOO_FAST)) if 0 < self._policy.rate < rate else None

    def _drops(self, command: str) -> bool:
        """Say whether this server drops the connection at this command."""
        first = self._host.address not in self._context.dropped
        if self._policy.drops != command or (self._policy.drops_once and not first):
            return False
        self._context.dropped.add(self._host.address)
        return True

    def _bdat(self, _text: str) -> ScriptedReply:
        self._context.counters.events["data"] += 1
        return ScriptedReply("503 5.5.1 Error: CHUNKING is not offered")

    def _data(self, _text: str) -> ScriptedReply:
        self._context.counters.events["data"] += 1
        if not self._accepted:
            return ScriptedReply("554 5.5.1 Error: no valid recipients")
        self._in_message = True
        return ScriptedReply("354 End data with <CR><LF>.<CR><LF>")

    def _end_message(self) -> ScriptedReply:
        """Take the message for all recipients; the last reply stands for all."""
        replies = [self._context.deliveries.take(recipient) for recipient in self._accepted]
        self._rset()
        return ScriptedReply(replies[-1])

    def _rset(self, _text: str = "") -> ScriptedReply:
        self._sender, self._utf8, self._recipients = None, False, 0
        self._accepted, self._in_message = [], False
        return _OK

    def _noop(self, _text: str) -> ScriptedReply:
        return _OK

    def _vrfy(self, _text: str) -> ScriptedReply:
        return ScriptedReply("252 2.0.0 Try RCPT to attempt delivery")

    def _quit(self, _text: str) -> ScriptedReply:
        return ScriptedReply(self.fill(self._words.bye), AfterReply.CLOSE)

    _COMMANDS: ClassVar[dict[str, Callable[[SmtpDialogue, str], ScriptedReply]]] = {
        "HELO": _helo,
        "EHLO": _ehlo,
        "STARTTLS": _starttls,
        "MAIL": _mail,
        "RCPT": _rcpt,
        "DATA": _data,
        "BDAT": _bdat,
        "RSET": _rset,
        "NOOP": _noop,
        "VRFY": _vrfy,
        "QUIT": _quit,
    }
