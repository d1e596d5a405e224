"""How verdicts held: shares with intervals, chances of delivery, and what a list would bring back.

Maintenance holds the verdicts of complete jobs against what happened, for accounts that told something new.
"""

from __future__ import annotations

import asyncio
import csv
import io
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import polars as pl
import structlog

from mailsift.jobs.columns import ADDRESS_N, JUDGED_ADDRESS, VERDICT_PREFIX, kept_metadata
from mailsift.jobs.outcomes.service import OutcomeService, read_row
from mailsift.jobs.results.breakdown import delete_segments, domains_of
from mailsift.jobs.results.browse import in_thread
from mailsift.jobs.results.export import defused
from mailsift.jobs.results.files import TextNumbers, height, with_unwanted
from mailsift.jobs.views import AccountId, JobId, load_options
from mailsift.pipeline.clock import Clock, utc_datetime
from mailsift.pipeline.errors import MailsiftError, error_fields
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
from mailsift.pipeline.outcomes.outcome import WINDOW_DAYS, Fate, Outcome, fates
from mailsift.pipeline.tiers import Tier, TierPolicy, tier_expression
from mailsift.pipeline.verdict import FROM_OUTCOMES, Status
from mailsift.storage.blobs import Blobs, JobBlobs
from mailsift.storage.database import Connection, Database, Row, from_row
from mailsift.storage.sql import accuracy, jobs, outcomes
from mailsift.storage.sql.accuracy import (
    CHANGED,
    FATES,
    JUDGED,
    MOST_PROVIDERS,
    OTHER_PROVIDERS,
    SAME,
    AccuracySum,
    Measurement,
)
from mailsift.storage.sql.chunks import LeaseLostError
from mailsift.storage.states import JobState


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


_CHANCE_DAYS: Final = 365
"""Chances rest on verdicts of so many days."""


class AccuracyService:
    """What can be asked about how verdicts held; a Measurer does the counting."""

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
        return _summarise(found, by)

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
        known = await _domain_providers(self._blobs, job_id)
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
        providers = await _domain_providers(self._blobs, job_id)
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
        first = last - timedelta(days=_CHANCE_DAYS)
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


def _summarise(sums: Iterable[AccuracySum], by: Sequence[GroupBy]) -> list[AccuracyRow]:
    """Return the rows of a report, by the names of their groups."""
    groups: defaultdict[tuple[str, ...], list[AccuracySum]] = defaultdict(list)
    for one in sums:
        groups[tuple(str(getattr(one, name.value)) for name in by)].append(one)
    return [_report_row(group, found) for group, found in sorted(groups.items())]


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


def _report_row(group: tuple[str, ...], sums: Sequence[AccuracySum]) -> AccuracyRow:
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


_JOB_REST_SECONDS: Final = 60.0
"""A job is counted so long after its end, when whoever waited for it has it."""
_LEASE_S: Final = 300.0
_LEAST_REST_S: Final = 30.0
_REST_FACTOR: Final = 20.0  # what took long is done again the later
_OUTCOMES_AT_ONCE: Final = 200_000  # addresses with new outcomes, held in memory
_BATCH: Final = 5_000
_COMPARED_AT_ONCE: Final = 1_000_000  # addresses of two runs that are compared at once
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
    job_rest_s: float = _JOB_REST_SECONDS

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
        unmeasured = await self.database.run(accuracy.unmeasured, lease.account_id, rest_s=self.job_rest_s)
        for job in unmeasured:
            await self._count_job(lease, job)
        counted_at = lease.counted_at
        while True:
            found = await self.database.run(
                accuracy.new_outcomes, lease.account_id, counted_at, most=_OUTCOMES_AT_ONCE
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
                parts = 1 + job["addresses"] // _COMPARED_AT_ONCE
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
        judged_before = await self.database.run(
            accuracy.jobs_before, lease.account_id, first, last, days=WINDOW_DAYS
        )
        for job in judged_before:
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
                    await accuracy.keep_verdicts(connection, lease.account_id, job, _verdict_columns(kept))

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
        pl.concat(_part(before, part, parts, "provider", *_VERDICT_KIND))
        .join(pl.concat(_part(after, part, parts, "status")), on="hash", suffix="_after")
        .with_columns(
            pl.when(pl.col("status") == pl.col("status_after"))
            .then(pl.lit(SAME))
            .otherwise(pl.lit(CHANGED))
            .alias("what")
        )
        .group_by("provider", *_VERDICT_KIND, "what")
        .len("n")
        for part in range(parts)
    ]
    counts = pl.concat(pieces).group_by("provider", *_VERDICT_KIND, "what").agg(pl.col("n").sum())
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
    named = pl.when(pl.col("provider").is_in(most["provider"].head(MOST_PROVIDERS).to_list()))
    folded = text.with_columns(named.then("provider").otherwise(pl.lit(OTHER_PROVIDERS)).alias("provider"))
    return folded.group_by("provider", *_VERDICT_KIND).agg(pl.col("n").sum())


def _sum(job: Row, row: Mapping[str, Any], what: str) -> AccuracySum:
    day = job["finished_at"].astimezone(UTC).date()
    return from_row(AccuracySum, row, day=day, mode=job["mode"], what=what, held_out=False)


def _verdict_columns(kept: pl.DataFrame) -> dict[str, list[Any]]:
    text = kept.with_columns(pl.col("provider").cast(pl.String))
    return {name: text[name].to_list() for name in ("address", "provider", *_VERDICT_KIND)}


