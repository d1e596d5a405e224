"""A machine on the way that answers on port 25 in the name of every mail server, whoever was dialled."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import cast

from typing_extensions import override

from mailsift.sandbox.server import Sandbox

_NAME = "fw.corp.test"


class Middlebox(Enum):
    """What it says to every recipient."""

    REFUSES = b"550 5.1.1 User unknown"
    ACCEPTS = b"250 2.1.5 Ok"


class MiddleboxSession(asyncio.Protocol):
    """One conversation with it.

    Args:
        middlebox: what it says of mailboxes.
        sessions: where open sessions are kept, so that they can be aborted.
    """

    def __init__(self, middlebox: Middlebox, sessions: set[MiddleboxSession]) -> None:
        self._said, self._sessions = middlebox.value, sessions
        self._buffer = b""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # TCP gives no other
        self._sessions.add(self)
        self._send(b"220 " + _NAME.encode() + b" ESMTP")

    @override
    def connection_lost(self, _exc: Exception | None) -> None:
        self._sessions.discard(self)

    @override
    def data_received(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            verb = line[:4].upper()
            if verb == b"QUIT":
                self._send(b"221 2.0.0 Bye")
                self._transport.close()
                return
            self._send(self._said if verb == b"RCPT" else b"250 2.0.0 Ok")

    def abort(self) -> None:
        """Cut the connection."""
        self._transport.abort()

    def _send(self, reply: bytes) -> None:
        self._transport.write(reply + b"\r\n")


class Interception:
    """Lets one machine answer in the name of all mail servers, as a firewall may; DNS goes on."""

    def __init__(self, sandbox: Sandbox, middlebox: Middlebox) -> None:
        self._sandbox, self._middlebox = sandbox, middlebox
        self._sessions: set[MiddleboxSession] = set()

    async def begin(self) -> None:
        await self._sandbox.hide()
        self._server = await asyncio.get_running_loop().create_server(
            lambda: MiddleboxSession(self._middlebox, self._sessions), "0.0.0.0", self._sandbox.smtp_port
        )

    def end(self) -> None:
        self._server.close()
        for session in self._sessions:
            session.abort()
