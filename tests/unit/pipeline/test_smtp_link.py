"""Dialling through a SOCKS5 proxy (RFC 1928)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pipeline.smtp.config import parse_source
from pipeline.smtp.link import Ending, SessionError, dial
from tests.unit.pipeline.smtp_stub import Mailer, mailing


@asynccontextmanager
async def socks5(seen: list[tuple[str, int]], *, refuse: bool = False) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_a_proxy_is_given_the_checked_address_itself() -> None:
    seen: list[tuple[str, int]] = []
    async with mailing(Mailer(), host="127.0.0.5") as port, socks5(seen) as proxy:
        source = parse_source(f"socks5://me:secret@127.0.0.1:{proxy}", helo_name="p.test")
        link = await dial("127.0.0.5", port, source, within=5)
        assert (await link.reply(5)).code == 220
        link.close()
    assert seen == [("127.0.0.5", port)]


async def test_what_the_proxy_cannot_reach_is_unreached() -> None:
    async with socks5([], refuse=True) as proxy:
        source = parse_source(f"socks5://me:secret@127.0.0.1:{proxy}", helo_name="p.test")
        with pytest.raises(SessionError) as caught:
            await dial("127.0.0.5", 25, source, within=5)
    assert caught.value.ending is Ending.UNREACHED


async def test_a_link_that_is_lost_says_so_at_every_reply() -> None:
    async with mailing(Mailer(banner="554 no")) as port:
        link = await dial("127.0.0.1", port, parse_source("", helo_name="p.test"), within=5)
        assert (await link.reply(5)).code == 554
        for _ in range(2):
            with pytest.raises(SessionError) as caught:
                await link.reply(5)
            assert caught.value.ending is Ending.DROPPED
        link.send(b"QUIT\r\n")
        link.close()
