"""What one process sees of what it depends on: the way out, resolvers, its disk and the blob store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from mailsift.pipeline.probe.port25 import Port25Status
from mailsift.storage.blobs.store import Blobs
from mailsift.storage.sql.workers import ProcessHealth


class HealthWatch:
    """Says how things stand, and looks again at what is in trouble: nobody else may, while all wait for it.

    Args:
        folder: where the process keeps its files.
        blobs: the store.
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

    def seen(self) -> ProcessHealth:
        """Return how things stand."""
        known, distrusted = self._resolvers()
        free, size = _room(self._folder)
        return ProcessHealth(
            port25=self._port25.standing if self._port25 else "",
            resolvers=known,
            distrusted=distrusted,
            disk_free=free,
            disk_size=size,
            store=self._blobs.trouble,
        )

    async def look_again(self) -> None:
        """Look whether what was in trouble is mended."""
        await self._blobs.look_again()
        if self._port25 is not None:
            await self._port25.look_again()


def _room(folder: Path) -> tuple[int, int]:
    """Return the free bytes and the size of the disk a folder is on; zeros where nobody can say."""
    try:
        found = shutil.disk_usage(folder)
    except OSError:
        return 0, 0
    return found.free, found.total
