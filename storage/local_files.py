"""Files of this machine: what is on its way into the store, copies kept for speed, and what crashes left."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import IO


class Incoming:
    """A blob on its way in: counts and hashes what is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self.size = 0

    async def write(self, data: bytes) -> None:
        """Take the next bytes."""
        await asyncio.to_thread(self._take, data)

    @property
    def sha256(self) -> str:
        """Hex digest of everything written so far."""
        return self._sha256.hexdigest()

    def _take(self, data: bytes) -> None:
        self._sha256.update(data)
        self._file.write(data)
        self.size += len(data)


def move_in(path: Path, target: Path) -> bool:
    """Give a file its place in a local store, atomically; False when it lies on another disk.

    A list is not copied: it is large, and every byte would pass through memory once more.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
    except OSError:
        return False
    settle(target)
    return True


def settle(path: Path) -> None:
    """Force a new file and its name to disk: the database will point to it, after a power cut too."""
    for place in (path, path.parent):
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def touch(path: Path) -> bool:
    """Mark a cached download as used now; False when there is none."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def publish(file: IO[bytes], path: Path) -> None:
    """Give a complete download its name; whoever opened an older file of that name keeps it."""
    file.flush()
    second_name = Path(f"{file.name}.done")
    os.link(file.name, second_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    second_name.replace(path)


def prune(folder: Path, limit: int) -> None:
    """Drop the least recently used downloads until at most `limit` bytes are left; the newest stays."""
    total = 0
    for position, (_, size, file) in enumerate(sorted(_files(folder, "*/**/*"), reverse=True)):
        total += size
        if position and total > limit:
            file.unlink(missing_ok=True)


def clear_old(folder: Path, *, before: float) -> int:
    """Delete the files below a folder that nobody has touched since, and the folders that are left empty.

    Args:
        folder: holds nothing that has to last.
        before: seconds since the epoch.

    Returns:
        How many files were deleted.
    """
    old = [file for at, _, file in _files(folder, "**/*") if at < before]
    for file in old:
        file.unlink(missing_ok=True)
    for place in sorted((place for place in folder.glob("**/*") if place.is_dir()), reverse=True):
        with suppress(OSError):  # not empty, or just gone
            if place.stat().st_mtime < before:
                place.rmdir()
    return len(old)


def _files(folder: Path, pattern: str) -> Iterator[tuple[float, int, Path]]:
    """Yield time of last use, size and path of each file; others may be deleting them meanwhile."""
    for file in folder.glob(pattern):
        with suppress(FileNotFoundError):
            stat = file.stat()
            if S_ISREG(stat.st_mode):
                yield stat.st_mtime, stat.st_size, file
