"""Read a customer's file in a child process, so that no file can hurt the process that asked."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mailsift.jobs.intake.models import ChunkSlice, Intake, IntakeLimits, IntakeOptions
from mailsift.pipeline.allocator import FREE_SOON, LITTLE_AHEAD
from mailsift.pipeline.errors import MailsiftError, NoThreadsError, SuspectError

_IMPORT_ROOT = Path(__file__).parents[3]
_RAISED_BY_THE_FILE = frozenset(
    {
        signal.SIGABRT,
        signal.SIGSEGV,
        signal.SIGBUS,
        signal.SIGILL,
        signal.SIGFPE,
        signal.SIGALRM,
        signal.SIGXCPU,
    }
)
"""Signals a reading process ends itself with: out of memory, a defect of a reader, its time is up."""
_BLOCKED_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
"""What asks a process to stop is not for the one that reads. From its first moment: an interpreter that is
interrupted while it starts ends as it does over a defect. And blocked: polars hears an ignored SIGINT and
takes the file for ended where it was interrupted."""
COMMAND = (sys.executable, "-P", "-m", "mailsift.jobs.intake.child")  # -P: imports nothing from here

_ORDINARY_ERRORS = frozenset(
    {
        "empty_file",
        "no_address_column",
        "column_not_found",
        "unsupported_format",
        "binary_file",
        "bad_encoding",
    }
)
"""Errors that are customers' mistakes; after any other a fresh process is safer."""
_STIRRING_SECONDS = 0.1
"""A process that reads takes more of a processor than that in its `still_seconds`, however slow the disk. One
that polars waits in for a thread that it was never given takes none, and would wait for ever."""
_TICKS = os.sysconf("SC_CLK_TCK")

_ORDINARY_ROWS = 50_000  # a small file may unpack to a big one


class ReaderKilledError(SuspectError):
    """The process that reads a list was killed, as the system does when memory runs out.

    That may be for want of what others use, or because of the list.
    """

    def __init__(self) -> None:
        text = "The process that read the file was killed; the file may need more memory than there is."
        super().__init__("intake_crashed", text)


class ReaderStuckError(SuspectError):
    """The process that reads a list waits for what never comes, such as a thread it was not given."""

    def __init__(self) -> None:
        text = "The process that read the file stood still; it may need more threads or memory than there is."
        super().__init__("intake_crashed", text)


async def take_in(
    source: Path,
    workdir: Path,
    *,
    options: IntakeOptions,
    limits: IntakeLimits,
    reader: StandingReader | None = None,
) -> Intake:
    """Read the list in `source` and write `rows.parquet` and `addresses.parquet` into `workdir`.

    `rows.parquet` holds the original columns in the original order, and the address of each row and its
    number (mailsift.jobs.columns); `addresses.parquet` is frames.ADDRESSES, one row group for each chunk.

    Args:
        source: the customer's file, of whatever name; it is only read.
        workdir: an existing folder for the two files and for scratch files.
        options: what the customer asked for.
        limits: how big the list may be and what reading it may cost.
        reader: reads it, when it is small; None = a process that is started for this list.

    Raises:
        MailsiftError: `empty_file`, `unsupported_format`, `binary_file`, `bad_encoding`, `bad_gzip`,
            `bad_json`, `bad_xlsx`, `bad_parquet`, `bad_csv`, `unclosed_quote`, `compression_bomb`,
            `file_too_large`, `too_many_rows`, `too_many_columns`, `line_too_long`, `no_address_column`,
            `column_not_found`, `looks_harvested`, `intake_timeout`, `intake_crashed`. Messages name lines and
            column names, never the file's content. `intake_crashed` is retryable when the process was stopped
            from outside; a ReaderKilledError when it was killed, a ReaderStuckError when it stood still.
    """
    request = {"source": str(source), "workdir": str(workdir), "options": asdict(options)}
    answer = await (reader.ask if reader else ask_child)("take_in", request, limits)
    chunks = tuple(ChunkSlice(*chunk) for chunk in answer.pop("chunks"))
    return Intake(**answer, chunks=chunks)


