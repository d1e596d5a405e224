"""The segments of a job that runs, by address number: what is known so far in a few bytes an address."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from uuid import UUID

import polars as pl

from mailsift.jobs.columns import ADDRESS_N, VERDICT_PREFIX
from mailsift.jobs.results.tiers import with_unwanted
from mailsift.pipeline.frames import BESIDE, SEGMENT
from mailsift.pipeline.tiers import TIER_FIELDS, Tier, TierPolicy, tier_expression
from mailsift.pipeline.verdict import Status
from mailsift.storage.blobs import Blobs, JobBlobs

_AT_ONCE = 8  # segments read together
_WINDOW = 65_536  # rows read together
_READ = ("n", "provider", *TIER_FIELDS)


async def delete_segments(blobs: Blobs, job_id: UUID) -> None:
    """Delete what the results of a completed job hold, too."""
    await blobs.delete_prefix(JobBlobs(job_id).segments)
    await blobs.delete_prefix(JobBlobs(job_id).residual)


class TextNumbers:
    """Numbers for texts that repeat, in the order they are first seen."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def numbers(self, texts: pl.Series) -> pl.Series:
        """Return the number of each text; new texts get new numbers."""
        known = self._known
        found = {text: known.setdefault(text, len(known)) for text in texts.unique(maintain_order=True)}
        return texts.replace_strict(found, return_dtype=pl.UInt32)

    def texts(self, numbers: pl.Series) -> pl.Series:
        """Return the texts again; null stays null."""
        return pl.Series(list(self._known), dtype=pl.String).gather(numbers)

    def items(self) -> Collection[tuple[str, int]]:
        """Return all texts with their numbers."""
        return self._known.items()


class PartialVerdicts:
    """For each address its verdict ("status result tier") and its provider, as numbers of words.

    Args:
        addresses: how many there are.
        policy: what the tiers are read by; None: the default.

    Attributes:
        verdict, provider: the numbers by address number, null where there is no verdict yet.
        verdicts, providers: the words.
    """

    def __init__(self, addresses: int, policy: TierPolicy | None = None) -> None:
        self.policy = policy or TierPolicy()
        self.verdicts, self.providers = TextNumbers(), TextNumbers()
        self.verdict = pl.repeat(None, addresses, dtype=pl.UInt32, eager=True)
        self.provider = pl.repeat(None, addresses, dtype=pl.UInt32, eager=True)

    def add_segments(self, segments: Sequence[Path]) -> None:
        """Add the verdicts of these segments (frames.SEGMENT)."""
        for batch in _batches(segments, _READ):
            self.add(batch)

    @classmethod
    def of_results(cls, addresses: int, rows: Path, results: Path) -> PartialVerdicts:
        """Return what the results of a complete job say; they do not name providers."""
        partial = cls(addresses)
        numbers = pl.scan_parquet(rows, glob=False).select(pl.col(ADDRESS_N).alias("n"))
        verdicts = with_unwanted(pl.scan_parquet(results, glob=False)).select(
            *(pl.col(VERDICT_PREFIX + name).alias(name) for name in TIER_FIELDS),
            pl.lit("").alias("provider"),
        )
        for start in range(0, height(rows), _WINDOW):
            window = [scan.slice(start, _WINDOW).collect() for scan in (numbers, verdicts)]
            partial.add(pl.concat(window, how="horizontal"))
        return partial

    def add(self, batch: pl.DataFrame) -> None:
        """Add these verdicts (at least `n`, `provider` and TIER_FIELDS of frames.SEGMENT)."""
        verdict = batch.select(
            pl.concat_str("status", "result", tier_expression(self.policy), separator=" ")
        ).to_series()
        self.verdict = self.verdict.scatter(batch["n"], self.verdicts.numbers(verdict))
        provider = self.providers.numbers(batch["provider"].fill_null(""))
        self.provider = self.provider.scatter(batch["n"], provider)

    def with_verdict(
        self, statuses: Collection[Status], results: Collection[str], tiers: Collection[Tier]
    ) -> pl.Series:
        """Say for each address number whether it has such a verdict; of what is empty any will do."""
        wanted = [
            number
            for text, number in self.verdicts.items()
            if all(
                not some or word in some
                for word, some in zip(text.split(" "), (statuses, results, tiers), strict=True)
            )
        ]
        return self.verdict.is_in(wanted).fill_null(value=False)

    def results(self) -> pl.Series:
        """Return for each address number its result, in alphabetical order, null where there is none yet."""
        words = {number: text.split(" ")[1] for text, number in self.verdicts.items()}
        order = pl.Enum(sorted(set(words.values())))
        return self.verdict.replace_strict(words, default=None, return_dtype=order)

    def scores(self, segments: Sequence[Path]) -> pl.Series:
        """Read for each address number its score from the segments, null where there is none yet."""
        scores = pl.repeat(None, len(self.verdict), dtype=pl.UInt8, eager=True)
        for batch in _batches(segments, ("n", "score")):
            scores = scores.scatter(batch["n"], batch["score"])
        return scores

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
        yield scan_segments(segments[start : start + _AT_ONCE], schema).collect(engine="streaming")


def scan_segments(segments: Sequence[Path], schema: Mapping[str, type[pl.DataType]]) -> pl.LazyFrame:
    """Return these columns of segments (frames.SEGMENT); texts that were left out are ""."""
    scan = pl.scan_parquet(
        list(segments), glob=False, schema=dict(schema), missing_columns="insert", extra_columns="ignore"
    )
    beside = [name for name in BESIDE if name in schema]
    return scan.with_columns(pl.col(beside).fill_null("")) if beside else scan


def to_segment(finished: pl.DataFrame) -> bytes:
    """Return verdicts (frames.SEGMENT) as a segment.

    What is "" throughout is left out: each such column would take as long to write as ten others.
    """
    return to_parquet(without_empty(finished.select(*SEGMENT), BESIDE))


def without_empty(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Return the frame without those of these texts that are "" or null throughout."""
    return frame.drop(name for name in names if not (frame[name] != "").any())


def to_parquet(frame: pl.DataFrame, metadata: dict[str, str] | None = None) -> bytes:
    """Return a frame as the blobs hold it."""
    buffer = io.BytesIO()
    frame.write_parquet(
        buffer, compression="zstd", compression_level=1, statistics=False, metadata=metadata or None
    )
    return buffer.getvalue()


def stream_parquet(
    frame: pl.LazyFrame, out: Path, *, group: int, metadata: dict[str, str] | None = None
) -> None:
    """Do `to_parquet` for a frame that memory does not hold; a row group has so many rows."""
    frame.sink_parquet(
        out,
        row_group_size=group,
        compression="zstd",
        compression_level=1,
        statistics=False,
        metadata=metadata or None,
        engine="streaming",
    )
