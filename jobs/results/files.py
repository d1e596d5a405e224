"""The files of a job's verdicts: a segment a chunk while it runs, joined with the customer's rows at its end.

What is known so far takes a few bytes an address; the results keep the rows in their order, and tiers are
read beside them.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import polars as pl

from mailsift.jobs.columns import (
    ADDRESS,
    ADDRESS_N,
    JUDGED_ADDRESS,
    REPAIRED,
    VERDICT_PREFIX,
    kept_metadata,
)
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import BESIDE, SEGMENT, VERDICTS
from mailsift.pipeline.tiers import TIER_FIELDS, Tier, TierPolicy, reason_expression, tier_expression
from mailsift.pipeline.verdict import Status
from mailsift.pipeline.wording import counted


def to_segment(finished: pl.DataFrame) -> bytes:
    """Return verdicts (frames.SEGMENT) as a segment.

    What is "" throughout is left out: each such column would take as long to write as ten others.
    """
    return to_parquet(_without_empty(finished[list(SEGMENT)], BESIDE))


def scan_segments(segments: Sequence[Path], schema: Mapping[str, type[pl.DataType]]) -> pl.LazyFrame:
    """Return these columns of segments (frames.SEGMENT); texts that were left out are ""."""
    scan = pl.scan_parquet(
        list(segments), glob=False, schema=dict(schema), missing_columns="insert", extra_columns="ignore"
    )
    beside = [name for name in BESIDE if name in schema]
    return scan.with_columns(pl.col(beside).fill_null("")) if beside else scan


_WINDOW = 65_536  # rows read together
_READ_FIELDS = ("n", "provider", *TIER_FIELDS)


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
        self.verdicts, self.providers = TextNumbers(), TextNumbers("")  # "", for none, is before every name
        self.verdict = pl.repeat(None, addresses, dtype=pl.UInt32, eager=True)
        self.provider = pl.repeat(None, addresses, dtype=pl.UInt32, eager=True)

    def add_segments(self, segments: Sequence[Path]) -> None:
        """Add the verdicts of these segments (frames.SEGMENT)."""
        for batch in _batches(segments, _READ_FIELDS):
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


class TextNumbers:
    """Numbers for texts that repeat, in the order they are first seen; those of `first` are seen already."""

    def __init__(self, *first: str) -> None:
        self._known = {text: number for number, text in enumerate(first)}

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


def verdicts_of(segments: Sequence[Path], numbers: Collection[int], fields: Sequence[str]) -> pl.DataFrame:
    """Return `n` and these fields of the addresses with these numbers."""
    wanted = pl.col("n").is_in(list(numbers))
    found = [batch.filter(wanted) for batch in _batches(segments, ("n", *fields))]
    return (
        pl.concat(found) if found else pl.DataFrame(schema={name: SEGMENT[name] for name in ("n", *fields)})
    )


_SEGMENTS_AT_ONCE = 8  # segments read together


def _batches(segments: Sequence[Path], fields: Sequence[str]) -> Iterator[pl.DataFrame]:
    schema = {name: SEGMENT[name] for name in fields}
    for start in range(0, len(segments), _SEGMENTS_AT_ONCE):
        yield scan_segments(segments[start : start + _SEGMENTS_AT_ONCE], schema).collect(engine="streaming")


_ROW_GROUP = 16_384


def join_results(
    rows: Path, segments: Sequence[Path], out: Path, *, evidence: bool = False, partial: bool = False
) -> None:
    """Write the results file: the original columns, `mailsift_address`, the 13 fields, why not to send.

    Ours have that prefix; the last is "" where the account may send (mailsift.pipeline.tiers.Unwanted),
    and left out where it may to all.

    The suggestion of a repaired row begins with what was validated in its cell's place.

    Blocks for about a second a million rows. Memory holds four bytes an address, and the verdicts of each
    segment that differ (with evidence, all of them); the rows stream through.

    Args:
        rows: the job's `rows.parquet` (mailsift.jobs.intake); one of an older release may lack the addresses.
        segments: Parquet files (to_segment); every address is in exactly one.
        out: the Parquet file to write; its columns are named as in `rows` (mailsift.jobs.columns).
        evidence: add `mailsift_evidence`.
        partial: leave out the rows that have no verdict, instead of refusing.

    Raises:
        MailsiftError: `results_incomplete` when an address has no verdict or more than one.
    """
    source = _address_last(pl.scan_parquet(rows, glob=False))
    fields = _verdict_fields(evidence=evidence)
    schema = {name: SEGMENT[name] for name in ("n", *fields)}
    judged = _read_verdicts(source, (scan_segments([segment], schema) for segment in segments), fields)
    if not partial:
        judged.check_complete()
    stream_parquet(_join_rows(source, judged), out, group=_ROW_GROUP, metadata=kept_metadata(rows))


def join_small(rows: bytes, verdicts: pl.DataFrame, *, evidence: bool = False) -> bytes:
    """Do `join_results` for a small list whose verdicts (frames.SEGMENT) are at hand, one an address."""
    source = _address_last(pl.scan_parquet(io.BytesIO(rows))).collect()
    judged = _index_few(verdicts, _verdict_fields(evidence=evidence))
    judged.check_complete()
    return to_parquet(judged.attach(source), kept_metadata(io.BytesIO(rows)))


def _verdict_fields(*, evidence: bool) -> list[str]:
    return [*VERDICTS, "unwanted", *(["evidence"] if evidence else [])]


def _address_last(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Put the address behind the customer's columns, under the name it has in the results."""
    if ADDRESS not in rows.collect_schema():
        return rows
    return rows.select(pl.exclude(ADDRESS), pl.col(ADDRESS).alias(JUDGED_ADDRESS))


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """What segments say.

    Attributes:
        kinds: verdicts that differ; the first one is none.
        places: for each address number the place of its verdict there, 0 when it has none.
    """

    kinds: pl.DataFrame
    places: pl.Series

    def check_complete(self) -> None:
        """Refuse what lacks the verdict of an address."""
        if missing := int((self.places == 0).sum()):
            raise _incomplete(f"{counted(missing, 'address has', 'addresses have')} no verdict.")

    def attach(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Put each row's verdict behind its columns; rows without one are left out."""
        place = self.places.gather(rows[ADDRESS_N])
        known = place != 0
        if not known.all():
            rows, place = rows.filter(known), place.filter(known)
        found = self.kinds[place]
        found.columns = [_prefixed(name) for name in found.columns]
        joined = pl.concat([rows.drop(ADDRESS_N), found], how="horizontal")
        return _with_repairs(joined) if REPAIRED in joined.columns else joined


def _read_verdicts(source: pl.LazyFrame, segments: Iterable[pl.LazyFrame], fields: list[str]) -> _Verdicts:
    """Read all segments, and keep of each what differs: most verdicts are alike."""
    greatest = source.select(pl.col(ADDRESS_N).max()).collect(engine="streaming").item()
    places = pl.zeros(greatest + 1, dtype=pl.UInt32, eager=True)
    kinds = [_no_verdict(tuple(fields))]
    first, found = 1, 0
    for verdicts in segments:
        judged = verdicts.group_by(fields).agg("n").collect().with_row_index("place", first)
        placed = judged.select("place", "n").explode("n")
        if int(placed.select(pl.col("n").max()).item() or 0) > greatest:
            raise _incomplete("A verdict belongs to no address of the list.")
        places = places.scatter(placed["n"], placed["place"])
        kinds.append(judged.select(fields))
        first, found = first + judged.height, found + placed.height
    if found > int((places != 0).sum()):
        raise _incomplete("An address has more than one verdict.")
    together = pl.concat(kinds, rechunk=True)  # gathering from many pieces is slow
    return _Verdicts(_without_empty(together, ["unwanted"]), places)


def _index_few(verdicts: pl.DataFrame, fields: list[str]) -> _Verdicts:
    """Return the verdicts as they are: of a few it costs more to find out which are alike."""
    places = pl.Series([0], dtype=pl.UInt32).new_from_index(0, verdicts.height)
    places = places.scatter(verdicts["n"], range(1, verdicts.height + 1))
    kinds = pl.concat([_no_verdict(tuple(fields)), verdicts[fields]], rechunk=True)
    return _Verdicts(_without_empty(kinds, ["unwanted"]), places)


@cache
def _no_verdict(fields: tuple[str, ...]) -> pl.DataFrame:
    return pl.DataFrame({name: [None] for name in fields}, schema={name: SEGMENT[name] for name in fields})


def _join_rows(source: pl.LazyFrame, judged: _Verdicts) -> pl.LazyFrame:
    """Do `attach` for rows that memory does not hold."""
    schema = source.drop(ADDRESS_N, REPAIRED, strict=False).collect_schema()
    for name in judged.kinds.columns:
        schema[_prefixed(name)] = SEGMENT[name]()
    return source.map_batches(judged.attach, schema=schema, streamable=True)


def _with_repairs(rows: pl.DataFrame) -> pl.DataFrame:
    """Let repaired rows say so, in the words of mailsift.pipeline.verdict.with_repair."""
    advice = _prefixed("suggestion")
    said = pl.format("Validated as {}. {}", JUDGED_ADDRESS, advice).str.strip_chars_end()
    return rows.with_columns(pl.when(REPAIRED).then(said).otherwise(advice).alias(advice)).drop(REPAIRED)


def _prefixed(field: str) -> str:
    return VERDICT_PREFIX + field


def _incomplete(text: str) -> MailsiftError:
    return MailsiftError("results_incomplete", text)


_UNWANTED: Final = f"{VERDICT_PREFIX}unwanted"
"""Column of the results: why the account may not send there, or ""; left out where it is "" throughout."""
_TIER: Final = f"{VERDICT_PREFIX}tier"
_REASON: Final = f"{VERDICT_PREFIX}tier_reason"


def with_unwanted(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Give results the column that they lack where it is "" throughout."""
    return frame if _UNWANTED in frame.collect_schema() else frame.with_columns(pl.lit("").alias(_UNWANTED))


def tiered(results: Path, policy: TierPolicy | None) -> pl.LazyFrame:
    """Return results with tier and reason in the place of _UNWANTED; without any where there is no policy."""
    frame = pl.scan_parquet(results, glob=False)
    if policy is None:
        return frame.drop(_UNWANTED, strict=False)
    columns = [name for name in frame.collect_schema() if name != _UNWANTED]
    ours = [
        tier_expression(policy, VERDICT_PREFIX).alias(_TIER),
        reason_expression(policy, VERDICT_PREFIX).alias(_REASON),
    ]
    place = next((n for n, name in enumerate(columns) if name == f"{VERDICT_PREFIX}evidence"), len(columns))
    return with_unwanted(frame).select(*columns[:place], *ours, *columns[place:])


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


def _without_empty(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Return the frame without those of these texts that are "" or null throughout."""
    return frame.drop(name for name in names if not (frame[name] != "").any())


def height(path: Path) -> int:
    """Return how many rows a Parquet file has."""
    return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
