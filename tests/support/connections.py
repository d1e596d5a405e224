"""Servers on loopback that talk as a test says, and whose connections end with it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from socketserver import BaseServer
from typing import Any, TypeAlias

Talk: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def talking(
    talk: Talk,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    taken: socket.socket | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Let `talk` speak with whoever connects, and break off what goes on at the end; gives the port.

    Args:
        talk: is given both ends of a connection.
        host, port: where to listen.
        taken: a socket that is bound already, instead.
        tls: for connections that are encrypted from the first byte.
    """
    tasks = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # they went away, or the test is over
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    where: dict[str, Any] = {"sock": taken} if taken else {"host": host, "port": port}
    server = await asyncio.start_server(accept, **where, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def lead_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
    """Hand on what a client and a server say to each other, until both have ended."""

    async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while piece := await source.read(65_536):
            sink.write(piece)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
        else:  # TLS knows no half-closed connection
            sink.close()

    there, onward = await asyncio.open_connection(host, port)
    try:
        await asyncio.gather(copy(reader, onward), copy(there, writer))
    finally:
        onward.transport.abort()


@contextmanager
def in_thread(server: BaseServer) -> Iterator[None]:
    """Let a server of the standard library serve in a thread of its own, and close it at the end."""
    with server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
