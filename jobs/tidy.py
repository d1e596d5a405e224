"""Files of this machine that a crash left behind or that are kept for speed: they hold addresses too."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pipeline.clock import Clock
from storage.blobs import Blobs
from storage.local_files import clear_old

KEPT_SECONDS = 86_400.0
"""How long a file that nobody touches stays; whatever is being worked on is touched."""
_LOOK_SECONDS = 3_600.0


class Tidier:
    """Deletes old files of one machine; every process with files of its own has one.

    Args:
        blobs: keeps copies of blobs, and uploads that are under way.
        scratch: holds files that live as long as one call.
        clock: the time.
    """

    def __init__(self, *, blobs: Blobs, scratch: Path, clock: Clock) -> None:
        self._blobs = blobs
        self._scratch = scratch
        self._clock = clock
        self._looked_at = float("-inf")

    async def sweep(self) -> int:
        """Delete what is old, at most once an hour; returns how many files."""
        now = self._clock()
        if now - self._looked_at < _LOOK_SECONDS:
            return 0
        self._looked_at = now
        before = now - KEPT_SECONDS
        copies = await self._blobs.clear_old_copies(before=before)
        return copies + await asyncio.to_thread(clear_old, self._scratch, before=before)
