"""How verdicts held: shares with intervals, chances of delivery, and what a list would bring back."""

from __future__ import annotations

import csv
import io
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import polars as pl

from mailsift.jobs.columns import JUDGED_ADDRESS, VERDICT_PREFIX, kept_metadata
from mailsift.jobs.results.browse import in_thread
from mailsift.jobs.results.export import defused
from mailsift.jobs.results.judged import domain_providers, judged_addresses
from mailsift.jobs.views import AccountId, JobId, load_options
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.outcomes.chances import (
    Calibration,
    Cell,
    Chances,
    ExpectedBounces,
    MeasuredShare,
    SentTally,
    calibrate,
    cell_of,
    expected_bounces,
    share_of,
)
from mailsift.pipeline.outcomes.outcome import Fate
from mailsift.pipeline.tiers import Tier
from mailsift.pipeline.verdict import Status
from mailsift.storage.blobs import Blobs
from mailsift.storage.database import Database
from mailsift.storage.sql import accuracy, jobs
from mailsift.storage.sql.accuracy import CHANGED, FATES, JUDGED, SAME, AccuracySum
from mailsift.storage.states import JobState

CHANCE_DAYS: Final = 365
"""Chances rest on verdicts of so many days."""


class GroupBy(StrEnum):
    """What a report can be broken down by."""

    PROVIDER = "provider"
    MODE = "mode"
    RESULT = "result"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class AccuracyRow:
    """How the verdicts of one group held; a share is None where nothing was counted.

    What an outcome itself has decided (`known`) counts nowhere else: it would only echo.

    Attributes:
        group: the values of what the report is broken down by.
        judged: verdicts on addresses, of lists.
        known: messages to addresses whose verdict an outcome had decided.
        coverage: of the verdicts, those that say yes or no.
        stability: of those given again within a week, those that say the same.
        delivered: of the messages to these addresses, those that arrived.
        false_valid: of those to addresses called valid, those that came back as the mailbox is not there.
        false_invalid: of those to addresses called invalid, those that arrived.
    """

    group: tuple[str, ...]
    judged: int
    known: int
    coverage: MeasuredShare | None
    stability: MeasuredShare | None
    delivered: MeasuredShare | None
    false_valid: MeasuredShare | None
    false_invalid: MeasuredShare | None


SHARES: Final = ("coverage", "stability", "delivered", "false_valid", "false_invalid")
"""The shares of an AccuracyRow."""


@dataclass(frozen=True, slots=True)
class BouncesOfJob:
    """What would come back: of messages to everybody on a list, and to those to be sent to.

    Either is None where too few outcomes are known.
    """

    everybody: ExpectedBounces | None
    send: ExpectedBounces | None


class AccuracyService:
    """What can be asked about how verdicts held; the counting is done by mailsift.jobs.outcomes.measure."""

    def __init__(self, *, database: Database, blobs: Blobs, clock: Clock, scratch: Path) -> None:
        self._scratch = scratch
        self._database = database
        self._blobs = blobs
        self._clock = clock

    async def report(
        self, account_id: AccountId | None, by: Sequence[GroupBy], first: date, last: date
    ) -> list[AccuracyRow]:
        """Return how verdicts of these days (UTC) held, group by group; all in one where `by` is empty.

        Without an account: those of all but test accounts, for operators.
        """
        found = await self._database.run(accuracy.sums, account_id, first, last)
        return summarise(found, by)

    async def calibration(self, account_id: AccountId) -> Calibration | None:
        """Return how chances held for addresses that they do not rest on; None where too little is known."""
        own, held_out, chances = await self._tallies(account_id)
        return calibrate(chances, held_out) if own else None

    async def chances(self, account_id: AccountId) -> Chances:
        """Return the chances that messages of this account arrive."""
        return (await self._tallies(account_id))[2]

    async def chances_of_rows(
        self, account_id: AccountId, job_id: JobId, rows: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> list[MeasuredShare | None]:
        """Return the chances of some rows of a job, each given as its canonical address and its verdict."""
        chances = await self.chances(account_id)
        known = await domain_providers(self._blobs, job_id)
        domains = [address.rpartition("@")[2] for address, _ in rows]
        providers = dict(known.filter(pl.col("domain").is_in(domains)).iter_rows())
        return [
            chances.of(cell_of(one, providers.get(domain, "")))
            for domain, (_, one) in zip(domains, rows, strict=True)
        ]

    @asynccontextmanager
    async def with_chances(self, account_id: AccountId, job_id: JobId, results: Path) -> AsyncIterator[Path]:
        """Give a job's results with the chances beside every row."""
        chances = await self.chances(account_id)
        providers = await domain_providers(self._blobs, job_id)
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix="chances-") as folder:
            out = Path(folder) / "results.parquet"
            await in_thread(account_id, add_chances, results, providers, chances, out)
            yield out

    async def expected_bounces(self, account_id: AccountId, job_id: JobId) -> BouncesOfJob | None:
        """Return what would come back of a complete job's list; None where too few outcomes are known.

        Raises:
            MailsiftError: `job_not_found`, or what the blob store says.
        """
        row = await self._database.run(jobs.owned, account_id, job_id)
        if row["state"] != JobState.COMPLETED:
            return None
        chances = await self.chances(account_id)
        judged = await judged_addresses(self._blobs, job_id, load_options(row["options"]).tiers)
        counted = await in_thread(account_id, judged.counts, "tier")
        counts = [
            (cell_of(one, one["provider"]), one["n"], one["tier"]) for one in counted.iter_rows(named=True)
        ]
        everybody = expected_bounces(chances, [(cell, n) for cell, n, _ in counts])
        sent = expected_bounces(chances, [(cell, n) for cell, n, tier in counts if tier == Tier.SEND])
        return BouncesOfJob(everybody, sent) if everybody or sent else None

    async def _tallies(self, account_id: AccountId) -> tuple[bool, dict[Cell, SentTally], Chances]:
        """Return whether the account has outcomes, those held out, and the chances from the others."""
        last = utc_datetime(self._clock()).date()
        first = last - timedelta(days=CHANCE_DAYS)
        async with self._database.begin() as connection:
            own = await accuracy.sums(connection, account_id, first, last)
            rest = await accuracy.of_others(connection, UUID(str(account_id)), first)
        unmeasured = [one for one in own if one.what in FATES and not one.known]
        fitted = tally((_cell(one), one.what, one.n) for one in unmeasured if not one.held_out)
        held_out = tally((_cell(one), one.what, one.n) for one in unmeasured if one.held_out)
        others = tally((cell_of(one, one["provider"]), one["what"], one["n"]) for one in rest)
        return bool(unmeasured), held_out, Chances(fitted, others)


