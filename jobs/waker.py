"""What the engine needs from outside beside what it imports: something that wakes the workers."""

from __future__ import annotations

from typing import Protocol


class Waker(Protocol):
    """Tells workers that there is work. Losing or repeating a wake-up is harmless."""

    async def wake(self, count: int) -> None:
        """Send `count` wake-ups; never raises."""
        ...
