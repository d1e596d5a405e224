"""Lists that come in piece by piece: what has arrived is kept, and goes on where it broke off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

from mailsift.jobs.drafts import Draft, Drafts
from mailsift.jobs.views import AccountId, JobId
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.blobs import Blobs, DraftBlobs

_MOST_PARTS: Final = 10_000
_PIECE: Final = 1 << 20
_PATIENCE: Final = 5.0  # seconds; a connection that is silent holds its request open for longer


@dataclass(frozen=True, slots=True)
class ListUpload:
    """A list on its way in.

    Attributes:
        id: of the draft it becomes.
        length: bytes the file has.
        offset: bytes of it that have come in.
        modified: what the sender knows the file by beside name and length, "" for nothing.
    """

    id: JobId
    name: str
    length: int
    offset: int
    modified: str


class ListUploads:
    """The lists on their way in; every call names the account it speaks for.

    One is a draft that is not whole: it counts and is discarded as one, is forgotten after a day and erased
    with its account.
    What one request brings is a blob named after its place, so that any process can take the next. A request
    that was given up and ends late takes nothing away: of two at one place the longer counts.
    """

    def __init__(self, *, drafts: Drafts, blobs: Blobs, max_bytes: int) -> None:
        self._drafts = drafts
        self._blobs = blobs
        self._max_bytes = max_bytes
        self._ends: dict[UUID, asyncio.Event] = {}

    async def begin(self, account_id: AccountId, name: str, length: int, modified: str = "") -> ListUpload:
        """Make room for a list.

        Raises:
            MailsiftError: `empty_file`, `file_too_large`, `draft_limit`.
        """
        if length <= 0:
            raise MailsiftError("empty_file", "The list is empty.")
        if length > self._max_bytes:
            raise MailsiftError("file_too_large", f"A list can have at most {self._max_bytes:,} bytes.")
        draft = await self._drafts.open(account_id, name, expected=length)
        known = json.dumps({"modified": modified}).encode()
        await self._blobs.put_bytes(DraftBlobs(account_id, draft.id).upload, known)
        return ListUpload(draft.id, name, length, 0, modified)

    async def find(self, account_id: AccountId, upload_id: UUID) -> ListUpload:
        """Return a list on its way in, or one that has just come in whole.

        Raises:
            MailsiftError: `draft_not_found`, also when it belongs to somebody else or has been started.
        """
        await self._wait_for_ending(upload_id)
        return await self._upload_of(account_id, await self._drafts.find(account_id, upload_id))

    async def waiting(self, account_id: AccountId) -> list[ListUpload]:
        """Return the lists that broke off, newest first."""
        return [
            await self._upload_of(account_id, draft) for draft in await self._drafts.unfinished(account_id)
        ]

    async def append(
        self, account_id: AccountId, upload_id: UUID, offset: int, pieces: AsyncIterator[bytes]
    ) -> ListUpload:
        """Take the next bytes; whatever arrives before `pieces` end is kept. The last byte makes it a draft.

        Raises:
            MailsiftError: `draft_not_found`, `upload_conflict` when these are not the next bytes,
                `file_too_large` when there are more than were announced, or what the blob store says.
        """
        await self._wait_for_ending(upload_id)
        end = self._ends[upload_id] = asyncio.Event()
        try:
            return await self._append(account_id, upload_id, offset, pieces)
        finally:
            end.set()
            if self._ends.get(upload_id) is end:
                del self._ends[upload_id]

    async def _append(
        self, account_id: AccountId, upload_id: UUID, offset: int, pieces: AsyncIterator[bytes]
    ) -> ListUpload:
        draft = await self._drafts.find(account_id, upload_id)
        keys, parts = DraftBlobs(account_id, draft.id), await self._parts(account_id, draft)
        here = draft.bytes if draft.sha256 else sum(parts.values())
        if offset != here or len(parts) >= _MOST_PARTS:
            raise MailsiftError("upload_conflict", f"The upload must continue at byte {here:,}.")
        if not draft.sha256:
            size = await self._store(keys.part(offset, uuid4()), pieces, draft.bytes - offset)
            if offset + size == draft.bytes:
                await self._finish(account_id, draft)
        return await self._upload_of(account_id, await self._drafts.find(account_id, upload_id))

    async def _wait_for_ending(self, upload_id: UUID) -> None:
        """Wait a little for a request of this process that is ending: what it has brought counts, too."""
        end = self._ends.get(upload_id)
        if end is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(end.wait(), _PATIENCE)

    async def _upload_of(self, account_id: AccountId, draft: Draft) -> ListUpload:
        if draft.sha256:
            return ListUpload(draft.id, draft.name, draft.bytes, draft.bytes, "")
        parts = await self._parts(account_id, draft)
        try:
            known = await self._blobs.fetch(DraftBlobs(account_id, draft.id).upload)
            modified = str(json.loads(await asyncio.to_thread(known.read_bytes))["modified"])
        except (MailsiftError, OSError):  # it was begun or finished this very moment
            modified = ""
        return ListUpload(draft.id, draft.name, draft.bytes, sum(parts.values()), modified)

    async def _parts(self, account_id: AccountId, draft: Draft) -> dict[str, int]:
        """Return the blobs of what has come in, and their sizes, from the first byte on, without a gap."""
        sizes = await self._blobs.sizes(DraftBlobs(account_id, draft.id).parts)
        longest = {
            int(key.rpartition("/")[2].partition("-")[0]): key for key in sorted(sizes, key=sizes.__getitem__)
        }
        joining, at = dict[str, int](), 0
        while key := longest.get(at):
            joining[key] = sizes[key]
            at += sizes[key]
        return joining

    async def _store(self, key: str, pieces: AsyncIterator[bytes], room: int) -> int:
        """Store the bytes of one request, and return how many; none leave no blob behind."""
        first = await anext((piece async for piece in pieces if piece), b"")
        if not first:
            return 0
        async with self._blobs.stream_in(key) as incoming:
            await incoming.write(_cut_to(first, room))
            async for piece in pieces:
                await incoming.write(_cut_to(piece, room - incoming.size))
        return incoming.size

    async def _finish(self, account_id: AccountId, draft: Draft) -> None:
        """Put the list together, unless it was given up, or another request has brought the last bytes, too.

        That one deletes the parts: what is left of them is not the list.
        """
        now = await self._drafts.find(account_id, draft.id)
        if not now.sha256:
            parts = await self._parts(account_id, draft)
            if sum(parts.values()) != draft.bytes:
                return
            await self._drafts.fill(account_id, draft, self._joined(parts))
        keys = DraftBlobs(account_id, draft.id)
        await self._blobs.delete_prefix(keys.parts)
        await self._blobs.delete(keys.upload)

    async def _joined(self, keys: Iterable[str]) -> AsyncIterator[bytes]:
        for key in keys:
            path = await self._blobs.fetch(key)
            with await asyncio.to_thread(path.open, "rb") as file:
                while piece := await asyncio.to_thread(file.read, _PIECE):
                    yield piece


def _cut_to(piece: bytes, room: int) -> bytes:
    if len(piece) > room:
        raise MailsiftError("file_too_large", "The list is larger than announced.")
    return piece
