"""The control port: one JSON request a line, one JSON answer a line."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from sandbox.counters import Counters


class ControlServer:
    """Answers `{"op": "counters"}` and `{"op": "reset"}` on 127.0.0.1.

    Attributes:
        port: the port in use, 0 before the start.
    """

    def __init__(self, counters: Counters) -> None:
        self.port = 0
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
        return {"error": "unknown op"}
