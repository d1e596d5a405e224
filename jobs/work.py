"""The work of one chunk: read its addresses, sift them, write the segment, commit."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass, field

import polars as pl

from jobs.commit import close_chunk
from jobs.lanes import LanePlan, Residual, plan
from jobs.meters import POISON, count_verdicts, count_waiting
from jobs.options import load_options
from jobs.stopwatch import Stopwatch
from jobs.views import JobOptions
from pipeline.errors import MailsiftError
from pipeline.frames import SEGMENT
from pipeline.sift import Request, Sifted, Sifter
from pipeline.smtp.config import PATIENT_SECONDS
from pipeline.verdict import Result, Status
from storage.blobs import Blobs, JobBlobs
from storage.chunk_rows import SLOW_LANE, ClaimedChunk, NewChunk
from storage.database import Database
from storage.job_rows import Counts


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """How chunks are worked.

    Attributes:
        cut: how residual chunks are cut.
        delays: seconds before the second, third … try at a server that said "later".
        dns_s: seconds without news from DNS after which the slow domains come back in the slow lane.
        brisk_s: wall-clock seconds of an SMTP session at first; slower hosts come back in their own lane.
        patient_s: the same for the slow lane.
        budget_s: seconds after which a chunk opens no new session.
        max_attempts: a chunk that workers gave up more often is split, so that one poisonous address
            cannot hold the others.
    """

    cut: LanePlan = field(default_factory=LanePlan)
    delays: tuple[float, ...] = (300.0, 900.0, 3600.0)
    dns_s: float = 1.0
    brisk_s: float = 8.0
    patient_s: float = PATIENT_SECONDS
    budget_s: float = 15.0
    max_attempts: int = 4


class ChunkWorker:
    """Does chunks, one call each, many at once on one loop."""

    def __init__(self, *, database: Database, blobs: Blobs, sifter: Sifter, work_plan: WorkPlan) -> None:
        self._database = database
        self._blobs = blobs
        self._sifter = sifter
        self._plan = work_plan

    async def work(self, chunk: ClaimedChunk, watch: Stopwatch) -> bool:
        """Sift the chunk and commit what came of it; the watch is told where the time went.

        Returns:
            Whether it was the job's last open chunk.

        Raises:
            LeaseLostError: the lease was lost or the job ended meanwhile; nothing was changed.
        """
        try:
            with watch.phase("read"):
                source = await self._blobs.fetch(chunk.source_key)
                frame = await asyncio.to_thread(read_slice, source, chunk.source_offset, chunk.addresses)
        except MailsiftError as error:
            if error.code != "blob_not_found" or chunk.attempt <= self._plan.max_attempts:
                raise
            # After a restore, perhaps. It does not come back; the job fails when it cannot be finished.
            return await self._commit(chunk, [])
        if chunk.attempt > self._plan.max_attempts and len(frame) > 1:
            POISON.add("split")
            return await self._commit(chunk, halves(chunk, self._plan.max_attempts))
        with watch.phase("sift"):
            sifted = await self._sift(chunk, frame)
        with watch.phase("store"):
            segment_key = await self._store_segment(chunk, sifted.finished)
            residuals = await self._store_residuals(chunk, plan(sifted.waiting, self._plan.cut))
        with watch.phase("commit"):
            last = await self._commit(chunk, residuals, sifted.finished, segment_key)
        count_verdicts(sifted.finished)
        count_waiting(sifted.waiting)
        return last

    async def _sift(self, chunk: ClaimedChunk, frame: pl.DataFrame) -> Sifted:
        options = load_options(chunk.options)
        if chunk.attempt > self._plan.max_attempts:
            POISON.add("given_up")
            return self._sifter.give_up(frame, options.mode)
        return await self._sifter.sift(frame, self._request(chunk, options))

    def _request(self, chunk: ClaimedChunk, options: JobOptions) -> Request:
        return Request(
            mode=options.mode,
            evidence=options.evidence,
            max_age=options.max_age,
            probe_limit=self._plan.cut.lane_chunk,
            delays=self._plan.delays,
            dns_s=None if chunk.lane == SLOW_LANE else self._plan.dns_s,
            session_s=self._plan.patient_s if chunk.lane == SLOW_LANE else self._plan.brisk_s,
            budget_s=self._plan.budget_s,
            final=chunk.deadline_passed,
            list_id=str(chunk.job_id),
            owner=str(chunk.account_id),
        )

    async def _store_segment(self, chunk: ClaimedChunk, finished: pl.DataFrame) -> str | None:
        if finished.is_empty():
            return None
        key = JobBlobs(chunk.job_id).segment(chunk.n, chunk.lease_token)
        await self._store(key, finished.select(*SEGMENT))
        return key

    async def _store_residuals(self, chunk: ClaimedChunk, residuals: list[Residual]) -> list[NewChunk]:
        if not residuals:
            return []
        key = JobBlobs(chunk.job_id).residual(chunk.n, chunk.lease_token)
        await self._store(key, pl.concat([residual.frame for residual in residuals]))
        chunks, offset = [], 0
        for residual in residuals:
            size = len(residual.frame)
            chunks.append(NewChunk(size, key, offset, residual.lane, residual.reason, residual.delay))
            offset += size
        return chunks

    async def _store(self, key: str, frame: pl.DataFrame) -> None:
        await self._blobs.put_bytes(key, await asyncio.to_thread(_parquet, frame))

    async def _commit(
        self,
        chunk: ClaimedChunk,
        residuals: list[NewChunk],
        finished: pl.DataFrame | None = None,
        segment_key: str | None = None,
    ) -> bool:
        counts, warning = (Counts(), "") if finished is None else (counts_of(finished), warning_of(finished))
        return await self._database.run(
            lambda connection: close_chunk(
                connection,
                chunk,
                segment_key=segment_key,
                counts=counts,
                residuals=residuals,
                warning=warning,
            )
        )


def read_slice(path: object, offset: int, length: int) -> pl.DataFrame:
    """Read the addresses of one chunk; only the row groups that hold them are decoded."""
    return pl.scan_parquet(str(path), glob=False).slice(offset, length).collect()


def halves(chunk: ClaimedChunk, max_attempts: int) -> list[NewChunk]:
    """Split a chunk that keeps killing its workers; each half has one more try before it is split again."""
    left = chunk.addresses // 2
    return [
        NewChunk(size, chunk.source_key, offset, chunk.lane, attempt=max_attempts - 1)
        for size, offset in (
            (left, chunk.source_offset),
            (chunk.addresses - left, chunk.source_offset + left),
        )
    ]


def counts_of(finished: pl.DataFrame) -> Counts:
    """Count rows by status, and the addresses they share."""
    rows = dict(finished.group_by("status").agg(pl.col("rows").sum()).iter_rows())
    statuses = {status.value: int(rows.get(status.value, 0)) for status in Status}
    return Counts(**statuses, addresses=len(finished))


def warning_of(finished: pl.DataFrame) -> str:
    """Return the code of what makes these verdicts poorer than they could be, "" when nothing does."""
    told = Result.PROBE_UNAVAILABLE.value
    return told if told in finished["result"] else ""


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=1, statistics=False)
    return buffer.getvalue()