_WINDOW: Final = 65_536  # addresses: bounds the memory
_VERDICT_KIND: Final = (*_VERDICT_KEY, "known")
"""What tells one verdict from another here; `known`: it rests on a message that was really sent."""


class JudgedAddresses:
    """The addresses of a complete job; memory holds some eight bytes an address and one window.

    Of its files `domains` is None where it was lost.
    """

    def __init__(
        self, addresses: Path, rows: Path, results: Path, domains: Path | None, policy: TierPolicy
    ) -> None:
        self._addresses = addresses
        self._size = height(addresses)
        self._kinds = TextNumbers()
        self._kind = self._read_kinds(rows, results, policy)
        self._providers = self._read_providers(domains)

    def windows(self) -> Iterator[pl.DataFrame]:
        """Yield `address`, `domain`, `provider`, _VERDICT_KIND and `tier`, where there is a verdict."""
        scan = pl.scan_parquet(self._addresses, glob=False).select("address", "domain")
        for start in range(0, self._size, _WINDOW):
            window = scan.slice(start, _WINDOW).collect()
            kind = self._kinds.texts(self._kind.slice(start, _WINDOW)).str.split(" ")
            provider = self._providers.slice(start, _WINDOW).alias("provider")
            names = enumerate((*_VERDICT_KIND, "tier"))
            status, result, score, known, tier = (kind.list.get(n).alias(name) for n, name in names)
            yield window.with_columns(
                provider, status, result, score.cast(pl.UInt8), known == "1", tier
            ).drop_nulls("status")

    def counts(self, *more: str) -> pl.DataFrame:
        """Return how many addresses (`n`) each provider, _VERDICT_KIND and value of more columns has."""
        by = ("provider", *_VERDICT_KIND, *more)
        pieces = [window.group_by(by).len("n") for window in self.windows()]
        if not pieces:
            return pl.DataFrame(schema=dict.fromkeys((*by, "n"), pl.String))
        return pl.concat(pieces).group_by(by).agg(pl.col("n").sum())

    def _read_kinds(self, rows: Path, results: Path, policy: TierPolicy) -> pl.Series:
        """Return for each address the number of its _VERDICT_KIND and tier."""
        numbers = pl.scan_parquet(rows, glob=False).select(pl.col(ADDRESS_N).alias("n"))
        reason = pl.col(VERDICT_PREFIX + "reason")
        known = reason.is_in(list(FROM_OUTCOMES)).cast(pl.Int8)
        fields = [pl.col(VERDICT_PREFIX + name) for name in _VERDICT_KEY]
        verdicts = with_unwanted(pl.scan_parquet(results, glob=False)).select(
            pl.concat_str(*fields, known, tier_expression(policy, VERDICT_PREFIX), separator=" ").alias(
                "kind"
            )
        )
        found = pl.repeat(None, self._size, dtype=pl.UInt32, eager=True)
        for start in range(0, height(rows), _WINDOW):
            n, kind = [scan.slice(start, _WINDOW).collect().to_series() for scan in (numbers, verdicts)]
            found = found.scatter(n, self._kinds.numbers(kind))
        return found

    def _read_providers(self, domains: Path | None) -> pl.Series:
        """Return for each address who runs its mail server.

        Who is called by a domain and runs fewer than _MANY_DOMAINS of the list's is no provider to speak of:
        its name would tell of addresses.
        """
        if domains is None:
            return pl.repeat("", self._size, dtype=pl.Categorical, eager=True)
        return (
            _domain_table(domains)
            .select(pl.col("provider").cast(pl.Categorical).repeat_by("addresses").list.explode())
            .to_series()
        )


_MANY_DOMAINS: Final = 5
"""A provider that is not in the provider table runs so many of a list's domains."""


def _domain_table(domains: Path) -> pl.DataFrame:
    """Return `domain`, `provider` and `addresses` of a list, with the small providers as one."""
    found = pl.read_parquet(domains, columns=["domain", "provider", "addresses"])
    small = pl.col("provider").str.contains(".", literal=True) & (pl.len().over("provider") < _MANY_DOMAINS)
    provider = pl.when(small).then(pl.lit(OTHER_PROVIDERS)).otherwise("provider")
    return found.with_columns(provider.alias("provider"))


async def _domain_providers(blobs: Blobs, job_id: JobId) -> pl.DataFrame:
    """Return the `domain`s of a job and the `provider` of each one's mail servers; none while it runs."""
    domains = await domains_of(blobs, job_id)
    if domains is None:
        return pl.DataFrame(schema={"domain": pl.String, "provider": pl.String})
    return await asyncio.to_thread(
        lambda: _domain_table(domains).select("domain", "provider").unique("domain", keep="last")
    )


async def judged_addresses(blobs: Blobs, job_id: JobId, policy: TierPolicy | None = None) -> JudgedAddresses:
    """Return the judged addresses of a complete job.

    Raises:
        MailsiftError: `blob_not_found` where the job is not complete or gone, and what the store says.
    """
    keys = JobBlobs(job_id)
    addresses, rows, results = await blobs.fetch_all((keys.addresses, keys.rows, keys.results))
    files = (addresses, rows, results, await domains_of(blobs, job_id))
    return await asyncio.to_thread(JudgedAddresses, *files, policy or TierPolicy())
