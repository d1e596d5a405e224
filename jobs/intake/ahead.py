"""Domains are looked up while their list is still being read: its chunks then find them known.

To read a list keeps one processor busy, and DNS another one. Who reads writes down the domains that are new,
a file for some; who waits for the list takes the files in their order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Final

import polars as pl

_MAX_DOMAINS: Final = 50_000
"""Domains of a list: by the time so many are known it has been read."""
_BATCH: Final = 1_000
_PAUSE_S: Final = 0.1


class DomainsAhead:
    """Writes down the domains of a list while it is read.

    Args:
        folder: for the files; its removal marks the end of the list.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = count()
        self._known: set[str] = set()

    def add(self, parsed: pl.DataFrame) -> None:
        """Write down what is new in parsed cells (frames.PARSED)."""
        if len(self._known) >= _MAX_DOMAINS:
            return
        domains = parsed.filter(pl.col("rule") == "")["domain"].unique(maintain_order=True)
        new = [domain for domain in domains if domain not in self._known][: _MAX_DOMAINS - len(self._known)]
        self._known.update(new)
        unfinished = self._folder / "domains"
        unfinished.write_text("\n".join(new), encoding="ascii")
        unfinished.rename(_file(self._folder, next(self._files)))


async def look_ahead(folder: Path, look_up: Callable[[Sequence[str]], Awaitable[object]]) -> None:
    """Look up what `DomainsAhead` writes down in the folder, until that is gone."""
    import asyncio  # noqa: PLC0415 - who reads has no loop, and takes 11 ms to load what makes one

    for path in (_file(folder, number) for number in count()):
        while not await asyncio.to_thread(path.exists):
            if not await asyncio.to_thread(folder.exists):
                return
            await asyncio.sleep(_PAUSE_S)
        try:
            domains = (await asyncio.to_thread(path.read_text, encoding="ascii")).split()
        except FileNotFoundError:  # with its folder
            return
        for start in range(0, len(domains), _BATCH):
            await look_up(domains[start : start + _BATCH])
            if not await asyncio.to_thread(folder.exists):
                return


def _file(folder: Path, number: int) -> Path:
    return folder / f"domains-{number}"
