"""The verdicts of a complete job, address by address, with who runs their mail server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl

from mailsift.jobs.columns import ADDRESS_N, VERDICT_PREFIX
from mailsift.jobs.results.breakdown import domains_of
from mailsift.jobs.results.files import TextNumbers, height, with_unwanted
from mailsift.jobs.views import JobId
from mailsift.pipeline.judge.table import FROM_OUTCOMES
from mailsift.pipeline.judge.tiers import TierPolicy, tier_expression
from mailsift.storage.blobs.store import Blobs, JobBlobs
from mailsift.storage.sql.accuracy import OTHER_PROVIDERS

_WINDOW: Final = 65_536  # addresses: bounds the memory
MANY: Final = 5
"""A provider that is not in the provider table runs so many of a list's domains."""
KIND: Final = ("status", "result", "score", "known")
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
        """Yield `address`, `domain`, `provider`, KIND and `tier`, where there is a verdict."""
        scan = pl.scan_parquet(self._addresses, glob=False).select("address", "domain")
        for start in range(0, self._size, _WINDOW):
            window = scan.slice(start, _WINDOW).collect()
            kind = self._kinds.texts(self._kind.slice(start, _WINDOW)).str.split(" ")
            provider = self._providers.slice(start, _WINDOW).alias("provider")
            names = enumerate((*KIND, "tier"))
            status, result, score, known, tier = (kind.list.get(n).alias(name) for n, name in names)
            yield window.with_columns(
                provider, status, result, score.cast(pl.UInt8), known == "1", tier
            ).drop_nulls("status")

    def counts(self, *more: str) -> pl.DataFrame:
        """Return how many addresses (`n`) there are of each provider and KIND, and of more columns."""
        by = ("provider", *KIND, *more)
        pieces = [window.group_by(by).len("n") for window in self.windows()]
        if not pieces:
            return pl.DataFrame(schema=dict.fromkeys((*by, "n"), pl.String))
        return pl.concat(pieces).group_by(by).agg(pl.col("n").sum())

    def _read_kinds(self, rows: Path, results: Path, policy: TierPolicy) -> pl.Series:
        """Return for each address the number of its verdict's KIND."""
        numbers = pl.scan_parquet(rows, glob=False).select(pl.col(ADDRESS_N).alias("n"))
        reason = pl.col(VERDICT_PREFIX + "reason")
        known = reason.is_in(list(FROM_OUTCOMES)).cast(pl.Int8)
        fields = [pl.col(VERDICT_PREFIX + name) for name in KIND[:-1]]
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

        Who is called by a domain and runs fewer than MANY of the list's is no provider to speak of: its name
        would tell of addresses.
        """
        if domains is None:
            return pl.repeat("", self._size, dtype=pl.Categorical, eager=True)
        return (
            _domain_table(domains)
            .select(pl.col("provider").cast(pl.Categorical).repeat_by("addresses").list.explode())
            .to_series()
        )


def _domain_table(domains: Path) -> pl.DataFrame:
    """Return `domain`, `provider` and `addresses` of a list, with the small providers as one."""
    found = pl.read_parquet(domains, columns=["domain", "provider", "addresses"])
    small = pl.col("provider").str.contains(".", literal=True) & (pl.len().over("provider") < MANY)
    provider = pl.when(small).then(pl.lit(OTHER_PROVIDERS)).otherwise("provider")
    return found.with_columns(provider.alias("provider"))


async def domain_providers(blobs: Blobs, job_id: JobId) -> pl.DataFrame:
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