async def ask_child(work: str, request: Mapping[str, Any], limits: IntakeLimits) -> dict[str, Any]:
    """Let a process of its own do the work of this name there (mailsift.jobs.intake.child).

    Raises:
        MailsiftError: what the process found, `intake_timeout`, `intake_crashed`.
    """
    child = _start_child(limits)
    begun = threading.Event()
    try:
        request_line = _dump_request(work, request, limits)
        answer = await asyncio.to_thread(_ask, child, request_line, limits, begun)
    finally:
        child.kill()  # when this task is cancelled; otherwise the child has ended
        await asyncio.to_thread(child.wait)
        if not begun.is_set():  # cancelled while every thread was busy: nobody else closes the pipes
            child.__exit__(None, None, None)
    return _parse_answer(child.returncode, answer)


def _start_child(limits: IntakeLimits) -> subprocess.Popen[bytes]:
    """Start a process that reads; it has its three pipes and nothing else of ours.

    A plain Popen, because asyncio's child watchers depend on the loop and its thread.
    """
    # Of this thread; a child inherits it.
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED_SIGNALS)
    try:
        return subprocess.Popen(  # noqa: S603 - ours; forks in milliseconds
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a panic's message may quote the file
            env=_environment(limits),
            start_new_session=True,  # what the terminal or a supervisor tells our group is not for it
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)


def _dump_request(work: str, request: Mapping[str, Any], limits: IntakeLimits) -> bytes:
    return json.dumps({**request, "work": work, "limits": asdict(limits)}).encode() + b"\n"


def _ask(
    child: subprocess.Popen[bytes], request: bytes, limits: IntakeLimits, begun: threading.Event
) -> bytes:
    """Hand over the request and wait for the answer."""
    begun.set()
    unsent: bytes | None = request
    ends_at, used = time.monotonic() + limits.seconds, 0.0
    with child:
        while True:
            left = ends_at - time.monotonic()
            try:
                return child.communicate(unsent, max(0.0, min(left, limits.still_seconds)))[0]
            except subprocess.TimeoutExpired:
                unsent = None  # communicate has it
            before, used = used, _processor_seconds(child.pid)
            if left <= limits.still_seconds:
                child.kill()
                text = f"Reading the file took longer than {limits.seconds:g} seconds."
                raise MailsiftError("intake_timeout", text)
            if used - before < _STIRRING_SECONDS:
                child.kill()
                raise ReaderStuckError


def _processor_seconds(pid: int) -> float:
    """Return how much of a processor a process has used; where nobody says so, more than ever before."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return time.monotonic()
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS


def _environment(limits: IntakeLimits) -> Mapping[str, str]:
    """Return the child's environment; settings and their secrets stay with the parent."""
    return {
        "PYTHONPATH": str(_IMPORT_ROOT),
        "PYTHONUTF8": "1",
        "POLARS_MAX_THREADS": str(limits.threads),
        "POLARS_IGNORE_TIMEZONE_PARSE_ERROR": "1",  # a foreign file's zone is read.py's to judge
        **FREE_SOON,
        **LITTLE_AHEAD,
        "RUST_BACKTRACE": "0",  # resolving symbols takes seconds, and nobody reads them
    }


def _parse_answer(returncode: int, answer: bytes) -> dict[str, Any]:
    """Turn the child's output into an answer or the error it found.

    Only what the file itself did to the child would come again. Any other signal comes from outside and says
    nothing about the file, but for the one that the system sends when there is no memory left.
    """
    if returncode == -signal.SIGKILL:
        raise ReaderKilledError
    if returncode < 0 and -returncode not in _RAISED_BY_THE_FILE:
        raise MailsiftError("intake_crashed", "The process reading the file was stopped.", retryable=True)
    if returncode != 0:
        text = "The process that read the file died; the file may need more memory than is allowed."
        raise MailsiftError("intake_crashed", text)
    return _unwrap(json.loads(answer))


