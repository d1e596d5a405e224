"""A small list in one hand: what its worker has read and found out need not be read from the store again."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import polars as pl

from mailsift.storage.blobs.store import Blobs, JobBlobs
from mailsift.storage.sql.jobs import SMALL_BYTES

SMALL_ROWS: Final = 1_000
"""A job with at most so many rows never waits behind a bigger one."""


@dataclass(frozen=True, slots=True)
class SmallList:
    """A list that is in the store and, because it is small, in memory as well, from its intake to its finish.

    Whoever does not hold it, because its worker died or something has to wait, reads it from the store.

    Attributes:
        rows: its `rows.parquet`.
        addresses: what its `addresses.parquet` holds (frames.ADDRESSES).
        verdicts: those of all its addresses (frames.SEGMENT), once they are committed; None before.
    """

    rows: bytes
    addresses: pl.DataFrame
    verdicts: pl.DataFrame | None = None

    def judged(self, verdicts: pl.DataFrame) -> SmallList | None:
        """Return the list with verdicts that are committed; None unless every address has one."""
        return replace(self, verdicts=verdicts) if verdicts.height == self.addresses.height else None


async def store_small(blobs: Blobs, keys: JobBlobs, folder: Path) -> SmallList | None:
    """Store what an intake has written into a folder, and keep it; big files are left alone, for None."""
    found = await asyncio.to_thread(_read, folder / "rows.parquet", folder / "addresses.parquet")
    if found is None:
        return None
    rows, addresses = found
    await blobs.put_all({keys.rows: rows, keys.addresses: addresses})
    return SmallList(rows, pl.read_parquet(io.BytesIO(addresses)))


def _read(rows: Path, addresses: Path) -> tuple[bytes, bytes] | None:
    if max(rows.stat().st_size, addresses.stat().st_size) > SMALL_BYTES:
        return None
    return rows.read_bytes(), addresses.read_bytes()
