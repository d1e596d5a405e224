"""Read a customer's file in a child process, so that no file can hurt the process that asked."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from jobs.intake.plan import ChunkSlice, Intake, IntakeLimits, IntakeOptions
from pipeline.errors import MailsiftError

_IMPORT_ROOT = Path(__file__).parents[2]


async def take_in(source: Path, workdir: Path, *, options: IntakeOptions, limits: IntakeLimits) -> Intake:
    """Read the list in `source` and write `rows.parquet` and `addresses.parquet` into `workdir`.

    `rows.parquet` holds the original columns in the original order (jobs.intake.columns) and the address
    number of each row; `addresses.parquet` is frames.ADDRESSES, one row group for each chunk.

    Args:
        source: the customer's file, of whatever name; it is only read.
        workdir: an existing folder for the two files and for scratch files.
        options: what the customer asked for.
        limits: how big the list may be and what reading it may cost.

    Raises:
        MailsiftError: `empty_file`, `unsupported_format`, `binary_file`, `bad_encoding`, `bad_gzip`,
            `bad_json`, `bad_xlsx`, `bad_parquet`, `bad_csv`, `unclosed_quote`, `compression_bomb`,
            `file_too_large`, `too_many_rows`, `too_many_columns`, `line_too_long`, `no_address_column`,
            `column_not_found`, `intake_timeout`, `intake_crashed`. Messages name lines and column names,
            never the file's content.
    """
    request = {"source": str(source), "workdir": str(workdir), "options": asdict(options)}
    said = await ask_child("jobs.intake.child", request, limits)
    chunks = tuple(ChunkSlice(*chunk) for chunk in said.pop("chunks"))
    return Intake(**said, chunks=chunks)


async def ask_child(module: str, request: Mapping[str, Any], limits: IntakeLimits) -> dict[str, Any]:
    """Let a module of ours answer in a process of its own (jobs.intake.child.answer).

    Args:
        module: its name.
        request: what it is asked, as JSON types.
        limits: what it may use.

    Raises:
        MailsiftError: what the module found, `intake_timeout`, `intake_crashed`.
    """
    told = json.dumps({**request, "limits": asdict(limits)})
    # A plain Popen in a thread, because asyncio's child watchers depend on the loop and its thread.
    child = subprocess.Popen(  # noqa: ASYNC220, S603 - ours; forks in milliseconds, all waiting is in the thread
        [sys.executable, "-P", "-m", module],  # -P: nothing here is importable
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # a panic's message may quote the file
        env=_environment(limits),
    )
    begun = threading.Event()
    try:
        said = await asyncio.to_thread(_ask, child, told.encode(), limits.seconds, begun)
    finally:
        child.kill()  # when this task is cancelled; otherwise the child has ended
        await asyncio.to_thread(child.wait)
        if not begun.is_set():  # cancelled while every thread was busy: nobody else closes the pipes
            child.__exit__(None, None, None)
    return _understood(child.returncode, said)


def _ask(child: subprocess.Popen[bytes], request: bytes, seconds: float, begun: threading.Event) -> bytes:
    """Hand over the request and wait for the answer."""
    begun.set()
    with child:
        try:
            return child.communicate(request, seconds)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            text = f"Reading the file took longer than {seconds:g} seconds."
            raise MailsiftError("intake_timeout", text) from None


def _environment(limits: IntakeLimits) -> Mapping[str, str]:
    """Return all the child may know of the world; settings and their secrets stay with the parent."""
    return {
        "PYTHONPATH": str(_IMPORT_ROOT),
        "PYTHONUTF8": "1",
        "POLARS_MAX_THREADS": str(limits.threads),
        "RUST_BACKTRACE": "0",  # resolving symbols takes seconds, and nobody reads them
    }


def _understood(returncode: int, answer: bytes) -> dict[str, Any]:
    """Turn the child's last words into an answer or the error it found."""
    if returncode != 0:
        # SIGKILL comes from outside (out of memory elsewhere, a restart); any other end would come again.
        text = "The process that read the file died; the file may need more memory than is allowed."
        raise MailsiftError("intake_crashed", text, retryable=returncode == -signal.SIGKILL)
    said: dict[str, Any] = json.loads(answer)
    if "code" in said:
        raise MailsiftError(said["code"], said["message"])
    return said
