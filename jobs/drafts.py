"""Lists that were uploaded but not started: looked at, then made a job or forgotten after a day.

One that comes in piece by piece is a draft that is not whole: what has arrived is kept, and goes on where it
broke off.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

from pydantic import TypeAdapter

from mailsift.jobs.erasure import erase_draft
from mailsift.jobs.intake.models import IntakeLimits
from mailsift.jobs.intake.process import ask_child
from mailsift.jobs.submissions import StoredList, new_job, record_start, store_list
from mailsift.jobs.views import AccountId, JobId, JobOptions, JobView, view_of
from mailsift.jobs.waker import Waker
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.blobs import DRAFTS, Blobs, DraftBlobs, drafts_of, read_marker
from mailsift.storage.database import Connection, Database
from mailsift.storage.sql import jobs

_KEPT = timedelta(days=1)
"""How long a list waits to be started."""
_SWEPT_AFTER = _KEPT + timedelta(hours=1)  # later than it can be started: nobody starts what is being deleted
_MOST_DRAFTS = 20  # of one account
_LOOKS_AT_ONCE = 2
_LOOK_SECONDS = 60.0
_SWEEP_SECONDS = 600.0  # a store may charge for every look


@dataclass(frozen=True, slots=True)
class Draft:
    """An uploaded list; until it is whole `sha256` is "" and `bytes` what it will have, 0 if unknown."""

    id: JobId
    name: str
    bytes: int
    sha256: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column of the list.

    Attributes:
        name: as the list writes it.
        key: what JobOptions.column has to be for it; "" when nothing leads to it.
        share: of its filled cells, those that look like addresses.
    """

    name: str
    key: str
    share: float


@dataclass(frozen=True, slots=True)
class Inspection:
    """What an inspection of a list found.

    Attributes:
        rows: how many it has, without the header.
        format, encoding: as in mailsift.jobs.intake.models.Intake.
        header: the names come from the list.
        columns: all of them, in its order.
        guess: place of the address column, from 0; None when no column looks like one.
        first: the cells of the first rows, as text, cut where they are long.
        odd: the first cells that are no plain address, of the address column or of one to be repaired.
    """

    rows: int
    format: str
    encoding: str
    header: bool
    columns: tuple[ListColumn, ...]
    guess: int | None
    first: tuple[tuple[str, ...], ...]
    odd: tuple[str, ...] = ()


_DRAFT: Final = TypeAdapter(Draft)
_INSPECTION: Final = TypeAdapter(Inspection)
"""As blobs hold them."""


