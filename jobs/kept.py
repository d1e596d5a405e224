"""The breakdown of a complete job: counted up once and kept beside its results."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from jobs.breakdown import Breakdown
from jobs.counting import count_up
from jobs.segments import SoFar, height
from jobs.views import JobId
from storage.blobs import Blobs, JobBlobs


async def keep_breakdown(blobs: Blobs, job_id: JobId, addresses: Path, so_far: SoFar) -> Breakdown:
    """Count up a job that has all its verdicts and store what comes of it beside its results."""
    breakdown, domains = await asyncio.to_thread(count_up, addresses, so_far)
    await blobs.put_bytes(JobBlobs(job_id).domains, await asyncio.to_thread(_parquet, domains))
    await blobs.put_bytes(JobBlobs(job_id).breakdown, breakdown.to_json())
    return breakdown


async def breakdown_of_segments(blobs: Blobs, job_id: JobId, keys: Sequence[str]) -> Breakdown:
    """Do `keep_breakdown` for a job whose segments are still there."""
    addresses = await blobs.fetch(JobBlobs(job_id).addresses)
    segments = await blobs.fetch_all(keys)
    so_far = SoFar(await asyncio.to_thread(height, addresses))
    await asyncio.to_thread(so_far.take, segments)
    return await keep_breakdown(blobs, job_id, addresses, so_far)


async def breakdown_of_results(blobs: Blobs, job_id: JobId) -> Breakdown:
    """Do `keep_breakdown` for a complete job that has none; the results do not name providers."""
    keys = JobBlobs(job_id)
    addresses, rows, results = [await blobs.fetch(key) for key in (keys.addresses, keys.rows, keys.results)]
    size = await asyncio.to_thread(height, addresses)
    so_far = await asyncio.to_thread(SoFar.of_results, size, rows, results)
    return await keep_breakdown(blobs, job_id, addresses, so_far)


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=1, statistics=False)
    return buffer.getvalue()
