"""The process that reads customers' files: a request a line on stdin, an answer a line on stdout, both JSON.

The request names the work: `take_in`, `inspect` or `count_domains`. The process ends with the last request;
most have one only.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any, Final

from mailsift.jobs.intake.models import BatchSizes, IntakeLimits, IntakeOptions
from mailsift.pipeline.allocator import UNUSED_FRAMES, leave_out
from mailsift.pipeline.errors import MailsiftError, lacks_threads, outage_of

_GRACE_S = 5
_STATM: Final = Path("/proc/self/statm")
_STACK: Final = 64 << 20  # octets; more than any thread asks for


def main() -> None:
    """Serve requests within their limits; answer with what was found or the rule the file broke."""
    leave_out(UNUSED_FRAMES)
    gc.disable()  # this process ends too soon, or waits too often, for rubbish to be sought while it reads
    for number, line in enumerate(iter(sys.stdin.readline, "")):
        sys.stdout.write(json.dumps(_answer(json.loads(line))) + "\n")
        sys.stdout.flush()
        signal.alarm(0)
        if number:
            gc.collect()  # what the list has left, while no request waits
        gc.freeze()  # what is loaded by now stays, and need not be looked at again
    os._exit(0)  # to take every module apart would take half as long as to load them


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    sizes = BatchSizes(**request["limits"].pop("batches"))
    limits = IntakeLimits(**request["limits"], batches=sizes)
    _set_limits(limits)
    try:
        return _WORK[request["work"]](request, limits)
    except BaseException as error:  # noqa: BLE001 - a panic in Rust, too
        return _failure(error, limits)


def _failure(error: BaseException, limits: IntakeLimits) -> dict[str, Any]:
    """Return which rule the file broke, or that reading it failed: a name, for a text may quote it.

    A disk that is full, a file that has gone and a system that starts no more threads say nothing about the
    list, whatever error came of them.
    """
    if outage := outage_of(error):
        text = f"The files of the reading process fail: {os.strerror(outage)}."
        return {"code": "intake_crashed", "message": text, "retryable": True}
    if lacks_threads(error) and not _is_memory_used_up(limits):
        text = "The process reading the file was given no threads."
        return {"code": "intake_crashed", "message": text, "no_threads": True}
    if isinstance(error, MailsiftError):
        return {"code": error.code, "message": error.message}
    return {"code": "intake_crashed", "message": f"Reading the file failed ({type(error).__name__})."}


def _is_memory_used_up(limits: IntakeLimits) -> bool:
    """Say whether there is no room for the stack of one more thread, which is the list's fault again."""
    try:
        pages = int(_STATM.read_text(encoding="ascii").split()[0])
    except OSError:  # no such place, and no such limit
        return False
    return pages * resource.getpagesize() + _STACK > limits.memory_bytes


def _take_in(request: Mapping[str, Any], limits: IntakeLimits) -> dict[str, Any]:
    from mailsift.jobs.intake.read import read_list  # noqa: PLC0415 - see _WORK

    options = IntakeOptions(**request["options"])
    intake = read_list(Path(request["source"]), Path(request["workdir"]), options=options, limits=limits)
    return {**asdict(intake), "chunks": [astuple(chunk) for chunk in intake.chunks]}


def _inspect(request: Mapping[str, Any], limits: IntakeLimits) -> dict[str, Any]:
    from mailsift.jobs.intake.read import inspect_list  # noqa: PLC0415 - see _WORK

    return inspect_list(Path(request["source"]), Path(request["workdir"]), limits)


def _count_domains(request: Mapping[str, Any], limits: IntakeLimits) -> dict[str, Any]:
    from mailsift.jobs.intake.read import count_domains  # noqa: PLC0415 - see _WORK

    options = IntakeOptions(**request["options"])
    source, workdir = Path(request["source"]), Path(request["workdir"])
    most, sample = request["most"], request["sample"]
    return count_domains(source, workdir, options=options, limits=limits, most=most, sample=sample)


# What reads is imported by the work: polars reserves its memory and threads then, inside the limits.
_WORK: Final[Mapping[str, Callable[[Mapping[str, Any], IntakeLimits], dict[str, Any]]]] = {
    "take_in": _take_in,
    "inspect": _inspect,
    "count_domains": _count_domains,
}


def _set_limits(limits: IntakeLimits) -> None:
    """Bound memory and, for this request, time; should its parent die, this process ends by itself.

    What it writes is for this user alone, whoever has started it.
    """
    os.umask(0o077)
    seconds = int(limits.seconds) + _GRACE_S
    signal.alarm(seconds)
    used = resource.getrusage(resource.RUSAGE_SELF)
    ends_at = int(used.ru_utime + used.ru_stime) + seconds * limits.threads
    resource.setrlimit(resource.RLIMIT_CPU, (ends_at, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError, OSError):  # macOS refuses a limit on address space
        resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))


if __name__ == "__main__":
    main()
