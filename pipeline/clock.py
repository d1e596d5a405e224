"""Time is passed in, so tests move it instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], float]
"""Returns the time now in seconds since the Unix epoch."""

system_clock: Clock = time.time  # noqa: TID251 - the one place that reads the wall clock


def utc_datetime(epoch: float) -> datetime:
    """Return epoch seconds as a time in UTC."""
    return datetime.fromtimestamp(epoch, UTC)


class SharedClock:
    """Tells seconds since the epoch: this machine's, until it has learned those that all machines share.

    What was learned is counted on by a clock that never jumps; it stands still while a machine sleeps, so let
    it learn again from time to time.

    Args:
        system: the time of day of this machine.
        monotonic: seconds.
    """

    def __init__(
        self, *, system: Clock = system_clock, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._system = system
        self._monotonic = monotonic
        self._ahead: float | None = None

    def __call__(self) -> float:
        """Return the time."""
        return self._system() if self._ahead is None else self._ahead + self._monotonic()

    def learn(self, now: float) -> None:
        """Take the function that returns the time everybody goes by."""
        self._ahead = now - self._monotonic()
