"""One SMTP connection of the sandbox: doors, paces, drops, floods and the TLS handshake."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from os import dup
from typing import cast

from typing_extensions import override

from sandbox import wordings
from sandbox.delay import DelayLine
from sandbox.habits import Door, Host, Pace, Trick
from sandbox.smtp_commands import Conversation, Office, Then, Turn

_LONGEST = 4096  # octets without a line end that are waited for
_IN_FLIGHT = 1 << 18  # octets of an endless reply that wait for the client
_FLOOD = 1 << 26  # octets after which even an endless reply ends


class SmtpSession(asyncio.Protocol):
    """Talks to one client as the server whose address it has dialled.

    Args:
        sessions: where open sessions are kept, so that they can be aborted.
    """

    def __init__(self, office: Office, sessions: set[SmtpSession]) -> None:
        self._office, self._sessions = office, sessions
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
        self._host = host = self._office.hosts.get(address)
        if host is None:
            self._transport.abort()
            return
        self._habits = host.habits
        self._line = DelayLine(self._loop, self._office.latency, self._write)
        self._conversation = Conversation(self._office, host, client)
        self._office.counters.connected(host.address, host.label)
        self._open_door(host)

    @override
    def connection_lost(self, _exc: Exception | None) -> None:
        self._deaf = True
        self._sessions.discard(self)
        if self._host:
            self._line.clear()
            self._office.counters.disconnected(self._host.address, self._host.label)

    @override
    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._shaking:  # the client's first command may come together with its last handshake message
            self._buffer += data
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if len(self._buffer) > _LONGEST:
            self._perform(Turn("500 5.5.6 Line too long", Then.CLOSE))
            return
        if len(lines) > 1:
            self._office.counters.events["pipelined"] += 1
            if not self._habits.pipelining:  # flushes its input, as RFC 2920 section 3.1 fears
                lines, self._buffer = lines[:1], b""
        replies: list[str] = []
        for line in lines:
            turn = self._conversation.obey(line)
            if turn.then is not Then.GO_ON:
                self._say(replies)
                self._perform(turn)
                return
            replies.append(turn.text)
        self._say(replies)

    def abort(self) -> None:
        """Cut the connection."""
        self._transport.abort()

    def _open_door(self, host: Host) -> None:
        door, limit = self._habits.door, self._habits.connections
        refusal = wordings.DOORS.get(door, "")
        if 0 < limit < self._office.counters.open_by_host[host.address]:
            refusal = wordings.TOO_MANY_CONNECTIONS
        if refusal or door is Door.RESET:
            self._office.counters.events["turned_away"] += 1
        if refusal:
            self._perform(Turn(self._conversation.fill(refusal), Then.CLOSE))
        elif door is Door.RESET:
            self._reset()
        elif door is not Door.OPEN:
            self._deaf = True
        else:
            self._greet(host)

    def _greet(self, host: Host) -> None:
        if self._habits.trick is Trick.GIANT:
            self._flood(b"220 ", b"A" * 4096)
        elif self._habits.trick is Trick.CONTROL:
            self._line.put(b"220 " + host.name.encode() + b"\x1b[31m\x00\x07 ESMTP\r250 forged\x0b\r\n")
        else:
            self._say([self._conversation.banner()])

    def _say(self, replies: list[str], then: Callable[[], None] | None = None) -> None:
        """Send replies at this server's pace; `then` is called once they are written."""
        pace = self._habits.pace
        pieces = [reply.replace("\n", "\r\n").encode() + b"\r\n" for reply in replies]
        if pace is Pace.PROMPT:
            pieces = [b"".join(pieces)]
        elif pace is Pace.DRIP:
            pieces = [bytes([byte]) for piece in pieces for byte in piece]
        work = {Pace.PROMPT: 0.0, Pace.TARPIT: self._office.tarpit, Pace.DRIP: self._office.drip}[pace]
        for piece in pieces:
            if piece:
                self._line.put(piece, work=work)
        if then:
            self._line.put(b"", then=then)

    def _perform(self, turn: Turn) -> None:
        """Say the last thing there is to say for now and do what follows it."""
        self._deaf = True
        replies = [turn.text] if turn.text else []
        if turn.then is Then.TLS:
            self._transport.pause_reading()
            self._say(replies, self._shake_hands)
        elif turn.then is Then.FLOOD:
            self._say(replies, lambda: self._flood(b"", b"250-and another thing\r\n" * 64))
        else:
            self._say(replies, self._transport.close)

    def _shake_hands(self) -> None:
        self._buffer = b""  # what came before the handshake is dropped (RFC 3207 section 6)
        self._deaf, self._shaking = False, True
        self._handshake = self._loop.create_task(self._upgrade())

    async def _upgrade(self) -> None:
        try:
            transport = await self._loop.start_tls(self._transport, self, self._office.tls, server_side=True)
        except (OSError, ssl.SSLError):
            self._transport.abort()
            return
        if transport is not None:
            self._office.counters.events["starttls"] += 1
            self._transport, self._shaking = transport, False
            self._conversation.secured()
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
