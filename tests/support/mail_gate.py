"""A gate before the sandbox's mail servers, whose names go on being found: what happens to port 25 alone."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

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
        self._server: asyncio.Server | None = None
        self._talks: set[asyncio.Task[None]] = set()
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
        self._server = await asyncio.start_server(self._accept, sock=listener)

    def turn_soon(self, mode: str) -> None:
        """Do the same from another thread; returns when it is done."""
        asyncio.run_coroutine_threadsafe(self.turn(mode), self._loop).result()

    async def close(self) -> None:
        """Let nobody in any more."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for talk in self._talks:
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)
        if server is not None:
            await server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.create_task(self._talk(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

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
                await _join(reader, writer, *await asyncio.open_connection(*way))
        except OSError:
            pass
        finally:
            writer.transport.abort()


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    inner: asyncio.StreamReader,
    answer: asyncio.StreamWriter,
) -> None:
    async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()
        target.write_eof()

    try:
        await asyncio.gather(pass_on(reader, answer), pass_on(inner, writer))
    finally:
        answer.transport.abort()
