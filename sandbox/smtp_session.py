"""One SMTP session of the sandbox, with all its habits (RFC 5321, 2920, 3207, 6531)."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass
from os import dup

from typing_extensions import override

from sandbox import wordings
from sandbox.counters import Counters
from sandbox.delay import DelayLine
from sandbox.habits import Door, Host, Pace, Tls, Trick
from sandbox.mailroom import Mailroom, Recipient
from sandbox.wordings import WORDINGS

_LONGEST = 4096  # octets without a line end that are waited for
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_PATH = re.compile(r"\w+ (?:FROM|TO):\s*<([^<>]*)>((?: [^<>]*)?)", re.IGNORECASE)
_MORE = 1 << 18  # octets of an endless reply in flight
_FLOOD = 1 << 26  # octets after which even an endless reply ends


@dataclass(frozen=True, slots=True)
class Office:
    """What all sessions share.

    Attributes:
        latency: seconds of a round trip.
        tarpit: seconds a reply of Pace.TARPIT takes.
        drip: seconds a byte of Pace.DRIP takes.
        tls: the certificate's context, None when none could be made.
        dropped: addresses of the servers whose first session has been dropped.
    """

    mailroom: Mailroom
    counters: Counters
    hosts: dict[str, Host]
    latency: float
    tarpit: float
    drip: float
    tls: ssl.SSLContext | None
    dropped: set[str]


class SmtpSession(asyncio.Protocol):
    """Talks to one client as the server whose address it has dialled."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self._deaf = False
        self._greeted = ""
        self._sender: str | None = None
        self._utf8 = False
        self._secure = False
        self._recipients = 0

    # -- the connection

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - narrows the type: TCP gives nothing else
        self._transport = transport
        self._client = str(transport.get_extra_info("peername")[0])
        self._line = DelayLine(self._loop, self._office.latency, self._write)
        host = self._office.hosts.get(transport.get_extra_info("sockname")[0])
        self._host = host
        if host is None:
            transport.abort()
            return
        self.habits = host.habits
        self._words = WORDINGS[host.habits.mta]
        self._office.counters.connected(host.address, host.label)
        self._open_door(host)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._deaf = True
        self._line.clear()
        if self._host:
            self._office.counters.disconnected(self._host.address, self._host.label)

    def _open_door(self, host: Host) -> None:
        door = self.habits.door
        crowded = 0 < self.habits.connections < self._office.counters.open_by_host[host.address]
        if door is Door.RESET:
            self._turn_away()
            self._reset()
        elif door is Door.BUSY or crowded:
            self._turn_away(wordings.TOO_MANY_CONNECTIONS if crowded else wordings.BUSY_BANNER)
        elif door is Door.BLOCKED:
            self._turn_away(wordings.BLOCKED_BANNER)
        elif self.habits.trick is Trick.GIANT:
            self._flood(b"220 ", b"A" * 4096)
        elif self.habits.trick is Trick.CONTROL:
            self._line.put(b"220 " + host.name.encode() + b"\x1b[31m\x00\x07 ESMTP\r250 forged\x0b\r\n")
        elif door is Door.OPEN:
            self._say(self._fill("220 " + self._words.banner))

    def _turn_away(self, text: str = "") -> None:
        self._office.counters.events["turned_away"] += 1
        if text:
            self._say(self._fill(text), last=True)

    def _reset(self) -> None:
        """Close with RST: no time to linger (the option belongs to the socket, not to the descriptor)."""
        with socket.socket(fileno=dup(self._transport.get_extra_info("socket").fileno())) as twin:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._deaf = True
        self._transport.abort()

    # -- replies

    def _write(self, data: bytes) -> None:
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def _say(self, text: str, *, last: bool = False, then: Callable[[], None] | None = None) -> None:
        """Send replies, each at its pace; `last` ends the session after them."""
        data = text.replace("\n", "\r\n").encode() + b"\r\n"
        if last:
            self._deaf, then = True, self._transport.close
        if self.habits.pace is Pace.DRIP:
            for byte in data:
                self._line.put(bytes([byte]), work=self._office.drip)
            data = b""
        self._line.put(data, work=self._office.tarpit if self.habits.pace is Pace.TARPIT else 0.0, then=then)

    def _fill(self, text: str) -> str:
        assert self._host is not None  # noqa: S101 - sessions without a host are aborted at once
        return self._office.mailroom.fill(text, self._host, self._client)

    def _flood(self, start: bytes, more: bytes, sent: int = 0) -> None:
        """Say something that has no end, as fast as the client takes it."""
        self._deaf = True
        if self._transport.is_closing() or sent > _FLOOD:
            self._transport.abort()
            return
        self._write(start)
        while self._transport.get_write_buffer_size() < _MORE and sent <= _FLOOD:
            self._write(more)
            sent += len(more)
            if not self._transport.get_write_buffer_size():
                break
        self._loop.call_later(0.01, self._flood, b"", more, sent)

    # -- commands

    @override
    def data_received(self, data: bytes) -> None:
        if self._deaf or self.habits.door is not Door.OPEN:
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if len(self._buffer) > _LONGEST:
            self._say("500 5.5.6 Line too long", last=True)
            return
        if len(lines) > 1:
            self._office.counters.events["pipelined"] += 1
            if not self.habits.pipelining:  # what came too early is thrown away (RFC 2920 section 3.1 warns)
                lines, self._buffer = lines[:1], b""
        replies: list[str] = []
        for line in lines:
            reply = self._obey(line)
            if self.habits.pace is Pace.PROMPT and not self._deaf:
                replies.append(reply)
            elif reply:
                self._flush(replies)
                self._say(reply, last=self._deaf)
            if self._deaf:
                break
        self._flush(replies)

    def _flush(self, replies: list[str]) -> None:
        said = [reply for reply in replies if reply]
        replies.clear()
        if said:
            self._say("\n".join(said))

    def _obey(self, line: bytes) -> str:
        """Carry out one command and return its reply; "" when there is none or it has been sent."""
        if line[-1:] != b"\r" or _CONTROL.search(line, 0, len(line) - 1):
            self._office.counters.events["control_bytes"] += 1
        text = line.rstrip(b"\r").decode("utf-8", "surrogateescape")
        command = _COMMANDS.get(text.partition(" ")[0].upper())
        return command(self, text) if command else "502 5.5.2 Error: command not recognized"

    def _helo(self, _text: str) -> str:
        if self.habits.refuses == "ehlo":
            return wordings.REFUSED_EHLO
        self._greeted = "HELO"
        self._rset()
        return f"250 {self._fill(self._words.hello)}"

    def _ehlo(self, text: str) -> str:
        if not self.habits.esmtp:
            return "502 5.5.2 Error: command not recognized"
        reply = self._helo(text)
        if reply[0] != "2":
            return reply
        self._greeted = "EHLO"
        if self.habits.trick is Trick.ENDLESS:
            self._flood(b"", b"250-and another thing\r\n" * 64)
            return ""
        offers = [reply[4:], *self._extensions()]
        return "\n".join([*(f"250-{offer}" for offer in offers), "250 8BITMIME"])

    def _extensions(self) -> list[str]:
        habits = self.habits
        offered = {
            "SIZE 52428800": True,
            "PIPELINING": habits.pipelining,
            "STARTTLS": habits.tls is not Tls.NONE and self._office.tls is not None and not self._secure,
            "SMTPUTF8": habits.smtputf8,
            "ENHANCEDSTATUSCODES": True,
        }
        return [name for name, yes in offered.items() if yes]

    def _starttls(self, _text: str) -> str:
        if self.habits.tls is Tls.NONE or self._office.tls is None or self._secure:
            return "502 5.5.1 Error: command not implemented"
        if self.habits.tls is Tls.BROKEN:
            return wordings.TLS_BROKEN
        self._deaf = True  # what is buffered before the handshake is dropped (RFC 3207 section 6)
        self._transport.pause_reading()
        self._say("220 2.0.0 Ready to start TLS", then=self._shake_hands)
        return ""

    def _shake_hands(self) -> None:
        self._handshake = self._loop.create_task(self._upgrade())

    async def _upgrade(self) -> None:
        assert self._office.tls is not None  # noqa: S101 - STARTTLS is not offered without
        try:
            transport = await self._loop.start_tls(self._transport, self, self._office.tls, server_side=True)
        except (OSError, ssl.SSLError):
            self._transport.abort()
            return
        if transport is None:
            return
        self._office.counters.events["starttls"] += 1
        self._transport, self._secure, self._deaf = transport, True, False
        self._buffer, self._greeted = b"", ""
        self._rset()

    def _mail(self, text: str) -> str:
        path = _PATH.fullmatch(text)
        if not self._greeted or self._sender is not None:
            return "503 5.5.1 Error: send HELO/EHLO first" if not self._greeted else "503 5.5.1 Error: nested MAIL command"
        if path is None:
            return "501 5.5.4 Syntax: MAIL FROM:<address>"
        if self.habits.tls is Tls.REQUIRED and self._office.tls and not self._secure:
            return wordings.TLS_FIRST
        if self.habits.refuses == "mail":
            return wordings.REFUSED_MAIL
        parameters = path[2].upper().split()
        if "SMTPUTF8" in parameters and not (self.habits.smtputf8 and self._greeted == "EHLO"):
            return "555 5.5.4 Unsupported option: SMTPUTF8"
        if self._drops("mail"):
            return ""
        self._sender, self._utf8, self._recipients = path[1], "SMTPUTF8" in parameters, 0
        return self._fill(self._words.mail)

    def _rcpt(self, text: str) -> str:
        host = self._host
        assert host is not None  # noqa: S101 - sessions without a host are aborted at once
        rate = self._office.counters.rcpt(host.label)
        path = _PATH.fullmatch(text)
        if self._sender is None:
            return "503 5.5.1 Error: need MAIL command"
        if path is None or "@" not in path[1]:
            return "501 5.5.4 Syntax: RCPT TO:<address>"
        if self._drops("rcpt"):
            return ""
        limit = self._limit(rate)
        if limit:
            return limit
        if not path[1].isascii() and not self._utf8:
            return wordings.UTF8_NOT_OFFERED
        local, _, domain = path[1].lower().rpartition("@")
        return self._office.mailroom.rcpt(Recipient(host, self._client, self._sender, local, domain))

    def _limit(self, rate: int) -> str:
        """Return the refusal when a limit is passed, else ""."""
        habits = self.habits
        self._recipients += 1
        if habits.recipients and self._recipients > habits.recipients:
            if not habits.goodbye:
                return wordings.TOO_MANY_RECIPIENTS
            self._deaf = True
            return self._fill(wordings.GOODBYE)
        return self._fill(wordings.TOO_FAST) if 0 < habits.rate < rate else ""

    def _drops(self, command: str) -> bool:
        """Drop the connection when this server does so at this command."""
        if self.habits.drops != command or self._host is None:
            return False
        if self.habits.drops_once and self._host.address in self._office.dropped:
            return False
        self._office.dropped.add(self._host.address)
        self._deaf = True
        self._line.put(b"", then=self._transport.close)
        return True

    def _data(self, _text: str) -> str:
        self._office.counters.events["data"] += 1
        return "554 5.5.1 Error: no valid recipients"

    def _rset(self, _text: str = "") -> str:
        self._sender, self._utf8, self._recipients = None, False, 0
        return "250 2.0.0 Ok"

    def _noop(self, _text: str) -> str:
        return "250 2.0.0 Ok"

    def _vrfy(self, _text: str) -> str:
        return "252 2.0.0 Try RCPT to attempt delivery"

    def _quit(self, _text: str) -> str:
        self._deaf = True
        return self._fill(self._words.bye)


_COMMANDS: dict[str, Callable[[SmtpSession, str], str]] = {
    "HELO": SmtpSession._helo,
    "EHLO": SmtpSession._ehlo,
    "STARTTLS": SmtpSession._starttls,
    "MAIL": SmtpSession._mail,
    "RCPT": SmtpSession._rcpt,
    "DATA": SmtpSession._data,
    "BDAT": SmtpSession._data,
    "RSET": SmtpSession._rset,
    "NOOP": SmtpSession._noop,
    "VRFY": SmtpSession._vrfy,
    "QUIT": SmtpSession._quit,
}
