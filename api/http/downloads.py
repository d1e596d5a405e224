"""Results on their way out as a file: sent while a blocking writer writes them; memory holds a piece."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from io import RawIOBase
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any, Final, cast
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from mailsift.api.http.errors import RefusedError
from mailsift.jobs.results.browse import RowFilter, in_thread
from mailsift.jobs.results.export import ExportFormat, choose_columns, export
from mailsift.jobs.service import JobService
from mailsift.jobs.views import AccountId, JobId, JobView
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.states import JobState

TYPES: Final = {
    ExportFormat.CSV: "text/csv; charset=utf-8",
    ExportFormat.XLSX: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ExportFormat.JSONL: "application/x-ndjson",
    ExportFormat.PARQUET: "application/vnd.apache.parquet",
}
"""Media types."""
_VERSION: Final = version("mailsift")  # to find it out takes a millisecond: a file of texts is parsed
_PIECE: Final = 1 << 16
_LOOK_S: Final = 0.02
"""Between two looks for more of a file that is being written."""
_RANGE: Final = re.compile(r"bytes=([0-9]{0,999})-([0-9]{0,999})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """What is wanted: which rows, and these columns (all, when none is named).

    `add` gives the file of results with more columns; what it adds changes with time, so there is no ETag.
    """

    format: ExportFormat = ExportFormat.CSV
    rows: RowFilter = field(default_factory=RowFilter)
    columns: Sequence[str] = ()
    add: Callable[[Path], AbstractAsyncContextManager[Path]] | None = None


async def download(
    request: Request, jobs: JobService, account_id: AccountId, job_id: JobId, options: ExportOptions
) -> Response:
    """Return the results of a job, also while it runs.

    Of a completed job the answer has an ETag, is a 304 for who has it already, and a 206 for a `Range`.

    Raises:
        MailsiftError: `job_not_found`, `no_results_yet`, `unknown_column`, `too_many_rows_for_xlsx`,
            `range_not_satisfiable`, `results_changed`.
    """
    async with AsyncExitStack() as stack:
        view = await jobs.get(account_id, job_id)
        complete = view.state is JobState.COMPLETED
        tag = _file_tag(view, options) if complete and options.add is None else ""
        check_unchanged(request, tag)
        if tag and has_already(request, tag):
            return Response(status_code=304, headers={"ETag": tag})
        found = await stack.enter_async_context(jobs.browser.selection(account_id, job_id, options.rows))
        if options.add is not None:
            added = await stack.enter_async_context(options.add(found.results))
            found = replace(found, results=added)
        chosen = choose_columns(found.results, options.columns, found.policy) if options.columns else None
        write = partial(
            export,
            found.results,
            format=options.format,
            statuses=found.statuses or None,
            row_numbers=found.row_numbers,
            columns=chosen,
            policy=found.policy,
        )
        name = PurePosixPath(view.name).stem or "list"
        headers = {
            "Content-Disposition": attachment(f"{name}.mailsift.{options.format.value}"),
            "Mailsift-Complete": str(complete).lower(),
            **({"ETag": tag, "Accept-Ranges": "bytes"} if tag else {}),
        }
        wanted = _wanted_range(request, tag)
        if wanted is not None:
            file = stack.enter_context(TemporaryFile())  # noqa: SIM115 - the stack closes it
            await in_thread(account_id, write, file)
            return _part_of(file, wanted, headers, TYPES[options.format], stack)
        writer = SpooledWriter(account_id, write)
        await writer.open(stack)
        return Download(writer.pieces(), stack.pop_all(), media_type=TYPES[options.format], headers=headers)


def _file_tag(view: JobView, options: ExportOptions) -> str:
    """Return the ETag of a completed job's results; a workbook holds the time it was made, so its is weak."""
    tag = entity_tag(view, options.format, options.rows, list(options.columns))
    return f"W/{tag}" if options.format is ExportFormat.XLSX else tag


def entity_tag(view: JobView, kind: str, rows: RowFilter, rest: object) -> str:
    """Return the ETag of a completed job's rows in this shape, by its policy and this release."""
    asked = {name: sorted(x) if isinstance(x, frozenset) else x for name, x in asdict(rows).items()}
    what = [str(view.id), kind, asked, rest, view.policy.as_json(), _VERSION]
    return f'"{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]}"'


def check_unchanged(request: Request, tag: str) -> None:
    """Refuse to go on with results that are not those of an `If-Match`, of which the caller may have a part.

    Compared strongly (RFC 9110, section 13.1.1); with "" for a tag only `*` names them.

    Raises:
        MailsiftError: `results_changed`.
    """
    if "if-match" not in request.headers:
        return
    named = _tags_in(request, "if-match")
    if "*" not in named and (tag.startswith("W/") or tag not in named - {""}):
        text = "These aren’t the results that `If-Match` names: fetch them from the beginning."
        raise MailsiftError("results_changed", text)


def has_already(request: Request, tag: str) -> bool:
    """Tell whether the caller has what an ETag names; compared weakly, for gzip weakens it (RFC 9110)."""
    named = {one.removeprefix("W/") for one in _tags_in(request, "if-none-match")}
    return "*" in named or tag.removeprefix("W/") in named


def _tags_in(request: Request, header: str) -> set[str]:
    """Return what a list of ETags names, which may stand in several lines (RFC 9110, section 5.3)."""
    return {one.strip() for line in request.headers.getlist(header) for one in line.split(",")}


