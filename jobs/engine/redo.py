"""Verdicts that were lost with their blobs: a finish counts what is left and has the rest found again."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import polars as pl

from mailsift.jobs.engine.chunk import counts_of
from mailsift.jobs.results.segments import scan_segments, stream_parquet
from mailsift.jobs.views import load_options
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import ADDRESSES, SEGMENT, WAITING
from mailsift.pipeline.judge.tiers import TIER_FIELDS, TierPolicy
from mailsift.storage.blobs.local_files import check_room
from mailsift.storage.blobs.store import Blobs, JobBlobs
from mailsift.storage.database import Connection, Database
from mailsift.storage.sql import chunks, jobs
from mailsift.storage.sql.chunks import NewChunk
from mailsift.storage.sql.jobs import ClaimedStep, VerdictCounts
from mailsift.storage.sql.leases import LeaseLostError

_MOST_TIMES: Final = 3
"""A store that damages what it is given does so again; then the job fails, and its operators may look."""


async def redo(
    database: Database,
    blobs: Blobs,
    step: ClaimedStep,
    sound: Mapping[str, Path],
    *,
    chunk: int,
    scratch: Path,
) -> int:
    """Give the addresses of a job that have no verdict (any more) to new chunks of so many addresses.

    `sound` are the job's undamaged segments. Returns how many chunks there are; 0: nothing can be done so.

    Raises:
        MailsiftError: `blob_damaged`, `blob_not_found` for the addresses themselves.
        LeaseLostError: the lease is gone; nothing was changed.
    """
    if await database.run(chunks.redone, step.job_id) >= _MOST_TIMES:
        return 0
    addresses = await blobs.fetch(JobBlobs(step.job_id).addresses)
    policy = load_options(step.options).tiers
    key = JobBlobs(step.job_id).redone(step.token)
    with tempfile.TemporaryDirectory(dir=scratch, prefix="redo-") as folder:
        lost = Path(folder) / "lost.parquet"
        count, counts = await asyncio.to_thread(
            _without_verdict, addresses, list(sound.values()), policy, lost, chunk
        )
        if not count:
            return 0
        await blobs.put_file(key, lost)
    new = [NewChunk(min(chunk, count - start), key, start) for start in range(0, count, chunk)]
    await database.run(_redo_lost, step, counts, new, sound=list(sound))
    return len(new)


def _without_verdict(
    addresses: Path, segments: Sequence[Path], policy: TierPolicy, out: Path, size: int
) -> tuple[int, VerdictCounts]:
    """Write the addresses that no segment has, in their order (frames.WAITING), and count the others.

    Memory holds a few bytes an address and what is read of one segment.
    """
    try:
        known = pl.scan_parquet(addresses, glob=False)
        rows = known.select("n", "rows").collect(engine="streaming").sort("n")["rows"]  # n: dense from 0
        has_verdict = pl.repeat(value=False, n=len(rows), dtype=pl.Boolean, eager=True)
        counts: Counter[str] = Counter()
        for segment in segments:
            read = scan_segments([segment], {name: SEGMENT[name] for name in ("n", *TIER_FIELDS)})
            found = read.filter(pl.col("n") < len(rows)).collect(engine="streaming")
            has_verdict = has_verdict.scatter(found["n"], values=True)
            carried = found.with_columns(rows.gather(found["n"]).alias("rows"))
            counts.update(asdict(counts_of(carried, policy)))
        more = {name: dtype for name, dtype in WAITING.items() if name not in ADDRESSES}
        nothing = [pl.lit("" if dtype == pl.String else 0, dtype).alias(name) for name, dtype in more.items()]
        without_verdict = pl.col("n").map_batches(
            lambda numbers: ~has_verdict.gather(numbers), return_dtype=pl.Boolean, is_elementwise=True
        )
        lost = known.filter(without_verdict).with_columns(nothing).select(*WAITING)
        stream_parquet(lost, out, group=size)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        check_room(out.parent)
        raise MailsiftError("blob_damaged", "The job's list of addresses is damaged.") from error
    return len(rows) - counts["addresses"], VerdictCounts(**counts)


async def _redo_lost(
    connection: Connection,
    step: ClaimedStep,
    counts: VerdictCounts,
    new: Sequence[NewChunk],
    *,
    sound: Sequence[str],
) -> None:
    """Count what still has a verdict, in the `sound` segments, and insert the chunks of all the others."""
    before = await jobs.get(connection, step.job_id)
    first_free = await jobs.redo(connection, step.job_id, counts, added=len(new), token=step.token)
    if before is None or first_free is None:
        raise LeaseLostError
    addresses = await chunks.forget_lost(connection, step.job_id, sound)
    await chunks.insert(connection, step.job_id, first_free, new)
    rows = before["processed"] - counts.processed
    await jobs.take_back_use(connection, step.job_id, rows=rows, addresses=addresses)
