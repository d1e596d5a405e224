"""A machine on the way that answers on port 25 in the name of every mail server, whoever was dialled."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import Enum

from mailsift.sandbox.server import Sandbox

_BANNER = b"220 fw.corp.test ESMTP\r\n"


class Middlebox(Enum):
    """What it says to every recipient."""

    REFUSES = b"550 5.1.1 User unknown"
    ACCEPTS = b"250 2.1.5 Ok"


class Interception:
    """Lets one machine answer in the name of all mail servers, as a firewall may; DNS goes on."""

    def __init__(self, sandbox: Sandbox, middlebox: Middlebox) -> None:
        self._sandbox, self._middlebox = sandbox, middlebox
        self._sessions: set[asyncio.StreamWriter] = set()

    async def begin(self) -> None:
        await self._sandbox.hide()
        self._server = await asyncio.start_server(self._talk, "0.0.0.0", self._sandbox.smtp_port)

    def end(self) -> None:
        self._server.close()
        for session in self._sessions:
            session.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._sessions.add(writer)
        writer.write(_BANNER)
        with suppress(OSError):  # who connects may leave at any time
            while (verb := (await reader.readline())[:4].upper()) and verb != b"QUIT":
                writer.write((self._middlebox.value if verb == b"RCPT" else b"250 2.0.0 Ok") + b"\r\n")
            writer.write(b"221 2.0.0 Bye\r\n")
        self._sessions.discard(writer)
        writer.close()