def _wanted_range(request: Request, tag: str) -> tuple[str, str] | None:
    """Return the ends of the range that is asked for; None when all is sent (RFC 9110, section 14.2)."""
    found = _RANGE.fullmatch(request.headers.get("range", ""))
    if found is None or not any(found.groups()) or not tag or tag.startswith("W/"):
        return None
    return (found[1], found[2]) if request.headers.get("if-range", tag) == tag else None


def _part_of(
    file: IO[bytes],
    wanted: tuple[str, str],
    headers: Mapping[str, str],
    media_type: str,
    stack: AsyncExitStack,
) -> Response:
    """Return a range: where it lies is known once everything has been written to a file."""
    size = file.seek(0, os.SEEK_END)
    first, last = _first_and_last(wanted, size)
    if first > last:
        text = f"The file has {size:,} bytes."
        raise RefusedError("range_not_satisfiable", text, {"Content-Range": f"bytes */{size}"})
    file.seek(first)
    length = last - first + 1
    place = {"Content-Range": f"bytes {first}-{last}/{size}", "Content-Length": str(length)}
    pieces = _pieces(file, length)
    return Download(
        pieces, stack.pop_all(), status_code=206, media_type=media_type, headers={**headers, **place}
    )


def _first_and_last(wanted: tuple[str, str], size: int) -> tuple[int, int]:
    """Return the first and the last byte; the first is behind the last when there are none."""
    first, last = wanted
    if not first:
        return max(0, size - int(last)), size - 1
    return int(first), min(int(last or size), size - 1)


async def _pieces(file: IO[bytes], left: int) -> AsyncIterator[bytes]:
    while left > 0 and (piece := await asyncio.to_thread(file.read, min(left, _PIECE))):
        left -= len(piece)
        yield piece


class SpooledWriter:
    """The bytes a blocking function writes, read from a file on the disk while it writes them.

    Who takes them slowly holds that file and no thread: there are a few of those that write.
    """

    def __init__(self, account_id: AccountId, write: Callable[[IO[bytes]], object]) -> None:
        self._account_id = account_id
        self._write = write
        self._spool = _Spool()

    async def open(self, stack: AsyncExitStack) -> None:
        """Start; returns when the first bytes are there. The end of the stack stops it.

        Raises:
            Exception: what the function raises before it writes anything.
        """
        self._writing = in_thread(self._account_id, self._write, cast("IO[bytes]", self._spool))
        stack.push_async_callback(self._close)
        await self._read(0)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield all bytes; a writer that fails half-way breaks the transfer: nobody takes it for whole."""
        at = 0
        while piece := await self._read(at):
            at += len(piece)
            yield piece

    async def _read(self, at: int) -> bytes:
        """Return what stands at a place, as soon as there is something; nothing at the end."""
        while True:
            complete = self._writing.done()
            if piece := await asyncio.to_thread(self._spool.read_at, at):
                return piece
            if complete:
                await self._writing
                return b""
            await asyncio.wait({self._writing}, timeout=_LOOK_S)

    async def _close(self) -> None:
        """Stop the writer, which finds the file closed."""
        if not self._writing.cancel() and not self._writing.cancelled():
            self._writing.exception()  # whoever was to hear of it has, or has gone
        await asyncio.to_thread(self._spool.close)  # it waits for the disk, should it hang


class _Spool(RawIOBase):
    """A file without a name that is written from its start to its end, and read meanwhile."""

    def __init__(self) -> None:
        self._file = TemporaryFile(buffering=0)  # noqa: SIM115 - closed below
        self._closing = Lock()  # a number of a closed file may be another one's by the time it is written to

    @override
    def writable(self) -> bool:
        return True

    @override
    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        with self._closing:
            while left:
                left = left[self._file.write(left) :]
        return size

    def read_at(self, at: int) -> bytes:
        """Return some of what stands at a place; nobody is there for it once the file is closed."""
        return os.pread(self._file.fileno(), _PIECE, at)

    @override
    def close(self) -> None:
        with self._closing:
            self._file.close()
        super().close()


class Download(StreamingResponse):
    """A file on its way out, and what has to be closed behind it, however the transfer ends."""

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        held: AsyncExitStack,
        *,
        media_type: str,
        headers: Mapping[str, str],
        status_code: int = 200,
    ) -> None:
        super().__init__(pieces, status_code, media_type=media_type, headers=headers)
        self._held = held

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._held:
            await super().__call__(scope, receive, send)


async def streamed(
    pieces: AsyncGenerator[bytes, None],
    media_type: str,
    name: str,
    headers: Mapping[str, str] | None = None,
) -> StreamingResponse:
    """Return a file as it is made, once there is some of it: what goes wrong before is told as an error.

    Its name is one of ours, in ASCII.
    """
    first = await anext(pieces, b"")

    async def whole() -> AsyncIterator[bytes]:
        async with aclosing(pieces):
            yield first
            async for piece in pieces:
                yield piece

    place = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(whole(), media_type=media_type, headers={**(headers or {}), **place})


def attachment(name: str) -> str:
    """Return a Content-Disposition for a file name that may hold anything (RFC 6266, RFC 8187)."""
    plain = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter in " ._-") else "_" for letter in name
    )
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
