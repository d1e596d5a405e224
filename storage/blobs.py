"""Blobs: the lists, segments and results, on a local disk or in any object store, through one interface."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID, uuid4

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore, from_url

from mailsift.pipeline.errors import MailsiftError, SuppressCodes, SuspectError, is_full, outage_of
from mailsift.storage.local_files import (
    Incoming,
    clear_abandoned,
    clear_old,
    guarded_file,
    link_in,
    move_in,
    prune,
    publish,
    sync_to_disk,
    touch,
)

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import RetryConfig


T = TypeVar("T")

_PARTS_AT_ONCE = 2  # in memory while a file is put


class JobBlobs:
    """The keys of one job's blobs; `n` is a chunk's number, `token` the lease it was written under.

    Attributes:
        prefix: everything of the job lies under it.
        source: the customer's file as it came.
        rows: the customer's rows in order, with their address numbers (mailsift.jobs.intake).
        addresses: the distinct addresses (mailsift.pipeline.frames.ADDRESSES), one row group a chunk.
        results: rows and verdicts joined (mailsift.jobs.results.files).
        breakdown: what the verdicts amount to, as JSON (mailsift.jobs.results.breakdown.Breakdown).
        domains: what each domain of the list came to (mailsift.jobs.results.breakdown.DOMAINS).
        domain_counts: how many addresses the list has at which domain (mailsift.jobs.plans.DomainCounts);
            under another name than that of former releases, which could not read it.
        segments: all verdicts by chunk lie under it while the job runs; those of a small list stay.
        residual: all addresses that chunks left unfinished lie under it while the job runs.
    """

    def __init__(self, job: UUID) -> None:
        self.prefix = f"jobs/{job}"
        self.source = f"{self.prefix}/source"
        self.rows = f"{self.prefix}/rows.parquet"
        self.addresses = f"{self.prefix}/addresses.parquet"
        self.results = f"{self.prefix}/results.parquet"
        self.breakdown = f"{self.prefix}/breakdown.json"
        self.domains = f"{self.prefix}/domains.parquet"
        self.domain_counts = f"{self.prefix}/domain_counts_2.json"
        self.segments = f"{self.prefix}/segments"
        self.residual = f"{self.prefix}/residual"

    def segment(self, n: int, token: UUID, data: bytes) -> str:
        """The verdicts of one chunk (mailsift.pipeline.frames.SEGMENT); the name tells damage."""
        return f"{self.segments}/{n}-{token}-{_digest(data)}.parquet"

    def deferred(self, n: int, token: UUID) -> str:
        """The addresses one chunk left unfinished (mailsift.pipeline.frames.WAITING)."""
        return f"{self.residual}/{n}-{token}.parquet"

    def redone(self, token: UUID) -> str:
        """The addresses whose verdicts were lost, as one finish has found them (frames.WAITING)."""
        return f"{self.residual}/redone-{token}.parquet"


_NAMED_DIGEST = re.compile(r"-(x[0-9a-f]{16})\.parquet\Z")


def is_sound(key: str, path: Path) -> bool:
    """Say whether a segment is what was written under its key; those of older releases are believed."""
    found = _NAMED_DIGEST.search(key)
    return found is None or found[1] == _digest(path.read_bytes())


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(data: bytes) -> str:
    return f"x{hashlib.sha256(data).hexdigest()[:16]}"


DRAFTS = "drafts"
"""Every marker of a list that was not started yet lies below it."""


class DraftBlobs:
    """The keys of an uploaded list that was not started yet; `draft` becomes the id of its job.

    Attributes:
        marker: says whose list it is and since when; gone once the job exists.
        source: the customer's file as it came.
        parts: everything of the file that came piece by piece lies below it, until it is whole.
        upload: what is known of a file that comes piece by piece, as JSON (mailsift.jobs.drafts).
        inspection: what an inspection has found in it (mailsift.jobs.drafts.Inspection).
    """

    def __init__(self, account: UUID, draft: UUID) -> None:
        job = JobBlobs(draft)
        self.account = account
        self.draft = draft
        self.marker = f"{drafts_of(account)}/{draft}.json"
        self.source = job.source
        self.parts = f"{job.prefix}/parts"
        self.upload = f"{job.prefix}/upload.json"
        self.inspection = f"{job.prefix}/look.json"

    def part(self, place: int, request: UUID) -> str:
        """The bytes of the file from this place on, as one request brought them."""
        return f"{self.parts}/{place:015d}-{request}"


def drafts_of(account: UUID) -> str:
    """Return what all markers of an account lie below."""
    return f"{DRAFTS}/{account}"


def read_marker(key: str) -> DraftBlobs:
    """Return the draft a marker belongs to."""
    account, draft = key.removeprefix(f"{DRAFTS}/").removesuffix(".json").split("/")
    return DraftBlobs(UUID(account), UUID(draft))


_NEVER_THERE = "probes/none"
_LOOK_SECONDS = 10.0
_LOOK_TIMEOUT = 3.0


class Blobs:
    """A store of immutable files under posix keys.

    Every method raises MailsiftError: `bad_blob_key` for a key outside the allowed shape, `blob_not_found`,
    or, both retryable, `blob_store_failed` when the store does not do its part and `storage_full` when it, or
    the disk of this machine, has no room.

    Args:
        url: `file:///path`, `s3://bucket/prefix`, `gs://…`, `az://…`; credentials come from the environment.
        cache_dir: local folder for downloads and uploads under way; one for each store.
        cache_bytes: the least recently fetched downloads are dropped beyond about this size.
        has_lists: says whether the store should have something in it; asked as long as a local one is empty.

    Attributes:
        trouble: the code of what the store failed with; "" since it has taken a blob again.
    """

    def __init__(
        self,
        url: str,
        cache_dir: Path,
        *,
        cache_bytes: int = 10 * 2**30,
        has_lists: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._has_lists = has_lists
        self._cache, self._cache_bytes = cache_dir, cache_bytes
        self._unpruned = cache_bytes  # what a process before us left
        self._store = _open_store(url)
        local = isinstance(self._store, LocalStore) and self._store.prefix
        self._root = Path(local) if local else None
        self._was_used = False  # a local store had something in it: so it always will have (`_mark`)
        self.trouble = ""
        self._looked_at = float("-inf")
        with suppress(OSError):  # a store in trouble says so where it is used
            self._was_used = self._root is not None and not _is_empty(self._root)

    @property
    def folder(self) -> Path | None:
        """Where a local store is."""
        return self._root

    async def recheck(self) -> None:
        """See whether the store is there, at most once in ten seconds, and takes a blob where it failed."""
        with suppress(MailsiftError, OSError):
            if not self.trouble:
                await self._check_reachable()
                return
            if not await asyncio.to_thread(_is_empty, self._root):
                key = f"probes/{uuid4()}"
                await self._put(key, b"mailsift")
                await self.delete(key)

    async def _check_reachable(self) -> None:
        """Notice a store that is away although nobody has needed it."""
        if time.monotonic() < self._looked_at + _LOOK_SECONDS:
            return
        self._looked_at = time.monotonic()
        if self._root is not None:
            await self._learn_use()
            await asyncio.to_thread(self._check_takes, self._root)
            return
        with self._store_errors():
            async with asyncio.timeout(_LOOK_TIMEOUT):
                await self.exists(_NEVER_THERE)

    async def put_file(self, key: str, path: Path) -> None:
        """Store the file, to which nobody writes any more; readers see all of it or nothing.

        A local store on the same disk has no copy of it, but the file itself.
        """
        _checked_key(key)
        await self._learn_use()
        if self._root is not None and await asyncio.to_thread(self._link_in, self._root, path, key):
            self.trouble = ""
        else:
            await self._put(key, path)

    async def put_bytes(self, key: str, data: bytes) -> None:
        """Store the bytes; readers see all of them or nothing."""
        await self._put(key, data)

    async def put_all(self, blobs: Mapping[str, bytes]) -> None:
        """Store several small blobs, each as `put_bytes` does; a local store forces them to disk together."""
        for key in blobs:
            _checked_key(key)
        await self._learn_use()
        if self._root is not None:
            await asyncio.to_thread(self._put_local, self._root, blobs)
            self.trouble = ""
        else:
            await asyncio.gather(*(self._put(key, data) for key, data in blobs.items()))

    @asynccontextmanager
    async def stream_in(self, key: str) -> AsyncIterator[Incoming]:
        """Store what is written inside the block; an exception inside it leaves nothing behind."""
        _checked_key(key)
        await self._learn_use()
        try:
            with guarded_file(self._cache, "incoming") as file:
                yield Incoming(file)
                file.flush()  # stored before it is closed: until then no sweep takes it away
                path = Path(file.name)
                if self._root is None or not await asyncio.to_thread(self._move_in, self._root, path, key):
                    await self._put(key, path)
        except OSError as error:
            raise self._note(_store_error(error)) from error

    async def fetch(self, key: str) -> Path:
        """Return a local file with the blob's content, for reading only: the blob itself or a download."""
        _checked_key(key)
        if self._root is not None:
            try:
                return await asyncio.to_thread(_local_path, self._root, key)
            except MailsiftError as error:
                if error.retryable:
                    self._note(error)
                raise
        async with self._asked_for():
            meta = await self._head(key)
            version = hashlib.sha256(f"{meta['e_tag']} {meta['size']}".encode()).hexdigest()[:16]
            path = self._cache / key / version
            if await asyncio.to_thread(touch, path):
                return path
            await self._download(key, path)
        return path

    async def fetch_as(self, key: str, sha256: str) -> Path:
        """Do `fetch` for a blob whose digest is known, in hex; "" = it is not.

        Raises:
            SuspectError: `source_damaged`: it is another one, be it that what stands before the store answers
                in its name (a proxy's page), or that it was cut or damaged there.
        """
        for _ in range(2):
            path = await self.fetch(key)
            if not sha256 or await asyncio.to_thread(_sha256_of, path) == sha256:
                return path
            await self._forget_copy(key)
        text = "A file came back from where lists are stored that is not the one that was stored there."
        raise SuspectError("source_damaged", text)

    async def fetch_if_there(self, key: str) -> Path | None:
        """Do `fetch`; None when there is no such blob."""
        with SuppressCodes("blob_not_found"):
            return await self.fetch(key)
        return None

    async def read_if_there(self, key: str) -> bytes | None:
        """Return what a small blob holds; None when there is none, or it goes this very moment."""
        path = await self.fetch_if_there(key)
        try:
            return await asyncio.to_thread(path.read_bytes) if path else None
        except FileNotFoundError:
            return None

    async def fetch_all(self, keys: Sequence[str]) -> Sequence[Path]:
        """Do `fetch` for many blobs, several at a time: a store far away is slow to answer, not to send."""
        return await _some_at_a_time(self.fetch, keys)

    async def fetch_all_sound(self, keys: Sequence[str]) -> dict[str, Path]:
        """Do `fetch_sound` for many segments; those that are there, by their keys, in their order."""
        found = await _some_at_a_time(self.fetch_sound, keys)
        return {key: path for key, path in zip(keys, found, strict=True) if path is not None}

    async def fetch_sound(self, key: str) -> Path | None:
        """Do `fetch` for a segment; None when it is lost or damaged in the store."""
        for _ in range(2):
            path = await self.fetch_if_there(key)
            if path is None:
                return None
            if await asyncio.to_thread(is_sound, key, path):
                return path
            await self._forget_copy(key)
        return None

    async def exists(self, key: str) -> bool:
        """Say whether the blob is there."""
        _checked_key(key)
        with SuppressCodes("blob_not_found"):
            async with self._asked_for():
                await self._head(key)
                return True
        return False

    async def list(self, prefix: str) -> tuple[str, ...]:
        """Return the sorted keys below the prefix, which is a whole path segment: `a/b` covers `a/b/c`."""
        return tuple(await self.sizes(prefix))

    async def sizes(self, prefix: str) -> dict[str, int]:
        """Return the bytes of every blob below the prefix by its key, sorted; see `list`."""
        _checked_key(prefix)
        with self._store_errors():
            found = await obstore.list(self._store, prefix).collect_async()
            if not found:
                await self._check_empty()
        return dict(sorted((meta["path"], meta["size"]) for meta in found))

    async def delete(self, key: str) -> None:
        """Delete the blob; deleting what is not there is fine."""
        await self._delete(_checked_key(key))

    async def delete_prefix(self, prefix: str) -> None:
        """Delete every blob below the prefix, and what a killed writer has left there half written."""
        await _some_at_a_time(self._delete, await self.list(prefix))
        if self._root is not None:
            with self._store_errors(), suppress(FileNotFoundError):
                await asyncio.to_thread(shutil.rmtree, self._root / prefix)

    async def clear_old_copies(self, *, before: float) -> int:
        """Delete what this machine keeps of blobs and has not used since (seconds since the epoch).

        Copies of blobs that were deleted elsewhere go so, and what a crash left of an upload, at once.

        Returns:
            How many files were deleted.
        """
        left = await asyncio.to_thread(clear_abandoned, self._cache)
        return left + await asyncio.to_thread(clear_old, self._cache, before=before)

    async def _delete(self, key: str) -> None:
        await self._forget_copy(key)
        await asyncio.to_thread(_mark, self._root)
        with SuppressCodes("blob_not_found"):
            async with self._asked_for():
                await obstore.delete_async(self._store, key)

    def _link_in(self, root: Path, path: Path, key: str) -> bool:
        self._check_there(root)
        return self._note_use(done=link_in(path, root / key))

    def _move_in(self, root: Path, path: Path, key: str) -> bool:
        self._check_there(root)
        return self._note_use(done=move_in(path, root / key))

    def _note_use(self, *, done: bool = True) -> bool:
        """Remember that something is in a local store, if that was done; returns whether it was."""
        self._was_used |= done
        return done

    def _check_there(self, root: Path) -> None:
        """Refuse to write where a local store was: whoever brings it back would hide what was written."""
        if not root.is_dir():
            gone = MailsiftError("blob_store_failed", "The folder of the blob store is gone.", retryable=True)
            raise self._note(gone)
        try:
            is_empty = _is_empty(root)
        except OSError as error:
            raise self._note(_store_error(error)) from error
        if is_empty and self._was_used:
            raise self._note(_not_mounted())
        self._note_use(done=not is_empty)

    def _check_takes(self, root: Path) -> None:
        """Notice a disk that the system lets nobody write to any more, as one that fails."""
        self._check_there(root)
        if os.statvfs(root).f_flag & os.ST_RDONLY:
            raise self._note(
                MailsiftError("blob_store_failed", "The blob store can only be read.", retryable=True)
            )

    async def _forget_copy(self, key: str) -> None:
        if self._root is None:
            await asyncio.to_thread(shutil.rmtree, self._cache / key, ignore_errors=True)

    async def _learn_use(self) -> None:
        """Learn whether others have lists in a local store that this process has only seen empty."""
        if self._root is not None and not self._was_used and self._has_lists is not None:
            self._was_used = await self._has_lists()

    async def _put(self, key: str, data: Path | bytes) -> None:
        _checked_key(key)
        await self._learn_use()
        if self._root is not None:
            await asyncio.to_thread(self._put_local, self._root, {key: data})
        else:
            with self._store_errors():
                await put_in_parts(self._store, key, data)
        self.trouble = ""

    def _put_local(self, root: Path, blobs: Mapping[str, Path | bytes]) -> None:
        """Put blobs in one go: to change threads costs more than to write a small one."""
        self._check_there(root)
        with self._store_errors():
            for key, data in blobs.items():
                obstore.put(self._store, key, data, max_concurrency=_PARTS_AT_ONCE)
        self._note_use()
        sync_to_disk(*(root / key for key in blobs))

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Turn the store's errors into ours; their texts name paths and requests, not for customers."""
        try:
            yield
        except (BaseError, OSError) as error:
            raise self._note(_store_error(error)) from error

    @asynccontextmanager
    async def _asked_for(self) -> AsyncIterator[None]:
        """Do what `_store_errors` does around what asks for one blob, which may not be there.

        That is believed of a store that is there itself: one whose bucket is gone has none of its blobs.
        """
        with self._store_errors():
            try:
                yield
            except FileNotFoundError:
                await self._check_present()
                raise _not_found() from None

    async def _head(self, key: str) -> ObjectMeta:
        """Return what a store says of a blob; the page of a proxy that answers in its name has no ETag."""
        found = await obstore.head_async(self._store, key)
        if found["e_tag"] is None:
            raise OSError("an object without an ETag")
        return found

    async def _check_present(self) -> None:
        """Ask for something that only a bucket, or a folder, can answer."""
        if self._root is None:
            await obstore.list_with_delimiter_async(self._store, "probes")
        else:
            await self._learn_use()
            await asyncio.to_thread(self._check_there, self._root)

    async def _check_empty(self) -> None:
        """Ask for something that a store has not: who says yes to everything has been asked for no list."""
        if self._root is not None:
            await self._check_present()
            return
        with suppress(FileNotFoundError):
            await self._head(_NEVER_THERE)
            raise OSError("an object that was never stored")

    def _note(self, error: MailsiftError) -> MailsiftError:
        """Remember that the store is in trouble."""
        self.trouble = error.code
        return error

    async def _download(self, key: str, path: Path) -> None:
        with guarded_file(self._cache, "download") as file:
            async for piece in read_whole(self._store, key):
                await asyncio.to_thread(file.write, piece)
                self._unpruned += len(piece)
            await asyncio.to_thread(publish, file, path)
        if (
            self._unpruned > self._cache_bytes // 100
        ):  # looking through the folder takes longer than a download
            self._unpruned = 0
            await asyncio.to_thread(prune, self._cache, self._cache_bytes)


