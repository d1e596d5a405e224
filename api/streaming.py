"""Send what a blocking writer writes, as it writes it; memory holds a pipe's worth."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import IO
from urllib.parse import quote

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

_PIECE = 1 << 16


class Written:
    """The bytes a function writes to a file, read while it runs in a thread of its own."""

    def __init__(self, write: Callable[[IO[bytes]], object]) -> None:
        self._write = write
        self._first = b""

    async def open(self) -> None:
        """Start; returns when the first bytes are there.

        Raises:
            Exception: what the function raises before it writes anything.
        """
        outlet, inlet = os.pipe()
        loop = asyncio.get_running_loop()
        self._reader = asyncio.StreamReader(limit=_PIECE)
        self._transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), os.fdopen(outlet, "rb", 0)
        )
        self._thread = asyncio.ensure_future(asyncio.to_thread(self._run, inlet))
        self._first = await self._reader.read(_PIECE)
        if not self._first:
            self._transport.close()
            await self._thread

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield all bytes; a writer that fails half-way breaks the transfer: nobody takes it for whole."""
        piece = self._first
        while piece:
            yield piece
            piece = await self._reader.read(_PIECE)
        await self._thread

    async def aclose(self) -> None:
        """Stop the writer: it finds nobody reading."""
        self._transport.close()
        with suppress(Exception):
            await self._thread

    def _run(self, inlet: int) -> None:
        with os.fdopen(inlet, "wb") as out:
            self._write(out)


class Download(StreamingResponse):
    """A file on its way out, and what has to be closed behind it, however the transfer ends."""

    def __init__(
        self, written: Written, held: AsyncExitStack, *, media_type: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__(written.pieces(), media_type=media_type, headers=headers)
        self._held = held

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held:
            await super().__call__(scope, receive, send)


def attachment(name: str) -> str:
    """Return a Content-Disposition for a file name that may hold anything (RFC 6266, RFC 8187)."""
    plain = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in " ._-") else "_" for letter in name
    )
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