def _unwrap(found: dict[str, Any]) -> dict[str, Any]:
    """Return what was found, or raise the error that it is."""
    if found.get("no_threads"):
        raise NoThreadsError(found["code"], found["message"])
    if "code" in found:
        raise MailsiftError(found["code"], found["message"], retryable=found.get("retryable", False))
    return found


class StandingReader:
    """Reads small lists, one at a time, in a process that stays: its start is most of what one costs.

    The process has the limits of any other for every list, is replaced after so many, and after any list that
    was more than ordinary. A list it does not survive, or is slow over, is judged alone, in a process of its
    own; so no list pays for what another one has done.

    Args:
        lists: how many one process reads.
        timeout_s: seconds it may take over a list.
    """

    def __init__(self, *, lists: int = 500, timeout_s: float = 10.0) -> None:
        self._lists = lists
        self._timeout_s = timeout_s
        self._lock = asyncio.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._read = 0

    @property
    def pid(self) -> int | None:
        """Of its process, while there is one."""
        return self._child.pid if self._child else None

    @property
    def is_reading(self) -> bool:
        """Whether its process is at work."""
        return self._lock.locked()

    async def ask(self, work: str, request: Mapping[str, Any], limits: IntakeLimits) -> dict[str, Any]:
        """Do as `ask_child` does; `limits` must be the same at every call."""
        async with self._lock:
            found = await self._ask_reader(_dump_request(work, request, limits), limits)
        if found is None or found.get("code") == "intake_crashed":
            _clear(Path(request["workdir"]))
            return await ask_child(work, request, limits)
        return _unwrap(found)

    async def rest(self) -> None:
        """End the process until it is needed again, unless it is at work: a large list needs the memory."""
        if not self.is_reading:
            await self.aclose()

    async def aclose(self) -> None:
        """End the process."""
        child, self._child, self._read = self._child, None, 0
        if child is not None:
            child.kill()
            with suppress(BrokenPipeError):  # what it was asked when it died is still in the pipe
                await asyncio.to_thread(child.__exit__, None, None, None)  # closes its pipes and waits

    async def _ask_reader(self, request_line: bytes, limits: IntakeLimits) -> dict[str, Any] | None:
        """Return the answer; None when there is none, and whenever the process is replaced over it."""
        if self._child is None:
            self._child = _start_child(replace(limits, threads=1))  # more would but wake each other
        found = None
        try:
            found = await _exchange(self._child, request_line, min(self._timeout_s, limits.seconds))
            self._read += 1
        finally:
            if found is None or not _is_ordinary(found) or self._read >= self._lists:
                await self.aclose()
        return found


async def _exchange(
    child: subprocess.Popen[bytes], request_line: bytes, timeout_s: float
) -> dict[str, Any] | None:
    """Send a request to a process that stays; None when it dies or does not answer."""
    if child.stdin is None or child.stdout is None:
        raise AssertionError("started with pipes")
    loop, answer, pipe = asyncio.get_running_loop(), bytearray(), child.stdout.fileno()
    done = loop.create_future()

    def read_answer() -> None:
        piece = os.read(pipe, 65_536)
        answer.extend(piece)
        if (not piece or piece.endswith(b"\n")) and not done.done():
            done.set_result(None)

    loop.add_reader(pipe, read_answer)
    try:
        child.stdin.write(request_line)  # shorter than what a pipe holds, and it is empty
        child.stdin.flush()
        async with asyncio.timeout(timeout_s):
            await done
    except OSError:  # it has died, or the time is over
        return None
    finally:
        loop.remove_reader(pipe)
    found: dict[str, Any] | None = json.loads(answer) if answer.endswith(b"\n") else None
    return found


def _is_ordinary(found: Mapping[str, Any]) -> bool:
    """Say whether the process that found this may read another list."""
    return found.get("code", "empty_file") in _ORDINARY_ERRORS and found.get("rows", 0) <= _ORDINARY_ROWS


def _clear(workdir: Path) -> None:
    """Remove what a process has left of its work."""
    for path in workdir.iterdir():
        path.unlink()
