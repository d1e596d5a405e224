"""What goes on beside whoever asked for something, and what becomes of it when it fails.

The rule is here and nowhere else: a failure in the background is logged as `<task>.error` with its place,
counted where nothing the task needs is away, and ends nothing but this one turn. A loop takes its next turn;
whoever waits for an answer gets one that says "unknown".
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog

from mailsift.pipeline.errors import MailsiftError, error_fields, outage_of
from mailsift.pipeline.metrics import UPKEEP_ERRORS

_log = structlog.get_logger()

_NOT_MIGRATED: Final = "database_not_migrated"
_QUIET_SECONDS: Final = 60.0


class FailureLog:
    """Tells of failures in the background.

    Args:
        steady: seconds that never jump.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._told_at: dict[str, float] = {}

    def record(self, task: str, error: Exception) -> None:
        """Log a failure, and count it unless what the task needs is away.

        A schema that is too old stays so until an operator ends it: of each task that is told once a minute.

        Args:
            task: one of metrics.UPKEEP_TASKS.
            error: what was raised.
        """
        is_waiting = isinstance(error, MailsiftError) and error.code == _NOT_MIGRATED
        if is_waiting and self._steady() < self._told_at.get(task, float("-inf")) + _QUIET_SECONDS:
            return
        if is_waiting:
            self._told_at[task] = self._steady()
        _log.warning(f"{task}.error", **error_fields(error))
        is_away = outage_of(error) or (isinstance(error, MailsiftError) and error.retryable)
        if not (is_away or is_waiting):
            UPKEEP_ERRORS.labels(task).inc()


record_failure = FailureLog().record


async def guarded(work: Awaitable[object], task: str) -> None:
    """Await the work of a task; its failure is recorded and goes no further."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 - see above
        record_failure(task, error)


@asynccontextmanager
async def repeating(
    do: Callable[[], Awaitable[object]], *, every: float, task: str, at_once: bool = False
) -> AsyncIterator[None]:
    """Do it every so many seconds until the block ends, whatever becomes of one turn.

    Args:
        do: one turn.
        every: seconds from the end of a turn to the next one.
        task: as in `record_failure`.
        at_once: whether the first turn does not wait.
    """
    running = asyncio.create_task(_repeat(do, every, task, at_once=at_once))
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def _repeat(do: Callable[[], Awaitable[object]], every: float, task: str, *, at_once: bool) -> None:
    if at_once:
        await guarded(do(), task)
    while True:
        await asyncio.sleep(every)
        await guarded(do(), task)
