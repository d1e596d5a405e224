"""One SMTP connection of the sandbox: refusals, delays, drops, floods and the TLS handshake."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable
from os import dup
from typing import cast

from typing_extensions import override

from mailsift.sandbox import smtp_replies
from mailsift.sandbox.behaviours import HostileReply, MailHost, OnConnect, ReplyPace
from mailsift.sandbox.smtp_commands import AfterReply, ScriptedReply, SmtpContext, SmtpDialogue

_LONGEST = 4096  # octets without a line end that are waited for
_IN_FLIGHT = 1 << 18  # octets of an endless reply that wait for the client
_FLOOD = 1 << 26  # octets after which even an endless reply ends


class SmtpSession(asyncio.Protocol):
    """Talks to one client as the server whose address it has dialled.

    Args:
        sessions: where open sessions are kept, so that they can be aborted.
    """

    def __init__(self, context: SmtpContext, sessions: set[SmtpSession]) -> None:
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
        self._line = DelayLine(self._loop, self._context.latency, self._write)
        self._dialogue = SmtpDialogue(self._context, host, client)
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
            self._perform(ScriptedReply("500 5.5.6 Line too long", AfterReply.CLOSE))
            return
        if len(lines) > 1:
            self._context.counters.events["pipelined"] += 1
            if not self._policy.pipelining:  # flushes its input, as RFC 2920 section 3.1 fears
                lines, self._buffer = lines[:1], b""
        replies: list[str] = []
        for line in lines:
            reply = self._dialogue.execute(line)
            if reply.then is not AfterReply.GO_ON:
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
            self._perform(ScriptedReply(self._dialogue.fill(refusal), AfterReply.CLOSE))
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
            ReplyPace.TARPIT: self._context.tarpit,
            ReplyPace.DRIP: self._context.drip,
        }[pace]
        for piece in pieces:
            if piece:
                self._line.put(piece, work=work)
        if then:
            self._line.put(b"", then=then)

    def _perform(self, reply: ScriptedReply) -> None:
        """Say the last thing there is to say for now and do what follows it."""
        self._deaf = True
        replies = [reply.text] if reply.text else []
        if reply.then is AfterReply.TLS:
            self._transport.pause_reading()
            self._send_replies(replies, self._shake_hands)
        elif reply.then is AfterReply.FLOOD:
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
        """Send bytes.

        Args:
            data: what to write.
            work: seconds the server works on them, one reply after the other.
            then: called once they are written.
        """
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
