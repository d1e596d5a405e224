"""Join the verdicts of a job's chunks with the customer's rows, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from mailsift.jobs.columns import (
    ADDRESS,
    ADDRESS_N,
    JUDGED_ADDRESS,
    REPAIRED,
    VERDICT_PREFIX,
    names_metadata,
    read_names,
)
from mailsift.jobs.results.segments import scan_segments
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import SEGMENT, VERDICTS

_ROW_GROUP = 65_536


def join_results(
    rows: Path, segments: Sequence[Path], out: Path, *, evidence: bool = False, partial: bool = False
) -> None:
    """Write the results file: the original columns, `mailsift_address`, the 13 fields, why not to send.

    Ours have that prefix; the last is "" where the account may send (mailsift.pipeline.judge.tiers.Unwanted).

    The suggestion of a repaired row begins with what was validated in its cell's place.

    Blocks for about a second a million rows. Memory holds the verdicts (some 25 bytes an address, more with
    evidence); the rows stream through.

    Args:
        rows: the job's `rows.parquet` (mailsift.jobs.intake); one of an older release may lack the addresses.
        segments: Parquet files of frames.SEGMENT; every address is in exactly one.
        out: the Parquet file to write; its columns are named as in `rows` (mailsift.jobs.columns).
        evidence: add `mailsift_evidence`.
        partial: leave out the rows that have no verdict, instead of refusing.

    Raises:
        MailsiftError: `results_incomplete` when an address has no verdict or more than one.
    """
    source = _address_last(pl.scan_parquet(rows, glob=False))
    verdicts = _verdicts(segments, [*VERDICTS, "unwanted", *(["evidence"] if evidence else [])])
    places = _places(source, verdicts["n"])
    if not partial and (missing := places.null_count()):
        raise _incomplete(f"{missing:,} addresses have no verdict.")
    _joined(source, verdicts.drop("n"), places).sink_parquet(
        out,
        row_group_size=_ROW_GROUP,
        compression_level=1,
        statistics=False,
        metadata=names_metadata(list(read_names(rows).values())),
        engine="streaming",
    )


def _address_last(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Put the address behind the customer's columns, under the name it has in the results."""
    if ADDRESS not in rows.collect_schema():
        return rows
    return rows.select(pl.exclude(ADDRESS), pl.col(ADDRESS).alias(JUDGED_ADDRESS))


def _verdicts(segments: Sequence[Path], fields: list[str]) -> pl.DataFrame:
    """Read all segments, sorted by address number; texts, which repeat, become categories.

    Raises:
        MailsiftError: `results_incomplete` when an address is there twice.
    """
    if not segments:
        return pl.DataFrame(schema={name: SEGMENT[name] for name in ("n", *fields)})
    text = pl.Categorical(pl.Categories.random())
    repeating = [name for name, dtype in SEGMENT.items() if dtype == pl.String and name in fields]
    repeating = [name for name in repeating if name != "evidence"]
    scan = scan_segments(segments, {name: SEGMENT[name] for name in ("n", *fields)})
    verdicts = scan.with_columns(pl.col(repeating).cast(text)).collect(engine="streaming").sort("n")
    if (verdicts["n"].diff() == 0).any():
        raise _incomplete("An address has more than one verdict.")
    return verdicts.rechunk()  # gathering from many pieces is slow


def _places(source: pl.LazyFrame, numbers: pl.Series) -> pl.Series:
    """Return for each address number the place of its verdict, null when it has none."""
    greatest = source.select(pl.col(ADDRESS_N).max()).collect(engine="streaming").item()
    places = pl.repeat(None, greatest + 1, dtype=pl.UInt32, eager=True)
    if len(numbers) and numbers[-1] > greatest:
        raise _incomplete("A verdict belongs to no address of the list.")
    return places.scatter(numbers, pl.int_range(len(numbers), dtype=pl.UInt32, eager=True))


def _joined(source: pl.LazyFrame, verdicts: pl.DataFrame, places: pl.Series) -> pl.LazyFrame:
    """Put each row's verdict behind its columns; rows without one are left out."""

    def attach(rows: pl.DataFrame) -> pl.DataFrame:
        place = places.gather(rows[ADDRESS_N])
        if place.null_count():
            rows, place = rows.filter(place.is_not_null()), place.drop_nulls()
        found = verdicts[place].cast({pl.Categorical: pl.String}).rename(_prefixed)
        joined = pl.concat([rows.drop(ADDRESS_N), found], how="horizontal")
        return _with_repairs(joined) if REPAIRED in joined.columns else joined

    schema = source.drop(ADDRESS_N, REPAIRED, strict=False).collect_schema()
    for name in verdicts.columns:
        schema[_prefixed(name)] = SEGMENT[name]()
    return source.map_batches(attach, schema=schema, streamable=True)


def _with_repairs(rows: pl.DataFrame) -> pl.DataFrame:
    """Let repaired rows say so, in the words of mailsift.pipeline.single.with_repair."""
    advice = _prefixed("suggestion")
    said = pl.format("Validated as {}. {}", JUDGED_ADDRESS, advice).str.strip_chars_end()
    return rows.with_columns(pl.when(REPAIRED).then(said).otherwise(advice).alias(advice)).drop(REPAIRED)


def _prefixed(field: str) -> str:
    return VERDICT_PREFIX + field


def _incomplete(text: str) -> MailsiftError:
    return MailsiftError("results_incomplete", text)
