"""Work on whole files of results for somebody who waits: a few at a time, which bounds a process's memory.

Threads of its own leave those free in which everything else is done that blocks. An account has half of them
at most: its long files keep nobody else's waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from mailsift.jobs.views import AccountId

P = ParamSpec("P")
T = TypeVar("T")

_AN_ACCOUNT: Final = 2
_THREADS: Final = ThreadPoolExecutor(max_workers=2 * _AN_ACCOUNT, thread_name_prefix="results")
_turns: Final[WeakValueDictionary[AccountId, asyncio.Semaphore]] = WeakValueDictionary()


def in_thread(
    account_id: AccountId, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> asyncio.Task[T]:
    """Start work that blocks, as soon as it is its turn; what is cancelled before is not done."""
    turn = _turns.setdefault(account_id, asyncio.Semaphore(_AN_ACCOUNT))
    return asyncio.create_task(_in_turn(turn, partial(copy_context().run, work, *args, **kwargs)))


async def _in_turn(turn: asyncio.Semaphore, run: Callable[[], T]) -> T:
    async with turn:
        return await asyncio.get_running_loop().run_in_executor(_THREADS, run)