@dataclass(slots=True, kw_only=True)
class Drafts:
    """The lists of one installation that wait to be started; every call names the account it speaks for."""

    database: Database
    blobs: Blobs
    waker: Waker
    scratch: Path
    limits: IntakeLimits
    clock: Clock
    _looking: asyncio.Semaphore = field(
        default_factory=partial(asyncio.Semaphore, _LOOKS_AT_ONCE), init=False
    )
    _swept_at: float = field(default=float("-inf"), init=False)

    async def receive(self, account_id: AccountId, pieces: AsyncIterator[bytes], source_name: str) -> Draft:
        """Store a list; memory holds one piece at a time.

        Raises:
            MailsiftError: `empty_file`, `draft_limit`, what `pieces` raises, or what the blob store says.
        """
        draft = await self.open(account_id, source_name)
        try:
            return await self.fill(account_id, draft, pieces)
        except BaseException:
            await erase_draft(self.database, self.blobs, DraftBlobs(account_id, draft.id))
            raise

    async def open(self, account_id: AccountId, source_name: str, *, expected: int = 0) -> Draft:
        """Make a place for a list of so many bytes; before the list itself, so that the dead leave a trace.

        Raises:
            MailsiftError: `draft_limit`.
        """
        await self._check_room(account_id, _MOST_DRAFTS - 1)
        draft = Draft(JobId(uuid4()), source_name, expected, "", self._now())
        await self._mark(DraftBlobs(account_id, draft.id), draft)
        try:
            await self._check_room(account_id, _MOST_DRAFTS)  # others may have come meanwhile
        except BaseException:
            await erase_draft(self.database, self.blobs, DraftBlobs(account_id, draft.id))
            raise
        return draft

    async def _check_room(self, account_id: AccountId, most: int) -> None:
        """Refuse another list of an account with more than so many that can be started or discarded."""
        if len(await self.blobs.list(drafts_of(account_id))) <= most:
            return  # most often; to read them all takes longer
        if len(await self._all(account_id)) > most:
            text = f"{_MOST_DRAFTS} uploaded lists wait to be started: start or discard one of them first."
            raise MailsiftError("draft_limit", text)

    async def fill(self, account_id: AccountId, draft: Draft, pieces: AsyncIterator[bytes]) -> Draft:
        """Store the list in its place.

        Raises:
            MailsiftError: `empty_file`, what `pieces` raises, or what the blob store says.
        """
        keys = DraftBlobs(account_id, draft.id)
        stored = await store_list(self.blobs, keys.source, pieces, name=draft.name)
        draft = replace(draft, bytes=stored.bytes, sha256=stored.sha256)
        await self._mark(keys, draft)
        return draft

    async def waiting(self, account_id: AccountId) -> list[Draft]:
        """Return the lists that can be started, newest first."""
        return [draft for draft in await self._all(account_id) if draft.sha256]

    async def unfinished(self, account_id: AccountId) -> list[Draft]:
        """Return the lists of which not all has come in, newest first."""
        return [draft for draft in await self._all(account_id) if draft.bytes and not draft.sha256]

    async def find(self, account_id: AccountId, draft_id: UUID) -> Draft:
        """Return a list, whether or not all of it has come in.

        Raises:
            MailsiftError: `draft_not_found`, also when it belongs to somebody else or has been started.
        """
        draft = await self._read(DraftBlobs(account_id, draft_id).marker)
        if draft is None or self._is_old(draft):
            raise _no_draft()
        return draft

    async def get(self, account_id: AccountId, draft_id: UUID) -> Draft:
        """Return an uploaded list.

        Raises:
            MailsiftError: `draft_not_found`, also when it belongs to somebody else or has been started.
        """
        draft = await self.find(account_id, draft_id)
        if not draft.sha256:
            raise MailsiftError("draft_not_found", "This list hasn’t been uploaded completely.")
        return draft

    async def inspect(self, account_id: AccountId, draft_id: UUID) -> Inspection:
        """Inspect the list; what was found is remembered.

        Raises:
            MailsiftError: `draft_not_found`, `service_unavailable` when this was interrupted, or what
                mailsift.jobs.intake.process.take_in says of a list it cannot read.
        """
        draft = await self.get(account_id, draft_id)
        keys = DraftBlobs(account_id, draft_id)
        found = await self.blobs.read_if_there(keys.inspection)
        if found is None:
            found = json.dumps(
                await self._inspected(await self.blobs.fetch_as(keys.source, draft.sha256))
            ).encode()
            await self.blobs.put_bytes(keys.inspection, found)
        return _INSPECTION.validate_json(found)

    async def earlier(self, draft: Draft, account_id: AccountId, *, most: int) -> list[JobView]:
        """Return the last jobs of the account over the very same file, newest first."""
        same = {"id": draft.id, "parent_id": None, "source_sha256": draft.sha256, "account_id": account_id}
        return [view_of(row) for row in await self.database.run(jobs.same_list, same, most)]

    async def start(self, account_id: AccountId, draft_id: UUID, options: JobOptions) -> JobId:
        """Make the list a job; starting it twice makes one.

        Raises:
            MailsiftError: `draft_not_found`.
        """
        try:
            draft = await self.get(account_id, draft_id)
        except MailsiftError:
            if await self._is_started(account_id, draft_id):
                return JobId(draft_id)
            raise
        stored = StoredList(draft.name, draft.sha256, draft.bytes)
        new = new_job(draft.id, account_id, options, stored)

        async def transaction(connection: Connection) -> None:
            await jobs.expect_blobs(connection, new.id, seconds=_KEPT.total_seconds())
            if not await jobs.claim_blobs(connection, new.id):  # somebody discards it
                raise _no_draft()
            if await jobs.insert_once(connection, new):
                await record_start(connection, new)

        await self.database.run(transaction)
        await self.blobs.delete(DraftBlobs(account_id, draft_id).marker)
        await self.waker.wake(1)
        return draft.id

    async def discard(self, account_id: AccountId, draft_id: UUID) -> None:
        """Delete the list.

        Raises:
            MailsiftError: `draft_not_found`.
        """
        await self.find(account_id, draft_id)
        await erase_draft(self.database, self.blobs, DraftBlobs(account_id, draft_id))

    async def sweep(self) -> int:
        """Delete what nobody started for a day, every ten minutes; any number of callers is harmless.

        Returns:
            How many lists were deleted.
        """
        if self.clock() - self._swept_at < _SWEEP_SECONDS:
            return 0
        self._swept_at = self.clock()
        swept = 0
        for key in await self.blobs.list(DRAFTS):
            draft = await self._read(key)
            if draft is not None and self._now() - draft.created_at > _SWEPT_AFTER:
                await erase_draft(self.database, self.blobs, read_marker(key))
                swept += 1
        return swept

    async def _is_started(self, account_id: UUID, draft_id: UUID) -> bool:
        row = await self.database.run(jobs.get, draft_id)
        return row is not None and row["account_id"] == account_id

    async def _inspected(self, source: Path) -> dict[str, Any]:
        async with self._looking:
            with tempfile.TemporaryDirectory(dir=self.scratch, prefix="inspect-") as folder:
                request = {"source": str(source), "workdir": folder}
                try:
                    return await ask_child("inspect", request, replace(self.limits, seconds=_LOOK_SECONDS))
                except MailsiftError as error:
                    if not error.retryable:
                        raise
                    text = "Looking at the list was interrupted; please try again."
                    raise MailsiftError("service_unavailable", text, retryable=True) from error

    async def _mark(self, keys: DraftBlobs, draft: Draft) -> None:
        await self.blobs.put_bytes(keys.marker, _DRAFT.dump_json(draft))

    async def _read(self, key: str) -> Draft | None:
        stored = await self.blobs.read_if_there(key)
        return None if stored is None else _DRAFT.validate_json(stored)

    async def _all(self, account_id: AccountId) -> list[Draft]:
        found = [await self._read(key) for key in await self.blobs.list(drafts_of(account_id))]
        known = [draft for draft in found if draft is not None and not self._is_old(draft)]
        return sorted(known, key=lambda draft: draft.created_at, reverse=True)

    def _is_old(self, draft: Draft) -> bool:
        return self._now() - draft.created_at >= _KEPT

    def _now(self) -> datetime:
        return utc_datetime(self.clock())


def _no_draft() -> MailsiftError:
    return MailsiftError("draft_not_found", "There is no such list, or it has already been started.")


_MOST_PARTS: Final = 10_000
_JOINED_PIECE: Final = 1 << 20
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
                while piece := await asyncio.to_thread(file.read, _JOINED_PIECE):
                    yield piece


def _cut_to(piece: bytes, room: int) -> bytes:
    if len(piece) > room:
        raise MailsiftError("file_too_large", "The list is larger than announced.")
    return piece
