"""One session with a server on loopback, and servers that answer whatever a test likes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from mailsift.pipeline.ports import Allowance
from mailsift.pipeline.replies.classifier import SmtpReply
from mailsift.pipeline.smtp.config import ProbeConfig, parse_source
from mailsift.pipeline.smtp.session import DomainRecipients, Peer, PickWitness, ProbeSession, SessionLog


def refused(_probe: str, reply: SmtpReply) -> bool:
    return reply.code >= 500


async def talk(
    port: int,
    *groups: DomainRecipients,
    within: float = 5.0,
    tls: ssl.SSLContext | None = None,
    separate: bool = False,
    singly: bool = False,
    pick_witness: PickWitness | None = None,
    allowance: Allowance | None = None,
    until: float = float("inf"),
    **settings: Any,
) -> SessionLog:
    config = ProbeConfig(helo_name="probe.test", port=port, **settings)
    source = parse_source("", helo_name="probe.test")
    session = ProbeSession(
        config,
        Peer("mx.test", "127.0.0.1"),
        source,
        tls=tls,
        is_worth_asking=refused,
        singly=singly,
        pick_witness=pick_witness,
        allowance=allowance,
        until=until,
    )
    return await session.run([[group] for group in groups] if separate else [groups], within=within)


def codes(log: SessionLog) -> dict[str, int]:
    return {address: heard.reply.code for address, heard in log.answers.items()}


@asynccontextmanager
async def raw_server(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]],
) -> AsyncIterator[int]:
    tasks = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            await serve(reader, writer)
        except (OSError, asyncio.CancelledError):  # the client has hung up, or the test is over
            return
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            if task is not None:
                task.cancel()
        await asyncio.gather(*filter(None, tasks), return_exceptions=True)
