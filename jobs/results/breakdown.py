"""What the verdicts of a job amount to: its reasons, and its domains and mail providers with their mix."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl
from pydantic import TypeAdapter

from mailsift.jobs.columns import VERDICT_PREFIX
from mailsift.jobs.results.segments import PartialVerdicts, TextNumbers, height, to_parquet
from mailsift.jobs.views import JobId
from mailsift.pipeline.frames import Schema
from mailsift.pipeline.verdict import Status
from mailsift.storage.blobs import Blobs, JobBlobs

DOMAINS = Schema(
    {
        "domain": "String",  # "" for addresses without one
        "provider": "String",  # "" when nobody was asked
        "addresses": "UInt32",
        "rows": "UInt32",  # with a verdict; also the sum of the next three
        "valid": "UInt32",
        "invalid": "UInt32",
        "risky": "UInt32",
    }
)
"""What each domain of a list came to, in the order of its addresses: the numbers of a domain's addresses
follow one another, so `addresses` also says which ones they are."""

_TOP = 20
_WINDOW = 1 << 17


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """Rows of one domain or provider, all and by status."""

    name: str
    rows: int
    valid: int
    invalid: int
    risky: int


@dataclass(frozen=True, slots=True)
class ResultCounts:
    """Rows with one result code; a code may come with two statuses where the operator's policy changed."""

    result: str
    status: Status
    rows: int


@dataclass(frozen=True, slots=True)
class Breakdown:
    """What a job came to so far.

    Attributes:
        rows: rows of the list that have a verdict.
        reasons: all result codes, most rows first.
        domains, providers: those with the most rows, most first.
        domain_count, provider_count: how many there are in all.
    """

    rows: int
    reasons: tuple[ResultCounts, ...]
    domains: tuple[GroupCounts, ...]
    providers: tuple[GroupCounts, ...]
    domain_count: int
    provider_count: int

    def to_json(self) -> bytes:
        """Write it down for `read`."""
        return _STORED.dump_json(self)

    @staticmethod
    def read(stored: bytes) -> Breakdown:
        """Return what `to_json` has written."""
        return _STORED.validate_json(stored)


_STORED: Final = TypeAdapter(Breakdown)


def count_up(
    addresses: Path, so_far: PartialVerdicts, *, window: int = _WINDOW, top: int = _TOP
) -> tuple[Breakdown, pl.DataFrame]:
    """Count the rows of a job by reason, domain and provider.

    Blocks for about a fifth of a second a million addresses; memory holds some 20 bytes an address.

    Args:
        addresses: the job's `addresses.parquet` (frames.ADDRESSES).
        so_far: what its addresses came to.
        window: addresses read at a time, which bounds the memory, as texts take most of it.
        top: how many domains and providers the breakdown names.

    Returns:
        The breakdown, and the table of all domains (DOMAINS).
    """
    names, counted = _count_by_verdict(addresses, so_far, window)
    domains = _by_domain(counted, names, so_far)
    providers = _sum_by(domains.filter(pl.col("provider") != ""), "provider")
    named = _sum_by(domains.filter(pl.col("domain") != ""), "domain")
    breakdown = Breakdown(
        rows=int(counted["rows"].sum()),
        reasons=_reasons(counted, so_far.verdicts),
        domains=_group_counts(named.head(top)),
        providers=_group_counts(providers.head(top)),
        domain_count=named.height,
        provider_count=providers.height,
    )
    return breakdown, domains


def _count_by_verdict(addresses: Path, so_far: PartialVerdicts, size: int) -> tuple[pl.Series, pl.DataFrame]:
    """Return the names of the domains, and for their numbers how much of what verdict each has.

    A domain that two windows share has its verdicts twice. Addresses without one count as such, with no rows.
    """
    scan, total = pl.scan_parquet(addresses, glob=False).select("domain", "rows"), height(addresses)
    rows = pl.when(pl.col("verdict").is_null()).then(0).otherwise(pl.col("rows"))
    names, pieces, last, count = [], [], None, 0
    for start in range(0, total or 1, size):
        window = scan.slice(start, size).collect()
        runs = window["domain"].rle().struct.field("value")
        continued = int(count > 0 and runs[0] == last)  # the window has cut this domain in two
        number = (pl.col("domain").rle_id() + (count - continued)).cast(pl.UInt32).alias("number")
        of_window = window.select(
            number,
            "rows",
            so_far.verdict.slice(start, size).alias("verdict"),
            so_far.provider.slice(start, size).alias("provider"),
        )
        pieces.append(
            of_window.group_by("number", "verdict").agg(
                pl.len().alias("addresses"), rows.sum().alias("rows"), pl.col("provider").max()
            )
        )
        names.append(runs.slice(continued))
        count += len(runs) - continued
        last = runs.last()
    return pl.concat(names), pl.concat(pieces)


