"""A SOCKS5 proxy (RFC 1928, RFC 1929) that passes on the first words of whom it connects to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def socks5(seen: list[tuple[str, int]], *, refuse: bool = False) -> AsyncIterator[int]:
    """Serve a proxy on loopback for me:secret; gives its port, and notes where it was asked to connect."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):  # who connects may leave at any time
            await negotiate(reader, writer)
        writer.close()

    async def negotiate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        await reader.readexactly(methods)
        writer.write(b"\x05\x02")
        _, length = await reader.readexactly(2)
        user = await reader.readexactly(length)
        password = await reader.readexactly((await reader.readexactly(1))[0])
        writer.write(b"\x01\x00" if (user, password) == (b"me", b"secret") else b"\x01\x01")
        head = await reader.readexactly(10)
        address, port = ".".join(map(str, head[4:8])), int.from_bytes(head[8:], "big")
        seen.append((address, port))
        writer.write(b"\x05" + (b"\x05" if refuse else b"\x00") + b"\x00\x01\x00\x00\x00\x00\x00\x00")
        if not refuse:
            upstream, back = await asyncio.open_connection(address, port)
            writer.write(await upstream.read(100))
            back.close()
        await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
