"""What a fork leaves of us: no thread but the one that forked, so no event loop and no frames."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

T = TypeVar("T")

_TASKS: Final = Path("/proc/self/task")
_WORKER: Final = "polars-"  # and a number: how polars names the threads it computes with

_beginners: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()
_left_behind: list[Any] = []
"""What belongs to the parent: kept, because to collect it would close what the parent uses."""


class _Frames:
    """Whether polars had threads before the fork, and whether this process is one that lost them."""

    had_threads = False
    lost = False


def when_forked(one: T, begin: Callable[[T], None]) -> None:
    """Call `begin(one)` in every child that is forked while `one` lives."""
    _beginners[one] = begin


def frames_are_lost() -> bool:
    """Say whether a computation with frames would wait forever in this process."""
    return _Frames.lost


def _note_threads() -> None:
    _Frames.had_threads = "polars" in sys.modules and _has_workers()


def _has_workers() -> bool:
    try:
        names = [(task / "comm").read_text() for task in _TASKS.iterdir()]
    except OSError:
        return True  # nobody can tell here
    return any(name.startswith(_WORKER) and name.strip()[len(_WORKER) :].isdecimal() for name in names)


def _begin_again() -> None:
    _Frames.lost = _Frames.lost or _Frames.had_threads
    for one, begin in list(_beginners.items()):
        _left_behind.append(dict(vars(one)))
        begin(one)


os.register_at_fork(before=_note_threads, after_in_child=_begin_again)
