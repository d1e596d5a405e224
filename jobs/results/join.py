"""Join the verdicts of a job's chunks with the customer's rows, in their order."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from mailsift.jobs.columns import (
    ADDRESS,
    ADDRESS_N,
    JUDGED_ADDRESS,
    REPAIRED,
    VERDICT_PREFIX,
    kept_metadata,
)
from mailsift.jobs.results.segments import scan_segments, stream_parquet, to_parquet, without_empty
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import SEGMENT, VERDICTS
from mailsift.pipeline.wording import counted

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
        segments: Parquet files (segments.to_segment); every address is in exactly one.
        out: the Parquet file to write; its columns are named as in `rows` (mailsift.jobs.columns).
        evidence: add `mailsift_evidence`.
        partial: leave out the rows that have no verdict, instead of refusing.

    Raises:
        MailsiftError: `results_incomplete` when an address has no verdict or more than one.
    """
    source = _address_last(pl.scan_parquet(rows, glob=False))
    fields = _fields(evidence=evidence)
    schema = {name: SEGMENT[name] for name in ("n", *fields)}
    judged = _read_verdicts(source, (scan_segments([segment], schema) for segment in segments), fields)
    if not partial:
        judged.check_complete()
    stream_parquet(_join_rows(source, judged), out, group=_ROW_GROUP, metadata=kept_metadata(rows))


def join_small(rows: bytes, verdicts: pl.DataFrame, *, evidence: bool = False) -> bytes:
    """Do `join_results` for a small list whose verdicts (frames.SEGMENT) are at hand, one an address."""
    source = _address_last(pl.read_parquet(io.BytesIO(rows)).lazy())
    judged = _index_few(verdicts, _fields(evidence=evidence))
    judged.check_complete()
    return to_parquet(_join_rows(source, judged).collect(), kept_metadata(io.BytesIO(rows)))


def _fields(*, evidence: bool) -> list[str]:
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
        """Refuse what lacks the verdict of an address.

        Raises:
            MailsiftError: `results_incomplete`.
        """
        if missing := int((self.places == 0).sum()):
            raise _incomplete(f"{counted(missing, 'address has', 'addresses have')} no verdict.")


def _read_verdicts(source: pl.LazyFrame, segments: Iterable[pl.LazyFrame], fields: list[str]) -> _Verdicts:
    """Read all segments, and keep of each what differs: most verdicts are alike.

    Raises:
        MailsiftError: `results_incomplete` when an address is there twice, or is none of the list.
    """
    greatest = source.select(pl.col(ADDRESS_N).max()).collect(engine="streaming").item()
    places = pl.zeros(greatest + 1, dtype=pl.UInt32, eager=True)
    kinds = [_no_verdict(fields)]
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
    return _Verdicts(pl.concat(kinds, rechunk=True), places)  # gathering from many pieces is slow


def _index_few(verdicts: pl.DataFrame, fields: list[str]) -> _Verdicts:
    """Return the verdicts as they are: of a few it costs more to find out which are alike."""
    places = pl.zeros(verdicts.height, dtype=pl.UInt32, eager=True)
    places = places.scatter(verdicts["n"], range(1, verdicts.height + 1))
    return _Verdicts(pl.concat([_no_verdict(fields), verdicts.select(fields)], rechunk=True), places)


def _no_verdict(fields: list[str]) -> pl.DataFrame:
    return pl.DataFrame({name: [None] for name in fields}, schema={name: SEGMENT[name] for name in fields})


def _join_rows(source: pl.LazyFrame, judged: _Verdicts) -> pl.LazyFrame:
    """Put each row's verdict behind its columns; rows without one are left out."""
    kinds = without_empty(judged.kinds, ["unwanted"])

    def attach(rows: pl.DataFrame) -> pl.DataFrame:
        place = judged.places.gather(rows[ADDRESS_N])
        known = place != 0
        if not known.all():
            rows, place = rows.filter(known), place.filter(known)
        joined = pl.concat([rows.drop(ADDRESS_N), kinds[place].rename(_prefixed)], how="horizontal")
        return _with_repairs(joined) if REPAIRED in joined.columns else joined

    schema = source.drop(ADDRESS_N, REPAIRED, strict=False).collect_schema()
    for name in kinds.columns:
        schema[_prefixed(name)] = SEGMENT[name]()
    return source.map_batches(attach, schema=schema, streamable=True)


def _with_repairs(rows: pl.DataFrame) -> pl.DataFrame:
    """Let repaired rows say so, in the words of mailsift.pipeline.verdict.with_repair."""
    advice = _prefixed("suggestion")
    said = pl.format("Validated as {}. {}", JUDGED_ADDRESS, advice).str.strip_chars_end()
    return rows.with_columns(pl.when(REPAIRED).then(said).otherwise(advice).alias(advice)).drop(REPAIRED)


def _prefixed(field: str) -> str:
    return VERDICT_PREFIX + field


def _incomplete(text: str) -> MailsiftError:
    return MailsiftError("results_incomplete", text)