def tally(found: Iterable[tuple[Cell, str, int]]) -> dict[Cell, SentTally]:
    """Return how many messages were sent and arrived, by cell, from how many had which fate."""
    tallies: dict[Cell, SentTally] = {}
    for cell, what, n in found:
        before = tallies.get(cell, SentTally(0, 0))
        tallies[cell] = SentTally(before.sent + n, before.arrived + n * (what == Fate.DELIVERED))
    return tallies


def summarise(sums: Iterable[AccuracySum], by: Sequence[GroupBy]) -> list[AccuracyRow]:
    """Return the rows of a report, by the names of their groups."""
    groups: defaultdict[tuple[str, ...], list[AccuracySum]] = defaultdict(list)
    for one in sums:
        groups[tuple(str(getattr(one, name.value)) for name in by)].append(one)
    return [_row(group, found) for group, found in sorted(groups.items())]


def to_csv(rows: Sequence[AccuracyRow], groups: Sequence[GroupBy]) -> str:
    """Return a report as CSV: a line a group, four columns a share."""
    out = io.StringIO()
    writer = csv.writer(out)
    ends = ("", "_low", "_high", "_n")
    writer.writerow([*groups, "judged", "known", *(f"{name}{end}" for name in SHARES for end in ends)])
    for row in rows:
        shares = [getattr(row, name) for name in SHARES]
        cells = [
            cell
            for one in shares
            for cell in ([one.value, one.low, one.high, one.n] if one else ["", "", "", 0])
        ]
        writer.writerow([*map(defused, row.group), row.judged, row.known, *cells])
    return out.getvalue()


def _cell(one: AccuracySum) -> Cell:
    return Cell(one.status, one.result, one.provider, one.score)


def _row(group: tuple[str, ...], sums: Sequence[AccuracySum]) -> AccuracyRow:
    def n(*what: str, status: str = "") -> int:
        return sum(one.n for one in sums if one.what in what and not one.known and status in {"", one.status})

    decided = n(JUDGED, status=Status.VALID) + n(JUDGED, status=Status.INVALID)
    return AccuracyRow(
        group=group,
        judged=n(JUDGED),
        known=sum(one.n for one in sums if one.known and one.what in FATES),
        coverage=share_of(decided, n(JUDGED)),
        stability=share_of(n(SAME), n(SAME, CHANGED)),
        delivered=share_of(n(Fate.DELIVERED), n(*FATES)),
        false_valid=share_of(n(Fate.GONE, status=Status.VALID), n(*FATES, status=Status.VALID)),
        false_invalid=share_of(n(Fate.DELIVERED, status=Status.INVALID), n(*FATES, status=Status.INVALID)),
    )


_CHANCE_COLUMNS: Final = tuple(f"{VERDICT_PREFIX}{name}" for name in ("p", "p_low", "p_high"))
"""The chance, 0 to 1, and its 95 % interval; empty where too few outcomes are known."""
_VERDICT_KEY: Final = ("status", "result", "score")


def add_chances(results: Path, providers: pl.DataFrame, chances: Chances, out: Path) -> None:
    """Write results again, with _CHANCE_COLUMNS behind the others. Blocks; the rows stream through."""
    frame = pl.scan_parquet(results, glob=False)
    schema = frame.collect_schema()
    address = pl.col(JUDGED_ADDRESS) if JUDGED_ADDRESS in schema else pl.lit("")
    with_providers = frame.with_columns(address.str.split("@").list.last().alias("domain")).join(
        providers.lazy(), on="domain", how="left", maintain_order="left"
    )

    def attach(rows: pl.DataFrame) -> pl.DataFrame:
        seen = rows.select(pl.col(VERDICT_PREFIX + name).alias(name) for name in _VERDICT_KEY)
        cells = seen.with_columns(rows["provider"].fill_null(""))
        kinds = cells.unique()
        found = [chances.of(cell_of(one, one["provider"])) for one in kinds.iter_rows(named=True)]
        values = [(one.value, one.low, one.high) if one else (None, None, None) for one in found]
        columns = pl.DataFrame(values, schema=dict.fromkeys(_CHANCE_COLUMNS, pl.Float64), orient="row")
        known = pl.concat([kinds, columns], how="horizontal")
        joined = cells.join(known, on=kinds.columns, how="left", maintain_order="left")
        return rows.drop("domain", "provider").with_columns(joined[name] for name in _CHANCE_COLUMNS)

    for name in _CHANCE_COLUMNS:
        schema[name] = pl.Float64()
    with_providers.map_batches(attach, schema=schema, streamable=True).sink_parquet(
        out,
        compression_level=1,
        statistics=False,
        metadata=kept_metadata(results),
        engine="streaming",
    )
