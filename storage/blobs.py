"""Blobs: the lists, segments and results, on a local disk or in any object store, through one interface."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from tempfile import NamedTemporaryFile
from typing import IO
from uuid import UUID

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from pipeline.errors import MailsiftError

_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*", re.ASCII)
_KEY_LENGTH = 500
_DOWNLOAD_CHUNK = 1 << 20
_PARTS_AT_ONCE = 2  # of 5 MiB each, in memory while a file is put


@dataclass(frozen=True, slots=True)
class JobBlobs:
    """The keys of one job's blobs; `n` is a chunk's number, `token` the lease it was written under."""

    job: UUID

    @property
    def prefix(self) -> str:
        """Everything of the job lies under it."""
        return f"jobs/{self.job}"

    @property
    def source(self) -> str:
        """The customer's file as it came."""
        return f"{self.prefix}/source"

    @property
    def rows(self) -> str:
        """The customer's rows in order, with their address numbers (jobs.intake)."""
        return f"{self.prefix}/rows.parquet"

    @property
    def addresses(self) -> str:
        """The distinct addresses (pipeline.frames.ADDRESSES), one row group a chunk."""
        return f"{self.prefix}/addresses.parquet"

    @property
    def results(self) -> str:
        """Rows and verdicts joined (jobs.finish)."""
        return f"{self.prefix}/results.parquet"

    def segment(self, n: int, token: UUID) -> str:
        """The verdicts of one chunk (pipeline.frames.SEGMENT)."""
        return f"{self.prefix}/segments/{n}-{token}.parquet"

    def residual(self, n: int, token: UUID) -> str:
        """The addresses one chunk left unfinished (pipeline.frames.WAITING)."""
        return f"{self.prefix}/residual/{n}-{token}.parquet"


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


class Blobs:
    """A store of immutable files under posix keys.

    Every method raises MailsiftError: `bad_blob_key` for a key outside the allowed shape, `blob_not_found`,
    or `blob_store_failed` (retryable) when the store does not do its part.

    Args:
        url: `file:///path`, `s3://bucket/prefix`, `gs://…`, `az://…`; credentials come from the environment.
        cache_dir: local folder for downloads and uploads under way; one for each store.
        cache_bytes: the least recently fetched downloads are dropped beyond this size.
    """

    def __init__(self, url: str, cache_dir: Path, *, cache_bytes: int = 10 * 2**30) -> None:
        self._cache, self._cache_bytes = cache_dir, cache_bytes
        self._store: ObjectStore = (
            from_url(url, mkdir=True, automatic_cleanup=True) if url.startswith("file:") else from_url(url)
        )
        local = isinstance(self._store, LocalStore) and self._store.prefix
        self._root = Path(local) if local else None

    async def put_file(self, key: str, path: Path) -> None:
        """Store a copy of the file; readers see all of it or nothing."""
        await self._put(key, path)

    async def put_bytes(self, key: str, data: bytes) -> None:
        """Store the bytes; readers see all of them or nothing."""
        await self._put(key, data)

    @asynccontextmanager
    async def stream_in(self, key: str) -> AsyncIterator[Incoming]:
        """Store what is written inside the block; an exception inside it leaves nothing behind."""
        _checked(key)
        self._cache.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=self._cache, prefix="incoming-") as file:
            yield Incoming(file)
            file.flush()
            await self._put(key, Path(file.name))

    async def fetch(self, key: str) -> Path:
        """Return a local file with the blob's content, for reading only: the blob itself or a download."""
        _checked(key)
        if self._root is not None:
            path = self._root / key
            if not await asyncio.to_thread(path.is_file):
                raise _not_found()
            return path
        with _store_errors():
            meta = await obstore.head_async(self._store, key)
            version = hashlib.sha256(f"{meta['e_tag']} {meta['size']}".encode()).hexdigest()[:16]
            path = self._cache / key / version
            if await asyncio.to_thread(_touch, path):
                return path
            await self._download(key, path)
        return path

    async def exists(self, key: str) -> bool:
        """Say whether the blob is there."""
        _checked(key)
        try:
            with _store_errors():
                await obstore.head_async(self._store, key)
        except MailsiftError as error:
            if error.code == "blob_not_found":
                return False
            raise
        return True

    async def list(self, prefix: str) -> tuple[str, ...]:
        """Return the sorted keys below the prefix, which is a whole path segment: `a/b` covers `a/b/c`."""
        _checked(prefix)
        with _store_errors():
            found = await obstore.list(self._store, prefix).collect_async()
        return tuple(sorted(meta["path"] for meta in found))

    async def delete(self, key: str) -> None:
        """Delete the blob; deleting what is not there is fine."""
        await self._delete((_checked(key),))

    async def delete_prefix(self, prefix: str) -> None:
        """Delete every blob below the prefix."""
        await self._delete(await self.list(prefix))

    async def _delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            try:
                with _store_errors():
                    await obstore.delete_async(self._store, key)
            except MailsiftError as error:
                if error.code != "blob_not_found":
                    raise

    async def _put(self, key: str, data: Path | bytes) -> None:
        _checked(key)
        with _store_errors():
            await obstore.put_async(self._store, key, data, max_concurrency=_PARTS_AT_ONCE)
        if self._root is not None:
            await asyncio.to_thread(_settle, self._root / key)

    async def _download(self, key: str, path: Path) -> None:
        await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
        got = await obstore.get_async(self._store, key)
        with NamedTemporaryFile(dir=self._cache, prefix="download-") as file:
            async for piece in got.stream(min_chunk_size=_DOWNLOAD_CHUNK):
                await asyncio.to_thread(file.write, piece)
            await asyncio.to_thread(_publish, file, path)
        await asyncio.to_thread(_prune, self._cache, self._cache_bytes)


