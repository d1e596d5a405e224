"""What the verdicts of a job amount to: by reason, domain and mail provider, by tier, and beside another run.

Counted up once and stored beside the results; by the tiers of another policy, and against another run of the
list, when somebody asks.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import polars as pl
from pydantic import TypeAdapter

from mailsift.jobs.columns import VERDICT_PREFIX, cell_text, column_id, read_address_place
from mailsift.jobs.results.files import PartialVerdicts, TextNumbers, height, to_parquet, with_unwanted
from mailsift.jobs.views import JobId
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.frames import Schema
from mailsift.pipeline.tiers import Tier, TierPolicy, reason_expression, tier_expression
from mailsift.pipeline.verdict import Status
from mailsift.storage.blobs import Blobs, JobBlobs


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


def rows_by_result(results: Path) -> dict[str, int]:
    """Return how many rows have which result."""
    result = f"{VERDICT_PREFIX}result"
    counted = pl.scan_parquet(results, glob=False).group_by(result).len().collect(engine="streaming")
    return dict(counted.iter_rows())


def _count_and_encode(addresses: Path, so_far: PartialVerdicts) -> tuple[Breakdown, bytes]:
    breakdown, domains = count_up(addresses, so_far)
    return breakdown, to_parquet(domains)


async def count_segments(blobs: Blobs, job_id: JobId, segments: Sequence[Path]) -> tuple[Breakdown, bytes]:
    """Count up a job by its segments, for `store_breakdown`."""
    addresses = await blobs.fetch(JobBlobs(job_id).addresses)
    so_far = PartialVerdicts(await asyncio.to_thread(height, addresses))
    await asyncio.to_thread(so_far.add_segments, segments)
    return await asyncio.to_thread(_count_and_encode, addresses, so_far)


async def store_breakdown(blobs: Blobs, job_id: JobId, breakdown: Breakdown, domains: bytes) -> Breakdown:
    """Store what a job that has all its verdicts amounts to beside its results, with the table of domains."""
    keys = JobBlobs(job_id)
    await blobs.put_all({keys.domains: domains, keys.breakdown: breakdown.to_json()})
    return breakdown


async def breakdown_of_complete(blobs: Blobs, job_id: JobId) -> Breakdown:
    """Return the breakdown of a complete job; one that nobody has asked for yet is counted up now, and kept.

    Small jobs keep their verdicts for that, which name the providers. Results do not.
    """
    keys = JobBlobs(job_id)
    kept = await blobs.read_if_there(keys.breakdown)
    if kept is not None:
        return Breakdown.read(kept)
    sound = list((await blobs.fetch_all_sound(await blobs.list(keys.segments))).values())
    counted = await (count_segments(blobs, job_id, sound) if sound else _count_results(blobs, job_id))
    return await store_breakdown(blobs, job_id, *counted)


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


async def _count_results(blobs: Blobs, job_id: JobId) -> tuple[Breakdown, bytes]:
    keys = JobBlobs(job_id)
    addresses, rows, results = await blobs.fetch_all((keys.addresses, keys.rows, keys.results))
    size = await asyncio.to_thread(height, addresses)
    so_far = await asyncio.to_thread(PartialVerdicts.of_results, size, rows, results)
    return await asyncio.to_thread(_count_and_encode, addresses, so_far)


async def delete_segments(blobs: Blobs, job_id: UUID) -> None:
    """Delete what the results of a completed job hold, too."""
    await blobs.delete_prefix(JobBlobs(job_id).segments)
    await blobs.delete_prefix(JobBlobs(job_id).residual)


def count_tiers(results: Path, policy: TierPolicy) -> Mapping[str, int]:
    """Return how many rows of the results are to be sent to, reviewed and removed. Blocks."""
    frame = with_unwanted(pl.scan_parquet(results, glob=False))
    counted = frame.group_by(tier_expression(policy, VERDICT_PREFIX).alias("tier")).len()
    found = dict(counted.collect(engine="streaming").iter_rows())
    return {tier.value: found.get(tier.value, 0) for tier in Tier}


@dataclass(frozen=True, slots=True)
class ReplayedRows:
    """Rows that have the same verdict and come to the same by both policies.

    Attributes:
        before, after: the tier by the present policy and by the other one.
        reason: the rule of the other policy that decides, "" for `send`.
    """

    status: Status
    result: str
    before: Tier
    after: Tier
    reason: str
    rows: int


@dataclass(frozen=True, slots=True)
class Replay:
    """Two policies beside each other.

    Attributes:
        rows: all rows with a verdict, grouped, most first.
    """

    rows: tuple[ReplayedRows, ...]

    @property
    def before(self) -> Mapping[str, int]:
        """Rows by tier, by the present policy."""
        return self._sum("before")

    @property
    def after(self) -> Mapping[str, int]:
        """Rows by tier, by the other policy."""
        return self._sum("after")

    @property
    def moved(self) -> int:
        """Rows whose tier is another one."""
        return sum(one.rows for one in self.rows if one.before is not one.after)

    def _sum(self, side: str) -> Mapping[str, int]:
        found: Counter[str] = Counter({tier.value: 0 for tier in Tier})
        for one in self.rows:
            found[getattr(one, side)] += one.rows
        return dict(found)


def replay(results: Path, present: TierPolicy, other: TierPolicy) -> Replay:
    """Read the results by both policies. Blocks for well under a second a million rows."""
    keys = {
        "status": pl.col(f"{VERDICT_PREFIX}status"),
        "result": pl.col(f"{VERDICT_PREFIX}result"),
        "before": tier_expression(present, VERDICT_PREFIX),
        "after": tier_expression(other, VERDICT_PREFIX),
        "reason": reason_expression(other, VERDICT_PREFIX),
    }
    frame = with_unwanted(pl.scan_parquet(results, glob=False)).select(**keys)
    counted = frame.group_by(*keys).agg(pl.len().alias("rows")).collect(engine="streaming")
    sorted_rows = counted.sort("rows", *keys, descending=[True, *[False] * len(keys)])
    return Replay(
        tuple(
            ReplayedRows(
                Status(row["status"]),
                row["result"],
                Tier(row["before"]),
                Tier(row["after"]),
                row["reason"],
                row["rows"],
            )
            for row in sorted_rows.iter_rows(named=True)
        )
    )


_COMPARED_FIELDS = ("status", "result", "score")
_MOVE = [f"{name}{which}" for name in _COMPARED_FIELDS[:2] for which in ("", "_after")]
_COMPARED_AT_ONCE = 500_000
"""Addresses that are compared together."""


@dataclass(frozen=True, slots=True)
class Diff:
    """Two runs compared, address by address as the list writes them.

    Attributes:
        compared: addresses that both have a verdict for.
        only_before, only_after: addresses with a verdict that are not in the other's list.
        moves: how many went from which status and result to which, most first.
        changed: the first ones that changed.
    """

    compared: int
    only_before: int
    only_after: int
    moves: list[dict[str, Any]]
    changed: list[dict[str, Any]]


def compare_runs(
    before: Path,
    after: Path,
    columns: tuple[str, str],
    *,
    limit: int,
    lists: tuple[Path | None, Path | None] = (None, None),
    part_rows: int = _COMPARED_AT_ONCE,
) -> Diff:
    """Compare two results files.

    Blocks for about a second a million rows; memory holds some 35 bytes for each row of both. Addresses are
    told apart by 64 bits of their hash; they are compared a part at a time.

    Args:
        before: a results file (mailsift.jobs.results.files).
        after: that of the later run.
        columns: the names of their address columns.
        limit: how many changed addresses are named.
        lists: where not every row has a verdict yet, a file of all of them (`rows.parquet`).
        part_rows: how many are compared at a time, about.

    Raises:
        MailsiftError: `not_the_same_list` when they have no address in common.
    """
    old, new = _read_run(before, columns[0]), _read_run(after, columns[1])
    had, has = (
        _hashes(path, column) if path else rows
        for path, column, rows in zip(lists, columns, (old, new), strict=True)
    )
    parts = max(had.height, has.height) // part_rows + 1
    compared = only_before = only_after = judged = 0
    moves, changed = [], []
    for part in range(parts):
        mine, theirs = (_distinct_of_part(rows, part, parts) for rows in (old, new))
        both = mine.join(theirs, on="hash", how="inner", suffix="_after")
        moved = both.filter(
            (pl.col("status") != pl.col("status_after")) | (pl.col("result") != pl.col("result_after"))
        )
        moves.append(moved.group_by(_MOVE).len("addresses"))
        changed.append(moved.bottom_k(limit, by="row"))
        compared += both.height
        judged += mine.height + theirs.height
        only_before += mine.join(_part(has, part, parts), on="hash", how="anti").height
        only_after += theirs.join(_part(had, part, parts), on="hash", how="anti").height
    if only_before + only_after == judged:
        raise MailsiftError("not_the_same_list", "These two jobs have no address in common.")
    return Diff(
        compared,
        only_before,
        only_after,
        [_change_of(row) for row in _summed_moves(moves).iter_rows(named=True)],
        _named_changes(before, columns[0], pl.concat(changed).bottom_k(limit, by="row").sort("row")),
    )


def _summed_moves(moves: list[pl.DataFrame]) -> pl.DataFrame:
    """Return the moves of all parts, most first."""
    texts = pl.concat(moves).with_columns(pl.col(_MOVE).cast(pl.String))
    summed = texts.group_by(_MOVE).agg(pl.col("addresses").sum())
    return summed.sort(["addresses", *_MOVE], descending=[True, *[False] * len(_MOVE)])


def _named_changes(results: Path, column: str, changed: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows that changed with their addresses."""
    emails = (
        _run_cells(results, column)
        .select("row", "email")
        .filter(pl.col("row").is_in(changed["row"].implode()))
    )
    rows = changed.join(emails.collect(engine="streaming"), on="row", how="left", maintain_order="left")
    return [{"email": row["email"], **_change_of(row)} for row in rows.iter_rows(named=True)]


