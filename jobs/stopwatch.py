"""Where the time of one piece of work goes, for the log, the metrics and the trace."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.spans import part


class Stopwatch:
    """Adds up the seconds spent in named phases, each a part of the trace when one is written."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of the block to a phase."""
        started = time.perf_counter()
        try:
            with part(name):
                yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def fields(self) -> dict[str, float]:
        """Return milliseconds by phase, named for the log."""
        return {f"{name}_ms": round(1000 * seconds, 2) for name, seconds in self.seconds.items()}
