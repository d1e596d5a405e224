"""Files of this machine: what is on its way into the store, copies kept for speed, and what crashes left."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import IO, Final
from uuid import uuid4

_LITTLE: Final = 8192
"""Bytes that take less to write than to hand to a thread."""


class Incoming:
    """A blob on its way in: counts and hashes what is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self.size = 0

    async def write(self, data: bytes) -> None:
        """Take the next bytes."""
        if len(data) <= _LITTLE:
            self._append(data)
        else:
            import asyncio  # noqa: PLC0415 - the process that reads lists has no loop

            await asyncio.to_thread(self._append, data)

    @property
    def sha256(self) -> str:
        """Hex digest of everything written so far."""
        return self._sha256.hexdigest()

    def _append(self, data: bytes) -> None:
        self._sha256.update(data)
        self._file.write(data)
        self.size += len(data)


_GUARDED = ("process-", "incoming-", "download-")
"""How the names of folders and files begin that whoever uses them keeps locked, as long as he lives."""


@contextmanager
def process_folder(parent: Path) -> Iterator[Path]:
    """Give a new folder below the parent that this process alone uses; it is deleted at the end.

    A process that is killed leaves it behind, unlocked.
    """
    while True:
        folder = parent / f"process-{os.getpid()}-{uuid4().hex[:8]}"
        folder.mkdir(parents=True)
        with suppress(FileNotFoundError):  # a sweep came in between, or comes now
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            if _guard(descriptor):
                break
            os.close(descriptor)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


@contextmanager
def guarded_file(folder: Path, kind: str) -> Iterator[IO[bytes]]:
    """Give a new file below the folder that no sweep takes while it is open; it is deleted at the end.

    What it holds may have another place by then.

    Args:
        folder: made when it is not there.
        kind: `incoming` or `download`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        path = folder / f"{kind}-{uuid4()}"
        file = path.open("x+b")
        if _guard(file.fileno()):
            break
        file.close()  # a sweep came in between
    try:
        with file:
            yield file
    finally:
        path.unlink(missing_ok=True)


def _guard(descriptor: int) -> bool:
    """Lock a new file or folder until it is closed; False when a sweep has deleted it before that."""
    with suppress(OSError):  # a file system without locks: then nothing is swept, either
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return os.fstat(descriptor).st_nlink > 0


def clear_abandoned(folder: Path) -> int:
    """Delete the guarded files and folders that nobody holds any more, whatever the clock says.

    Returns:
        How many there were.
    """
    found = [place for prefix in _GUARDED for place in folder.glob(f"{prefix}*")]
    return sum(_clear_unlocked(place) for place in found)


def _clear_unlocked(place: Path) -> bool:
    try:
        descriptor = os.open(place, os.O_RDONLY)
    except OSError:  # just gone
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if place.is_dir():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)
    except OSError:  # in use
        return False
    finally:
        os.close(descriptor)
    return True


def move_in(path: Path, target: Path) -> bool:
    """Give a file its place in a local store, atomically; False when it lies on another disk.

    A list is not copied: it is large, and every byte would pass through memory once more.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        path.replace(target)
    except OSError:
        return False
    sync_to_disk(target)
    return True


def link_in(path: Path, target: Path) -> bool:
    """Give a file a second place, in a local store, as `move_in` does; neither may be written to any more."""
    second_name = path.with_name(f"{path.name}.linked")
    try:
        os.link(path, second_name)
        return move_in(second_name, target)
    except OSError:
        return False
    finally:
        second_name.unlink(missing_ok=True)


def sync_to_disk(*paths: Path) -> None:
    """Force new files and their names to disk: the database will point to them, after a power cut too."""
    for place in dict.fromkeys([*paths, *(path.parent for path in paths)]):
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

    Those that are guarded stay; see `clear_abandoned`.

    Args:
        folder: holds nothing that has to last.
        before: seconds since the epoch.

    Returns:
        How many files were deleted.
    """
    files = [(at, file) for at, _, file in _files(folder, "**/*") if not _is_guarded(file, folder)]
    old = [file for at, file in files if at < before]
    for file in old:
        file.unlink(missing_ok=True)
    for place in sorted((place for place in folder.glob("**/*") if place.is_dir()), reverse=True):
        with suppress(OSError):  # not empty, or just gone
            if not _is_guarded(place, folder) and place.stat().st_mtime < before:
                place.rmdir()
    return len(old)


def _is_guarded(place: Path, folder: Path) -> bool:
    return place.relative_to(folder).parts[0].startswith(_GUARDED)


def _files(folder: Path, pattern: str) -> Iterator[tuple[float, int, Path]]:
    """Yield time of last use, size and path of each file; others may be deleting them meanwhile."""
    for file in folder.glob(pattern):
        with suppress(FileNotFoundError):
            stat = file.stat()
            if S_ISREG(stat.st_mode):
                yield stat.st_mtime, stat.st_size, file


_ROOM = 65_536  # the head of a file of ours, and more


def check_room(folder: Path) -> None:
    """Write a little into the folder, and take it away again, where a library only says that writing failed.

    Raises:
        OSError: what comes of that now.
    """
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        if file.write(bytes(_ROOM)) < _ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