_AT_ONCE = 16  # blobs that are fetched or deleted


async def _some_at_a_time(work: Callable[[str], Awaitable[T]], keys: Iterable[str]) -> list[T]:
    room = asyncio.Semaphore(_AT_ONCE)

    async def one(key: str) -> T:
        async with room:
            return await work(key)

    return await asyncio.gather(*map(one, keys))


_RETRIES: RetryConfig = {"max_retries": 4, "retry_timeout": timedelta(seconds=10)}
"""What waits for the store is told soon that it is away: a request gets its answer, a job its next time."""


def _open_store(url: str) -> ObjectStore:
    """Open what lies at a URL.

    Raises:
        MailsiftError: `bad_settings`, `blob_store_failed`.
    """
    try:
        if url.startswith("file:"):
            return from_url(url, mkdir=True, automatic_cleanup=True)
        return from_url(url, retry_config=_RETRIES)
    except OSError as error:  # where a folder should be is none, and none can be made
        raise _store_error(error) from error
    except (BaseError, ValueError):  # whose words may hold what stands in the URL
        text = "No blob store can be opened at its URL, or without what else it needs: a bucket, an account."
        raise MailsiftError("bad_settings", text) from None


_MARK = ".mailsift"


def _mark(root: Path | None) -> None:
    """Leave a folder in a local store: one whose last blob goes would pass for one that is not mounted."""
    with suppress(OSError):  # a store in trouble says so where it is used
        if root is not None and not _is_empty(root):
            (root / _MARK).mkdir(exist_ok=True)


