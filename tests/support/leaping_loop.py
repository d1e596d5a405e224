"""An event loop whose clock leaps over the time in which nothing can happen: no test waits for a silence."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from concurrent.futures import Executor
from selectors import SelectorKey
from typing import Final, TypeVar

from typing_extensions import TypeVarTuple, Unpack, override

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_LOOK: Final = 0.001
"""Seconds that are really waited for, the least that can be: what comes over loopback is there at once."""


class LeapingLoop(asyncio.SelectorEventLoop):
    """The usual loop; where it would wait for its next timer alone, the timer's time has come.

    Its time is real time and what was leapt over, so that code which holds the loop is late as ever. Nothing
    is leapt over while the loop's executor works. Other threads and processes would need the time that is
    leapt over: peers live in the loop.
    """

    def __init__(self) -> None:
        self._leaps = _LeapingSelector()
        super().__init__(self._leaps)

    @override
    def time(self) -> float:
        return super().time() + self._leaps.seconds

    def hold(self, seconds: float) -> None:
        """Let so much time pass in which nothing has a turn."""
        self._leaps.seconds += seconds

    @override
    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[_Ts]], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        future = super().run_in_executor(executor, func, *args)
        self._leaps.threads += 1
        future.add_done_callback(self._came_back)
        return future

    @override
    async def shutdown_default_executor(self, *limit: float | None) -> None:
        """Wait for its threads, since Python 3.12 for five minutes at most, which are not leapt over."""
        self._leaps.threads += 1
        await super().shutdown_default_executor(*limit)

    def _came_back(self, _: object) -> None:
        self._leaps.threads -= 1


def hold_the_loop(seconds: float) -> None:
    """Do to the running loop what a busy machine does, or a long computation."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LeapingLoop)
    loop.hold(seconds)


class _LeapingSelector(selectors.DefaultSelector):
    seconds = 0.0
    threads = 0

    @override
    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        if timeout is None or timeout <= _LOOK or self.threads:
            return super().select(timeout)
        events = super().select(_LOOK)
        if not events:
            self.seconds += timeout - _LOOK
        return events
