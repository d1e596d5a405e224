"""Sends one request over and over on kept connections and prints what came of it: URL CONNECTIONS SECONDS.

Standard input holds the request as JSON: {"path", "headers", "body"}. A process of its own, so that it shares
no Python with what it measures.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import uvloop
from typing_extensions import override


@dataclass(slots=True)
class Seen:
    """Seconds of each answer, and how many were not 200."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0


class Asker(asyncio.Protocol):
    """One connection: asks again as soon as the answer is there, until the time is over."""

    def __init__(self, request: bytes, seen: Seen, until: float) -> None:
        self._request, self._seen, self._until = request, seen, until
        self._buffer = b""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not derived from it
        self._ask()

    @override
    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(rest) < length:
            return
        now = time.perf_counter()
        self._seen.seconds.append(now - self._since)
        self._seen.refused += not head.startswith(b"HTTP/1.1 200")
        self._buffer = b""
        if now < self._until:
            self._ask()
        else:
            self._transport.close()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(None)
        self._seen.refused += exc is not None

    def _ask(self) -> None:
        self._since = time.perf_counter()
        self._transport.write(self._request)


async def load(url: str, request: bytes, connections: int, seconds: float) -> Seen:
    """Ask on so many connections at once for so many seconds."""
    place, seen, loop = urlsplit(url), Seen(), asyncio.get_running_loop()
    host, port = str(place.hostname), place.port or 80
    until = time.perf_counter() + seconds
    askers = [
        (await loop.create_connection(lambda: Asker(request, seen, until), host, port))[1]
        for _ in range(connections)
    ]
    await asyncio.gather(*(asker.over for asker in askers))
    return seen


def written(path: str, headers: dict[str, str], body: str) -> bytes:
    """Return a POST as it goes over the wire."""
    fields = {
        "Host": "bench",
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n{body}".encode()


def main() -> None:
    """Ask, and print rate and percentiles as JSON."""
    url, connections, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    request = written(**json.load(sys.stdin))
    since = time.perf_counter()
    seen = uvloop.run(load(url, request, connections, seconds))
    took = time.perf_counter() - since
    ranked = sorted(seen.seconds)
    print(
        json.dumps(
            {
                "rate": len(ranked) / took,
                "p50_ms": 1000 * ranked[len(ranked) // 2],
                "p99_ms": 1000 * ranked[len(ranked) * 99 // 100],
                "refused": seen.refused,
            }
        )
    )


if __name__ == "__main__":
    main()
