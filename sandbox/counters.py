"""Counts what the sandbox saw, so that tests can prove politeness, and tells it on a control port."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from dns.rdatatype import RdataType


class Counters:
    """What happened since the start or the last reset.

    Args:
        now: monotonic seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.open_by_host: Counter[str] = Counter()
        self.open_by_provider: Counter[str] = Counter()
        self.reset()

    def reset(self) -> None:
        """Forget everything but the sessions that are open now; they are the new peaks."""
        self.dns: Counter[int] = Counter()
        self.dns_tcp = 0
        self.events: Counter[str] = Counter()
        self.connections_by_provider: Counter[str] = Counter()
        self.rcpts_by_provider: Counter[str] = Counter()
        self._peak_by_host = Counter(self.open_by_host)
        self._peak_by_provider = Counter(self.open_by_provider)
        self._peak_open = self.open_by_host.total()
        self._open = self._peak_open
        self._recent: dict[str, deque[float]] = {}
        self._peak_rate: Counter[str] = Counter()

    def connected(self, host: str, provider: str) -> None:
        """Count a new connection to a server's address."""
        self.events["connections"] += 1
        self.connections_by_provider[provider] += 1
        self._open += 1
        self._peak_open = max(self._peak_open, self._open)
        for value, peaks, key in (
            (self.open_by_host, self._peak_by_host, host),
            (self.open_by_provider, self._peak_by_provider, provider),
        ):
            value[key] += 1
            peaks[key] = max(peaks[key], value[key])

    def disconnected(self, host: str, provider: str) -> None:
        """Count the end of a connection."""
        self._open -= 1
        for value, key in ((self.open_by_host, host), (self.open_by_provider, provider)):
            value[key] -= 1
            if not value[key]:
                del value[key]

    def rcpt(self, provider: str) -> int:
        """Count a RCPT command; return how many this provider got in the last second, this one included."""
        self.rcpts_by_provider[provider] += 1
        recent = self._recent.get(provider)
        if recent is None:
            recent = self._recent[provider] = deque()
        now = self._now()
        recent.append(now)
        while recent[0] <= now - 1.0:
            recent.popleft()
        rate = len(recent)
        self._peak_rate[provider] = max(self._peak_rate[provider], rate)
        return rate

    def snapshot(self) -> dict[str, Any]:
        """Return all counts as a JSON object.

        Keys: `dns` (queries by type), `dns_queries`, `dns_tcp`,
        `connections`, `rcpts`, `open_sessions`, `peak_sessions`, `turned_away` (connections reset or sent
        away with 421 or 554), `bans` (clients that a gateway refuses for hours), `starttls`,
        `data` (DATA or BDAT commands), `control_bytes` (commands with
        control bytes or a bare line feed), `pipelined` (chunks of several commands), and by provider label
        or host address: `connections_by_provider`, `rcpts_by_provider`, `peak_sessions_by_provider`,
        `peak_sessions_by_host`, `peak_rcpts_per_second_by_provider`.
        """
        names = ("connections", "turned_away", "bans", "starttls", "data", "control_bytes", "pipelined")
        return {
            "dns": {RdataType.to_text(qtype): n for qtype, n in self.dns.items()},
            "dns_queries": self.dns.total(),
            "dns_tcp": self.dns_tcp,
            **{name: self.events[name] for name in names},
            "rcpts": self.rcpts_by_provider.total(),
            "open_sessions": self._open,
            "peak_sessions": self._peak_open,
            "connections_by_provider": dict(self.connections_by_provider),
            "rcpts_by_provider": dict(self.rcpts_by_provider),
            "peak_sessions_by_provider": dict(self._peak_by_provider),
            "peak_sessions_by_host": dict(self._peak_by_host),
            "peak_rcpts_per_second_by_provider": dict(self._peak_rate),
        }


class ControlServer:
    """Answers `{"op": "counters"}`, `{"op": "reset"}` and `{"op": "reports"}` on 127.0.0.1.

    Args:
        counters: what the servers saw.
        collect: returns the reports that servers wrote to senders since the last time.

    Attributes:
        port: the port in use, 0 before the start.
    """

    def __init__(self, counters: Counters, collect: Callable[[], list[bytes]]) -> None:
        self.port = 0
        self._collect = collect
        self._counters = counters
        self._server: asyncio.Server | None = None

    async def start(self, port: int) -> None:
        """Listen on a port; 0 picks a free one.

        Raises:
            OSError: the port is taken.
        """
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._server:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(json.dumps(self._answer(line)).encode() + b"\n")
                await writer.drain()
        finally:
            writer.close()

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
        except ValueError:
            return {"error": "not JSON"}
        if request == {"op": "counters"}:
            return self._counters.snapshot()
        if request == {"op": "reset"}:
            self._counters.reset()
            return {"ok": True}
        if request == {"op": "reports"}:
            return {"reports": [report.decode("utf-8", "surrogateescape") for report in self._collect()]}
        return {"error": "unknown op"}
