"""The process that reads one customer's file and then ends: request on stdin, answer on stdout, both JSON."""

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
from typing import Any, NoReturn

from jobs.intake.plan import IntakeLimits, IntakeOptions
from pipeline.errors import MailsiftError

_GRACE_S = 5


def main() -> None:
    """Read the file the request names and write down its rows and addresses."""
    answer(_take_in)


def answer(work: Callable[[Mapping[str, Any], IntakeLimits], dict[str, Any]]) -> NoReturn:
    """Do the work inside its limits, say what came of it or which rule the file broke, and end."""
    gc.disable()  # this process ends too soon for rubbish to matter
    request = json.load(sys.stdin)
    limits = IntakeLimits(**request["limits"])
    _bound(limits)
    try:
        said = work(request, limits)
    except MailsiftError as error:
        said = {"code": error.code, "message": error.message}
    except Exception as error:  # noqa: BLE001 - its text may quote the file, so only its name may leave
        said = {"code": "intake_crashed", "message": f"Reading the file failed ({type(error).__name__})."}
    json.dump(said, sys.stdout)
    sys.stdout.flush()
    os._exit(0)  # to take every module apart would take half as long as to load them


def _take_in(request: Mapping[str, Any], limits: IntakeLimits) -> dict[str, Any]:
    # Only now: polars reserves its memory and threads when it is imported, inside the limits.
    from jobs.intake.read import read_list  # noqa: PLC0415

    options = IntakeOptions(**request["options"])
    intake = read_list(Path(request["source"]), Path(request["workdir"]), options=options, limits=limits)
    return {**asdict(intake), "chunks": [astuple(chunk) for chunk in intake.chunks]}


def _bound(limits: IntakeLimits) -> None:
    """Bound memory, and end this process by itself should its parent die before the time is up."""
    signal.alarm(int(limits.seconds) + _GRACE_S)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(ValueError, OSError):  # macOS refuses a limit on address space
        resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))


if __name__ == "__main__":
    main()