def _by_domain(counted: pl.DataFrame, names: pl.Series, so_far: PartialVerdicts) -> pl.DataFrame:
    status = so_far.verdicts.texts(counted["verdict"]).str.split(" ").list.first()
    per_status = [
        pl.col("rows").filter(pl.col("status") == status.value).sum().alias(status.value) for status in Status
    ]
    domains = (
        counted.with_columns(status.alias("status"))
        .group_by("number")
        .agg(pl.col("provider").max(), pl.col("addresses").sum(), pl.col("rows").sum(), *per_status)
        .sort("number")
    )
    provider = so_far.providers.texts(domains["provider"]).fill_null("").alias("provider")
    named = domains.with_columns(provider, names.gather(domains["number"]).alias("domain"))
    return named.select(pl.col(name).cast(kind) for name, kind in DOMAINS.items())


def _sum_by(domains: pl.DataFrame, name: str) -> pl.DataFrame:
    counts = ("rows", *(status.value for status in Status))
    summed = domains.group_by(name).agg(pl.col(counts).sum()).rename({name: "name"})
    return summed.filter(pl.col("rows") > 0).sort(["rows", "name"], descending=[True, False])


def _group_counts(groups: pl.DataFrame) -> tuple[GroupCounts, ...]:
    return tuple(GroupCounts(**row) for row in groups.iter_rows(named=True))


def _reasons(counted: pl.DataFrame, words: TextNumbers) -> tuple[ResultCounts, ...]:
    verdicts = counted.drop_nulls("verdict").group_by("verdict").agg(pl.col("rows").sum())
    found: Counter[tuple[str, str]] = Counter()
    for text, rows in zip(words.texts(verdicts["verdict"]), verdicts["rows"], strict=True):
        status, result, _ = text.split(" ")
        found[status, result] += rows
    reasons = [ResultCounts(result, Status(status), rows) for (status, result), rows in found.items()]
    return tuple(sorted(reasons, key=lambda reason: (-reason.rows, reason.result)))


async def store_breakdown(blobs: Blobs, job_id: JobId, addresses: Path, so_far: PartialVerdicts) -> Breakdown:
    """Count up a job that has all its verdicts and store what comes of it beside its results."""
    keys = JobBlobs(job_id)
    breakdown, domains = await asyncio.to_thread(_count_and_encode, addresses, so_far)
    await blobs.put_all({keys.domains: domains, keys.breakdown: breakdown.to_json()})
    return breakdown


def _count_and_encode(addresses: Path, so_far: PartialVerdicts) -> tuple[Breakdown, bytes]:
    breakdown, domains = count_up(addresses, so_far)
    return breakdown, to_parquet(domains)


async def breakdown_of_segments(blobs: Blobs, job_id: JobId, segments: Sequence[Path]) -> Breakdown:
    """Do `store_breakdown` for a job whose segments are still there."""
    addresses = await blobs.fetch(JobBlobs(job_id).addresses)
    so_far = PartialVerdicts(await asyncio.to_thread(height, addresses))
    await asyncio.to_thread(so_far.add_segments, segments)
    return await store_breakdown(blobs, job_id, addresses, so_far)


async def breakdown_of_complete(blobs: Blobs, job_id: JobId) -> Breakdown:
    """Return the breakdown of a complete job; one that nobody has asked for yet is counted up now, and kept.

    Small jobs keep their verdicts for that, which name the providers. Results do not.
    """
    keys = JobBlobs(job_id)
    kept = await blobs.read_if_there(keys.breakdown)
    if kept is not None:
        return Breakdown.read(kept)
    sound = list((await blobs.fetch_all_sound(await blobs.list(keys.segments))).values())
    return await (
        breakdown_of_segments(blobs, job_id, sound) if sound else _breakdown_of_results(blobs, job_id)
    )


async def domains_of(blobs: Blobs, job_id: JobId) -> Path | None:
    """Return the table of a job's domains (DOMAINS); None while it runs.

    Raises:
        MailsiftError: what the store says.
    """
    keys = JobBlobs(job_id)
    kept = await blobs.fetch_if_there(keys.domains)
    if kept is None and await blobs.exists(keys.results):
        await breakdown_of_complete(blobs, job_id)
        return await blobs.fetch_if_there(keys.domains)
    return kept


async def _breakdown_of_results(blobs: Blobs, job_id: JobId) -> Breakdown:
    keys = JobBlobs(job_id)
    addresses, rows, results = await blobs.fetch_all((keys.addresses, keys.rows, keys.results))
    size = await asyncio.to_thread(height, addresses)
    so_far = await asyncio.to_thread(PartialVerdicts.of_results, size, rows, results)
    return await store_breakdown(blobs, job_id, addresses, so_far)


def rows_by_result(results: Path) -> dict[str, int]:
    """Return how many rows have which result."""
    result = f"{VERDICT_PREFIX}result"
    counted = pl.scan_parquet(results, glob=False).group_by(result).len().collect(engine="streaming")
    return dict(counted.iter_rows())
