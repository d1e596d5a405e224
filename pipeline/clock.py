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
