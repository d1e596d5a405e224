"""What one process sees of what it depends on: the way out, resolvers, its disk and the blob store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from mailsift.pipeline.probe.port25 import Port25Status
from mailsift.storage.blobs.store import Blobs
from mailsift.storage.sql.workers import ProcessHealth


class HealthWatch:
    """Reports the state of what the process depends on, and checks again what is in trouble.

    Args:
        port25: the way out, where the process probes.
        resolvers: how many resolvers there are, and how many of them are not believed.
    """

    def __init__(
        self,
        *,
        folder: Path,
        blobs: Blobs,
        port25: Port25Status | None = None,
        resolvers: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        self._folder = folder
        self._blobs = blobs
        self._port25 = port25
        self._resolvers = resolvers

    def current(self) -> ProcessHealth:
        """Return the state of all of it."""
        known, distrusted = self._resolvers()
        free, size = _disk_space(self._folder)
        return ProcessHealth(
            port25=self._port25.state if self._port25 else "",
            resolvers=known,
            distrusted=distrusted,
            disk_free=free,
            disk_size=size,
            store=self._blobs.trouble,
        )

    async def recheck(self) -> None:
        """Check whether what was in trouble is mended."""
        await self._blobs.recheck()
        if self._port25 is not None:
            await self._port25.recheck()


def _disk_space(folder: Path) -> tuple[int, int]:
    """Return the free bytes and the size of the disk a folder is on; zeros where that is not known."""
    try:
        found = shutil.disk_usage(folder)
    except OSError:
        return 0, 0
    return found.free, found.total
