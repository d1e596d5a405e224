"""Time is passed in, so tests move it instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Returns the time now in seconds since the Unix epoch."""

system_clock: Clock = time.time  # noqa: TID251 - the one place that reads the wall clock
