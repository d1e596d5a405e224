"""The mail servers of a world: one socket for 127.0.0.0/8, one certificate, and what a connection hears.

The commands (RFC 5321) are state and replies alone; what comes in and goes out is the session's.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import struct
import tempfile
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from os import dup
from pathlib import Path
from typing import ClassVar, Final, cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typing_extensions import override

from mailsift.sandbox import smtp_replies
from mailsift.sandbox.behaviours import HostileReply, MailHost, OnConnect, ReplyPace, Starttls
from mailsift.sandbox.counters import Counters
from mailsift.sandbox.delivery import Deliveries
from mailsift.sandbox.smtp_replies import WORDINGS, RcptCommand, RecipientReplies
from mailsift.sandbox.world import BLACKHOLE, SandboxConfig

# The sockets and the certificate of all servers.

_BACKLOG = 4096


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


class SmtpServer:
    """Serves every host of a world on one port.

    Attributes:
        port: the port in use, 0 before the start.
    """

    def __init__(self, context: SmtpContext) -> None:
        self.port = 0
        self._context = context
        self._servers: list[asyncio.Server] = []
        self._blackhole: list[socket.socket] = []
        self._sessions: set[_SmtpSession] = set()

    async def start(self, port: int) -> None:
        """Listen on a port, 0 picks a free one.

        Raises:
            OSError: the port is taken.
        """
        loop = asyncio.get_running_loop()
        sockets = _listeners(port, self._context.hosts)
        self.port = sockets[0].getsockname()[1]
        for listener in sockets:
            server = await loop.create_server(
                lambda: _SmtpSession(self._context, self._sessions), sock=listener, backlog=_BACKLOG
            )
            self._servers.append(server)
        self._blackhole = _dig(sockets[0], self.port)

    async def stop(self) -> None:
        """Stop listening and cut all connections."""
        for server in self._servers:
            server.close()
        for session in self._sessions:
            session.abort()
        for hole in self._blackhole:
            hole.close()
        self._servers.clear()
        self._blackhole.clear()


def _listeners(port: int, addresses: Iterable[str]) -> list[socket.socket]:
    """Return one socket for all of loopback, or one an address where that is not permitted."""
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
    except (OSError, AttributeError):
        listener.close()
        return _one_by_one(port, addresses)
    return [_bind(listener, "0.0.0.0", port)]  # noqa: S104 - the device keeps it on loopback


def _one_by_one(port: int, addresses: Iterable[str]) -> list[socket.socket]:
    listeners: list[socket.socket] = []
    for address in addresses:
        if address not in {BLACKHOLE, "::1"}:
            listeners.append(_bind(socket.socket(), address, port))
            port = listeners[0].getsockname()[1]
    return listeners


def _bind(listener: socket.socket, address: str, port: int) -> socket.socket:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError:
        listener.close()
        raise
    return listener


def _dig(listener: socket.socket, port: int) -> list[socket.socket]:
    """Return the sockets that keep connections to the black hole from being established.

    A listener of its own with room for one connection, and that one taken: the kernel drops every further
    SYN. The port is shared only while it binds, so that a second sandbox still finds the port taken.
    """
    hole, plug = socket.socket(), socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    hole.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    hole.bind((BLACKHOLE, port))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 0)
    hole.listen(0)
    plug.settimeout(0)
    with contextlib.suppress(BlockingIOError):
        plug.connect((BLACKHOLE, port))
    return [hole, plug]


_NAME: Final = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mx.sandbox.test")])
_SINCE, _UNTIL = datetime(2020, 1, 1, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)


def server_context() -> ssl.SSLContext:
    """Return a TLS context with a fresh self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    number = x509.random_serial_number()
    certificate = (
        x509.CertificateBuilder(_NAME, _NAME, key.public_key(), number, _SINCE, _UNTIL)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as both:  # the ssl module reads files only
        Path(both.name).write_bytes(secret + certificate)
        context.load_cert_chain(both.name)
    return context


# One session: bytes in and out, at the server's pace.

_LONGEST = 4096  # octets without a line end that are waited for
_IN_FLIGHT = 1 << 18  # octets of an endless reply that wait for the client
_FLOOD = 1 << 26  # octets after which even an endless reply ends


class _SmtpSession(asyncio.Protocol):
    """Talks to one client as the server whose address it has dialled.

    Args:
        sessions: where open sessions are kept, so that they can be aborted.
    """

    def __init__(self, context: SmtpContext, sessions: set[_SmtpSession]) -> None:
        self._context, self._sessions = context, sessions
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self._deaf = False  # hears nothing any more
        self._shaking = False  # hears, but acts only after the handshake

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = cast("asyncio.Transport", transport)  # TCP gives no other
        client = str(transport.get_extra_info("peername")[0])
        address = transport.get_extra_info("sockname")[0]
        self._sessions.add(self)
        self._host = host = self._context.hosts.get(address)
        if host is None:
            self._transport.abort()
            return
        self._policy = host.policy
        self._line = DelayLine(self._loop, self._context.config.latency, self._write)
        self._dialogue = _SmtpDialogue(self._context, host, client)
        self._context.counters.connected(host.address, host.label)
        self._accept_or_refuse(host)

    @override
    def connection_lost(self, _exc: Exception | None) -> None:
        self._deaf = True
        self._sessions.discard(self)
        if self._host:
            self._line.clear()
            self._context.counters.disconnected(self._host.address, self._host.label)

    @override
    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._shaking:  # the client's first command may come together with its last handshake message
            self._buffer += data
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if len(self._buffer) > _LONGEST:
            self._perform(_ScriptedReply("500 5.5.6 Line too long", _AfterReply.CLOSE))
            return
        if len(lines) > 1:
            self._context.counters.events["pipelined"] += 1
            if not self._policy.pipelining:  # flushes its input, as RFC 2920 section 3.1 fears
                lines, self._buffer = lines[:1], b""
        replies: list[str] = []
        for line in lines:
            reply = self._dialogue.execute(line)
            if reply.then is not _AfterReply.GO_ON:
                self._send_replies(replies)
                self._perform(reply)
                return
            replies += [reply.text] if reply.text else []
        self._send_replies(replies)

    def abort(self) -> None:
        """Cut the connection."""
        self._transport.abort()

    def _accept_or_refuse(self, host: MailHost) -> None:
        connection, limit = self._policy.on_connect, self._policy.connections
        refusal = smtp_replies.INSTEAD_OF_BANNER.get(connection, "")
        if 0 < limit < self._context.counters.open_by_host[host.address]:
            refusal = smtp_replies.TOO_MANY_CONNECTIONS
        if refusal or connection is OnConnect.RESET:
            self._context.counters.events["turned_away"] += 1
        if refusal:
            self._perform(_ScriptedReply(self._dialogue.fill(refusal), _AfterReply.CLOSE))
        elif connection is OnConnect.RESET:
            self._reset()
        elif connection is not OnConnect.OPEN:
            self._deaf = True
        else:
            self._greet(host)

    def _greet(self, host: MailHost) -> None:
        if self._policy.reply is HostileReply.GIANT:
            self._flood(b"220 ", b"A" * 4096)
        elif self._policy.reply is HostileReply.CONTROL:
            self._line.put(b"220 " + host.name.encode() + b"\x1b[31m\x00\x07 ESMTP\r250 forged\x0b\r\n")
        else:
            self._send_replies([self._dialogue.banner()])

    def _send_replies(self, replies: list[str], then: Callable[[], None] | None = None) -> None:
        """Send replies at this server's pace; `then` is called once they are written."""
        pace = self._policy.pace
        pieces = [reply.replace("\n", "\r\n").encode() + b"\r\n" for reply in replies]
        if pace is ReplyPace.PROMPT:
            pieces = [b"".join(pieces)]
        elif pace is ReplyPace.DRIP:
            pieces = [bytes([byte]) for piece in pieces for byte in piece]
        work = {
            ReplyPace.PROMPT: 0.0,
            ReplyPace.TARPIT: self._context.config.tarpit,
            ReplyPace.DRIP: self._context.config.drip,
        }[pace]
        for piece in pieces:
            if piece:
                self._line.put(piece, work=work)
        if then:
            self._line.put(b"", then=then)

    def _perform(self, reply: _ScriptedReply) -> None:
        """Say the last thing there is to say for now and do what follows it."""
        self._deaf = True
        replies = [reply.text] if reply.text else []
        if reply.then is _AfterReply.TLS:
            self._transport.pause_reading()
            self._send_replies(replies, self._shake_hands)
        elif reply.then is _AfterReply.FLOOD:
            self._send_replies(replies, lambda: self._flood(b"", b"250-and another thing\r\n" * 64))
        else:
            self._send_replies(replies, self._transport.close)

    def _shake_hands(self) -> None:
        self._buffer = b""  # what came before the handshake is dropped (RFC 3207 section 6)
        self._deaf, self._shaking = False, True
        self._handshake = self._loop.create_task(self._upgrade())

    async def _upgrade(self) -> None:
        try:
            transport = await self._loop.start_tls(self._transport, self, self._context.tls, server_side=True)
        except (OSError, ssl.SSLError):
            self._transport.abort()
            return
        if transport is not None:
            self._context.counters.events["starttls"] += 1
            self._transport, self._shaking = transport, False
            self._dialogue.secured()
            self.data_received(b"")

    def _write(self, data: bytes) -> None:
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def _flood(self, start: bytes, more: bytes, sent: int = 0) -> None:
        """Say something that has no end, as fast as the client takes it."""
        self._deaf = True
        self._write(start)
        while not self._transport.is_closing() and self._transport.get_write_buffer_size() < _IN_FLIGHT:
            self._write(more * 16)
            sent += len(more) * 16
            if sent > _FLOOD:
                self._transport.abort()
        if not self._transport.is_closing():
            self._loop.call_later(0.01, self._flood, b"", more, sent)

    def _reset(self) -> None:
        """Close with RST: no time to linger (the option belongs to the socket, not to the descriptor)."""
        self._deaf = True
        with socket.socket(fileno=dup(self._transport.get_extra_info("socket").fileno())) as twin:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


class DelayLine:
    """Holds replies back for a round trip; the replies to pipelined commands all come one round trip later.

    Args:
        latency: seconds between a command and its reply.
        write: where the bytes go in the end.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, latency: float, write: Callable[[bytes], None]
    ) -> None:
        self._loop, self._latency, self._write = loop, latency, write
        self._queue: deque[tuple[float, bytes, Callable[[], None] | None]] = deque()
        self._busy_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def put(self, data: bytes, *, work: float = 0.0, then: Callable[[], None] | None = None) -> None:
        """Send bytes that the server works on for so many seconds, one reply after the other."""
        if not (self._queue or work or self._latency):
            self._emit(data, then)
            return
        self._busy_until = max(self._busy_until, self._loop.time()) + work
        self._queue.append((self._busy_until + self._latency, data, then))
        if self._timer is None:
            self._arm()

    def clear(self) -> None:
        """Forget what is still on the way."""
        self._queue.clear()
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = self._loop.call_at(self._queue[0][0], self._fire)

    def _fire(self) -> None:
        self._timer = None
        due = self._loop.time() + 0.0005  # timers of uvloop have a resolution of a millisecond
        while self._queue and self._queue[0][0] <= due:
            _, data, then = self._queue.popleft()
            self._emit(data, then)
        if self._queue and self._timer is None:
            self._arm()

    def _emit(self, data: bytes, then: Callable[[], None] | None) -> None:
        self._write(data)
        if then:
            then()


# What is said in it.

_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_PATH = re.compile(r"\w+ (?:FROM|TO):\s*<([^<>]*)>((?: [^<>]*)?)", re.IGNORECASE)


class _AfterReply(StrEnum):
    """What follows a reply."""

    GO_ON = "go_on"
    CLOSE = "close"
    TLS = "tls"  # the handshake
    FLOOD = "flood"  # a reply without an end


@dataclass(frozen=True, slots=True)
class _ScriptedReply:
    """A reply: lines with their codes, without line ends ("" = none), and what follows."""

    text: str = ""
    then: _AfterReply = _AfterReply.GO_ON


_UNKNOWN = _ScriptedReply("502 5.5.2 Error: command not recognized")
_OK = _ScriptedReply("250 2.0.0 Ok")


class _SmtpDialogue:
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

    def execute(self, line: bytes) -> _ScriptedReply:
        """Carry out one command line, or take one of a message, its line feed cut off."""
        if self._in_message:
            return self._end_message() if line == b".\r" else _ScriptedReply()
        if line[-1:] != b"\r" or _CONTROL.search(line, 0, len(line) - 1):
            self._context.counters.events["control_bytes"] += 1
        text = line.rstrip(b"\r").decode("utf-8", "replace")
        command = self._COMMANDS.get(text.partition(" ")[0].upper())
        return command(self, text) if command else _UNKNOWN

    def secured(self) -> None:
        """Start over after a TLS handshake (RFC 3207 section 4.2)."""
        self._secure, self._greeted = True, ""
        self._rset()

    def _helo(self, _text: str) -> _ScriptedReply:
        if self._policy.refuses == "ehlo":
            return _ScriptedReply(smtp_replies.REFUSED_EHLO)
        self._greeted = "HELO"
        self._rset()
        return _ScriptedReply("250 " + self.fill(self._words.hello))

    def _ehlo(self, text: str) -> _ScriptedReply:
        if not self._policy.esmtp:
            return _UNKNOWN
        hello = self._helo(text)
        if not self._greeted:
            return hello
        self._greeted = "EHLO"
        if self._policy.reply is HostileReply.ENDLESS:
            return _ScriptedReply("250-" + hello.text[4:], _AfterReply.FLOOD)
        offers = [hello.text[4:], *self._extensions()]
        return _ScriptedReply("\n".join([*(f"250-{offer}" for offer in offers), "250 8BITMIME"]))

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

    def _starttls(self, _text: str) -> _ScriptedReply:
        if not self._has_tls():
            return _UNKNOWN
        if self._policy.tls is Starttls.BROKEN:
            return _ScriptedReply(smtp_replies.TLS_BROKEN)
        return _ScriptedReply("220 2.0.0 Ready to start TLS", _AfterReply.TLS)

    def _mail(self, text: str) -> _ScriptedReply:
        path = _PATH.fullmatch(text)
        utf8 = path is not None and "SMTPUTF8" in path[2].upper().split()
        refusal = self._mail_refusal(utf8=utf8)
        if refusal or path is None:
            return _ScriptedReply(refusal or "501 5.5.4 Syntax: MAIL FROM:<address>")
        if self._drops("mail"):
            return _ScriptedReply(then=_AfterReply.CLOSE)
        self._sender, self._utf8, self._recipients = path[1], utf8, 0
        return _ScriptedReply(self.fill(self._words.mail))

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

    def _rcpt(self, text: str) -> _ScriptedReply:
        rate = self._context.counters.rcpt(self._host.label)
        path = _PATH.fullmatch(text)
        if self._sender is None:
            return _ScriptedReply("503 5.5.1 Error: need MAIL command")
        if path is None or "@" not in path[1]:
            return _ScriptedReply("501 5.5.4 Syntax: RCPT TO:<address>")
        if self._drops("rcpt"):
            return _ScriptedReply(then=_AfterReply.CLOSE)
        limited = self._limit(rate)
        if limited:
            return limited
        if not path[1].isascii() and not self._utf8:
            return _ScriptedReply(smtp_replies.UTF8_NOT_OFFERED)
        local, _, domain = path[1].lower().rpartition("@")
        recipient = RcptCommand(self._host, self._client, self._sender, local, domain)
        reply = self._context.recipient_replies.rcpt(recipient)
        if reply.startswith("250"):
            self._accepted.append(recipient)
        return _ScriptedReply(reply)

    def _limit(self, rate: int) -> _ScriptedReply | None:
        """Return the refusal when this server's limits are passed."""
        self._recipients += 1
        if 0 < self._policy.recipients < self._recipients:
            if self._policy.goodbye:
                return _ScriptedReply(self.fill(smtp_replies.GOODBYE), _AfterReply.CLOSE)
            return _ScriptedReply(smtp_replies.TOO_MANY_RECIPIENTS)
        replies = self._context.recipient_replies
        if self._policy.per_minute and replies.is_over_the_minute(self._host, self._client):
            return _ScriptedReply(smtp_replies.TOO_MANY_A_MINUTE)
        return _ScriptedReply(self.fill(smtp_replies.TOO_FAST)) if 0 < self._policy.rate < rate else None

    def _drops(self, command: str) -> bool:
        """Say whether this server drops the connection at this command."""
        first = self._host.address not in self._context.dropped
        if self._policy.drops != command or (self._policy.drops_once and not first):
            return False
        self._context.dropped.add(self._host.address)
        return True

    def _bdat(self, _text: str) -> _ScriptedReply:
        self._context.counters.events["data"] += 1
        return _ScriptedReply("503 5.5.1 Error: CHUNKING is not offered")

    def _data(self, _text: str) -> _ScriptedReply:
        self._context.counters.events["data"] += 1
        if not self._accepted:
            return _ScriptedReply("554 5.5.1 Error: no valid recipients")
        self._in_message = True
        return _ScriptedReply("354 End data with <CR><LF>.<CR><LF>")

    def _end_message(self) -> _ScriptedReply:
        """Take the message for all recipients; the last reply stands for all."""
        replies = [self._context.deliveries.take(recipient) for recipient in self._accepted]
        self._rset()
        return _ScriptedReply(replies[-1])

    def _rset(self, _text: str = "") -> _ScriptedReply:
        self._sender, self._utf8, self._recipients = None, False, 0
        self._accepted, self._in_message = [], False
        return _OK

    def _noop(self, _text: str) -> _ScriptedReply:
        return _OK

    def _vrfy(self, _text: str) -> _ScriptedReply:
        return _ScriptedReply("252 2.0.0 Try RCPT to attempt delivery")

    def _quit(self, _text: str) -> _ScriptedReply:
        return _ScriptedReply(self.fill(self._words.bye), _AfterReply.CLOSE)

    _COMMANDS: ClassVar[dict[str, Callable[[_SmtpDialogue, str], _ScriptedReply]]] = {
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
