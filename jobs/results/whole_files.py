"""Work on whole files of results for somebody who waits: a few at a time, which bounds a process's memory.

Threads of its own leave those free in which everything else is done that blocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_THREADS: Final = ThreadPoolExecutor(max_workers=4, thread_name_prefix="results")


def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
    """Start work that blocks, as soon as there is a thread for it; what is cancelled before is not done."""
    run = partial(copy_context().run, work, *args, **kwargs)
    return asyncio.get_running_loop().run_in_executor(_THREADS, run)
