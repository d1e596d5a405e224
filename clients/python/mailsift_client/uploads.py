"""What a caller has, as it is sent: addresses, or an open file that can be sent again."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, BinaryIO, Final

REPEATS: Final = "mailsift_repeats"
"""Extension of a request whose body can be sent again."""
_PIECE: Final = 1 << 20


def addresses_of(source: Iterable[Any]) -> list[Any]:
    """Return addresses as a list.

    Raises:
        TypeError: a loop over it gives something else: letters, or names of columns.
    """
    if isinstance(source, str | bytes | os.PathLike | Mapping) or hasattr(type(source), "columns"):
        raise TypeError("A list is an open file, open(path, 'rb'), or several addresses.")
    return list(source)


def file_of(source: BinaryIO | Iterable[str]) -> BinaryIO | None:
    """Return an open file, None for addresses.

    Raises:
        TypeError: the file was opened as text.
    """
    if isinstance(source, io.TextIOBase):
        raise TypeError("A list is sent as it is: open its file in binary mode, open(path, 'rb').")
    return source if callable(getattr(source, "read", None)) else None  # type: ignore[return-value]


class _Place:
    """Where a file stands: there it begins each time that it is sent."""

    def __init__(self, file: BinaryIO) -> None:
        seekable = getattr(file, "seekable", None)  # of what has only `read`, as of a pipe, there is no more
        self.repeats = seekable is not None and seekable()
        self._file = file
        self._start = file.tell() if self.repeats else 0

    def _read(self, *, first: bool) -> bytes:
        if first and self.repeats:
            self._file.seek(self._start)
        return self._file.read(_PIECE)

    def put_into(self, request: dict[str, Any]) -> None:
        """Make it the body of a request, which says how long it is if that is easily known."""
        request["content"], request["extensions"] = self, {REPEATS: self.repeats}
        raw = getattr(self._file, "raw", self._file)
        left = os.fstat(raw.fileno()).st_size - self._start if isinstance(raw, io.FileIO) else 0
        if self.repeats and left > 0:
            request["headers"]["Content-Length"] = str(left)


class Upload(_Place):
    """An open file as the body of a request."""

    def __iter__(self) -> Iterator[bytes]:
        piece = self._read(first=True)
        while piece:
            yield piece
            piece = self._read(first=False)


class AsyncUpload(_Place):
    """The same for programs with an event loop, which it does not block."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        piece = await asyncio.to_thread(self._read, first=True)
        while piece:
            yield piece
            piece = await asyncio.to_thread(self._read, first=False)
