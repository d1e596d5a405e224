"""Mailsift in a process whose wall clock is wrong by as much as a file says: `... FILE worker --processes 1`.

Only this process's idea of the time of day jumps, as with a machine whose clock is set: time goes on as ever.
"""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_LOOK_SECONDS = 0.2


def wrong_clock(file: Path, right: Callable[[], float]) -> Callable[[], float]:
    """Return a clock that is ahead by the seconds in the file; it need not be there."""
    offset, looked_at = 0.0, float("-inf")

    def now() -> float:
        nonlocal offset, looked_at
        if time.monotonic() - looked_at > _LOOK_SECONDS:
            looked_at = time.monotonic()
            with suppress(OSError, ValueError):
                offset = float(file.read_text())
        return right() + offset

    return now


if __name__ == "__main__":
    time.time = wrong_clock(Path(sys.argv[1]), time.time)  # noqa: TID251 - the wall clock is what jumps
    sys.argv[:2] = ["mailsift"]
    runpy.run_module("mailsift", run_name="__main__")
