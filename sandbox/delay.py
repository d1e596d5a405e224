"""A delay line: what is said now is heard later, in order, as on a long wire."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class DelayLine:
    """Holds replies back for a round trip; the replies to pipelined commands all come one round trip later.

    Args:
        latency: seconds between a command and its reply.
        write: where the bytes go in the end.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, latency: float, write: Callable[[bytes], None]
    ) -> None:
        self._loop, self._latency, self._write = loop, latency, write
        self._queue: deque[tuple[float, bytes, Callable[[], None] | None]] = deque()
        self._busy_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def put(self, data: bytes, *, work: float = 0.0, then: Callable[[], None] | None = None) -> None:
        """Send bytes.

        Args:
            data: what to write.
            work: seconds the server works on them, one reply after the other.
            then: called once they are written.
        """
        if not (self._queue or work or self._latency):
            self._emit(data, then)
            return
        self._busy_until = max(self._busy_until, self._loop.time()) + work
        self._queue.append((self._busy_until + self._latency, data, then))
        if self._timer is None:
            self._arm()

    def clear(self) -> None:
        """Forget what is still on the way."""
        self._queue.clear()
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = self._loop.call_at(self._queue[0][0], self._fire)

    def _fire(self) -> None:
        self._timer = None
        due = self._loop.time() + 0.0005  # timers of uvloop have a resolution of a millisecond
        while self._queue and self._queue[0][0] <= due:
            _, data, then = self._queue.popleft()
            self._emit(data, then)
        if self._queue and self._timer is None:
            self._arm()

    def _emit(self, data: bytes, then: Callable[[], None] | None) -> None:
        self._write(data)
        if then:
            then()
