"""The segments of a job that runs, by address number: what is known so far in a few bytes an address."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import polars as pl

from mailsift.jobs.columns import ADDRESS_N, VERDICT_PREFIX
from mailsift.pipeline.frames import SEGMENT
from mailsift.pipeline.verdict import Status

_AT_ONCE = 8  # segments read together
_WINDOW = 65_536  # rows read together
_READ = ("n", "status", "result", "provider")


class Words:
    """Numbers for texts that repeat, in the order they are first seen."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def numbers(self, texts: pl.Series) -> pl.Series:
        """Return the number of each text; new texts get new numbers."""
        for text in texts.unique(maintain_order=True):
            self._known.setdefault(text, len(self._known))
        return texts.replace_strict(self._known, return_dtype=pl.UInt32)

    def texts(self, numbers: pl.Series) -> pl.Series:
        """Return the texts again; null stays null."""
        return pl.Series(list(self._known), dtype=pl.String).gather(numbers)

    def items(self) -> Collection[tuple[str, int]]:
        """Return all texts with their numbers."""
        return self._known.items()


class SoFar:
    """For each address its verdict ("status result") and its provider, as numbers of words.

    Attributes:
        verdict, provider: the numbers by address number, null where there is no verdict yet.
        verdicts, providers: the words.
    """

    def __init__(self, addresses: int) -> None:
        self.verdicts, self.providers = Words(), Words()
        self.verdict = pl.repeat(None, addresses, dtype=pl.UInt32, eager=True)
        self.provider = pl.repeat(None, addresses, dtype=pl.UInt32, eager=True)

    def take(self, segments: Sequence[Path]) -> None:
        """Note what these segments say (frames.SEGMENT); those of older releases have no provider."""
        for batch in _batches(segments, _READ):
            self._note(batch)

    @classmethod
    def of_results(cls, addresses: int, rows: Path, results: Path) -> SoFar:
        """Return what the results of a complete job say (jobs.finish); they do not name providers."""
        made = cls(addresses)
        numbers = pl.scan_parquet(rows, glob=False).select(pl.col(ADDRESS_N).alias("n"))
        verdicts = pl.scan_parquet(results, glob=False).select(
            *(pl.col(VERDICT_PREFIX + name).alias(name) for name in ("status", "result")),
            pl.lit("").alias("provider"),
        )
        for start in range(0, height(rows), _WINDOW):
            window = [scan.slice(start, _WINDOW).collect() for scan in (numbers, verdicts)]
            made._note(pl.concat(window, how="horizontal"))
        return made

    def _note(self, batch: pl.DataFrame) -> None:
        verdict = batch.select(pl.concat_str("status", "result", separator=" ")).to_series()
        self.verdict = self.verdict.scatter(batch["n"], self.verdicts.numbers(verdict))
        provider = self.providers.numbers(batch["provider"].fill_null(""))
        self.provider = self.provider.scatter(batch["n"], provider)

    def with_verdict(self, statuses: Collection[Status], results: Collection[str]) -> pl.Series:
        """Say for each address number whether it has such a verdict; no statuses or results mean any."""
        wanted = [
            number
            for text, number in self.verdicts.items()
            for status, _, code in [text.partition(" ")]
            if (not statuses or status in statuses) and (not results or code in results)
        ]
        return self.verdict.is_in(wanted).fill_null(value=False)

    def at_provider(self, name: str) -> pl.Series:
        """Say for each address number whether this provider runs its mail server."""
        number = dict(self.providers.items()).get(name)
        if number is None:
            return pl.repeat(value=False, n=len(self.provider), eager=True)
        return (self.provider == number).fill_null(value=False)


def verdicts_of(segments: Sequence[Path], numbers: Collection[int], fields: Sequence[str]) -> pl.DataFrame:
    """Return `n` and these fields of the addresses with these numbers."""
    wanted = pl.col("n").is_in(list(numbers))
    found = [batch.filter(wanted) for batch in _batches(segments, ("n", *fields))]
    return (
        pl.concat(found) if found else pl.DataFrame(schema={name: SEGMENT[name] for name in ("n", *fields)})
    )


def height(path: Path) -> int:
    """Return how many rows a Parquet file has."""
    return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())


def _batches(segments: Sequence[Path], fields: Sequence[str]) -> Iterator[pl.DataFrame]:
    schema = {name: SEGMENT[name] for name in fields}
    for start in range(0, len(segments), _AT_ONCE):
        some = list(segments[start : start + _AT_ONCE])
        scan = pl.scan_parquet(
            some, glob=False, schema=schema, missing_columns="insert", extra_columns="ignore"
        )
        yield scan.collect(engine="streaming")