def _checked(key: str) -> str:
    """Return the key if it is a relative posix path of plain segments.

    Raises:
        MailsiftError: `bad_blob_key`.
    """
    if len(key) > _KEY_LENGTH or not _KEY.fullmatch(key):
        raise MailsiftError("bad_blob_key", "A blob key is a relative path of letters, digits and ._- only.")
    return key


@contextmanager
def _store_errors() -> Iterator[None]:
    """Turn the store's errors into ours; their texts name paths and requests, not for customers."""
    try:
        yield
    except FileNotFoundError:
        raise _not_found() from None
    except (BaseError, OSError) as error:
        text = f"The blob store failed: {type(error).__name__}."
        raise MailsiftError("blob_store_failed", text, retryable=True) from error


def _not_found() -> MailsiftError:
    return MailsiftError("blob_not_found", "There is no such blob.")


def _settle(path: Path) -> None:
    """Force a new file and its name to disk: the database will point to it, after a power cut too."""
    for place in (path, path.parent):
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _touch(path: Path) -> bool:
    """Mark a cached download as used now; False when there is none."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _publish(file: IO[bytes], path: Path) -> None:
    """Give a complete download its name; whoever opened an older file of that name keeps it."""
    file.flush()
    second_name = Path(f"{file.name}.done")
    os.link(file.name, second_name)
    second_name.replace(path)


def _prune(folder: Path, limit: int) -> None:
    """Drop the least recently used downloads until at most `limit` bytes are left; the newest stays."""
    total = 0
    for position, (_, size, file) in enumerate(sorted(_downloads(folder), reverse=True)):
        total += size
        if position and total > limit:
            file.unlink(missing_ok=True)


def _downloads(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Yield time of last use, size and path of each download; others may be deleting them meanwhile."""
    for file in folder.glob("*/**/*"):
        with suppress(FileNotFoundError):
            stat = file.stat()
            if S_ISREG(stat.st_mode):
                yield stat.st_mtime, stat.st_size, file
