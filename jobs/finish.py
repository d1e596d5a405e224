"""Join the verdicts of a job's chunks with the customer's rows, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from jobs.columns import ADDRESS_N, VERDICT_PREFIX, names_metadata, read_names
from pipeline.errors import MailsiftError
from pipeline.frames import SEGMENT, VERDICTS
from pipeline.verdict import Status

_ROW_GROUP = 65_536
_STATUS = f"{VERDICT_PREFIX}status"


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows of a results file, all and by status."""

    rows: int
    valid: int
    invalid: int
    risky: int


def join_results(
    rows: Path, segments: Sequence[Path], out: Path, *, evidence: bool = False, partial: bool = False
) -> Counts:
    """Write the results file: the original columns, then the 13 fields with the prefix `mailsift_`.

    Blocks for about a second a million rows. Memory holds the verdicts (some 25 bytes an address, more with
    evidence); the rows stream through.

    Args:
        rows: the job's `rows.parquet` (jobs.intake).
        segments: Parquet files of frames.SEGMENT; every address is in exactly one.
        out: the Parquet file to write; its columns are named as in `rows` (jobs.columns).
        evidence: add `mailsift_evidence`.
        partial: leave out the rows that have no verdict, instead of refusing.

    Returns:
        How many rows were written.

    Raises:
        MailsiftError: `results_incomplete` when an address has no verdict or more than one.
    """
    source = pl.scan_parquet(rows, glob=False)
    verdicts = _verdicts(segments, [*VERDICTS, "evidence"] if evidence else list(VERDICTS))
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
    return _count(out)


def _verdicts(segments: Sequence[Path], fields: list[str]) -> pl.DataFrame:
    """Read all segments, sorted by address number; texts, which repeat, become categories.

    Raises:
        MailsiftError: `results_incomplete` when an address is there twice.
    """
    if not segments:
        return pl.DataFrame(schema={name: SEGMENT[name] for name in ("n", *fields)})
    text = pl.Categorical(pl.Categories.random())
    repeating = [name for name, dtype in VERDICTS.items() if dtype == pl.String]
    scan = pl.scan_parquet(list(segments), glob=False).select("n", *fields)
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
        return pl.concat([rows.drop(ADDRESS_N), found], how="horizontal")

    schema = source.drop(ADDRESS_N).collect_schema()
    for name in verdicts.columns:
        schema[_prefixed(name)] = SEGMENT[name]()
    return source.map_batches(attach, schema=schema, streamable=True)


def _prefixed(field: str) -> str:
    return VERDICT_PREFIX + field


def _count(results: Path) -> Counts:
    statuses = pl.scan_parquet(results, glob=False).group_by(_STATUS).len().collect(engine="streaming")
    by_status: dict[str, int] = dict(statuses.iter_rows())
    return Counts(
        sum(by_status.values()),
        *(by_status.get(status, 0) for status in (Status.VALID, Status.INVALID, Status.RISKY)),
    )


def _incomplete(text: str) -> MailsiftError:
    return MailsiftError("results_incomplete", text)