def _is_empty(root: Path | None) -> bool:
    """Say whether nothing is in a local store: it was not mounted, or was taken away."""
    return root is not None and not any(root.iterdir())


def _local_path(root: Path, key: str) -> Path:
    """Return where a blob lies in a local store, if it does."""
    try:
        if (root / key).is_file():
            return root / key
        if _is_empty(root):
            raise _not_mounted()
    except OSError as error:
        raise _store_error(error) from error
    raise _not_found()


_KEY = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)*", re.ASCII)
_KEY_LENGTH = 500


def _checked_key(key: str) -> str:
    """Return the key if it is a relative posix path of plain segments.

    Raises:
        MailsiftError: `bad_blob_key`.
    """
    if len(key) > _KEY_LENGTH or not _KEY.fullmatch(key):
        raise MailsiftError(
            "bad_blob_key", "A blob key must be a relative path of letters, digits and ._- only."
        )
    return key


def _store_error(error: Exception) -> MailsiftError:
    if is_full(error):
        text = (
            "There is no room left where lists are stored, so nothing was stored. Send this again later; "
            "operators make room on the disk of MAILSIFT_HOME or in the blob store."
        )
        return MailsiftError("storage_full", text, retryable=True)
    text = f"The blob store failed: {reason_of(error)}."
    return MailsiftError("blob_store_failed", text, retryable=True)


