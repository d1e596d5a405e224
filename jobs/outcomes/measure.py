"""Hold verdicts against what happened: a part of maintenance that counts up who has told something new."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import polars as pl
import structlog

from mailsift.jobs.outcomes.service import OutcomeService, read_row
from mailsift.jobs.results.files import delete_segments
from mailsift.jobs.results.judged import KIND, JudgedAddresses, judged_addresses
from mailsift.jobs.views import JobId
from mailsift.pipeline.errors import MailsiftError, error_fields
from mailsift.pipeline.outcomes.history import WINDOW_DAYS, fates
from mailsift.pipeline.outcomes.outcome import Outcome
from mailsift.storage.blobs.store import Blobs
from mailsift.storage.database import Connection, Database, Row, from_row
from mailsift.storage.sql import accuracy, outcomes
from mailsift.storage.sql.accuracy import (
    CHANGED,
    JUDGED,
    OTHER_PROVIDERS,
    PROVIDERS,
    SAME,
    AccuracySum,
    Measurement,
)
from mailsift.storage.sql.leases import LeaseLostError

JOB_REST_SECONDS: Final = 60.0
"""A job is counted so long after its end, when whoever waited for it has it."""
_LEASE_S: Final = 300.0
_LEAST_REST_S: Final = 30.0
_REST_FACTOR: Final = 20.0  # what took long is done again the later
_AT_ONCE: Final = 200_000  # addresses with new outcomes, held in memory
_BATCH: Final = 5_000
_PART: Final = 1_000_000  # addresses of two runs that are compared at once
_OVERLAP: Final = timedelta(minutes=5)  # for what was committed later than it arrived
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _SentTo:
    """When messages to an address had an outcome: the first and the last."""

    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurer:
    """Counts up how verdicts held; any number of workers may have one.

    Attributes:
        job_rest_s: seconds after its end at which a job is counted.
    """

    database: Database
    blobs: Blobs
    outcomes: OutcomeService
    job_rest_s: float = JOB_REST_SECONDS

    async def sweep(self) -> int:
        """Count up every account that is due; returns how many were."""
        done = 0
        while lease := await self.database.run(accuracy.claim, rest_s=self.job_rest_s, lease_s=_LEASE_S):
            started = time.monotonic()
            try:
                counted_at = await self._measure(lease)
            except LeaseLostError:
                continue
            rest = max(_LEAST_REST_S, _REST_FACTOR * (time.monotonic() - started))
            await self.database.run(accuracy.release, lease, counted_at=counted_at, rest_s=rest)
            done += 1
        return done

    async def _measure(self, lease: Measurement) -> datetime:
        jobs = await self.database.run(accuracy.unmeasured, lease.account_id, rest_s=self.job_rest_s)
        for job in jobs:
            await self._count_job(lease, job)
        counted_at = lease.counted_at
        while True:
            found = await self.database.run(
                accuracy.new_outcomes, lease.account_id, counted_at, most=_AT_ONCE
            )
            if not found:
                break
            await self._match(lease, found)
            counted_at = max(row["received"] for row in found)
        if counted_at == lease.counted_at:
            return counted_at
        async with self.database.begin() as connection:
            await self._still(connection, lease)
            await accuracy.sum_up(connection, lease.account_id)
        return max(lease.counted_at, counted_at - _OVERLAP)

    async def _count_job(self, lease: Measurement, job: Row) -> None:
        sums: list[AccuracySum] = []
        judged = await self._judged(job["id"])
        if judged is not None:
            sums += await asyncio.to_thread(_judged_sums, judged, job)
            before = await self._judged(job["parent"]) if job["parent"] else None
            if before is not None:
                parts = 1 + job["addresses"] // _PART
                sums += await asyncio.to_thread(_stability_sums, before, judged, job, parts)
        if not job["small"]:  # who completed it may not have heard of that, and left them
            await delete_segments(self.blobs, job["id"])
        async with self.database.begin() as connection:
            await self._still(connection, lease)
            await accuracy.count_job(connection, lease.account_id, job["id"], sums)

    async def _match(self, lease: Measurement, found: Sequence[Row]) -> None:
        """Keep the verdicts on addresses that were sent to, and find out what became of each."""
        sent = {bytes(row["address"]): _SentTo(row["first"], row["last"]) for row in found}
        first, last = min(one.first for one in sent.values()), max(one.last for one in sent.values())
        digest = await self.outcomes.digester(lease.account_id)
        jobs = await self.database.run(accuracy.jobs_before, lease.account_id, first, last, days=WINDOW_DAYS)
        for job in jobs:
            judged = await self._judged(job["id"])
            if judged is not None:
                await self._keep(lease, job, judged, sent, digest)
        addresses = list(sent)
        for start in range(0, len(addresses), _BATCH):
            some = addresses[start : start + _BATCH]
            async with self.database.begin() as connection:
                await self._still(connection, lease)
                await _find_fates(connection, lease.account_id, some)

    async def _keep(
        self,
        lease: Measurement,
        job: Row,
        judged: JudgedAddresses,
        sent: Mapping[bytes, _SentTo],
        digest: Callable[[str], bytes],
    ) -> None:
        at = job["finished_at"]
        until = at + timedelta(days=WINDOW_DAYS)

        def matching(window: pl.DataFrame) -> pl.DataFrame:
            digests = [digest(address) for address in window["address"]]
            meant = [
                (one := sent.get(address)) is not None and one.last >= at and one.first <= until
                for address in digests
            ]
            return window.with_columns(pl.Series("address", digests, dtype=pl.Binary)).filter(
                pl.Series(meant)
            )

        windows = judged.windows()
        while (window := await asyncio.to_thread(next, windows, None)) is not None:
            kept = await asyncio.to_thread(matching, window)
            async with self.database.begin() as connection:
                await self._still(connection, lease)
                if not kept.is_empty():
                    await accuracy.keep_verdicts(connection, lease.account_id, job, _columns(kept))

    async def _judged(self, job_id: UUID) -> JudgedAddresses | None:
        """Return what a job came to; None where its files are gone or cannot be read."""
        try:
            return await judged_addresses(self.blobs, JobId(job_id))
        except (MailsiftError, pl.exceptions.PolarsError) as error:
            if isinstance(error, MailsiftError) and error.retryable:
                raise
            _log.warning("measure.no_verdicts", job=str(job_id), **error_fields(error))
            return None

    async def _still(self, connection: Connection, lease: Measurement) -> None:
        if not await accuracy.hold(connection, lease, lease_s=_LEASE_S):
            raise LeaseLostError


async def _find_fates(connection: Connection, account_id: UUID, addresses: Sequence[bytes]) -> None:
    judged: defaultdict[bytes, list[datetime]] = defaultdict(list)
    for row in await accuracy.verdicts_on(connection, account_id, addresses):
        judged[bytes(row["address"])].append(row["judged_at"])
    if not judged:
        return
    outcomes_of: defaultdict[bytes, list[Outcome]] = defaultdict(list)
    for outcome in await outcomes.all_of_addresses(connection, account_id, list(judged)):
        outcomes_of[bytes(outcome.address)].append(read_row(outcome, ""))
    found = [
        (address, at, fate or "")
        for address, times in judged.items()
        for at, fate in zip(
            times, fates([one.timestamp() for one in times], outcomes_of[address]), strict=True
        )
    ]
    await accuracy.set_fates(connection, account_id, found)


def _judged_sums(judged: JudgedAddresses, job: Row) -> list[AccuracySum]:
    counts = judged.counts()
    return [_sum(job, row, JUDGED) for row in _folded(counts).iter_rows(named=True)]


def _stability_sums(
    before: JudgedAddresses, after: JudgedAddresses, job: Row, parts: int
) -> list[AccuracySum]:
    """Compare two runs, a part of the addresses at a time; what an outcome has decided is left out.

    Addresses are told apart by 64 bits of their hash.
    """
    pieces = [
        pl.concat(_part(before, part, parts, "provider", *KIND))
        .join(pl.concat(_part(after, part, parts, "status")), on="hash", suffix="_after")
        .with_columns(
            pl.when(pl.col("status") == pl.col("status_after"))
            .then(pl.lit(SAME))
            .otherwise(pl.lit(CHANGED))
            .alias("what")
        )
        .group_by("provider", *KIND, "what")
        .len("n")
        for part in range(parts)
    ]
    counts = pl.concat(pieces).group_by("provider", *KIND, "what").agg(pl.col("n").sum())
    return [
        _sum(job, row, what)
        for what in (SAME, CHANGED)
        for row in _folded(counts.filter(pl.col("what") == what)).iter_rows(named=True)
    ]


def _part(judged: JudgedAddresses, part: int, parts: int, *columns: str) -> Iterator[pl.DataFrame]:
    mine = pl.col("hash") % parts == part
    for window in judged.windows():
        unknown = window.filter(~pl.col("known"))
        yield unknown.select(pl.col("address").hash(seed=0).alias("hash"), *columns).filter(mine)


def _folded(counts: pl.DataFrame) -> pl.DataFrame:
    """Let the providers with few addresses be one."""
    text = counts.with_columns(pl.col("provider").cast(pl.String))
    most = text.group_by("provider").agg(pl.col("n").sum()).sort(["n", "provider"], descending=[True, False])
    named = pl.when(pl.col("provider").is_in(most["provider"].head(PROVIDERS).to_list()))
    folded = text.with_columns(named.then("provider").otherwise(pl.lit(OTHER_PROVIDERS)).alias("provider"))
    return folded.group_by("provider", *KIND).agg(pl.col("n").sum())


def _sum(job: Row, row: Mapping[str, Any], what: str) -> AccuracySum:
    day = job["finished_at"].astimezone(UTC).date()
    return from_row(AccuracySum, row, day=day, mode=job["mode"], what=what, held_out=False)


def _columns(kept: pl.DataFrame) -> dict[str, list[Any]]:
    text = kept.with_columns(pl.col("provider").cast(pl.String))
    return {name: text[name].to_list() for name in ("address", "provider", *KIND)}