def _change_of(row: dict[str, Any]) -> dict[str, Any]:
    sides = {
        side: {name: row[name + end] for name in _COMPARED_FIELDS if name + end in row}
        for side, end in (("before", ""), ("after", "_after"))
    }
    return {**sides, **({"addresses": row["addresses"]} if "addresses" in row else {})}


def _read_run(results: Path, column: str) -> pl.DataFrame:
    """Return the rows that have an address: their numbers, its hash, and their verdicts."""
    return _hashed(_run_cells(results, column))


def _hashes(rows: Path, column: str) -> pl.DataFrame:
    """Return the hashes of the addresses of a list, verdicts or not."""
    frame = pl.scan_parquet(rows, glob=False)
    return _hashed(frame.select(_address_cell(frame, rows, column)))


def _hashed(cells: pl.LazyFrame) -> pl.DataFrame:
    rows = cells.filter(pl.col("email") != "")  # a blank cell is no address two lists share
    return rows.select(pl.col("email").hash().alias("hash"), pl.exclude("email")).collect(engine="streaming")


def _run_cells(results: Path, column: str) -> pl.LazyFrame:
    """Return for each row its number, the address as the list writes it, and the verdict."""
    frame = pl.scan_parquet(results, glob=False)
    status, result, score = (pl.col(VERDICT_PREFIX + name).alias(name) for name in _COMPARED_FIELDS)
    verdict = status.cast(pl.Categorical), result.cast(pl.Categorical), score
    return frame.select(_address_cell(frame, results, column), *verdict).with_row_index("row")


def _address_cell(frame: pl.LazyFrame, path: Path, column: str) -> pl.Expr:
    """Return the address as the list writes it, of a file with the customer's columns."""
    id_ = column_id(read_address_place(path, column))
    return cell_text(id_, frame.collect_schema()[id_]).str.strip_chars().str.to_lowercase().alias("email")


def _distinct_of_part(rows: pl.DataFrame, part: int, parts: int) -> pl.DataFrame:
    """Return the first row of each address of one part of all addresses."""
    return _part(rows, part, parts).unique("hash", keep="first", maintain_order=True)


def _part(rows: pl.DataFrame, part: int, parts: int) -> pl.DataFrame:
    return rows.filter(pl.col("hash") % parts == part)