_REASON = re.compile(
    r"\bstatus code: (\d+(?: [A-Za-z]+)*)(?:.{,300}?<Code>([A-Za-z]+)</Code>)?"
    r"|\b(HTTP error: [a-z ]+[a-z])|\b(an incorrectly configured region)",
    re.DOTALL,
)
"""In what the library says: how HTTP calls an answer, and how S3 or Azure does; that none came; a region."""


def reason_of(error: Exception) -> str:
    """Return why a store failed, in its own word (ExpiredToken) or the system's; nothing of the request."""
    if found := _REASON.search(str(error)):
        return found[found.lastindex or 0]
    return os.strerror(number) if (number := outage_of(error)) else type(error).__name__


def _not_mounted() -> MailsiftError:
    text = f"The blob store is empty: is it mounted? If it is a new one, make a folder {_MARK} in it."
    return MailsiftError("blob_store_failed", text, retryable=True)


def _not_found() -> MailsiftError:
    return MailsiftError("blob_not_found", "There is no such blob.")


_PART_BYTES = 5 * 2**20
_MOST_PARTS = 10_000  # of one object, in S3 and stores like it


async def put_in_parts(store: ObjectStore, key: str, data: Path | bytes) -> None:
    """Put what is longer than a part into a store in parts of 5 MiB, or of more where they would be too many.

    Raises:
        BaseError, OSError: what the store or the disk says.
    """
    size = await asyncio.to_thread(os.path.getsize, data) if isinstance(data, Path) else len(data)
    part = max(_PART_BYTES, -(-size // _MOST_PARTS))
    await obstore.put_async(store, key, data, chunk_size=part, max_concurrency=_PARTS_AT_ONCE)


_DOWNLOAD_CHUNK = 1 << 20


async def read_whole(store: ObjectStore, key: str) -> AsyncIterator[bytes]:
    """Yield an object in pieces of at least a mebibyte, but for the last of a request.

    The library ends a request after half a minute, whatever comes in it. One that has brought something is
    followed by one for the rest, while it is the same object.

    Raises:
        BaseError, OSError: of the library.
    """
    at, size, version = 0, 1, None
    while at < size:
        rest: GetOptions | None = {"range": {"offset": at}, "if_match": version} if at else None
        found = await obstore.get_async(store, key, options=rest)
        size, version, began = found.meta["size"], found.meta["e_tag"], at
        broken: Exception | None = None
        try:
            async for data in found.stream(min_chunk_size=_DOWNLOAD_CHUNK):
                at += len(data)
                yield bytes(data)
        except (BaseError, OSError) as error:
            broken = error
        if at < size and (at == began or version is None):
            raise broken or OSError("the object ends early")
