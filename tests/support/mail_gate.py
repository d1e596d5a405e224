"""A gate before the sandbox's mail servers, whose names go on being found: what happens to port 25 alone."""

from __future__ import annotations

import asyncio
import socket
from contextlib import AsyncExitStack
from typing import Final

from tests.support.connections import lead_on, talking
from tests.support.ports import free_port

_REFUSAL: Final = b"554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org\r\n"


class Gate:
    """Stands before the sandbox's mail servers: open, closed, silent, refusing, or a middlebox.

    Attributes:
        behind: the port that the servers themselves listen at.
        middlebox: the port of the one machine that answers in the name of all of them.
    """

    def __init__(self, behind: int, *, middlebox: int = 0) -> None:
        self.behind = behind
        self.middlebox = middlebox
        self._loop = asyncio.get_running_loop()
        self.port = free_port()
        self._open = AsyncExitStack()
        self._mode = "closed"

    async def turn(self, mode: str) -> None:
        """Change what happens to whoever comes; conversations that run are cut."""
        self._mode = mode
        await self.close()
        if mode == "closed":
            return
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
        listener.bind(("0.0.0.0", self.port))
        await self._open.enter_async_context(talking(self._talk, taken=listener))

    def turn_soon(self, mode: str) -> None:
        """Do the same from another thread; returns when it is done."""
        asyncio.run_coroutine_threadsafe(self.turn(mode), self._loop).result()

    async def close(self) -> None:
        """Let nobody in any more."""
        await self._open.aclose()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self._mode == "silent":
                await asyncio.sleep(3_600)
            elif self._mode == "refusing":
                writer.write(_REFUSAL)
                await writer.drain()
            else:
                host = writer.get_extra_info("sockname")[0]
                way = ("127.0.0.1", self.middlebox) if self._mode == "middlebox" else (host, self.behind)
                await lead_on(reader, writer, *way)
        finally:
            writer.transport.abort()
