"""The process that reads customers' files: a request a line on stdin, an answer a line on stdout, both JSON.

The request names the work: `take_in`, `inspect` or `count_domains`. The process ends with the last request;
most have one only.
"""

from __future__ import annotations

import errno
import gc
import json
import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any, Final

from mailsift.jobs.intake.models import IntakeLimits, IntakeOptions
from mailsift.pipeline.errors import MailsiftError

_GRACE_S = 5
_OUTAGES: Final = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EROFS,
        errno.ENOENT,
        errno.EMFILE,
        errno.ENFILE,
        errno.ESTALE,
    }
)
_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")


def main() -> None:
    """Do what is asked inside its limits, say what came of it or which rule the file broke, and end."""
    gc.disable()  # this process ends too soon, or waits too often, for rubbish to be sought while it reads
    for line in iter(sys.stdin.readline, ""):
        json.dump(_answer(json.loads(line)), sys.stdout)
        sys.stdout.write("\n")
        sys.stdout.flush()
        signal.alarm(0)
    os._exit(0)  # to take every module apart would take half as long as to load them


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    if gc.get_freeze_count():
        gc.collect()  # what the list before has left
    limits = IntakeLimits(**request["limits"])
    _bound(limits)
    try:
        return _WORK[request["work"]](request, limits)
    except KeyboardInterrupt:  # polars hears Ctrl-C whoever ignores it; that says nothing about the file
        os.kill(os.getpid(), signal.SIGKILL)
        raise
    except BaseException as error:  # noqa: BLE001 - a panic in Rust, too
        return _failure(error)
    finally:
        gc.freeze()  # what is loaded by now stays


def _failure(error: BaseException) -> dict[str, Any]:
    """Return which rule the file broke, or that reading it failed: a name, for a text may quote it.

    A disk that is full and a file that has gone say nothing about the list, whatever error came of them.
    """
    outages = [text for one in _chain(error) if (text := _outage(one))]
    if outages:
        text = f"The files of the reading process fail: {outages[0]}."
        return {"code": "intake_crashed", "message": text, "retryable": True}
    if isinstance(error, MailsiftError):
        return {"code": error.code, "message": error.message}
    return {"code": "intake_crashed", "message": f"Reading the file failed ({type(error).__name__})."}


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _outage(error: BaseException) -> str:
    """Return what the system says is wrong with a file or disk, "" when it says nothing of the kind."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (told := _OS_ERROR.search(str(error))):  # as Rust writes it
        number = int(told[1])
    return os.strerror(number) if number in _OUTAGES else ""


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
    return count_domains(source, workdir, options=options, limits=limits, most=request["most"])


# What reads is imported by the work: polars reserves its memory and threads then, inside the limits.
_WORK: Final[Mapping[str, Callable[[Mapping[str, Any], IntakeLimits], dict[str, Any]]]] = {
    "take_in": _take_in,
    "inspect": _inspect,
    "count_domains": _count_domains,
}


def _bound(limits: IntakeLimits) -> None:
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
