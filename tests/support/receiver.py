"""A webhook receiver for tests: a real HTTP server on loopback that answers what the test says."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.connections import talking

Answer = bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Request:
    """One request as it came; header names are lower-case."""

    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Answers every request with `answer`: bytes, or a coroutine that writes them."""

    answer: Answer
    port: int = 0
    scheme: str = "http"
    connections: int = 0
    open: int = 0
    peak: int = 0
    requests: list[Request] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.peak = max(self.peak, self.open)
        try:
            await self._talk(reader, writer)
            writer.close()
            await writer.wait_closed()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self.open -= 1

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        pairs = (line.split(": ", 1) for line in head[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.requests.append(Request(head[0], headers, body))
        if isinstance(self.answer, bytes):
            writer.write(self.answer)
            await writer.drain()
        else:
            await self.answer(writer)


def status(code: int, *headers: str, body: bytes = b"") -> bytes:
    """Return a whole response."""
    head = [f"HTTP/1.1 {code} X", f"content-length: {len(body)}", *headers, "", ""]
    return "\r\n".join(head).encode() + body


@asynccontextmanager
async def receiving(
    answer: Answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """Run a receiver on a free port of 127.0.0.1."""
    receiver = Receiver(answer, scheme="https" if tls else "http")
    async with talking(receiver.serve, tls=tls) as receiver.port:
        yield receiver
