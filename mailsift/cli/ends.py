"""The two ends of `mailsift run`: files, pipes and places that lists come from and results go to."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from glob import glob
from pathlib import Path
from typing import IO, Final, TypeVar

from typing_extensions import override

from mailsift.cli.pairs import PIPE
from mailsift.jobs.places.place import Place, is_place, parse_sink, parse_source
from mailsift.jobs.places.service import Places
from mailsift.jobs.results.export import ExportFormat, Selection, export
from mailsift.jobs.service import check_readable, read_pieces
from mailsift.jobs.views import AccountId, JobId
from mailsift.pipeline.errors import MailsiftError, outage_of

T = TypeVar("T")

_SIGNS: Final = ("*", "?")
_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class PipeSink:
    """Standard output, where a list is CSV."""

    async def write(self, found: Selection, _account: AccountId, _job: JobId) -> None:
        """Put results there, whole or not at all."""
        with told_where(self), tempfile.TemporaryFile() as out:  # no half a list for who reads from us
            await asyncio.to_thread(export, found.results, out, format=ExportFormat.CSV, policy=found.policy)
            out.seek(0)
            sys.stdout.flush()
            await _unawaited(partial(_copy, out, sys.stdout.fileno()))

    @override
    def __str__(self) -> str:
        return "standard output"


@dataclass(frozen=True, slots=True)
class PlaceSink:
    """An object or a table; its credentials are those of the environment."""

    place: Place
    places: Places
    scratch: Path

    async def write(self, found: Selection, account: AccountId, job: JobId) -> None:
        """Put results there, whole or not at all."""
        with told_where(self):
            await self.places.write(
                account, self.place, found.results, job=job, scratch=self.scratch, policy=found.policy
            )

    @override
    def __str__(self) -> str:
        return self.place.label


ResultSink = PipeSink | PlaceSink
"""Where results go that is no file."""


@contextmanager
def told_where(out: object) -> Iterator[None]:
    """Turn what a disk or a pipe says while a result is written into one line that names the result."""
    try:
        yield
    except MailsiftError:
        raise
    except Exception as error:
        if not (trouble := errno.EPIPE if isinstance(error, BrokenPipeError) else outage_of(error)):
            raise
        text = f"{out} cannot be written: {os.strerror(trouble)}."
        raise MailsiftError("output_not_writable", text) from error


@contextmanager
def partial_file(folder: Path) -> Iterator[Path]:
    """Give a new file in the folder, of a name that no other file has; it is gone afterwards, or moved."""
    descriptor, name = tempfile.mkstemp(dir=folder, prefix="mailsift-", suffix=".partial")
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


async def sources_of(texts: Sequence[str], places: Places, account: str) -> list[str]:
    """Return what is meant by the arguments of the account's, patterns replaced by what they match.

    Raises:
        MailsiftError: `file_not_found`, for a pattern that matches nothing too, `not_a_file`, `bad_place`.
    """
    found = list[str]()
    for text in texts:
        if not (matches := await _matches(text, places, account)):
            raise MailsiftError("file_not_found", f"There is no file {text}.")
        found += matches
    for source in found:
        if is_place(source):
            parse_source(source)
        elif source != PIPE:
            try:
                check_readable(Path(source))
            except MailsiftError as error:  # what a program writes has no file to be read twice
                raise MailsiftError(error.code, f"{error.message} For standard input say {PIPE}.") from None
    return found


async def _matches(text: str, places: Places, account: str) -> list[str]:
    if not any(sign in text for sign in _SIGNS):
        return [text]
    if is_place(text):
        place = parse_source(text)
        return await places.matching(place, account) if place.is_store else [text]
    return _files_like(text)


def _files_like(text: str) -> list[str]:
    """Return the files a pattern matches, or the one that is called so."""
    if os.path.exists(text):  # noqa: PTH110 - says no to a name that is too long for one
        return [text]
    return sorted(glob(text.replace("[", "[[]"), recursive=True))  # noqa: PTH207 - may begin at /


def pieces_of(source: str, account: AccountId, places: Places) -> AsyncIterator[bytes]:
    """Yield what a source holds.

    Raises:
        MailsiftError: `file_not_readable`, or what a place says.
    """
    if source == PIPE:
        return _readable("Standard input", _standard_input())
    if is_place(source):
        return places.read(account, parse_source(source))
    return _readable("The file", read_pieces(Path(source)))


async def _readable(name: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Say that a list cannot be read before who stores it takes that for a fault of the store."""
    try:
        async for piece in pieces:
            yield piece
    except OSError as error:
        text = f"{name} cannot be read: {error.strerror}."
        raise MailsiftError("file_not_readable", text) from None


@asynccontextmanager
async def read_through(source: str, account: AccountId, places: Places, scratch: Path) -> AsyncIterator[Path]:
    """Give the file of a source, for as long as the block one of its own for what is none."""
    if source != PIPE and not is_place(source):
        yield Path(source)
        return
    with tempfile.TemporaryDirectory(dir=scratch, prefix="source-") as folder:
        file = Path(folder) / "list"
        with file.open("wb") as out:
            async for piece in pieces_of(source, account, places):
                out.write(piece)
        yield file


async def _standard_input() -> AsyncIterator[bytes]:
    descriptor = sys.stdin.fileno()
    while data := await _unawaited(partial(os.read, descriptor, _PIECE)):
        yield data


def _copy(file: IO[bytes], descriptor: int) -> None:
    while piece := file.read(_PIECE):
        while piece:
            piece = piece[os.write(descriptor, piece) :]


async def _unawaited(work: Callable[[], T]) -> T:
    """Do what may block in a thread whose end nobody awaits: Ctrl-C need not wait for a pipe's other side.

    Not with the buffers of standard streams, which the interpreter locks when it ends.
    """
    done = Future[T]()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - for who awaits it
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(done)


def sink_of(output: str, places: Places, scratch: Path) -> Path | ResultSink:
    """Return where an output leads."""
    if output == PIPE:
        return PipeSink()
    return PlaceSink(parse_sink(output), places, scratch) if is_place(output) else Path(output)
